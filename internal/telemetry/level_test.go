package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

func TestLevelPrecedence(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, test := range []struct {
		name    string
		sources LevelSources
		want    slog.Level
		wantErr string
	}{
		{"nothing set", LevelSources{}, slog.LevelInfo, ""},
		{"flag wins", LevelSources{"debug", env(EnvLogLevel, "error", EnvLogLevelOld, "warn"), "trace"}, slog.LevelDebug, ""},
		{"our variable before the old one", LevelSources{"", env(EnvLogLevel, "error", EnvLogLevelOld, "warn"), "trace"}, slog.LevelError, ""},
		{"old variable before the file", LevelSources{"", env(EnvLogLevelOld, "WARN"), "trace"}, slog.LevelWarn, ""},
		{"file", LevelSources{"", nil, "Trace"}, LevelTrace, ""},
		{"bad flag names the flag", LevelSources{Flag: "loud"}, 0, `--log-level: unknown log level "loud": the levels are trace, debug, info, warn, error`},
		{"bad variable names the variable", LevelSources{Getenv: env(EnvLogLevelOld, "4")}, 0, `EPP_LOG_LEVEL: unknown log level "4"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.sources.Level()
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("Level() error = %v, want %q in it", err, test.wantErr)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("Level() = %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestLevelNameIsTheInverseOfParseLevel(t *testing.T) {
	for _, name := range []string{"trace", "debug", "info", "warn", "error"} {
		level, err := ParseLevel(name)
		if err != nil || LevelName(level) != name {
			t.Errorf("LevelName(ParseLevel(%q)) = %q, %v", name, LevelName(level), err)
		}
	}
	if got, err := ParseLevel("warning"); err != nil || got != slog.LevelWarn {
		t.Errorf("ParseLevel(warning) = %v, %v, want WARN", got, err)
	}
}

func TestLoggerLevelChangesWhileItRuns(t *testing.T) {
	var buf bytes.Buffer
	level := &slog.LevelVar{}
	log := Logger(&buf, level)
	log.Log(context.Background(), LevelTrace, "unseen")
	level.Set(LevelTrace)
	log.Log(context.Background(), LevelTrace, "seen")
	if got := buf.String(); strings.Contains(got, "unseen") || !strings.Contains(got, `"level":"TRACE","msg":"seen"`) {
		t.Errorf("log = %s, want one line of level TRACE", got)
	}
}
