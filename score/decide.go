package score

import "math"

// OrderLength is how many eligible pods a [Decision] keeps in order; the full
// order is computed on demand by [Decision.FullOrder].
const OrderLength = 16

// MaxSeed is the largest seed: 53 bits, what a JSON reader can hold exactly.
const MaxSeed = 1<<53 - 1

// Refusal says why a decision has no winner.
type Refusal uint8

const (
	// Picked: there is a winner.
	Picked Refusal = iota
	// Saturated: pods are there but every queue is full, and the weights say
	// [Reject]. Answer 429.
	Saturated
	// NoEndpoint: nothing is eligible. Answer 503.
	NoEndpoint
)

// String is the refusal's spelling in JSON; "" when there is a winner.
func (r Refusal) String() string {
	switch r {
	case Saturated:
		return "saturated"
	case NoEndpoint:
		return "no-endpoint"
	case Picked:
	}
	return ""
}

// DecidedBy names what put the winner before the runner-up: a factor's index
// (0 and up), or one of the constants below.
type DecidedBy int16

const (
	// ByNothing: there is no winner.
	ByNothing DecidedBy = -1 - iota
	// ByOnlyCandidate: there was no runner-up, and so no margin.
	ByOnlyCandidate
	// ByTieLoad: equal scores, the lower load ratio won.
	ByTieLoad
	// ByTieQueue: equal scores and loads, the lower queue depth won.
	ByTieQueue
	// ByTieSeed: equal in everything, the seed chose.
	ByTieSeed
)

// Name is the spelling in JSON and on screens; w names the custom factors.
func (d DecidedBy) Name(w *Weights) string {
	switch d {
	case ByNothing:
		return ""
	case ByOnlyCandidate:
		return "onlyCandidate"
	case ByTieLoad:
		return "tieLoad"
	case ByTieQueue:
		return "tieQueue"
	case ByTieSeed:
		return "tieSeed"
	}
	return w.FactorName(int(d))
}

// Tie reports whether the pick was a tie in the score.
func (d DecidedBy) Tie() bool { return d == ByTieLoad || d == ByTieQueue || d == ByTieSeed }

// PodResult is what a decision found for one pod.
type PodResult struct {
	// Score is the composite score; 0 for an excluded pod.
	Score float64
	// WouldScore is the formula with all cutoffs off. It is the Score of an
	// eligible pod; for an excluded one it means something only when
	// WouldScoreKnown, that is when no input was missing.
	WouldScore      float64
	WouldScoreKnown bool
	Reason          Reason // Eligible, or why the pod was excluded
	Values          [NumFactors]float64
	States          [NumFactors]State
}

// Rank is a place in the order of eligible pods.
type Rank struct {
	Pod int // index into the pods
	// Tie says how this pod was put behind the one before it when their scores
	// were equal bits: ByTieLoad, ByTieQueue or ByTieSeed; else ByNothing.
	Tie DecidedBy
}

// Decision is the result of [Decide]. It refers to pods by their index and can
// be used again for the next decision, whose results then replace these.
type Decision struct {
	Winner   int // index of the picked pod, −1 when Refused
	RunnerUp int // index of the second, −1 when there is none
	Refused  Refusal
	// Relaxed: every remaining pod had a full queue and the cutoff was let go.
	Relaxed   bool
	Eligible  int     // number of pods that could win
	Tied      int     // pods whose score equals the winner's, the winner included
	Margin    float64 // winner's score − runner-up's; 0 without a runner-up
	DecidedBy DecidedBy
	Order     []Rank // the first OrderLength eligible pods, best first
	Results   []PodResult

	top top
}

// Decide picks a pod: eligibility, factor values, composite scores, order,
// margin and what decided. It writes the result to dst, reusing its memory; a
// dst that has seen as many pods before makes the call free of allocation.
//
// extra holds the custom scorers' results in the order of weights.Custom, each
// with one Result per pod; what is missing there is Unknown. The weights are
// taken as they are (see [Weights.Validate]). seed breaks ties, its upper 11
// bits are ignored.
//
// Excluded are pods with a reason from the pool, then those with a known health
// below [HealthCutoff], then those whose queue is full. If only full queues are
// left, weights.Saturation says whether the cutoff is relaxed or the request
// refused.
func Decide(dst *Decision, req *InferenceRequest, pods []PodState, extra []FactorValues, weights *Weights, seed uint64) {
	dst.reset(len(pods))
	full := 0
	w, maxQueue := weights.builtin(), float64(weights.MaxQueue)
	for i := range pods {
		r := &dst.Results[i]
		evaluate(r, req, &pods[i], weights, maxQueue)
		r.WouldScore = composite(&w, &r.Values)
		if len(weights.Custom) > 0 {
			r.WouldScore, r.WouldScoreKnown = addCustom(r.WouldScore, r.WouldScoreKnown, weights.Custom, extra, i)
		}
		switch r.Reason {
		case Eligible:
			r.Score = r.WouldScore
			dst.Eligible++
		case QueueFull:
			full++
		case NotReady, Terminating, NotInPool, NotInSubset, ModelNotServed, PrefillOnly, Unhealthy:
		}
	}
	if dst.Eligible == 0 && !dst.relax(full, weights.Saturation) {
		return
	}
	dst.rank(pods, weights, seed&MaxSeed)
	dst.conclude(pods, extra, weights)
}

