package explain

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/eppctl/eppctl/score"
)

// flips computes what would have made other pods win. It says nothing of a
// record that does not replay, whose inputs are not those of the decision, nor
// of a pick that another policy made.
func (r *replayed) flips(order []int, opt Options) []PodChanges {
	out := []PodChanges{}
	if !r.check.Identical || !byScores(r.rec.Policy) || opt.Flips < 0 {
		return out
	}
	n := max(opt.Flips, 1)
	for _, i := range order[min(1, len(order)):min(1+n, len(order))] {
		if r.rec.Origin != nil && r.rec.Candidates[i].Score == r.rec.Result.Score {
			continue // it was drawn, nothing of its inputs decided
		}
		out = append(out, r.podChanges(i))
	}
	for _, i := range r.kept(n) {
		out = append(out, r.podChanges(i))
	}
	return out
}

// kept lists up to n pods that their own health or queue kept from winning,
// the best first.
func (r *replayed) kept(n int) []int {
	best := 0.0
	if r.d.Winner >= 0 {
		best = r.d.Results[r.d.Winner].Score
	}
	var pods []int
	for i := range r.d.Results {
		result := &r.d.Results[i]
		own := result.Reason == score.Unhealthy || result.Reason == score.QueueFull
		if own && result.WouldScoreKnown && (r.d.Winner < 0 || result.WouldScore > best) {
			pods = append(pods, i)
		}
	}
	slices.SortStableFunc(pods, func(a, b int) int {
		return cmp.Compare(r.d.Results[b].WouldScore, r.d.Results[a].WouldScore)
	})
	return pods[:min(n, len(pods))]
}

func (r *replayed) podChanges(i int) PodChanges {
	out := PodChanges{Pod: r.rec.Candidates[i].Pod}
	for _, flip := range r.in.Flips(i) {
		if flip.Factor < r.firstFactor() {
			continue
		}
		c := Change{
			Factor: r.in.Weights.FactorName(flip.Factor), Possible: flip.Possible, FromState: flip.FromState.String(),
			Unit: unitOf(flip.Factor), Why: flip.Why, best: r.best(flip.Factor),
		}
		if flip.FromState.Usable() {
			c.From = finite(&flip.From)
		}
		if flip.Possible {
			c.To = finite(&flip.To)
		}
		out.Changes = append(out.Changes, c)
	}
	return out
}

// best is the value of a factor's input that nothing can better.
func (r *replayed) best(f int) float64 {
	switch f {
	case score.CacheMatch:
		return float64(r.rec.Request.Blocks)
	case score.Load, score.QueueDepth:
		return 0
	}
	return 1
}

func unitOf(f int) string {
	switch f {
	case score.CacheMatch:
		return "blocks"
	case score.Load:
		return "utilization"
	case score.QueueDepth:
		return "requests"
	case score.Health:
		return "health score"
	case score.AdapterMatch:
		return "adapter loaded"
	}
	return "value"
}

// roundTowards is v with the given number of decimals, rounded towards best, so
// that it flips whenever v does. The result is the float64 that its decimal
// notation reads as.
func roundTowards(v, best float64, decimals int) float64 {
	const exact = 1 << 52 // beyond it floats have no decimals
	scale := math.Pow10(decimals)
	k := math.Round(v * scale)
	if !(math.Abs(k) < exact) {
		return v
	}
	if best >= v {
		for k/scale < v {
			k++
		}
		for (k-1)/scale >= v {
			k--
		}
		return min(k/scale, max(best, v))
	}
	for k/scale > v {
		k--
	}
	for (k+1)/scale <= v {
		k++
	}
	return max(k/scale, min(best, v))
}

// printed is the text of From and To: as few decimals as tell the two apart,
// To rounded towards flipping.
func (c *Change) printed() (from, to string) {
	decimals := 2
	if c.Unit == "blocks" || c.Unit == "requests" || c.Unit == "adapter loaded" {
		decimals = 0
	}
	if c.Unit == "blocks" && c.From != nil && *c.From != math.Trunc(*c.From) { // some count less than others
		return number(*c.From), number(*c.To)
	}
	for ; decimals <= 15; decimals++ {
		to = decimal(roundTowards(*c.To, c.best, decimals), decimals)
		if c.From == nil {
			return "", to
		}
		if from = decimal(*c.From, decimals); from != to || *c.From == *c.To {
			return from, to
		}
	}
	return decimal(*c.From, -1), decimal(*c.To, -1)
}

// decimal is v with a number of decimals; what is too large for a line gets an
// exponent.
func decimal(v float64, decimals int) string {
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
