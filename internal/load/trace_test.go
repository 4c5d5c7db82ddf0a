package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func traceOf(t *testing.T, rate float64, lines ...string) *Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	trace, err := OpenTrace(path, rate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	return trace
}

// completion is the body of a trace's request.
type completion struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Prompt    []int  `json:"prompt"`
}

func TestTraceReadsRequests(t *testing.T) {
	trace := traceOf(t, 2,
		`{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8]}`,
		"", " \t", // blank lines are none
		`{"timestamp": 3000, "input_length": 513, "output_length": 500, "hash_ids": [7, 9]}`+"\r",
		"")
	trace.model = "a\x00\"b\""
	var got []completion
	for _, at := range []time.Duration{0, 1500 * time.Millisecond} {
		a, err := trace.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a.At != at || a.Path != "/v1/completions" {
			t.Errorf("a request to %s at %v, want /v1/completions at %v", a.Path, a.At, at)
		}
		var c completion
		if err := json.Unmarshal(a.Body, &c); err != nil {
			t.Fatalf("the body is no JSON: %v\n%.100s", err, a.Body)
		}
		got = append(got, c)
	}
	if _, err := trace.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	first, second := got[0], got[1]
	if first.Model != trace.model || first.MaxTokens != 5 || second.MaxTokens != 500 {
		t.Errorf("requests %q with %d and %d tokens", first.Model, first.MaxTokens, second.MaxTokens)
	}
	if len(first.Prompt) != 1000 || len(second.Prompt) != 513 {
		t.Fatalf("prompts of %d and %d tokens, want 1000 and 513", len(first.Prompt), len(second.Prompt))
	}
	if !slices.Equal(first.Prompt[:512], second.Prompt[:512]) || first.Prompt[512] == second.Prompt[512] {
		t.Error("equal hash ids must stand for equal tokens, and others for others")
	}
	if top := slices.Max(first.Prompt); top >= vocabulary {
		t.Errorf("token %d is beyond the vocabulary", top)
	}
}

func TestTraceNamesTheLine(t *testing.T) {
	const good = `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}`
	for _, tc := range []struct{ name, line, want string }{
		{"no JSON", `{`, "unexpected end"},
		{"no time", `{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "timestamp: must be milliseconds from the start, got -1"},
		{"no timestamp", `{"input_length": 1, "output_length": 1, "hash_ids": [1]}`, "timestamp: missing"},
		{"a time of years", `{"timestamp": 1e18, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "timestamp"},
		{"no input", `{"timestamp": 0, "output_length": 1, "hash_ids": [1]}`, "input_length: must be between 1 and 1048576, got 0"},
		{"too much output", `{"timestamp": 0, "input_length": 1, "output_length": 1048577, "hash_ids": [1]}`, "output_length"},
		{"too few ids", `{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]}`, "hash_ids: fewer"},
		{"too long", strings.Repeat(" ", maxTraceLine) + good, "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			trace := traceOf(t, 1, good, "  ", tc.line)
			if _, err := trace.Next(); err != nil {
				t.Fatal(err)
			}
			_, err := trace.Next()
			if err == nil || !strings.Contains(err.Error(), "trace.jsonl:3: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one of line 3 with %q", err, tc.want)
			}
		})
	}
}

func TestOpenTraceBoundsTheRate(t *testing.T) {
	for _, rate := range []float64{1e-9, 0, -1, 1e7, math.Inf(1), math.NaN(), math.SmallestNonzeroFloat64} {
		_, err := OpenTrace("nowhere", rate)
		wrong, ok := errors.AsType[*RateError](err)
		if !ok || fmt.Sprint(wrong.Rate) != fmt.Sprint(rate) || !strings.Contains(err.Error(), fmt.Sprintf("--sim-load-rate: must be between 0.001 and 1000000, got %v", rate)) {
			t.Errorf("rate %v: error %v", rate, err)
		}
	}
	if _, err := OpenTrace(filepath.Join(t.TempDir(), "nowhere"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// The slowest rate and the latest time that are allowed don't overflow.
func TestLatestArrival(t *testing.T) {
	line := fmt.Sprintf(`{"timestamp": %d, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, math.MaxInt32)
	a, err := traceOf(t, minRate, line).Next()
	if err != nil {
		t.Fatal(err)
	}
	if want := math.MaxInt32 * time.Second; a.At != want {
		t.Errorf("arrival after %v, want %v", a.At, want)
	}
}
