package picker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// withScorers is a fleet with custom scorers of the given names, .05 each.
func withScorers(t *testing.T, deadline time.Duration, seen Observer, scorers map[string]scorerFunc, names ...string) *fleet {
	return newFleet(t, 2, func(c *Config) {
		c.Observer, c.ScorerDeadline = seen, deadline
		for _, n := range names {
			c.Scorers = append(c.Scorers, Custom{Name: n, Scorer: scorers[n]})
			c.Weights.Custom = append(c.Weights.Custom, score.CustomWeight{Name: n, Weight: .05})
			c.Weights.Cache -= .05
		}
	})
}

// A scorer that overruns costs its own factor, not those that answered in time.
func TestSlowScorerCostsNobodyElse(t *testing.T) {
	f := withScorers(t, 50*time.Millisecond, nil, map[string]scorerFunc{
		"slow": func(ctx context.Context, _ *score.PodState) score.Result { <-ctx.Done(); return score.NotKnown("") },
		"fast": func(context.Context, *score.PodState) score.Result { return score.Scored(1, "") },
	}, "slow", "fast")
	for i := range 12 {
		f.mustPick(t, call(prompt(8, 1))).Done(end())
		rec, ok := f.newest()
		if !ok {
			t.Fatal("no record")
		}
		if got := rec.Candidates[0].Custom[1].State; got != score.Known.String() {
			t.Fatalf("pick %d: the fast scorer's factor is %s", i, got)
		}
	}
}

// A herd of requests is no reason to give a healthy scorer up.
func TestManyCallsAtOnceAreNotOverdue(t *testing.T) {
	var mu sync.Mutex
	failures := map[string]int{}
	seen := countingObserver{failed: func(name string, how Failure) {
		mu.Lock()
		defer mu.Unlock()
		failures[name+" "+string(how)]++
	}}
	gate := make(chan struct{})
	f := withScorers(t, time.Minute, seen, map[string]scorerFunc{
		"x": func(context.Context, *score.PodState) score.Result { <-gate; return score.Scored(1, "") },
	}, "x")
	var wg sync.WaitGroup
	var started sync.WaitGroup
	for range 4 * maxOverdue {
		started.Add(1)
		wg.Go(func() {
			started.Done()
			if k, err := f.Pick(context.Background(), call(prompt(8, 1))); err == nil {
				k.Done(end())
			}
		})
	}
	started.Wait()
	close(gate)
	wg.Wait()
	if len(failures) != 0 {
		t.Errorf("failures: %v", failures)
	}
}

// A scorer that hangs is asked no more, and does not keep the program from ending.
func TestHangingScorer(t *testing.T) {
	var mu sync.Mutex
	var failures []Failure
	seen := countingObserver{failed: func(_ string, how Failure) {
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, how)
	}}
	hang := make(chan struct{})
	f := withScorers(t, 100*time.Microsecond, seen, map[string]scorerFunc{
		"stuck": func(context.Context, *score.PodState) score.Result { <-hang; return score.Scored(1, "") },
	}, "stuck")
	for range maxOverdue + 10 {
		f.mustPick(t, call(prompt(8, 1))).Done(end())
	}
	want := slices.Concat(slices.Repeat([]Failure{FailureDeadline}, maxOverdue), slices.Repeat([]Failure{FailureBusy}, 10))
	if !slices.Equal(failures, want) {
		t.Errorf("failures %v, want %d past the deadline and then 10 not asked", failures, maxOverdue)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Close(ended); err == nil || !strings.Contains(err.Error(), "stuck (64 calls)") {
		t.Errorf("Close said %v, want the scorer's name", err)
	}
	close(hang)
}

// Whatever panics on the way of a pick, nothing stays reserved.
func TestPanicReleasesTheReservation(t *testing.T) {
	f := newFleet(t, 2, func(c *Config) { c.Observer = countingObserver{picked: func() { panic("broken observer") }} })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = f.Pick(context.Background(), call(prompt(8, 1)))
	}()
	if n := f.pool.InFlight(); n != 0 {
		t.Errorf("ledger %d, want 0", n)
	}
}

// countingObserver calls functions; nil ones are left out.
type countingObserver struct {
	picked func()
	failed func(string, Failure)
}

func (o countingObserver) Picked(*record.Entry) {
	if o.picked != nil {
		o.picked()
	}
}
func (o countingObserver) Completed(*Pick, *record.Outcome, bool) {}

func (o countingObserver) ScorerFailed(name string, how Failure) {
	if o.failed != nil {
		o.failed(name, how)
	}
}
