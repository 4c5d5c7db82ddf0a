package score

import "math"

// Slope is how a factor's raw input moves the score.
type Slope struct {
	Factor string
	// PerUnit is ∂S/∂input within the range, in score points: per 1.0 of match
	// ratio, of load ratio, of health; per request of queue depth; for an adapter
	// that becomes loaded.
	PerUnit float64
	// Unit names the unit of the input.
	Unit string
}

// Gradient is the derivative of the score by each built-in input. The queue's
// holds while the depth is below maxQueue, beyond it is 0.
func Gradient(w *Weights) [NumFactors]Slope {
	// 0 - 0 is 0, and not -0.
	return [NumFactors]Slope{
		{factorNames[CacheMatch], w.Cache, "match ratio"},
		{factorNames[Load], 0 - w.Load, "load ratio"},
		{factorNames[QueueDepth], (0 - w.Queue) / float64(w.MaxQueue), "request"},
		{factorNames[Health], w.Health, "health score"},
		{factorNames[AdapterMatch], w.Adapter, "adapter loaded"},
	}
}

// Swing is the largest change of the score that one factor can make.
type Swing struct {
	Factor string
	// Full is from the worst to the best value; Eligible the same between pods
	// that both take part (health ≥ 0.3, queue below maxQueue).
	Full, Eligible float64
}

// Sensitivity is the swing of every factor, custom ones included.
func Sensitivity(w *Weights) []Swing {
	swings := make([]Swing, 0, w.Factors())
	for f := range w.Factors() {
		s := Swing{w.FactorName(f), w.Weight(f), w.Weight(f)}
		switch f {
		case Health:
			s.Eligible = w.Health * (1 - HealthCutoff)
		case QueueDepth:
			s.Eligible = w.Queue * float64(w.MaxQueue-1) / float64(w.MaxQueue)
		}
		swings = append(swings, s)
	}
	return swings
}

// Dominance says when a cache advantage wins whatever else is the case.
type Dominance struct {
	// Bound is the difference in cache match ratio above which the better cached
	// of two healthy pods always wins, with the queues' full swing.
	Bound float64
	// WithCutoff is the exact bound for eligible pods: the deepest queue that
	// takes part is maxQueue − 1.
	WithCutoff float64
	// Never: no advantage is enough, WithCutoff is not below 1.
	Never bool
}

// CacheDominance computes the bound: the swings of all other factors over the
// weight of the cache. With the default weights it is 0.385/0.60 = 0.6416…, and
// 0.6333… with the queue cutoff. Without a cache weight both are +Inf.
func CacheDominance(w *Weights) Dominance {
	others := w.Load + w.Health*(1-HealthCutoff) + w.Adapter
	for _, c := range w.Custom {
		others += c.Weight
	}
	d := Dominance{Bound: math.Inf(1), WithCutoff: math.Inf(1), Never: true}
	if w.Cache > 0 {
		d.Bound = (others + w.Queue) / w.Cache
		d.WithCutoff = (others + w.Queue*float64(w.MaxQueue-1)/float64(w.MaxQueue)) / w.Cache
		d.Never = d.WithCutoff >= 1
	}
	return d
}

// Equivalent is the change of one input that moves the score as much as a given
// change of the cache match.
type Equivalent struct {
	Factor string
	// Change is in the unit of the input, see [Gradient]; infinite when the
	// factor has no weight.
	Change float64
	// Possible: the input's range between eligible pods holds a change as large.
	Possible bool
}

// Equivalents says what a cache advantage of delta (a ratio, 0.10 is ten
// percentage points) is worth in the other built-in inputs.
func Equivalents(w *Weights, delta float64) []Equivalent {
	ranges := [NumFactors]float64{1, 1, float64(w.MaxQueue - 1), 1 - HealthCutoff, 1}
	var rows []Equivalent
	for f, slope := range Gradient(w) {
		if f == CacheMatch {
			continue
		}
		change := w.Cache * delta / slope.PerUnit
		rows = append(rows, Equivalent{slope.Factor, change, math.Abs(change) <= ranges[f]})
	}
	return rows
}
