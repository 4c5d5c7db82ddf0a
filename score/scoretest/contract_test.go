package scoretest_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/scoretest"
)

// log is a T that keeps what is reported.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (*log) Helper() {}

func (l *log) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// scorer is a function as a Scorer.
type scorer func(ctx context.Context, req *score.InferenceRequest, pod *score.PodState, set *score.Summary) score.Result

func (f scorer) Score(ctx context.Context, req *score.InferenceRequest, pod *score.PodState, set *score.Summary) score.Result {
	return f(ctx, req, pod, set)
}

// of makes a scorer that looks at the pod alone.
func of(f func(*score.PodState) score.Result) scorer {
	return func(_ context.Context, _ *score.InferenceRequest, pod *score.PodState, _ *score.Summary) score.Result {
		return f(pod)
	}
}

func TestContractAcceptsTheBuiltins(t *testing.T) {
	w := score.Default()
	for f, builtin := range score.Builtins(&w) {
		t.Run(w.FactorName(f), func(t *testing.T) {
			scoretest.Contract(t, builtin, scoretest.ContractOptions{})
		})
	}
}

func TestContractReports(t *testing.T) {
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	var calls atomic.Int64
	for name, tc := range map[string]struct {
		scorer scorer
		want   string
	}{
		"a value above 1": {of(func(*score.PodState) score.Result { return score.Scored(1.5, "") }), "value 1.5 is outside [0,1]"},
		"NaN":             {of(func(*score.PodState) score.Result { return score.Scored(math.NaN(), "") }), "value NaN is outside [0,1]"},
		"a strange state": {of(func(*score.PodState) score.Result { return score.Result{State: 77} }), "state 77 does not exist"},
		"two lines":       {of(func(*score.PodState) score.Result { return score.Scored(1, "a\nb") }), "must be one line"},
		"a long detail":   {of(func(*score.PodState) score.Result { return score.Scored(1, strings.Repeat("a", 201)) }), "at most 200 bytes"},
		"a panic on pods without labels": {
			of(func(p *score.PodState) score.Result { p.Labels["x"] = ""; return score.Scored(1, "") }), "the scorer panics: assignment to entry in nil map",
		},
		"memory": {
			of(func(*score.PodState) score.Result { return score.Scored(1/float64(calls.Add(1)), "") }), "asked twice, the scorer answers",
		},
		"changed pods": {
			func(_ context.Context, _ *score.InferenceRequest, p *score.PodState, set *score.Summary) score.Result {
				set.Pods++
				return score.Scored(1, "")
			}, "changes its arguments",
		},
		"a scorer that does not end": {
			func(ctx context.Context, _ *score.InferenceRequest, _ *score.PodState, _ *score.Summary) score.Result {
				if ctx.Err() != nil {
					<-released
				}
				return score.Scored(1, "")
			},
			"has not returned 1ms after its context ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			opt := scoretest.ContractOptions{}
			if strings.Contains(tc.want, "1ms") {
				opt.Grace = time.Millisecond
			}
			var got log
			scoretest.Contract(&got, tc.scorer, opt)
			if !strings.Contains(got.String(), tc.want) {
				t.Errorf("reported %q, want it to contain %q", got.String(), tc.want)
			}
		})
	}
}

func TestContractUsesTheGivenPods(t *testing.T) {
	opt := scoretest.ContractOptions{
		Request: scoretest.Request(10),
		Pods:    []score.PodState{scoretest.Pod("mine", scoretest.Label("gpu", "a100"))},
	}
	picky := of(func(p *score.PodState) score.Result {
		if p.Labels["gpu"] == "a100" {
			return score.Scored(2, "")
		}
		return score.Scored(1, "")
	})
	var got log
	scoretest.Contract(&got, picky, opt)
	if want := "the given pods, pod mine: value 2 is outside [0,1]"; got.String() != want {
		t.Errorf("reported %q, want %q", got.String(), want)
	}
}

func TestPods(t *testing.T) {
	p := scoretest.Pod("a", scoretest.Cached(7), scoretest.Loaded(.5), scoretest.Queued(3), scoretest.Healthy(.9),
		scoretest.Adapters("fr"), scoretest.Label("l", "1"), scoretest.Annotation("a", "2"), scoretest.Excluded(score.NotReady))
	if p.Cache.Value != 7 || p.Utilization.Value != .5 || p.Waiting.Value != 3 || p.Health.Value != .9 ||
		!p.HasAdapter("fr") || p.Labels["l"] != "1" || p.Annotations["a"] != "2" || p.Excluded != score.NotReady {
		t.Errorf("pod = %+v", p)
	}
	if blind := scoretest.Pod("a", scoretest.Cached(7), scoretest.Blind()); blind.Cache.State != score.Unknown {
		t.Errorf("blind pod = %+v", blind)
	}
	if stale := scoretest.Pod("a", scoretest.Cached(7), scoretest.Stale(time.Minute)); stale.Cache.State != score.Stale || stale.Cache.Value != 7 {
		t.Errorf("stale pod = %+v", stale)
	}
}
