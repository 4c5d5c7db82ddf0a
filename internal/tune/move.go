package tune

import (
	"fmt"
	"math"
	"strconv"

	"github.com/eppctl/eppctl/score"
)

// KeyReportInterval is the key of the time between two reports of a pod, in ms.
const KeyReportInterval = "podReportIntervalMs"

// A weight is moved by at most MaxStep at a time, and none is taken down to nothing.
const (
	MaxStep   = 0.10
	smallStep = 0.05
	leastLeft = 0.05
)

// The range of maxQueue for any workload, and of the report interval where picks are
// made on caches that are gone.
const (
	leastMaxQueue, mostMaxQueue       = 8, 40
	shortestInterval, shorterInterval = 500, 1000 // ms
)

// A Move is one change: of a weight that is taken from another, of maxQueue, or of the
// report interval.
type Move struct {
	Key       string  `json:"key"`
	From      float64 `json:"from"`
	To        float64 `json:"to"`
	TakenFrom *Donor  `json:"takenFrom,omitempty"`

	lever string // of the finding that it is for: several moves may be of one
}

// Donor is the weight that another is taken from.
type Donor struct {
	Key  string  `json:"key"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Text is the move in words.
func (m *Move) Text() string {
	text := fmt.Sprintf("%s %s to %s", m.Key, short(m.From), short(m.To))
	if d := m.TakenFrom; d != nil {
		text += fmt.Sprintf(", taken from %s (%s to %s)", d.Key, short(d.From), short(d.To))
	}
	return text
}

// short is a number with no more decimals than it has.
func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Apply makes the move, which must be of these weights.
func (m *Move) Apply(w *score.Weights) *score.Weights {
	out := w.Clone()
	switch {
	case m.Key == KeyReportInterval:
	case m.Key == KeyMaxQueue:
		out.MaxQueue = int(m.To)
	default:
		_ = out.Set(m.Key, m.To) // both are keys that the weights have
		_ = out.Set(m.TakenFrom.Key, m.TakenFrom.To)
	}
	return out
}

// shift takes a step from one weight for another; nil when there is not so much. The
// giver gets what is missing from 1, so that the sum is exactly that, in decimals.
func shift(w *score.Weights, to, from string, step float64) *Move {
	was, gives := weightOf(w, to), weightOf(w, from)
	m := &Move{Key: to, From: was, To: decimals(was + step), TakenFrom: &Donor{Key: from, From: gives}}
	rest := 0.0
	for f := range w.Factors() {
		rest += w.Weight(f)
	}
	m.TakenFrom.To = decimals(1 - (rest - gives - was) - m.To)
	if to == from || m.To > 1 || m.TakenFrom.To < leastLeft || m.From-m.To < -MaxStep-score.SumTolerance {
		return nil
	}
	return m
}

// decimals cuts off what adding in binary leaves.
func decimals(v float64) float64 { return math.Round(v*1e12)/1e12 + 0 } // and no -0

// weightOf is a built-in weight by its key.
func weightOf(w *score.Weights, key string) float64 {
	for f, k := range score.WeightKeys() {
		if k == key {
			return w.Weight(f)
		}
	}
	return 0
}

// movesFor are the changes that a lever stands for, smaller ones first. givers are the
// weights to take from.
func movesFor(w *score.Weights, lever string, givers []string) []*Move {
	var out []*Move
	for _, from := range givers {
		for _, step := range []float64{smallStep, MaxStep} {
			if m := shift(w, lever, from, step); m != nil {
				out = append(out, m)
			}
		}
	}
	return out
}

// queueMoves are smaller values of maxQueue, or larger ones, within the range.
func queueMoves(w *score.Weights, larger bool) []*Move {
	was := float64(w.MaxQueue)
	to := []float64{math.Round(was * 0.7), math.Round(was / 2)}
	if larger {
		to = []float64{math.Round(was * 1.5), was * 2}
	}
	var out []*Move
	seen := map[float64]bool{was: true}
	for _, v := range to {
		if v = min(max(v, leastMaxQueue), mostMaxQueue); (v > was) == larger && !seen[v] {
			seen[v] = true
			out = append(out, &Move{Key: KeyMaxQueue, From: was, To: v})
		}
	}
	return out
}

// intervalMoves are shorter intervals than ms.
func intervalMoves(ms float64) []*Move {
	var out []*Move
	for _, v := range []float64{shorterInterval, shortestInterval} {
		if v < ms {
			out = append(out, &Move{Key: KeyReportInterval, From: ms, To: v})
		}
	}
	return out
}
