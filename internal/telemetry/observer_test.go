package telemetry

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/score"
)

func TestEventsByLevel(t *testing.T) {
	for _, test := range []struct {
		level slog.Level
		want  []string
	}{
		{slog.LevelWarn, nil},
		{slog.LevelInfo, []string{"INFO pod selected", "INFO request completed"}},
		{slog.LevelDebug, []string{
			"DEBUG request received", "DEBUG scoring complete", "INFO pod selected", "DEBUG scorer failed", "INFO request completed",
		}},
		{LevelTrace, []string{
			"DEBUG request received", "DEBUG scoring complete", "TRACE prefix walk", "TRACE weighted factors", "INFO pod selected",
			"DEBUG scorer failed", "INFO request completed",
		}},
	} {
		t.Run(LevelName(test.level), func(t *testing.T) {
			lines := logged(t, test.level, func(log *slog.Logger) {
				o := NewObserver(NewMetrics(Sources{}), log, ring().Render)
				o.Picked(newEntry(pod("pod-1", 4, 1), pod("pod-2", 0, 0)))
				o.ScorerFailed("cost", picker.FailurePanic)
				o.ended(ended{"req-1", "pod-1", 48}, &record.Outcome{Status: 200, TTFT: -1, Duration: time.Second}, false)
			})
			if diff := cmp.Diff(test.want, messages(lines)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, line := range lines {
				if id := line["requestID"]; id != "req-1" && line["msg"] != MsgScorerFailed {
					t.Errorf("%s: requestID = %v, want req-1", line["msg"], id)
				}
			}
		})
	}
}

func TestPodSelected(t *testing.T) {
	cold := pod("pod-1", 0, 0)
	cold.Cache = score.Reading{}
	other := newEntry(pod("pod-1", 4, 1), pod("pod-2", 0, 0))
	other.Policy, other.Picked = "random", 1
	full := newEntry(pod("pod-1", 4, 30))
	for _, test := range []struct {
		name  string
		entry *record.Entry
		want  map[string]any
	}{
		{
			"by the cache", newEntry(pod("pod-1", 3, 1), pod("pod-2", 0, 0)),
			map[string]any{
				"selectedPod": "pod-1", "podIP": "10.0.0.1", "endpoint": "10.0.0.1:8000", "reason": "cacheMatch",
				"compositeScore": .6*.75 + .2*.5 + .1*.95 + .05 + .05, "cacheMatchRatio": .75,
			},
		},
		{
			"an unknown cache has no ratio", newEntry(cold),
			map[string]any{
				"selectedPod": "pod-1", "podIP": "10.0.0.1", "endpoint": "10.0.0.1:8000", "reason": "onlyCandidate",
				"compositeScore": .2*.5 + .1 + .05 + .05,
			},
		},
		{
			"another policy", other,
			map[string]any{
				"selectedPod": "pod-2", "podIP": "10.0.0.2", "endpoint": "10.0.0.2:8000", "reason": "random",
				"compositeScore": .2*.5 + .1 + .05 + .05, "cacheMatchRatio": 0.,
			},
		},
		{
			"relaxed", full,
			map[string]any{
				"selectedPod": "pod-1", "podIP": "10.0.0.1", "endpoint": "10.0.0.1:8000", "reason": "onlyCandidate",
				"compositeScore": .6 + .2*.5 + .05 + .05, "cacheMatchRatio": 1., "relaxed": true,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := logged(t, slog.LevelInfo, func(log *slog.Logger) {
				NewObserver(NewMetrics(Sources{}), log, nil).Picked(test.entry)
			})
			want := map[string]any{
				"level": "INFO", "msg": "pod selected", "requestID": "req-1", "decisionID": "aabb0000-0000-4000-8000-000000000001",
			}
			maps.Copy(want, test.want)
			delete(lines[0], "time")
			if diff := cmp.Diff([]map[string]any{want}, lines, near); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// near compares scores that this test adds up in another order.
var near = cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })

func TestRefusalIsLoggedInPlaceOfAPick(t *testing.T) {
	lines := logged(t, slog.LevelInfo, func(log *slog.Logger) {
		NewObserver(NewMetrics(Sources{}), log, nil).Picked(newEntry())
	})
	if got := messages(lines); !cmp.Equal(got, []string{"INFO request refused"}) || lines[0]["reason"] != "no-endpoint" {
		t.Errorf("log = %v, want a refusal for no-endpoint", lines)
	}
}

func TestScoringCompleteHoldsWhatReplays(t *testing.T) {
	lost := pod("pod-3", 0, 0)
	lost.Waiting, lost.Excluded = score.Reading{}, score.NotReady
	entry := newEntry(pod("pod-1", 1, 0), pod("pod-2", 4, 0), lost)
	lines := logged(t, slog.LevelDebug, func(log *slog.Logger) {
		NewObserver(NewMetrics(Sources{}), log, ring().Render).Picked(entry)
	})
	line := lines[1]
	var pods []string
	for _, c := range line["candidates"].([]any) {
		pods = append(pods, c.(map[string]any)["pod"].(string))
	}
	if want := []string{"pod-2", "pod-1", "pod-3"}; !cmp.Equal(pods, want) {
		t.Errorf("candidates = %v, want %v: best first, excluded last", pods, want)
	}
	last := line["candidates"].([]any)[2].(map[string]any)
	if last["score"] != nil || last["reason"] != "not-ready" || last["factors"].(map[string]any)["queueDepth"] != nil {
		t.Errorf("excluded candidate = %v, want no score, its reason and no queueDepth", last)
	}
	if line["lookupUs"] != 3. || line["decideUs"] != 2. || line["decidedBy"] != "cacheMatch" {
		t.Errorf("line = %v, want timings in µs and what decided", line)
	}
	if tokens, ok := line["tokensUs"]; ok {
		t.Errorf("tokensUs = %v, want none: nobody timed tokenising", tokens)
	}

	raw, err := json.Marshal(line["record"])
	if err != nil {
		t.Fatal(err)
	}
	rec, err := record.NewReader(strings.NewReader(string(raw) + "\n")).Next()
	if err != nil {
		t.Fatalf("the record of the log can't be read: %v", err)
	}
	if report := explain.Explain(rec, explain.Options{}); !report.Replay.Identical {
		t.Errorf("replay of the logged record = %+v, want identical", report.Replay)
	}
}

func TestTraceShowsKeyedIDsOnly(t *testing.T) {
	entry := newEntry(pod("pod-1", 2, 0))
	lines := logged(t, LevelTrace, func(log *slog.Logger) {
		NewObserver(NewMetrics(Sources{}), log, ring().Render).Picked(entry)
	})
	walk := lines[2]
	chain := walk["chain"].([]any)
	if len(chain) == 0 {
		t.Fatal("no chain in the walk")
	}
	for _, id := range chain {
		for plain := range 5 {
			if id == strings.Repeat("0", 15)+string(rune('0'+plain)) {
				t.Errorf("the walk shows the plain fingerprint %v", id)
			}
		}
	}
	if got := walk["matchedBlocks"].(map[string]any)["10.0.0.1:8000"]; got != 2. {
		t.Errorf("matched blocks = %v, want 2", got)
	}
	sum := lines[3]["candidates"].([]any)[0].(map[string]any)
	if got := sum["contributions"].(map[string]any)["cacheMatch"]; !cmp.Equal(got, .3, near) {
		t.Errorf("contribution of cacheMatch = %v, want 0.3", got)
	}
}

func TestRequestCompleted(t *testing.T) {
	for _, test := range []struct {
		name    string
		outcome record.Outcome
		stale   bool
		want    map[string]any
	}{
		{
			"all known",
			record.Outcome{
				Status: 200, ServedEndpoint: "10.0.0.1:8000", TTFT: 1500 * time.Microsecond, Duration: 2 * time.Second,
				PromptTokens: 64, CachedTokens: 48, OutputTokens: 10,
			},
			false,
			map[string]any{
				"status": 200., "servedEndpoint": "10.0.0.1:8000", "ttftMs": 1.5, "durationMs": 2000., "promptTokens": 64.,
				"cachedTokens": 48., "predictedCachedTokens": 48., "outputTokens": 10.,
			},
		},
		{
			"unknown is absent, never zero",
			record.Outcome{
				Error: "client-gone", TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
			},
			false,
			map[string]any{"error": "client-gone", "predictedCachedTokens": 48.},
		},
		{
			"an end that nobody saw is no success",
			record.Outcome{
				Status: 200, Unknown: "response body not sent to the picker", ServedEndpoint: "10.0.0.2:8000", Sent: 1,
				TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
			},
			false,
			map[string]any{
				"outcomeUnknown": "response body not sent to the picker", "servedEndpoint": "10.0.0.2:8000", "attempts": 1.,
				"predictedCachedTokens": 48.,
			},
		},
		{
			"what a gateway in front says",
			record.Outcome{
				Status: 503, Unknown: "response body not sent to the picker", Sent: 3, Flags: "UF,URX", Details: "via_upstream",
				Attempts: make([]explain.Attempt, 2),
				TTFT:     -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
			},
			false,
			map[string]any{
				"outcomeUnknown": "response body not sent to the picker", "status": 503., "attempts": 3., "flags": "UF,URX",
				"codeDetails": "via_upstream", "predictedCachedTokens": 48.,
			},
		},
		{
			"zero is a number",
			record.Outcome{Status: 200, Attempts: make([]explain.Attempt, 2)},
			true,
			map[string]any{
				"status": 200., "ttftMs": 0., "durationMs": 0., "promptTokens": 0., "cachedTokens": 0., "predictedCachedTokens": 48.,
				"outputTokens": 0., "attempts": 2., "staleRouting": true,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := logged(t, slog.LevelInfo, func(log *slog.Logger) {
				NewObserver(NewMetrics(Sources{}), log, nil).ended(ended{"req-1", "pod-1", 48}, &test.outcome, test.stale)
			})
			want := map[string]any{"level": "INFO", "msg": "request completed", "requestID": "req-1", "selectedPod": "pod-1"}
			maps.Copy(want, test.want)
			delete(lines[0], "time")
			if diff := cmp.Diff([]map[string]any{want}, lines); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// The picker itself tells the observer, from the pick to the end.
func TestObserverOfAPicker(t *testing.T) {
	tree := prefix.New()
	p := pool.New(pool.Config{Clock: clock.Wall{}, Tree: tree, BlockSize: 16})
	if err := p.Set([]pool.Member{{Name: "pod-1", Address: "10.0.0.1:8000"}}); err != nil {
		t.Fatal(err)
	}
	m := NewMetrics(Sources{})
	lines := logged(t, slog.LevelInfo, func(log *slog.Logger) {
		pk, err := picker.New(picker.Config{
			Pool: p, Tree: tree, Recorder: ring(), Clock: clock.Wall{}, Weights: score.Default(), BlockSize: 16,
			Observer: NewObserver(m, log, nil),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := pk.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		pick, err := pk.Pick(t.Context(), &picker.Call{
			ID: "req-1", Path: "/v1/completions", Arrival: time.Now(), Client: secrets[1],
			Headers: map[string][]string{"Authorization": {secrets[0]}},
			Request: &request.Request{Model: "llama", Tokens: make([]uint32, 64), TotalTokens: 64, TokensFrom: "ids"},
		})
		if err != nil {
			t.Fatal(err)
		}
		pick.Done(picker.End{Status: 200, ServedEndpoint: "10.0.0.1:8000", PromptTokens: 64, CachedTokens: 0, OutputTokens: 5})
	})
	if diff := cmp.Diff([]string{"INFO pod selected", "INFO request completed"}, messages(lines)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	if got := lines[1]; got["requestID"] != "req-1" || got["selectedPod"] != "pod-1" || got["outputTokens"] != 5. || got["ttftMs"] != nil {
		t.Errorf("completed = %v, want the request's end without a time to first token", got)
	}
	expect(t, page(t, m), map[string]string{
		`epp_routing_decisions_total{model="llama"}`: "1", `epp_requests_total{code="2xx"}`: "1", `epp_pod_picks_total{pod="pod-1"}`: "",
	})
}

func TestNamesFromTheWireAreBounded(t *testing.T) {
	entry := newEntry(pod("pod-1", 2, 0))
	entry.Model = strings.Repeat("é", 1000)
	lines := logged(t, slog.LevelDebug, func(log *slog.Logger) {
		NewObserver(NewMetrics(Sources{}), log, nil).Picked(entry)
	})
	if got := lines[0]["model"].(string); len(got) != maxName || strings.Trim(got, "é") != "" {
		t.Errorf("model = %d bytes, want %d of whole characters", len(got), maxName)
	}
}

func quiet() *slog.Logger {
	level := &slog.LevelVar{}
	level.Set(slog.LevelWarn)
	return Logger(io.Discard, level)
}

func TestQuietObserverDoesNotAllocate(t *testing.T) {
	o := NewObserver(NewMetrics(Sources{}), quiet(), ring().Render)
	entry := newEntry(pod("pod-1", 4, 1), pod("pod-2", 0, 0))
	outcome := &record.Outcome{Status: 200, TTFT: time.Second, Duration: time.Second, PromptTokens: 64, CachedTokens: 48}
	o.Picked(entry) // the series of its labels are made here
	if n := testing.AllocsPerRun(100, func() { o.Picked(entry) }); n != 0 {
		t.Errorf("Picked: %v allocations at level warn, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { o.ended(ended{"req-1", "pod-1", 48}, outcome, true) }); n != 0 {
		t.Errorf("Completed: %v allocations at level warn, want 0", n)
	}
}

func BenchmarkPicked(b *testing.B) {
	entry := newEntry(pod("pod-1", 4, 1), pod("pod-2", 0, 0))
	for _, level := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
		b.Run("level="+LevelName(level), func(b *testing.B) {
			v := &slog.LevelVar{}
			v.Set(level)
			o := NewObserver(NewMetrics(Sources{}), Logger(io.Discard, v), nil)
			b.ReportAllocs()
			for b.Loop() {
				o.Picked(entry)
			}
		})
	}
}
