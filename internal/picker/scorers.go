package picker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

// Custom is a registered custom scorer.
type Custom struct {
	Name   string
	Scorer score.Scorer
}

// Failure is how a custom scorer failed.
type Failure string

// The failures of custom scorers. Each costs the scorer's factor for the
// request, which becomes unknown, and never the request.
const (
	FailurePanic    Failure = "panic"
	FailureDeadline Failure = "deadline"
	FailureValue    Failure = "value" // NaN, infinite or negative
	FailureBusy     Failure = "busy"  // too many earlier calls have not returned
)

// maxOverdue bounds the calls of one scorer that run at once, overdue ones
// included: a scorer that hangs must not pile up goroutines.
const maxOverdue = 64

// maxDetail bounds what a scorer may write into a record, in bytes per pod.
const maxDetail = 200

// scorers runs the custom scorers and waits for those that overran.
type scorers struct {
	custom  []Custom
	running []chan struct{} // one token a call, by scorer
	wg      *sync.WaitGroup
}

func newScorers(custom []Custom) scorers {
	s := scorers{custom: custom, wg: new(sync.WaitGroup)}
	for range custom {
		s.running = append(s.running, make(chan struct{}, maxOverdue))
	}
	return s
}

func (s *scorers) wait() { s.wg.Wait() }

func checkScorers(custom []Custom, weights []score.CustomWeight) error {
	names := make([]string, 0, len(custom))
	for _, c := range custom {
		if c.Name == "" || c.Scorer == nil {
			return fmt.Errorf("scorer %q: a name and a scorer are needed", c.Name)
		}
		names = append(names, c.Name)
	}
	weighted := make([]string, 0, len(weights))
	for _, w := range weights {
		weighted = append(weighted, w.Name)
	}
	if !slices.Equal(names, weighted) {
		return fmt.Errorf("the weights name the custom scorers %q, registered are %q", weighted, names)
	}
	return nil
}

// runScorers asks all custom scorers about the pods as they are now, in
// parallel and under one deadline, and leaves their answers in s.in.Extra. They
// get a copy of everything: an overdue call may outlive the request.
func (s *scratch) runScorers(ctx context.Context) {
	p := s.picker
	pods, roster := p.cfg.Pool.States(nil, &s.query)
	req := s.req
	req.Tokens = slices.Clone(req.Tokens)
	set := score.Summarize(&req, pods)
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.ScorerDeadline, fmt.Errorf("scorer deadline of %v", p.cfg.ScorerDeadline))
	defer cancel()

	answers := make([]chan []score.Result, len(p.cfg.Scorers))
	for k := range answers {
		answers[k] = p.scorers.start(ctx, k, &req, pods, &set)
	}
	s.in.Extra = make([]score.FactorValues, len(answers))
	for k, answer := range answers {
		name := p.cfg.Scorers[k].Name
		values, failure := await(ctx, answer, len(pods))
		if failure != "" && p.cfg.Observer != nil {
			p.cfg.Observer.ScorerFailed(name, failure)
		}
		s.in.Extra[k] = score.FactorValues{Name: name, Values: values}
	}
	s.extraOf = roster
}

// start runs one scorer over all pods in a goroutine of its own. The channel is
// nil when too many calls of it are still running.
func (s *scorers) start(ctx context.Context, k int, req *score.InferenceRequest, pods []score.PodState, set *score.Summary) chan []score.Result {
	select {
	case s.running[k] <- struct{}{}:
	default:
		return nil
	}
	answer := make(chan []score.Result, 1) // the answer of an overdue call is dropped
	s.wg.Go(func() {
		defer func() { <-s.running[k] }()
		answer <- callScorer(ctx, s.custom[k].Scorer, req, pods, set)
	})
	return answer
}

func callScorer(ctx context.Context, scorer score.Scorer, req *score.InferenceRequest, pods []score.PodState, set *score.Summary) (values []score.Result) {
	values = make([]score.Result, len(pods))
	defer func() {
		if recover() != nil { // what it panicked with may hold a prompt: it goes nowhere
			values = nil
		}
	}()
	for i := range pods {
		r := scorer.Score(ctx, req, &pods[i], set)
		r.Detail = r.Detail[:min(len(r.Detail), maxDetail)]
		values[i] = r
	}
	return values
}

// await collects a scorer's answer. What it failed at is said for each pod.
func await(ctx context.Context, answer chan []score.Result, pods int) ([]score.Result, Failure) {
	if answer == nil {
		return failed(pods, "earlier calls have not returned"), FailureBusy
	}
	select {
	case values := <-answer:
		if values == nil {
			return failed(pods, "the scorer panicked"), FailurePanic
		}
		return values, checkValues(values)
	case <-ctx.Done():
		return failed(pods, "no answer: "+context.Cause(ctx).Error()), FailureDeadline
	}
}

func failed(pods int, why string) []score.Result {
	values := make([]score.Result, pods)
	for i := range values {
		values[i] = score.NotKnown(why)
	}
	return values
}

// checkValues replaces values that Decide could not use, and reports whether
// there were any.
func checkValues(values []score.Result) (failure Failure) {
	for i := range values {
		if v := values[i].Value; values[i].State.Usable() && !(v >= 0 && v <= math.MaxFloat64) {
			values[i] = score.NotKnown(fmt.Sprintf("the scorer returned %v", v))
			failure = FailureValue
		}
	}
	return failure
}

// align drops the scorers' answers when the pool's membership has changed since
// they were asked: they would be those of other pods.
func (s *scratch) align(pods []score.PodState, roster uint64) {
	if len(s.in.Extra) == 0 || s.extraOf == roster {
		return
	}
	for k := range s.in.Extra {
		s.in.Extra[k].Values = failed(len(pods), "the pool changed while it was asked")
	}
}

var _ pool.Chooser = (*scratch)(nil)
