package score

import (
	"math"
	"slices"
)

// Inputs bundles all that a decision depends on, so that it can be taken again
// with one thing changed.
type Inputs struct {
	Request *InferenceRequest
	Pods    []PodState
	Extra   []FactorValues
	Weights *Weights
	Seed    uint64
}

// Decide takes the decision, see [Decide].
func (in *Inputs) Decide(dst *Decision) {
	Decide(dst, in.Request, in.Pods, in.Extra, in.Weights, in.Seed)
}

// Flip is the smallest change of one input of a pod that makes that pod win,
// everything else being as it was.
type Flip struct {
	Factor int // index, see [Weights.FactorName]
	// Possible: some value of this input alone makes the pod win.
	Possible bool
	// From is the input's value and To the nearest one that wins, in raw units:
	// blocks held, utilization, queue depth (waiting + pending), health score, 1
	// for a loaded adapter, a custom factor's value. From means nothing when the
	// input was not usable (FromState).
	From, To  float64
	FromState State
	// Why says in a few words why no value wins.
	Why string
}

// Flips finds for each factor what would have made pod i win. The search is
// exact: To itself wins and the next value towards From does not. Nothing is
// possible for a pod that the pool excluded, and for the winner To is From.
func (in *Inputs) Flips(i int) []Flip {
	flips := make([]Flip, 0, in.Weights.Factors())
	probe := prober{in: in, pod: i}
	for f := range in.Weights.Factors() {
		flips = append(flips, probe.flip(f))
	}
	return flips
}

// Change returns inputs that differ in one raw value of pod i: it is set to v
// and known. The receiver is not changed. For QueueDepth v is the whole depth.
func (in *Inputs) Change(i, factor int, v float64) *Inputs {
	c := *in
	c.Pods = slices.Clone(in.Pods)
	p := &c.Pods[i]
	switch factor {
	case CacheMatch:
		p.Cache.Value, p.Cache.State, p.CacheTiers = v, Known, nil
	case Load:
		p.Utilization.Value, p.Utilization.State = v, Known
	case QueueDepth:
		p.Waiting.Value, p.Waiting.State, p.Pending, p.PeerPending = v, Known, 0, 0
	case Health:
		p.Health.Value, p.Health.State = v, Known
	case AdapterMatch:
		p.AdapterState, p.Adapters = Known, nil
		if v >= 1 && in.Request.Adapter != "" {
			p.Adapters = []string{in.Request.Adapter}
		}
	default:
		c.Extra = changeExtra(in, i, factor-NumFactors, v)
	}
	return &c
}

func changeExtra(in *Inputs, pod, k int, v float64) []FactorValues {
	extra := make([]FactorValues, len(in.Weights.Custom))
	copy(extra, in.Extra)
	values := make([]Result, len(in.Pods))
	for i := range values {
		values[i] = CustomResult(in.Extra, k, i)
	}
	values[pod] = Result{Value: v, State: Known}
	extra[k] = FactorValues{Name: in.Weights.Custom[k].Name, Values: values}
	return extra
}

// prober asks the engine whether a pod would win with one value changed.
type prober struct {
	in       *Inputs
	pod      int
	decision Decision
}

func (p *prober) wins(factor int, v float64) bool {
	p.in.Change(p.pod, factor, v).Decide(&p.decision)
	return p.decision.Winner == p.pod
}

// flip searches one factor. Each factor's effect is monotonic (a better input
// never lowers the pod's place), so a bisection between the present and the
// best value finds the exact turning point.
func (p *prober) flip(f int) Flip {
	from, best, state := p.span(f)
	out := Flip{Factor: f, From: from, FromState: state}
	switch {
	case p.in.Pods[p.pod].Excluded != Eligible:
		out.Why = "the pod was excluded: " + p.in.Pods[p.pod].Excluded.String()
		return out
	case state == NotApplicable:
		out.Why = "not applicable to this request"
		return out
	case !p.wins(f, best):
		out.Why = "not even the best value wins"
		return out
	}
	worst := from
	if !state.Usable() {
		worst = p.worst(f)
	}
	out.Possible = true
	switch f {
	case CacheMatch, QueueDepth, AdapterMatch:
		out.To = p.searchWhole(f, worst, best)
	default:
		out.To = p.search(f, worst, best)
	}
	return out
}

// span gives a factor's present raw value, the best one, and the present state.
func (p *prober) span(f int) (from, best float64, state State) {
	pod, req := &p.in.Pods[p.pod], p.in.Request
	switch f {
	case CacheMatch:
		_, state = cacheMatch(req, pod)
		return pod.Cache.Value, float64(req.Blocks), state
	case Load:
		_, state = loadScore(pod, p.in.Weights.MaxUtilization)
		return math.Abs(pod.Utilization.Value), 0, state // −0 becomes 0
	case QueueDepth:
		from, known := pod.QueueDepth()
		_, state = queueScore(pod, from, known, float64(p.in.Weights.MaxQueue))
		return from, 0, state
	case Health:
		_, state = healthScore(pod)
		return math.Abs(pod.Health.Value), 1, state
	case AdapterMatch:
		from, state = adapterMatch(req, pod)
		return from, 1, state
	}
	r := CustomResult(p.in.Extra, f-NumFactors, p.pod)
	return math.Abs(r.Value), 1, r.State
}

// worst is the value from which a search starts when the present one is missing.
func (p *prober) worst(f int) float64 {
	switch f {
	case Load:
		return p.in.Weights.MaxUtilization
	case QueueDepth:
		return float64(p.in.Weights.MaxQueue)
	}
	return 0
}

// searchWhole bisects whole numbers; from may be a fraction, which only the
// engine's own report can make it.
func (p *prober) searchWhole(f int, from, best float64) float64 {
	if p.wins(f, from) {
		return from
	}
	won, lost := best, math.Trunc(from)
	if p.wins(f, lost) {
		return lost
	}
	for math.Abs(won-lost) > 1 {
		mid := math.Trunc(won + (lost-won)/2)
		if mid == won || mid == lost { // beyond 2^53 there is nothing in between
			break
		}
		if p.wins(f, mid) {
			won = mid
		} else {
			lost = mid
		}
	}
	return won
}

// search bisects the float64 values between two non-negative numbers, whose
// order is the order of their bits.
func (p *prober) search(f int, from, best float64) float64 {
	if p.wins(f, from) {
		return from
	}
	won, lost := math.Float64bits(best), math.Float64bits(from)
	for won+1 < lost || lost+1 < won {
		mid := won/2 + lost/2 + won&lost&1
		if p.wins(f, math.Float64frombits(mid)) {
			won = mid
		} else {
			lost = mid
		}
	}
	return math.Float64frombits(won)
}
