package llmdlog

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// row is what one pod's total says of the weights: Σ weight × value = total.
type row struct {
	values []float64
	total  float64
}

// rows are a run's equations: scores as they are summed, cut to 0…1.
func (r *run) rows() []row {
	var out []row
	for _, p := range r.pods {
		if p.excluded != "" || math.IsNaN(p.total) {
			continue
		}
		one := row{values: make([]float64, len(r.scorers)), total: p.total}
		for i, v := range p.scores {
			if v > 0 { // and not NaN
				one.values[i] = min(v, 1)
			}
		}
		out = append(out, one)
	}
	return out
}

// reproduces reports whether the weights give the totals bit by bit, as they are
// computed: product by product, in the order of the scorers.
func reproduces(weights []float64, rows []row) bool {
	for _, r := range rows {
		sum := 0.0
		for i, w := range weights {
			sum += float64(w * r.values[i])
		}
		if sum != r.total {
			return false
		}
	}
	return true
}

// closest solves the rows by least squares: of all weights that fit them best, those
// closest to the prior. Open are the scorers whose weight the rows don't determine.
//
// It takes one independent row after the other, the clearest first (Gram-Schmidt
// with pivoting), which is exact for totals that are what they claim to be.
func closest(prior []float64, rows []row) (weights []float64, open []int) {
	const tiny = 1e-6
	left := make([]row, len(rows))
	for i, r := range rows {
		left[i] = row{slices.Clone(r.values), r.total - dot(prior, r.values)}
	}
	weights = slices.Clone(prior)
	covered := make([]float64, len(prior)) // how much of each weight is determined
	for range prior {
		if len(left) == 0 {
			break
		}
		pivot := slices.MaxFunc(left, func(a, b row) int { return cmp.Compare(dot(a.values, a.values), dot(b.values, b.values)) })
		norm := math.Sqrt(dot(pivot.values, pivot.values))
		if !(norm > tiny) {
			break
		}
		unit := make([]float64, len(prior))
		for k, v := range pivot.values {
			unit[k] = v / norm
			covered[k] += unit[k] * unit[k]
		}
		along := pivot.total / norm
		for k := range weights {
			weights[k] += along * unit[k]
		}
		for i := range left {
			d := dot(left[i].values, unit)
			left[i].total -= d * along
			for k := range unit {
				left[i].values[k] -= d * unit[k]
			}
		}
	}
	for k, c := range covered {
		if c < 1-tiny {
			open = append(open, k)
		}
	}
	return weights, open
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// shortest rounds the weights to as few decimals as still give all totals: they were
// written by people. It reports false when no rounding does.
func shortest(weights []float64, rows []row) ([]float64, bool) {
	const most = 15
	for decimals := range most + 1 {
		rounded := make([]float64, len(weights))
		for i, w := range weights {
			rounded[i], _ = strconv.ParseFloat(strconv.FormatFloat(w, 'f', decimals, 64), 64)
		}
		if reproduces(rounded, rows) {
			return rounded, true
		}
	}
	return weights, reproduces(weights, rows)
}
