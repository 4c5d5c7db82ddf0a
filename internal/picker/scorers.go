package picker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

// maxOverdue bounds the calls of one scorer that are past their deadline and
// have not returned: a scorer that hangs must not pile up goroutines.
const maxOverdue = 64

// maxDetail bounds what a scorer may write into a record, in bytes per pod.
const maxDetail = 200

// scorers runs the custom scorers and waits for those that overran.
type scorers struct {
	custom  []Custom
	overdue []atomic.Int64 // calls, by scorer
	wg      *sync.WaitGroup
}

func newScorers(custom []Custom) scorers {
	return scorers{custom: custom, overdue: make([]atomic.Int64, len(custom)), wg: new(sync.WaitGroup)}
}

func (s *scorers) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	var hanging []string
	for k := range s.custom {
		if n := s.overdue[k].Load(); n > 0 {
			hanging = append(hanging, fmt.Sprintf("%s (%d calls)", s.custom[k].Name, n))
		}
	}
	return fmt.Errorf("custom scorers that do not return: %s", strings.Join(hanging, ", "))
}

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
// share one copy of request and pods, which no one may change: an overdue call
// may outlive the request.
func (s *scratch) runScorers(ctx context.Context) {
	p := s.picker
	pods, roster := p.cfg.Pool.States(nil, &s.query)
	req := s.req
	req.Tokens = slices.Clone(req.Tokens)
	set := score.Summarize(&req, pods, s.in.Weights)
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.ScorerDeadline, fmt.Errorf("scorer deadline of %v", p.cfg.ScorerDeadline))
	defer cancel()

	calls := make([]*scorerCall, len(p.cfg.Scorers))
	for k := range calls {
		calls[k] = p.scorers.start(ctx, k, &req, pods, &set)
	}
	s.in.Extra = make([]score.FactorValues, len(calls))
	for k, call := range calls {
		name := p.cfg.Scorers[k].Name
		values, failure := call.await(ctx, len(pods))
		if failure != "" && p.cfg.Observer != nil {
			p.cfg.Observer.ScorerFailed(name, failure)
		}
		s.in.Extra[k] = score.FactorValues{Name: name, Values: values}
	}
	s.extraOf = roster
}

// scorerCall is one call of a scorer for all pods of a request.
type scorerCall struct {
	answer  chan []score.Result // one; that of an overdue call is dropped
	overdue *atomic.Int64       // of the scorer
	state   atomic.Int32        // running, then returned or past its deadline
}

const (
	callRunning = iota
	callReturned
	callLate
)

// start runs one scorer over all pods in a goroutine of its own. It returns nil
// when too many of its earlier calls hang.
func (s *scorers) start(ctx context.Context, k int, req *score.InferenceRequest, pods []score.PodState, set *score.Summary) *scorerCall {
	if s.overdue[k].Load() >= maxOverdue {
		return nil
	}
	c := &scorerCall{answer: make(chan []score.Result, 1), overdue: &s.overdue[k]}
	s.wg.Go(func() {
		c.answer <- callScorer(ctx, s.custom[k].Scorer, req, pods, set)
		if !c.state.CompareAndSwap(callRunning, callReturned) {
			c.overdue.Add(-1)
		}
	})
	return c
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

// await collects a scorer's answer. What it failed at is said for each pod. An
// answer that is there counts, whoever else used the time up.
func (c *scorerCall) await(ctx context.Context, pods int) ([]score.Result, Failure) {
	if c == nil {
		return failed(pods, "earlier calls have not returned"), FailureBusy
	}
	var values []score.Result
	select {
	case values = <-c.answer:
	case <-ctx.Done():
		select {
		case values = <-c.answer:
		default:
			c.overdue.Add(1)
			if !c.state.CompareAndSwap(callRunning, callLate) {
				c.overdue.Add(-1) // it returned just now
			}
			return failed(pods, "no answer: "+context.Cause(ctx).Error()), FailureDeadline
		}
	}
	if values == nil {
		return failed(pods, "the scorer panicked"), FailurePanic
	}
	return values, checkValues(values)
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
		r := &values[i]
		switch {
		case r.State > score.NotApplicable:
			*r, failure = score.NotKnown(fmt.Sprintf("the scorer returned no such state as %d", r.State)), FailureValue
		case r.State == score.Unknown || r.State == score.Stale:
		case !(r.Value >= 0 && r.Value <= math.MaxFloat64):
			*r, failure = score.NotKnown(fmt.Sprintf("the scorer returned %v", r.Value)), FailureValue
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
