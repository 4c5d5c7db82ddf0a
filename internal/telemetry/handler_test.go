package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/logkey"
)

// TestHandlerWritesWhatSlogWrites compares whole lines with those of the
// standard handler.
func TestHandlerWritesWhatSlogWrites(t *testing.T) {
	at := time.Date(2026, 11, 30, 8, 0, 0, 123456789, time.UTC)
	for name, attrs := range map[string][]slog.Attr{
		"none":     nil,
		"strings":  {slog.String("a", "plain"), slog.String("b", `"\`+"\n\x00<&>é\u2028\xff"), slog.String(`k"`, "")},
		"integers": {slog.Int("i", -7), slog.Uint64("u", math.MaxUint64), slog.Int64("m", math.MinInt64)},
		"floats":   {slog.Float64("h", 0.5), slog.Float64("z", 0), slog.Float64("m", 123456789.25), slog.Float64("t", 0.1)},
		"odd":      {slog.Float64("s", 1e-9), slog.Float64("l", 1e22), slog.Float64("n", -3.25)},
		"bools":    {slog.Bool("t", true), slog.Bool("f", false)},
		"others": {
			slog.Duration("d", time.Second), slog.Time("at", at), slog.Any("list", []int{1, 2}),
			slog.Group("g", slog.Int("x", 1)), slog.Any("e", fmt.Errorf("no")),
		},
	} {
		for _, level := range []slog.Level{LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelError} {
			t.Run(name+" "+level.String(), func(t *testing.T) {
				var got, want bytes.Buffer
				v := new(slog.LevelVar)
				v.Set(LevelTrace)
				record := slog.NewRecord(at, level, "message", 0)
				record.AddAttrs(attrs...)
				if err := Logger(&got, v).Handler().Handle(t.Context(), record); err != nil {
					t.Fatal(err)
				}
				standard := slog.NewJSONHandler(&want, &slog.HandlerOptions{Level: v, ReplaceAttr: spellLevel})
				if err := standard.Handle(t.Context(), record); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(decoded(t, want.Bytes()), decoded(t, got.Bytes())); diff != "" {
					t.Errorf("not what slog writes (−want +got):\n%s", diff)
				}
			})
		}
	}
}

func decoded(t *testing.T, line []byte) (out map[string]any) {
	t.Helper()
	if bytes.Count(line, []byte{'\n'}) != 1 || line[len(line)-1] != '\n' {
		t.Fatalf("%q is not one line", line)
	}
	if err := json.Unmarshal(line, &out); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out
}

func BenchmarkLine(b *testing.B) {
	log := Logger(io.Discard, new(slog.LevelVar))
	attrs := []slog.Attr{
		slog.String(logkey.RequestID, "2f1c9a52-6d1f-4a77-8d34-5d0b4f6c2a11"), slog.String(logkey.SelectedPod, "pod-17"), slog.Int(logkey.Status, 200),
		slog.Float64(logkey.TTFTMs, 123.456), slog.Float64(logkey.DurationMs, 2345.678), slog.Int(logkey.PromptTokens, 4096),
	}
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(b.Context(), slog.LevelInfo, MsgRequestCompleted, attrs...)
	}
}
