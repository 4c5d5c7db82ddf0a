package score

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// Scorer is one scoring factor. The five built-in factors are Scorers, and a
// custom one is registered beside them with a unique name and a weight.
//
// Score must return a value in [0,1] for the pod, higher meaning better, and
// should depend on nothing but its arguments, which it must not change: they are
// shared with other scorers. It is called once per candidate,
// from one goroutine per scorer, and must return soon after ctx ends. A scorer
// that panics, overruns its deadline or returns NaN costs its own factor for
// that request (it becomes Unknown), never the request.
type Scorer interface {
	Score(ctx context.Context, req *InferenceRequest, pod *PodState, set *Summary) Result
}

// Result is a scorer's answer for one pod.
type Result struct {
	Value  float64 // in [0,1]
	State  State
	Detail string // for the explanation, one short line
}

// Scored is a result with a known value; detail says in a few words how it came
// to be.
func Scored(value float64, detail string) Result {
	return Result{Value: value, State: Known, Detail: detail}
}

// NotKnown is a result for a pod that the scorer can say nothing about: the
// factor contributes nothing and the explanation shows the reason.
func NotKnown(reason string) Result { return Result{State: Unknown, Detail: reason} }

// FactorValues holds what one custom scorer said of every pod, in the order of
// the pods. It is an input of [Decide] and stands in the record, so that a
// replay never runs a scorer.
type FactorValues struct {
	Name   string
	Values []Result
}

// Summary describes the candidate set to a scorer that looks at one pod at a
// time. Only pods that can win are part of it.
type Summary struct {
	Pods int // candidates that are eligible
	// BestCache is the highest cache match ratio in [0,1], and BestCachePod the
	// first pod that has it; unusable cache readings count as no match.
	BestCache    float64
	BestCachePod string
	// The ranges of the usable readings; NoLoad and NoQueue when there is none.
	MinLoad, MaxLoad   float64
	MinQueue, MaxQueue float64
	NoLoad, NoQueue    bool
}

// Summarize computes the summary of a candidate set under the limits of w.
func Summarize(req *InferenceRequest, pods []PodState, w *Weights) Summary {
	s := Summary{NoLoad: true, NoQueue: true}
	for i := range pods {
		p := &pods[i]
		if reasonOf(p, float64(w.MaxQueue)) != Eligible {
			continue
		}
		s.Pods++
		if ratio, _ := cacheMatch(req, p); s.BestCachePod == "" || ratio > s.BestCache {
			s.BestCache, s.BestCachePod = ratio, p.Pod
		}
		if number(p.Utilization) {
			s.MinLoad, s.MaxLoad = widen(s.MinLoad, s.MaxLoad, p.Utilization.Value, s.NoLoad)
			s.NoLoad = false
		}
		if depth, known := p.QueueDepth(); known {
			s.MinQueue, s.MaxQueue = widen(s.MinQueue, s.MaxQueue, depth, s.NoQueue)
			s.NoQueue = false
		}
	}
	return s
}

func widen(low, high, v float64, first bool) (float64, float64) {
	if first {
		return v, v
	}
	return min(low, v), max(high, v)
}

// CacheRatio is the share of the request's blocks that the pod holds, in [0,1];
// 0 when the reading is unusable or the request has no full block.
func CacheRatio(req *InferenceRequest, pod *PodState) float64 {
	ratio, _ := cacheMatch(req, pod)
	return ratio
}

// Builtins returns the five built-in factors as Scorers for the given limits,
// in the order of the sum. [Decide] computes the same values in place.
func Builtins(w *Weights) [NumFactors]Scorer {
	return [NumFactors]Scorer{
		CacheMatch: builtin(scoreCache),
		Load: builtin(func(req *InferenceRequest, p *PodState) Result {
			return scoreLoad(p, w.MaxUtilization)
		}),
		QueueDepth: builtin(func(req *InferenceRequest, p *PodState) Result {
			return scoreQueue(p, w.MaxQueue)
		}),
		Health:       builtin(func(req *InferenceRequest, p *PodState) Result { return scoreHealth(p) }),
		AdapterMatch: builtin(scoreAdapter),
	}
}

// builtin is a factor that looks at nothing but the request and the pod.
type builtin func(*InferenceRequest, *PodState) Result

