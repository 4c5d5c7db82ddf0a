package picker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/score"
)

func TestRefusals(t *testing.T) {
	status := func(f *fleet) (int, string) {
		_, err := f.Pick(context.Background(), call(prompt(64, 1)))
		r, ok := errors.AsType[*Refusal](err)
		if !ok {
			t.Fatalf("error %v is no refusal", err)
		}
		return r.Status, r.Detail
	}
	t.Run("no pods", func(t *testing.T) { // case P3
		if s, text := status(newFleet(t, 0, nil)); s != 503 || !strings.Contains(text, "no endpoints") {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("all excluded names each reason", func(t *testing.T) {
		f := newFleet(t, 2, nil)
		for _, target := range f.pool.Targets() {
			f.pool.Probed(target, engine.Probe{Refused: true, Reason: "connection refused", At: time.Now()})
		}
		if s, text := status(f); s != 503 || !strings.Contains(text, "pod-00 unhealthy, pod-01 unhealthy") {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("all full and reject", func(t *testing.T) {
		f := newFleet(t, 2, func(c *Config) { c.Weights.Saturation = score.Reject })
		f.scrape(20)
		if s, text := status(f); s != 429 || !strings.Contains(text, "queue-full") {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("an unknown model", func(t *testing.T) {
		f := newFleet(t, 1, nil)
		for _, target := range f.pool.Targets() {
			f.pool.Listed(target, []engine.Model{{ID: "other"}}, nil)
		}
		if s, text := status(f); s != 404 || !strings.Contains(text, `"m" does not exist`) {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("a refused decision stands in the record with its outcome", func(t *testing.T) {
		f := newFleet(t, 0, nil)
		status(f)
		rec, ok := f.newest()
		if !ok || rec.Result.Refused != "no-endpoint" || rec.Outcome.Status != 503 {
			t.Errorf("record %+v", rec)
		}
	})
}

// scorerFunc is a scorer made of a function.
type scorerFunc func(context.Context, *score.PodState) score.Result

func (f scorerFunc) Score(ctx context.Context, _ *score.InferenceRequest, p *score.PodState, _ *score.Summary) score.Result {
	return f(ctx, p)
}

// A custom scorer that fails costs its factor, never the request.
func TestFailingScorers(t *testing.T) {
	hang := make(chan struct{})
	for _, tc := range []struct {
		name    string
		scorer  scorerFunc
		failure Failure
		state   score.State
	}{
		{"works", func(context.Context, *score.PodState) score.Result { return score.Scored(.5, "half") }, "", score.Known},
		{"panics", func(context.Context, *score.PodState) score.Result { panic("secret prompt") }, FailurePanic, score.Unknown},
		{"returns NaN", func(context.Context, *score.PodState) score.Result { return score.Scored(math.NaN(), "") }, FailureValue, score.Unknown},
		{"overruns", func(context.Context, *score.PodState) score.Result { <-hang; return score.Scored(1, "") }, FailureDeadline, score.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen := observer{}
			f := newFleet(t, 2, func(c *Config) {
				c.Observer = &seen
				c.Scorers = []Custom{{Name: "x", Scorer: tc.scorer}}
				c.Weights.Cache, c.Weights.Custom = .5, []score.CustomWeight{{Name: "x", Weight: .1}}
				c.ScorerDeadline = 20 * time.Millisecond
			})
			k := f.mustPick(t, call(prompt(64, 1)))
			k.Done(end())
			rec, ok := f.newest()
			if !ok {
				t.Fatal("no record")
			}
			if got := rec.Candidates[0].Custom[0].State; got != tc.state.String() {
				t.Errorf("state %s, want %v", got, tc.state)
			}
			if strings.Contains(fmt.Sprintf("%+v", rec), "secret") {
				t.Error("what the scorer panicked with stands in the record")
			}
			if seen.failures["x"] != tc.failure {
				t.Errorf("failure %q, want %q", seen.failures["x"], tc.failure)
			}
			if v, _, _ := explain.Replay(rec); !v.Identical {
				t.Errorf("replay: %s", v.Difference)
			}
			if tc.failure == FailureDeadline {
				close(hang)
			}
		})
	}
}

func TestSecondBest(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.scrape(0)
	f.report(t, "pod-00", holds(prompt(64, 1)))
	k := f.mustPick(t, call(prompt(64, 1)))
	if k.Pod() != "pod-00" || !k.Second("connection refused") || k.Pod() != "pod-01" {
		t.Fatalf("the retry goes to %s, want pod-01", k.Pod())
	}
	for _, v := range f.pool.Views() {
		if want := map[string]int{"pod-00": 0, "pod-01": 1}[v.State.Pod]; v.State.InFlight != want {
			t.Errorf("%s has %d in flight, want %d", v.State.Pod, v.State.InFlight, want)
		}
	}
	k.Done(end())
	rec, _ := f.newest()
	if len(rec.Attempts) != 2 || rec.Attempts[0].Error != "connection refused" || rec.Attempts[1].Pod != "pod-01" {
		t.Errorf("attempts %+v", rec.Attempts)
	}
	next := f.mustPick(t, call(prompt(64, 1)))
	defer next.Done(end())
	if next.Pod() != "pod-01" {
		t.Error("a pod that refused a connection must not be picked next")
	}
	if k.Second("connection refused") || next.Second("connection refused") {
		t.Error("neither an ended pick nor one without another healthy pod can move")
	}
}

func TestWeightsSwap(t *testing.T) {
	f := newFleet(t, 1, nil)
	w := score.Default()
	w.Cache, w.Load = .55, .25
	if _, err := f.SetWeights(w, 7); !errors.Is(err, ErrGeneration) {
		t.Errorf("a wrong generation gave %v", err)
	}
	g, err := f.SetWeights(w, 0)
	if err != nil || g != 1 || f.Weights().Cache != .55 {
		t.Errorf("generation %d, %v, cache %v", g, err, f.Weights().Cache)
	}
	w.Load = .5
	if _, err := f.SetWeights(w, 1); err == nil {
		t.Error("weights that do not sum to 1 were taken")
	}
}
