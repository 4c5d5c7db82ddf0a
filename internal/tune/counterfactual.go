package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/eppctl/eppctl/score"
)

// Counterfactual is what a move would have done to recorded picks. It is exact for each
// pick alone, as 'eppctl explain --set' is; that other picks would have filled other
// queues and caches is not in it.
type Counterfactual struct {
	Move      string `json:"move"`
	Decisions int    `json:"decisions"` // that were taken again
	Of        int    `json:"of"`        // decisions there are; more than Decisions: evenly spread ones stand for them
	Changed   int    `json:"changed"`
	// Of the changed picks, how many go to a pod with more or less of it than the one
	// before. What is not known of either pod counts nowhere.
	Cached  Direction `json:"cachedTokens"`
	Queue   Direction `json:"queueDepth"`
	Load    Direction `json:"load"`
	Health  Direction `json:"health"`
	Adapter Direction `json:"adapterLoads"`
	// MarginBefore and MarginAfter are how far picks were ahead of the runner-up.
	MarginBefore Spread `json:"marginBefore"`
	MarginAfter  Spread `json:"marginAfter"`
}

// Direction is which way changed picks go.
type Direction struct {
	More int `json:"more"`
	Less int `json:"less"`
	// Net is the sum of all changes: tokens, requests, and so on.
	Net float64 `json:"net"`
}

// Spread is the distribution of a value; null without one.
type Spread struct {
	P10 *float64 `json:"p10"`
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
}

// whatIf takes the decisions again under the weights, and with the move made.
func (s *sampled) whatIf(w *score.Weights, m *Move) *Counterfactual {
	out := &Counterfactual{Move: m.Text(), Of: s.seen}
	after := m.Apply(w)
	var d, e score.Decision
	var before, now []float64
	for i := range s.list {
		in := s.list[i].in
		if !sameCustom(in.Weights, w) {
			continue
		}
		out.Decisions++
		score.Decide(&d, in.Request, in.Pods, in.Extra, w, in.Seed)
		score.Decide(&e, in.Request, in.Pods, in.Extra, after, in.Seed)
		before, now = addMargin(before, &d), addMargin(now, &e)
		if d.Winner != e.Winner {
			out.Changed++
			out.change(&s.list[i], &d, &e)
		}
	}
	out.MarginBefore, out.MarginAfter = spreadOf(before), spreadOf(now)
	return out
}

// change compares the pods of two picks, of which one may be a refusal.
func (c *Counterfactual) change(t *taken, d, e *score.Decision) {
	if d.Winner < 0 || e.Winner < 0 {
		return
	}
	a, b := &t.in.Pods[d.Winner], &t.in.Pods[e.Winner]
	block := float64(t.blockSize)
	c.Cached.add(scaled(valueOf(a.Cache), block), scaled(valueOf(b.Cache), block))
	c.Queue.add(depthOf(a), depthOf(b))
	c.Load.add(valueOf(a.Utilization), valueOf(b.Utilization))
	c.Health.add(valueOf(a.Health), valueOf(b.Health))
	c.Adapter.add(count01(loadsAdapter(t.in, d, d.Winner)), count01(loadsAdapter(t.in, e, e.Winner)))
}

func scaled(v, by float64) float64 {
	if v < 0 {
		return v
	}
	return v * by
}

func count01(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// add counts a change; negative values are not known.
func (d *Direction) add(before, after float64) {
	if before < 0 || after < 0 {
		return
	}
	switch {
	case after > before:
		d.More++
	case after < before:
		d.Less++
	}
	d.Net = decimals(d.Net + after - before)
}

// sameCustom reports whether the custom factors are those of the weights.
func sameCustom(a, b *score.Weights) bool {
	return slices.EqualFunc(a.Custom, b.Custom, func(x, y score.CustomWeight) bool { return x.Name == y.Name })
}

func addMargin(to []float64, d *score.Decision) []float64 {
	if d.RunnerUp < 0 {
		return to
	}
	return append(to, d.Margin)
}

// spreadOf sorts the values.
func spreadOf(values []float64) (s Spread) {
	if len(values) == 0 {
		return s
	}
	slices.SortFunc(values, cmp.Compare[float64])
	at := func(q float64) *float64 { return new(values[nearestRank(q, len(values))]) }
	return Spread{at(.1), at(.5), at(.9)}
}

func nearestRank(q float64, n int) int { return min(n-1, max(0, int(math.Ceil(q*float64(n)))-1)) }