// Score implements [Scorer].
func (f builtin) Score(_ context.Context, req *InferenceRequest, pod *PodState, _ *Summary) Result {
	return f(req, pod)
}

func scoreCache(req *InferenceRequest, p *PodState) Result {
	v, state := cacheMatch(req, p)
	r := Result{Value: v, State: state}
	switch {
	case req.NoPrefix != "":
		r.Detail = "not applicable: " + req.NoPrefix
	case req.Blocks == 0:
		r.Detail = "not applicable: shorter than one block"
	case state == Stale:
		r.Detail = fmt.Sprintf("%s, %s old", matchText(req, p), age(p.Cache.Age))
	case state == Unknown:
		r.Detail = why(p, CacheMatch)
	default:
		r.Detail = matchText(req, p)
	}
	return r
}

// matchText is the cache match in words. Only blocks that count less make it a
// fraction.
func matchText(req *InferenceRequest, p *PodState) string {
	value := short(p.Cache.Value, 0)
	if p.Cache.Value != math.Trunc(p.Cache.Value) {
		value = strconv.FormatFloat(math.Round(100*p.Cache.Value)/100, 'f', -1, 64)
	}
	text := fmt.Sprintf("%s of %d blocks", value, req.Blocks)
	if p.CacheTiers != nil {
		text += ": " + tiersText(p.CacheTiers)
	}
	return text
}

func scoreLoad(p *PodState, maxUtilization float64) Result {
	v, state := loadScore(p, maxUtilization)
	r := Result{Value: v, State: state}
	if state == Unknown {
		r.Detail = why(p, Load)
		return r
	}
	r.Detail = fmt.Sprintf("%s%% by %s", short(100*p.Utilization.Value/maxUtilization, 0), p.Utilization.Source)
	if state == Stale {
		r.Detail += ", " + age(p.Utilization.Age) + " old"
	}
	return r
}

func scoreQueue(p *PodState, maxQueue int) Result {
	depth, known := p.QueueDepth()
	v, state := queueScore(p, depth, known, float64(maxQueue))
	r := Result{Value: v, State: state}
	pending := fmt.Sprintf("%d pending", p.Pending)
	if p.PeerPending > 0 {
		pending += fmt.Sprintf(" + %d by other replicas", p.PeerPending)
	}
	switch state {
	case Unknown:
		r.Detail = fmt.Sprintf("%s; %s of %d", why(p, QueueDepth), pending, maxQueue)
	case Stale:
		r.Detail = fmt.Sprintf("%g waiting %s ago; %s of %d", p.Waiting.Value, age(p.Waiting.Age), pending, maxQueue)
	case Known, Clamped, NotApplicable:
		r.Detail = fmt.Sprintf("%g waiting + %s of %d", p.Waiting.Value, pending, maxQueue)
	}
	return r
}

func scoreHealth(p *PodState) Result {
	v, state := healthScore(p)
	r := Result{Value: v, State: state, Detail: p.note(Health)}
	switch {
	case state == Unknown:
		r.Detail = why(p, Health)
	case state == Stale:
		r.Detail = fmt.Sprintf("%s, %s old", short(p.Health.Value, 2), age(p.Health.Age))
	case r.Detail == "":
		r.Detail = short(p.Health.Value, 2)
	}
	return r
}

func scoreAdapter(req *InferenceRequest, p *PodState) Result {
	v, state := adapterMatch(req, p)
	r := Result{Value: v, State: state}
	switch {
	case state == NotApplicable:
		r.Detail = "no adapter needed"
	case state == Unknown:
		r.Detail = why(p, AdapterMatch)
	case state == Stale:
		r.Detail = "adapter list is stale"
	case v == 1:
		r.Detail = "loaded"
	default:
		r.Detail = "not loaded"
	}
	if n := len(p.Adapters); state != NotApplicable && state.Usable() && p.MaxAdapters > 0 {
		r.Detail += fmt.Sprintf(" (%d of %d slots)", n, p.MaxAdapters)
	}
	return r
}

// short is v with a number of decimals, or three digits and an exponent when it
// is too large for any reading that makes sense.
func short(v float64, decimals int) string {
	const large = 1e9
	if v >= large {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