func (d *Decision) reset(pods int) {
	if cap(d.Results) < pods {
		d.Results = make([]PodResult, pods)
	}
	if d.Order == nil {
		d.Order = make([]Rank, 0, OrderLength)
	}
	d.Results, d.Order = d.Results[:pods], d.Order[:0]
	d.Winner, d.RunnerUp, d.Refused, d.DecidedBy = -1, -1, Picked, ByNothing
	d.Relaxed, d.Eligible, d.Tied, d.Margin = false, 0, 0, 0
}

// evaluate fills in a pod's factor values, states and exclusion.
func evaluate(r *PodResult, req *InferenceRequest, p *PodState, w *Weights, maxQueue float64) {
	depth, known := p.QueueDepth()
	v, s := &r.Values, &r.States
	v[CacheMatch], s[CacheMatch] = cacheMatch(req, p)
	v[Load], s[Load] = loadScore(p, w.MaxUtilization)
	v[QueueDepth], s[QueueDepth] = queueScore(p, depth, known, maxQueue)
	v[Health], s[Health] = healthScore(p)
	v[AdapterMatch], s[AdapterMatch] = adapterMatch(req, p)

	const missing = 1<<Unknown | 1<<Stale
	states := 1<<s[CacheMatch] | 1<<s[Load] | 1<<s[QueueDepth] | 1<<s[Health] | 1<<s[AdapterMatch]
	r.WouldScoreKnown = states&missing == 0
	r.Score, r.Reason = 0, exclusion(p, v[Health], s[Health], depth, maxQueue)
}

// exclusion is why a pod can't win, from its health and queue depth as they were
// evaluated: an unknown health is not a bad one.
func exclusion(p *PodState, health float64, state State, depth, maxQueue float64) Reason {
	switch {
	case p.Excluded != Eligible:
		return p.Excluded
	case state.Usable() && health < HealthCutoff:
		return Unhealthy
	case depth >= maxQueue:
		return QueueFull
	}
	return Eligible
}

// reasonOf is [exclusion] for a pod that was not evaluated.
func reasonOf(p *PodState, maxQueue float64) Reason {
	health, state := healthScore(p)
	depth, _ := p.QueueDepth()
	return exclusion(p, health, state, depth, maxQueue)
}

// composite is the weighted sum of the built-in factors. Each product is
// rounded by the conversion before it is added: without it the compiler may
// fuse multiplication and addition on some platforms and give other bits.
func composite(w, v *[NumFactors]float64) float64 {
	s := float64(w[CacheMatch] * v[CacheMatch])
	s += float64(w[Load] * v[Load])
	s += float64(w[QueueDepth] * v[QueueDepth])
	s += float64(w[Health] * v[Health])
	s += float64(w[AdapterMatch] * v[AdapterMatch])
	return s
}

func addCustom(s float64, known bool, custom []CustomWeight, extra []FactorValues, pod int) (float64, bool) {
	for k := range custom {
		v := CustomResult(extra, k, pod)
		s += float64(custom[k].Weight * v.Value)
		known = known && v.State != Unknown && v.State != Stale
	}
	return s, known
}

// CustomResult is what Decide makes of custom scorer k's answer for a pod: a
// missing answer, NaN, infinity or a negative value is Unknown and counts 0, a
// value above 1 is Clamped.
func CustomResult(extra []FactorValues, k, pod int) Result {
	if k >= len(extra) || pod >= len(extra[k].Values) {
		return Result{State: Unknown, Detail: "no answer"}
	}
	r := extra[k].Values[pod]
	switch {
	case r.State == Unknown || r.State == Stale:
		r.Value = 0
	case r.State > NotApplicable: // no state at all
		r.Value, r.State = 0, Unknown
	case !(r.Value >= 0 && r.Value <= math.MaxFloat64):
		r.Value, r.State = 0, Unknown
	case r.Value > 1:
		r.Value, r.State = 1, Clamped
	}
	return r
}

// relax handles a decision without an eligible pod. It reports whether ranking
// goes on: when only full queues kept pods out and the cutoff may be relaxed.
func (d *Decision) relax(full int, s Saturation) bool {
	if full == 0 {
		d.Refused = NoEndpoint
		return false
	}
	if s == Reject {
		d.Refused = Saturated
		return false
	}
	d.Relaxed, d.Eligible = true, full
	for i := range d.Results {
		if r := &d.Results[i]; r.Reason == QueueFull {
			r.Reason, r.Score = Eligible, r.WouldScore
		}
	}
	return true
}

// conclude derives margin and deciding factor from the order.
func (d *Decision) conclude(pods []PodState, extra []FactorValues, w *Weights) {
	d.Winner = d.Order[0].Pod
	if len(d.Order) == 1 {
		d.DecidedBy = ByOnlyCandidate
		return
	}
	second := d.Order[1]
	d.RunnerUp = second.Pod
	d.Margin = d.Results[d.Winner].Score - d.Results[d.RunnerUp].Score
	if d.DecidedBy = second.Tie; d.DecidedBy == ByNothing {
		d.DecidedBy = d.largestDifference(extra, w)
	}
}

// Contribution is what factor f added to pod i's score, in score points.
func (d *Decision) Contribution(f, i int, extra []FactorValues, w *Weights) float64 {
	if f < NumFactors {
		return float64(w.Weight(f) * d.Results[i].Values[f])
	}
	return float64(w.Custom[f-NumFactors].Weight * CustomResult(extra, f-NumFactors, i).Value)
}

func (d *Decision) largestDifference(extra []FactorValues, w *Weights) DecidedBy {
	best, by := math.Inf(-1), ByNothing
	for f := range w.Factors() {
		diff := d.Contribution(f, d.Winner, extra, w) - d.Contribution(f, d.RunnerUp, extra, w)
		if diff > best {
			best, by = diff, DecidedBy(f)
		}
	}
	return by
}
