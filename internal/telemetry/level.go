package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// LevelTrace is below slog's debug: the walk over blocks, status reports, the
// intermediates of weighting.
const LevelTrace = slog.Level(-8)

// Names of environment variables that set the log level, by precedence. The
// second is what the seed document calls it.
const (
	EnvLogLevel    = "EPPCTL_LOG_LEVEL"
	EnvLogLevelOld = "EPP_LOG_LEVEL"
)

var levels = []struct {
	name  string
	level slog.Level
}{
	{"trace", LevelTrace},
	{"debug", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
}

// ParseLevel reads a log level, in any letter case.
func ParseLevel(name string) (slog.Level, error) {
	for _, l := range levels {
		if strings.EqualFold(name, l.name) {
			return l.level, nil
		}
	}
	if strings.EqualFold(name, "warning") {
		return slog.LevelWarn, nil
	}
	return 0, fmt.Errorf("unknown log level %.40q: the levels are trace, debug, info, warn, error", name)
}

// LevelName is the spelling of a level, the inverse of [ParseLevel].
func LevelName(level slog.Level) string {
	for _, l := range levels {
		if l.level == level {
			return l.name
		}
	}
	return strings.ToLower(level.String())
}

// LevelSources are the places where a log level may be set.
type LevelSources struct {
	Flag   string                   // --log-level; "" = not given
	Getenv func(name string) string // nil = no environment
	File   string                   // the config file's; "" = not given
}

// Level is the log level in force: that of the flag, else of EPPCTL_LOG_LEVEL,
// EPP_LOG_LEVEL, the config file, else info. An error names the place.
func (s LevelSources) Level() (slog.Level, error) {
	getenv := s.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	for _, source := range []struct{ place, value string }{
		{"--log-level", s.Flag},
		{EnvLogLevel, getenv(EnvLogLevel)},
		{EnvLogLevelOld, getenv(EnvLogLevelOld)},
		{"logLevel", s.File},
	} {
		if source.value == "" {
			continue
		}
		level, err := ParseLevel(source.value)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", source.place, err)
		}
		return level, nil
	}
	return slog.LevelInfo, nil
}

// Logger writes JSON to w, one line an event, from any goroutine: w must allow that,
// as [Lines] does. The level may be changed at any time.
func Logger(w io.Writer, level *slog.LevelVar) *slog.Logger {
	return slog.New(&handler{w: w, Handler: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: spellLevel})})
}

// spellLevel is [levelText] for slog.
func spellLevel(groups []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey {
		return slog.String(slog.LevelKey, levelText(level))
	}
	return a
}
