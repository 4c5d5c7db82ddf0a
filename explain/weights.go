package explain

import (
	"math"

	"github.com/eppctl/eppctl/score"
)

// Analysis is what follows from the weights alone, whatever the pods are like.
type Analysis struct {
	// Gradient is how the score moves with each raw input, within its range.
	Gradient []Slope `json:"gradient"`
	// Sensitivity is the largest change of the score that each factor can make.
	Sensitivity []Swing   `json:"sensitivity"`
	Dominance   Dominance `json:"dominance"`
	// Equivalents are what 0.10 of cache match is worth in the other inputs.
	Equivalents []Equivalent `json:"equivalents"`
}

// Slope is the derivative of the score by one raw input.
type Slope struct {
	Factor  string  `json:"factor"`
	PerUnit float64 `json:"perUnit"`
	Unit    string  `json:"unit"`
}

// Swing is the score's change from a factor's worst to its best value.
type Swing struct {
	Factor   string  `json:"factor"`
	Full     float64 `json:"full"`
	Eligible float64 `json:"eligible"` // between pods that both could win
}

// Dominance is the advantage in cache match above which the better cached of
// two eligible pods always wins. The bounds are null without a cache weight.
type Dominance struct {
	Bound      *float64 `json:"bound"`
	WithCutoff *float64 `json:"withCutoff"`
	Never      bool     `json:"never"` // no advantage is enough
}

// Equivalent is a change of one input that moves the score as much as
// [equivalentTo] of cache match. Change is null when none does.
type Equivalent struct {
	Factor   string   `json:"factor"`
	Change   *float64 `json:"change"`
	Unit     string   `json:"unit"`
	Possible bool     `json:"possible"`
}

// equivalentTo is the cache advantage that equivalents are given for: ten
// percentage points, as in the seed document's table.
const equivalentTo = 0.10

// Analyse says what follows from weights.
func Analyse(w *score.Weights) *Analysis {
	a := &Analysis{}
	units := map[string]string{}
	for _, s := range score.Gradient(w) {
		a.Gradient = append(a.Gradient, Slope(s))
		units[s.Factor] = s.Unit
	}
	for _, s := range score.Sensitivity(w) {
		a.Sensitivity = append(a.Sensitivity, Swing(s))
	}
	d := score.CacheDominance(w)
	a.Dominance = Dominance{Bound: finite(&d.Bound), WithCutoff: finite(&d.WithCutoff), Never: d.Never}
	for _, e := range score.Equivalents(w, equivalentTo) {
		row := Equivalent{Factor: e.Factor, Unit: units[e.Factor], Possible: e.Possible}
		if !math.IsInf(e.Change, 0) {
			row.Change = finite(&e.Change)
		}
		a.Equivalents = append(a.Equivalents, row)
	}
	return a
}
