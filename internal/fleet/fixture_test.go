package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// manual is a clock that a test moves.
type manual struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manual) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (c *manual) Scale() float64 { return 1 }

func (c *manual) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// rig is a watch over pods that a test changes.
type rig struct {
	*Watch
	clock   *manual
	pods    []pool.View
	weights score.Weights
}

func newRig(pods int) *rig {
	r := &rig{clock: &manual{now: epoch}, weights: score.Default()}
	for i := range pods {
		r.pods = append(r.pods, view(i))
	}
	r.Watch = New(Config{
		Clock: r.clock, Pods: func() []pool.View { return append([]pool.View(nil), r.pods...) },
		Tree: func() prefix.Stats { return prefix.Stats{Blocks: 7, BytesEstimate: 700} }, Weights: func() *score.Weights { return &r.weights },
		Open: func() int { return 0 }, Policy: "scores",
	})
	r.Look()
	return r
}

// second lets a second pass, and looks.
func (r *rig) second() {
	r.clock.pass(time.Second)
	r.Look()
}

func name(i int) string { return fmt.Sprintf("pod-%04d", i) }

func at(i int) place { return place{name(i), fmt.Sprintf("10.0.%d.%d:8000", i/256, i%256)} }

func state(i int) score.PodState {
	s := score.NewPod(at(i).pod, at(i).endpoint)
	s.Waiting, s.Utilization, s.Health = score.Read(0, score.SourceMetrics), score.Read(.5, score.SourceDCGM), score.Read(1, score.SourceProbe)
	s.Cache = score.Read(0, score.SourceReport)
	return s
}

func view(i int) pool.View { return pool.View{State: state(i), LastReport: epoch} }

// entry is a decision over n pods for the k-th of them; −1 is refused.
func entry(n, k int) *record.Entry {
	pods := make([]score.PodState, n)
	for i := range pods {
		pods[i] = state(i)
	}
	return entryOf(pods, k)
}

func entryOf(pods []score.PodState, k int) *record.Entry {
	w := score.Default()
	e := &record.Entry{
		RequestID: "r", Policy: "scores", Model: "m", Picked: k, PredictedCached: -1,
		Inputs:   &score.Inputs{Request: &score.InferenceRequest{Model: "m", Arrival: epoch}, Weights: &w, Pods: pods},
		Decision: &score.Decision{Winner: k, RunnerUp: -1, DecidedBy: score.ByOnlyCandidate, Results: make([]score.PodResult, len(pods))},
		Timings:  record.Timings{Lookup: 20 * time.Microsecond, Decide: 20 * time.Microsecond, Total: 60 * time.Microsecond},
	}
	if k < 0 {
		e.Decision.Refused, e.Decision.DecidedBy = score.Saturated, score.ByNothing
		return e
	}
	result := &e.Decision.Results[k]
	result.Values[score.CacheMatch], result.States[score.CacheMatch] = .5, score.Known
	return e
}

// ended is how a request went.
func ended(ttft time.Duration, prompt, cached int) *record.Outcome {
	return &record.Outcome{Status: 200, TTFT: ttft, Duration: 2 * ttft, PromptTokens: prompt, CachedTokens: cached, OutputTokens: 10}
}
