package metricview

import (
	"cmp"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Bucket counts the observations up to and including LE.
type Bucket struct{ LE, Count float64 }

// Histogram is a classic histogram: cumulative buckets by their bounds, the last of
// which is +Inf.
type Histogram struct {
	Buckets    []Bucket
	Count, Sum float64
	// Broken says why it can't be used; "" = it can.
	Broken string
}

// maxCount is the largest count that a float64 holds exactly.
const maxCount = 1 << 53

// histogramOf reads a histogram of a page.
func histogramOf(h *dto.Histogram) *Histogram {
	out := &Histogram{Sum: h.GetSampleSum(), Count: h.GetSampleCountFloat()}
	if out.Count == 0 {
		out.Count = float64(h.GetSampleCount())
	}
	for _, b := range h.GetBucket() {
		count := b.GetCumulativeCountFloat()
		if count == 0 {
			count = float64(b.GetCumulativeCount())
		}
		if math.IsNaN(b.GetUpperBound()) {
			return &Histogram{Broken: "a bucket has no bound"}
		}
		if !(count >= 0 && count <= maxCount) {
			return &Histogram{Broken: "a bucket's count is none"}
		}
		out.Buckets = append(out.Buckets, Bucket{b.GetUpperBound(), count})
	}
	if len(out.Buckets) == 0 {
		return &Histogram{Broken: "it has no classic buckets"}
	}
	out.normalise()
	return out
}

// normalise sorts and joins the buckets, adds +Inf where protobuf leaves it out,
// and mends counts that fall, as PromQL does.
func (h *Histogram) normalise() {
	slices.SortStableFunc(h.Buckets, func(a, b Bucket) int { return cmp.Compare(a.LE, b.LE) })
	joined := h.Buckets[:1]
	for _, b := range h.Buckets[1:] {
		if last := &joined[len(joined)-1]; last.LE == b.LE {
			last.Count += b.Count
			continue
		}
		joined = append(joined, b)
	}
	if !math.IsInf(joined[len(joined)-1].LE, 1) {
		joined = append(joined, Bucket{math.Inf(1), h.Count})
	}
	for i := 1; i < len(joined); i++ {
		joined[i].Count = max(joined[i].Count, joined[i-1].Count)
	}
	h.Buckets, h.Count = joined, joined[len(joined)-1].Count
}

// usable reports whether it has observations to compute with.
func (h *Histogram) usable() bool { return h != nil && h.Broken == "" && h.Count > 0 }

// Quantile is PromQL's histogram_quantile: linear within a bucket, from 0 in the
// first one with a positive bound. Beyond says that it lies above the last finite
// bound, which is then the answer. Without observations it is NaN.
func (h *Histogram) Quantile(q float64) (v float64, beyond bool) {
	if !h.usable() || len(h.Buckets) < 2 || math.IsNaN(q) {
		return math.NaN(), false
	}
	last := len(h.Buckets) - 1
	rank := q * h.Count
	i, _ := slices.BinarySearchFunc(h.Buckets[:last], rank, func(b Bucket, rank float64) int { return cmp.Compare(b.Count, rank) })
	switch {
	case i == last:
		return h.Buckets[last-1].LE, true
	case i == 0 && h.Buckets[0].LE <= 0:
		return h.Buckets[0].LE, false
	}
	start, below := 0.0, 0.0
	if i > 0 {
		start, below = h.Buckets[i-1].LE, h.Buckets[i-1].Count
	}
	return start + (h.Buckets[i].LE-start)*((rank-below)/(h.Buckets[i].Count-below)), false
}

// Mean is the average of the observations, NaN without any.
func (h *Histogram) Mean() float64 {
	if !h.usable() {
		return math.NaN()
	}
	return h.Sum / h.Count
}

// Plus adds two histograms at the bounds that both have, where the sum is exact.
func (h *Histogram) Plus(other *Histogram) *Histogram {
	switch {
	case h == nil || h.Broken != "":
		return other
	case other == nil || other.Broken != "":
		return h
	}
	sum := &Histogram{Sum: h.Sum + other.Sum, Count: h.Count + other.Count}
	for _, b := range h.Buckets {
		if i, ok := other.at(b.LE); ok {
			sum.Buckets = append(sum.Buckets, Bucket{b.LE, b.Count + other.Buckets[i].Count})
		}
	}
	return sum
}

func (h *Histogram) at(le float64) (int, bool) {
	return slices.BinarySearchFunc(h.Buckets, le, func(b Bucket, le float64) int { return cmp.Compare(b.LE, le) })
}

// Since is what was added after before was read. When a count has fallen or the
// bounds differ, the counter began anew, and all of it was added since.
func (h *Histogram) Since(before *Histogram) *Histogram {
	if h == nil || h.Broken != "" || before == nil || before.Broken != "" || len(h.Buckets) != len(before.Buckets) {
		return h
	}
	diff := &Histogram{Sum: h.Sum - before.Sum, Count: h.Count - before.Count}
	for i, b := range h.Buckets {
		if b.LE != before.Buckets[i].LE || b.Count < before.Buckets[i].Count {
			return h
		}
		diff.Buckets = append(diff.Buckets, Bucket{b.LE, b.Count - before.Buckets[i].Count})
	}
	return diff
}

// scaled has its bounds and its sum times a factor: seconds to microseconds.
func (h *Histogram) scaled(factor float64) *Histogram {
	if h == nil || h.Broken != "" || factor == 1 {
		return h
	}
	out := &Histogram{Sum: h.Sum * factor, Count: h.Count}
	for _, b := range h.Buckets {
		out.Buckets = append(out.Buckets, Bucket{b.LE * factor, b.Count})
	}
	return out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
