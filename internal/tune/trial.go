package tune

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// ClosedLoop is what a simulated fleet did with the recorded arrivals.
type ClosedLoop struct {
	Profile  string  `json:"profile"`
	Pods     int     `json:"pods"`
	Seed     uint64  `json:"seed"`
	Requests int     `json:"requests"` // that were simulated and count
	Of       int     `json:"of"`       // recorded arrivals
	Before   Outcome `json:"before"`   // with the weights as they are
	Trials   []Trial `json:"trials"`   // one a move
	Folds    []Fold  `json:"folds"`
	// HeldOut is the mean change of the folds: what is left of the gain on arrivals
	// that the move was not chosen on.
	HeldOut float64 `json:"heldOutChange"`
}

// Outcome is what a fleet did. Times are seconds, of requests that were completed.
type Outcome struct {
	CacheHitRatio float64 `json:"cacheHitRatio"` // by tokens
	TTFTMean      float64 `json:"ttftMeanSeconds"`
	TTFTP50       float64 `json:"ttftP50Seconds"`
	TTFTP90       float64 `json:"ttftP90Seconds"`
	TTFTP99       float64 `json:"ttftP99Seconds"`
	E2EMean       float64 `json:"e2eMeanSeconds"`
	QueueMax      int     `json:"queueMax"`
	AdapterLoads  int     `json:"adapterLoads"`
	Lost          int     `json:"lost"` // not completed
}

// Trial is a move in the closed loop. Change is that of the mean time to first token,
// relative to the weights as they are, and Low and High are where the middle 95 % of
// bootstrap draws lie.
type Trial struct {
	Move   *Move   `json:"move"`
	After  Outcome `json:"after"`
	Change float64 `json:"change"`
	Low    float64 `json:"changeLow"`
	High   float64 `json:"changeHigh"`
	// Against says why the move is out of question whatever it gains; "" when it is not.
	Against string `json:"against,omitempty"`
}

// Fold is a stretch of time. Chosen is the move that was best on all other folds, ""
// for none; Change is what it did in this one.
type Fold struct {
	Requests int     `json:"requests"`
	Chosen   string  `json:"chosen"`
	Change   float64 `json:"change"`

	lever string // of the move
}

// What a move may cost, and must gain.
const (
	worseE2E    = 0.02 // relative, mean
	worseTail   = 0.10 // relative, time to first token at p99
	leastGain   = 0.03 // relative, mean time to first token on folds that it was not chosen on
	leastAgreed = 3    // folds that improve, and for which the same lever is best
)

func (s *series) outcome() Outcome {
	out := Outcome{QueueMax: s.queue, AdapterLoads: s.adapters}
	var ttft []float64
	input, cached, sum, e2e := 0, 0, 0.0, 0.0
	for i := range s.list {
		o := &s.list[i]
		if o.lost {
			out.Lost++
			continue
		}
		input, cached = input+o.input, cached+o.cached
		ttft, sum, e2e = append(ttft, o.ttft), sum+o.ttft, e2e+o.e2e
	}
	if n := len(ttft); n > 0 {
		slices.SortFunc(ttft, cmp.Compare[float64])
		out.CacheHitRatio = ratio(cached, input)
		out.TTFTMean, out.E2EMean = sum/float64(n), e2e/float64(n)
		out.TTFTP50, out.TTFTP90, out.TTFTP99 = ttft[nearestRank(.5, n)], ttft[nearestRank(.9, n)], ttft[nearestRank(.99, n)]
	}
	return out
}

// trial compares a series with the one before the move.
func trial(m *Move, before, after *series, seed uint64) Trial {
	a, b := before.outcome(), after.outcome()
	t := Trial{Move: m, After: b, Change: relative(a.TTFTMean, b.TTFTMean)}
	t.Low, t.High = bootstrap(before, after, seed)
	switch {
	case b.Lost > a.Lost:
		t.Against = fmt.Sprintf("%d more requests were lost", b.Lost-a.Lost)
	case relative(a.E2EMean, b.E2EMean) > worseE2E:
		t.Against = "whole answers took longer"
	case relative(a.TTFTP99, b.TTFTP99) > worseTail:
		t.Against = "the slowest requests waited longer"
	}
	return t
}

func relative(before, after float64) float64 {
	if before <= 0 {
		return 0
	}
	return after/before - 1
}

const (
	draws   = 400
	windows = 60 // of requests that follow each other
)

// bootstrap draws windows of requests, the same of both series, and tells where the
// middle 95 % of the relative changes lie.
func bootstrap(before, after *series, seed uint64) (low, high float64) {
	var a, b [windows]float64
	for i := range before.list {
		x, y := &before.list[i], &after.list[i]
		if !x.lost && !y.lost {
			w := i * windows / len(before.list)
			a[w] += x.ttft
			b[w] += y.ttft
		}
	}
	rng := rand.New(rand.NewPCG(seed, 5))
	changes := make([]float64, draws)
	for k := range changes {
		x, y := 0.0, 0.0
		for range windows {
			w := rng.IntN(windows)
			x, y = x+a[w], y+b[w]
		}
		changes[k] = relative(x, y)
	}
	slices.SortFunc(changes, cmp.Compare[float64])
	return changes[nearestRank(.025, draws)], changes[nearestRank(.975, draws)]
}

// meanTTFT is over the requests of some folds.
func (s *series) meanTTFT(want func(fold int) bool) float64 {
	sum, n := 0.0, 0
	for i := range s.list {
		if o := &s.list[i]; !o.lost && want(o.fold) {
			sum, n = sum+o.ttft, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// validate chooses on all folds but one and looks at that one.
func (c *ClosedLoop) validate(all []series) {
	for k := range folds {
		others := func(f int) bool { return f != k }
		this := func(f int) bool { return f == k }
		fold := Fold{}
		for i := range all[0].list {
			if all[0].list[i].fold == k {
				fold.Requests++
			}
		}
		best, gain := -1, 0.0
		for i := range c.Trials {
			change := relative(all[0].meanTTFT(others), all[i+1].meanTTFT(others))
			if c.Trials[i].Against == "" && change < gain {
				best, gain = i, change
			}
		}
		if best >= 0 {
			m := c.Trials[best].Move
			fold.Chosen, fold.lever = m.Text(), m.lever
			fold.Change = relative(all[0].meanTTFT(this), all[best+1].meanTTFT(this))
		}
		c.Folds = append(c.Folds, fold)
		c.HeldOut += fold.Change / folds
	}
}

// choose is the move that is worth it; nil and why when none is.
func (c *ClosedLoop) choose() (*Trial, string) {
	var best *Trial
	for i := range c.Trials {
		if t := &c.Trials[i]; t.Against == "" && t.Change < 0 && (best == nil || t.Change < best.Change) {
			best = t
		}
	}
	if best == nil {
		return nil, "no move made the simulated fleet answer sooner"
	}
	improved, agreed := 0, 0
	for _, f := range c.Folds {
		if f.Change < 0 {
			improved++
		}
		if f.lever == best.Move.lever {
			agreed++
		}
	}
	switch {
	case best.High >= 0:
		return nil, fmt.Sprintf("what %s gained is within what chance does", best.Move.Key)
	case improved < leastAgreed || -c.HeldOut < leastGain:
		return nil, fmt.Sprintf("the gain of %s did not hold on arrivals that it was not chosen on", best.Move.Key)
	case agreed < leastAgreed:
		return nil, "different stretches of time asked for different levers"
	}
	return best, ""
}
