package explain

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// replayed is a record beside the engine's second run over it. in and d are nil
// when the record can't be replayed.
type replayed struct {
	rec      *Record
	check    Verification
	in       *score.Inputs
	d        *score.Decision
	builtins [score.NumFactors]score.Scorer
}

func replay(rec *Record) *replayed {
	r := &replayed{rec: rec}
	r.check, r.in, r.d = Replay(rec)
	if r.in != nil {
		r.builtins = score.Builtins(r.in.Weights)
	}
	return r
}

// factors explains pod i, factor by factor, in the order of the sum.
func (r *replayed) factors(i int) []Factor {
	if r.in == nil {
		return []Factor{}
	}
	out := make([]Factor, 0, r.in.Weights.Factors())
	for f := r.firstFactor(); f < r.in.Weights.Factors(); f++ {
		out = append(out, r.factor(i, f))
	}
	return out
}

// firstFactor leaves the built-in factors out of what a foreign picker decided.
func (r *replayed) firstFactor() int {
	if r.rec.Origin != nil {
		return score.NumFactors
	}
	return 0
}

func (r *replayed) factor(i, f int) Factor {
	w := r.in.Weights
	result := r.result(i, f)
	out := Factor{
		Name: w.FactorName(f), Weight: w.Weight(f), State: result.State.String(), Detail: result.Detail,
		Contribution: r.d.Contribution(f, i, r.in.Extra, w), Input: r.input(i, f),
	}
	if hasValue(f, result.State) {
		out.Value = new(result.Value)
	}
	return out
}

// hasValue: an input that is missing gives no value, and a prompt without a
// prefix has no match that could be 0. A request that needs no adapter has a
// value: nothing has to be loaded, which counts 1.
func hasValue(f int, state score.State) bool {
	if state == score.NotApplicable {
		return f != score.CacheMatch
	}
	return state.Usable()
}

// result is the value, the state and the detail of factor f. Value and state
// are Decide's, the detail is the interface path's.
func (r *replayed) result(i, f int) score.Result {
	if f >= score.NumFactors {
		return score.CustomResult(r.in.Extra, f-score.NumFactors, i)
	}
	out := r.builtins[f].Score(context.Background(), r.in.Request, &r.in.Pods[i], nil)
	out.Value, out.State = r.d.Results[i].Values[f], r.d.Results[i].States[f]
	return out
}

// input is the raw input as it was recorded.
func (r *replayed) input(i, f int) FactorInput {
	c, w := &r.rec.Candidates[i], &r.rec.Weights
	switch f {
	case score.CacheMatch:
		return FactorInput{Cache: r.cacheInput(i)}
	case score.Load:
		in := &LoadInput{Utilization: finite(c.Load.Value), MaxUtilization: w.MaxUtilization}
		in.Reading = c.Load.origin()
		return FactorInput{Load: in}
	case score.QueueDepth:
		in := &QueueInput{Waiting: finite(c.Waiting.Value), Pending: c.Pending, PeerPending: c.PeerPending, InFlight: c.InFlight, Max: w.MaxQueue}
		in.Reading = c.Waiting.origin()
		return FactorInput{Queue: in}
	case score.Health:
		in := &HealthInput{Score: finite(c.Health.Value)}
		in.Reading = c.Health.origin()
		return FactorInput{Health: in}
	case score.AdapterMatch:
		return FactorInput{Adapter: c.Adapters.input(r.rec.Request.Adapter)}
	}
	v := c.Custom[f-score.NumFactors]
	return FactorInput{Custom: &CustomInput{Value: finite(v.Value), State: v.State}}
}

func (r *replayed) cacheInput(i int) *CacheInput {
	cache, in := &r.rec.Candidates[i].Cache, &CacheInput{TotalBlocks: r.rec.Request.Blocks}
	if state := r.d.Results[i].States[score.CacheMatch]; state == score.NotApplicable {
		in.State = state.String()
		return in
	}
	in.MatchedBlocks, in.Tiers, in.Reading = finite(cache.Value), cache.Tiers, cache.origin()
	return in
}

// origin leaves the age out when there is no value that could have one.
func (in *Input) origin() Reading {
	out := Reading{State: in.State, Source: in.Source}
	if in.Value != nil {
		out.AgeSeconds = finite(&in.AgeSeconds)
	}
	return out
}

func (a *Adapters) input(asked string) *AdapterInput {
	in := &AdapterInput{State: a.State}
	state, _ := score.ParseState(a.State)
	if asked != "" {
		in.Adapter = new(asked)
	}
	if state == score.Unknown {
		return in
	}
	in.Count = new(a.Loaded)
	if asked != "" {
		in.Loaded = new(a.Match)
	}
	if a.Max > 0 {
		in.Max = new(a.Max)
	}
	return in
}

// finite is a copy of v, or nil for what JSON can't hold.
func finite(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return new(*v)
}

// exclusion explains why pod i could not win.
func (r *replayed) exclusion(i int) Exclusion {
	c := &r.rec.Candidates[i]
	out := Exclusion{
		Pod: c.Pod, Endpoint: c.Endpoint, Reason: c.Reason, Detail: r.exclusionDetail(i), Factors: r.factors(i),
		Reported: r.rec.reported(i),
	}
	if r.d != nil && r.d.Results[i].WouldScoreKnown {
		out.WouldScore = new(r.d.Results[i].WouldScore)
	}
	return out
}

func (r *replayed) exclusionDetail(i int) string {
	c := &r.rec.Candidates[i]
	if r.rec.Origin != nil {
		return "not scored"
	}
	reason, _ := score.ParseReason(c.Reason)
	switch reason {
	case score.NotReady:
		return "the pod is not ready"
	case score.Terminating:
		return "the pod is being deleted"
	case score.NotInPool:
		if r.rec.Request.Rewrite != nil {
			return "the pod is in no pool that serves the name"
		}
		return "the pod does not belong to the pool"
	case score.NotInSubset:
		return "the gateway left it out of the subset for this request"
	case score.ModelNotServed:
		return "does not serve " + r.rec.Request.Base
	case score.PrefillOnly:
		return "the pod computes prompts for others and answers nobody"
	case score.Unhealthy:
		return unhealthyDetail(&c.Health)
	case score.QueueFull:
		if r.in != nil {
			return r.result(i, score.QueueDepth).Detail
		}
		return "the queue is full"
	case score.Eligible:
	}
	return "for a reason this version does not know"
}

func unhealthyDetail(health *Input) string {
	detail := "health is below " + number(score.HealthCutoff)
	if health.Value != nil {
		detail = fmt.Sprintf("health %s is below %s", number(*health.Value), number(score.HealthCutoff))
	}
	if health.Detail != "" {
		why := health.Detail
		if health.Value != nil {
			why = strings.TrimPrefix(why, fmt.Sprintf("%.2f: ", *health.Value)) // it was just said
		}
		detail += ": " + why
	}
	return detail
}
