package metricview

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// histogramQuantile is PromQL's histogram_quantile over classic buckets, written
// from its documentation: φ-quantiles by linear interpolation within a bucket; the
// first bucket begins at 0 when its bound is positive, else its bound is the
// answer; a quantile in the +Inf bucket is the second highest bound; without a +Inf
// bucket, with less than two buckets or without observations it is NaN.
func histogramQuantile(phi float64, bounds, cumulative []float64) float64 {
	n := len(bounds)
	if n < 2 || !math.IsInf(bounds[n-1], 1) || cumulative[n-1] == 0 {
		return math.NaN()
	}
	rank := phi * cumulative[n-1]
	for i := range n {
		if cumulative[i] < rank {
			continue
		}
		if i == n-1 {
			return bounds[n-2]
		}
		if i == 0 && bounds[0] <= 0 {
			return bounds[0]
		}
		lower, below := 0.0, 0.0
		if i > 0 {
			lower, below = bounds[i-1], cumulative[i-1]
		}
		inside := cumulative[i] - below
		return lower + (bounds[i]-lower)*(rank-below)/inside
	}
	return math.NaN()
}

func agree(got, want float64) bool {
	if math.IsNaN(want) {
		return math.IsNaN(got)
	}
	return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want))
}

func TestQuantilesAgreeWithPromQL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SliceOfNDistinct(rapid.Float64Range(-10, 1e5), 1, 20, rapid.ID).Draw(t, "bounds")
		sort.Float64s(bounds)
		bounds = append(bounds, math.Inf(1))
		h, total := new(Histogram), 0.0
		var cumulative []float64
		for _, le := range bounds {
			total += float64(rapid.IntRange(0, 1000).Draw(t, "count"))
			cumulative = append(cumulative, total)
			h.Buckets = append(h.Buckets, Bucket{le, total})
		}
		h.Count = total
		q := rapid.Float64Range(0.001, 1).Draw(t, "q")
		got, beyond := h.Quantile(q)
		if want := histogramQuantile(q, bounds, cumulative); !agree(got, want) {
			t.Fatalf("Quantile(%v) = %v, want %v", q, got, want)
		}
		if want := q*total > cumulative[len(cumulative)-2]; total > 0 && beyond != want {
			t.Fatalf("Quantile(%v) is beyond: %v, want %v", q, beyond, want)
		}
	})
}

// Every histogram of every captured page.
func TestQuantilesOfCapturedPagesAgreeWithPromQL(t *testing.T) {
	compared := 0
	for _, name := range pages {
		for _, f := range captured(t, name).Families {
			for _, s := range f.Series {
				if s.Histogram == nil {
					continue
				}
				var bounds, cumulative []float64
				for _, b := range s.Histogram.Buckets {
					bounds, cumulative = append(bounds, b.LE), append(cumulative, b.Count)
				}
				for _, q := range []float64{.01, .1, .5, .9, .99, .999, 1} {
					got, _ := s.Histogram.Quantile(q)
					if want := histogramQuantile(q, bounds, cumulative); !agree(got, want) {
						t.Errorf("%s: %s: Quantile(%v) = %v, want %v", name, f.Name, q, got, want)
					}
					compared++
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d quantiles were compared", compared)
	}
}

// Values that promtool printed for histogram_quantile over these buckets would be
// the arithmetic done by hand here.
func TestQuantilesByHand(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		name    string
		buckets []Bucket
		q, want float64
	}{
		{"in the middle of a bucket", []Bucket{{1, 10}, {2, 30}, {inf, 30}}, .5, 1.25},
		{"the first bucket begins at 0", []Bucket{{4, 10}, {inf, 10}}, .25, 1},
		{"a first bound of 0 is the answer", []Bucket{{0, 8}, {1, 10}, {inf, 10}}, .5, 0},
		{"a negative first bound is the answer", []Bucket{{-3, 8}, {1, 10}, {inf, 10}}, .5, -3},
		{"beyond the last bound", []Bucket{{1, 1}, {2, 2}, {inf, 10}}, .9, 2},
		{"exactly at a bound", []Bucket{{1, 5}, {2, 10}, {inf, 10}}, .5, 1},
		{"an empty bucket between", []Bucket{{1, 5}, {2, 5}, {3, 10}, {inf, 10}}, .6, 2.2},
		{"no observations", []Bucket{{1, 0}, {inf, 0}}, .5, math.NaN()},
		{"no finite bucket", []Bucket{{inf, 7}}, .5, math.NaN()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &Histogram{Buckets: tc.buckets, Count: tc.buckets[len(tc.buckets)-1].Count}
			if got, _ := h.Quantile(tc.q); !agree(got, tc.want) {
				t.Errorf("Quantile(%v) = %v, want %v", tc.q, got, tc.want)
			}
		})
	}
}
