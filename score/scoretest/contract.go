package scoretest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/score"
)

// ContractOptions add to what [Contract] tries by itself.
type ContractOptions struct {
	// Request and Pods are samples that matter to the scorer, for example with
	// the labels it reads. They are tried besides the odd ones that every scorer
	// is given.
	Request *score.InferenceRequest
	Pods    []score.PodState
	// Grace is how long after the end of its context a call may take; 0 means a
	// second, which leaves room for a busy machine.
	Grace time.Duration
}

const (
	defaultGrace = time.Second
	maxDetail    = 200 // characters that fit on a line of an explanation
	callers      = 8   // goroutines that call at the same time
)

// Contract reports everything in which the scorer breaks the contract of
// [score.Scorer]. Run it with -race to find data races between calls.
func Contract(t T, scorer score.Scorer, opt ContractOptions) {
	t.Helper()
	if opt.Grace == 0 {
		opt.Grace = defaultGrace
	}
	for _, s := range samples(opt) {
		first, changed := s.values(t, scorer)
		s.checkRepeats(t, scorer, first)
		if !changed { // else the calls would only race for the arguments
			s.checkConcurrent(t, scorer, first)
		}
	}
	checkDeadline(t, scorer, samples(opt)[0], opt.Grace)
}

// sample is one candidate set.
type sample struct {
	name string
	req  *score.InferenceRequest
	pods []score.PodState
}

// samples are the candidate sets that a scorer has to cope with.
func samples(opt ContractOptions) []sample {
	var own []sample
	req := opt.Request
	if req == nil {
		req = Request(100)
	}
	if len(opt.Pods) > 0 {
		own = append(own, sample{"the given pods", req, opt.Pods})
	}
	odd := Pod("odd", Label("", ""), Annotation("", ""))
	odd.Cache.Value, odd.Utilization.Value = math.NaN(), math.Inf(1)
	odd.Waiting.Value, odd.Health.Value = -1, math.MaxFloat64
	ordinary := []score.PodState{
		Pod("hot", Cached(90), Loaded(.9), Queued(12), Adapters("fr")), Pod("warm", Cached(40), Loaded(.4), Healthy(.5)), Pod("idle"),
	}
	blind := []score.PodState{Pod("blind", Blind()), Pod("stale", Cached(50), Stale(time.Minute)), odd}
	gone := []score.PodState{Pod("gone", Excluded(score.NotReady)), Pod("here")}
	short := &score.InferenceRequest{}
	adapter := Request(100)
	adapter.Adapter = "fr"
	return append(own,
		sample{"ordinary pods", req, ordinary}, sample{"pods without readings", req, blind},
		sample{"an excluded pod", req, gone}, sample{"one pod", req, ordinary[:1]},
		sample{"a request without blocks", short, ordinary}, sample{"a request for an adapter", adapter, ordinary},
	)
}

// values calls the scorer once a pod and checks each answer and that the
// arguments are as before.
func (s sample) values(t T, scorer score.Scorer) (results []score.Result, changed bool) {
	t.Helper()
	set := s.summary()
	results = make([]score.Result, len(s.pods))
	for i := range s.pods {
		summary, before := set, contents(s.req, &s.pods[i])
		results[i] = guarded(t, scorer, call{context.Background(), s.req, &s.pods[i], &summary})
		s.checkResult(t, s.pods[i].Pod, results[i])
		if contents(s.req, &s.pods[i]) != before || summary != set {
			t.Errorf("%s, pod %s: the scorer changes its arguments", s.name, s.pods[i].Pod)
			changed = true
		}
	}
	return results, changed
}

func (s sample) checkResult(t T, pod string, r score.Result) {
	t.Helper()
	if r.State > score.NotApplicable {
		t.Errorf("%s, pod %s: state %d does not exist", s.name, pod, r.State)
	}
	if r.State != score.Unknown && r.State != score.Stale && !(r.Value >= 0 && r.Value <= 1) {
		t.Errorf("%s, pod %s: value %v is outside [0,1]", s.name, pod, r.Value)
	}
	if strings.ContainsAny(r.Detail, "\n\r") || len(r.Detail) > maxDetail {
		t.Errorf("%s, pod %s: the detail must be one line of at most %d bytes: %q", s.name, pod, maxDetail, r.Detail)
	}
}

// checkRepeats asks again, in the opposite order: the answers must not depend
// on what was asked before.
func (s sample) checkRepeats(t T, scorer score.Scorer, first []score.Result) {
	t.Helper()
	set := s.summary()
	for i := range slices.Backward(s.pods) {
		r := guarded(t, scorer, call{context.Background(), s.req, &s.pods[i], &set})
		if !sameResult(r, first[i]) {
			t.Errorf("%s, pod %s: asked twice, the scorer answers %+v and %+v", s.name, s.pods[i].Pod, first[i], r)
		}
	}
}

// summary describes the sample's pods under the default limits.
func (s sample) summary() score.Summary {
	w := score.Default()
	return score.Summarize(s.req, s.pods, &w)
}

// checkConcurrent asks from several goroutines at once, as parallel requests do.
func (s sample) checkConcurrent(t T, scorer score.Scorer, first []score.Result) {
	t.Helper()
	set := s.summary()
	var wg sync.WaitGroup
	var once sync.Once
	for range callers {
		wg.Go(func() {
			for i := range s.pods {
				r := guarded(t, scorer, call{context.Background(), s.req, &s.pods[i], &set})
				if !sameResult(r, first[i]) {
					once.Do(func() {
						t.Errorf("%s, pod %s: asked concurrently, the scorer answers %+v instead of %+v", s.name, s.pods[i].Pod, r, first[i])
					})
				}
			}
		})
	}
	wg.Wait()
}

// checkDeadline calls with a context that has ended. A scorer that does not
// return keeps its goroutine, which can't be stopped from outside.
func checkDeadline(t T, scorer score.Scorer, s sample, grace time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	set := s.summary()
	done := make(chan struct{})
	go func() {
		defer close(done)
		guarded(t, scorer, call{ctx, s.req, &s.pods[0], &set})
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Errorf("the scorer has not returned %v after its context ended", grace)
	}
}

// sameResult compares bits, so that NaN equals itself.
func sameResult(a, b score.Result) bool {
	return math.Float64bits(a.Value) == math.Float64bits(b.Value) && a.State == b.State && a.Detail == b.Detail
}

// contents tells whether arguments were changed.
func contents(req *score.InferenceRequest, pod *score.PodState) string {
	p, notes := *pod, score.Notes{}
	if p.Notes != nil {
		notes, p.Notes = *p.Notes, nil
	}
	return fmt.Sprintf("%+v %+v %q", *req, p, notes)
}
