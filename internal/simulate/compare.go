package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A Difference is one value of a policy less that of the baseline, and where it would
// be with other requests of the same kind: the middle 95 % of what a bootstrap finds
// that draws windows of requests, the same for both policies.
type Difference struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const (
	draws          = 400 // of a bootstrap
	defaultWindows = 100
	// Requests of one window come one after another: those of a conversation, or of a
	// burst, are not drawn apart.
	leastWindow = 5
)

// compare adds differences to the baseline, unless there are too few requests to draw
// from.
func (r *Runs) compare(out *Report, o ReportOptions) {
	base := slices.IndexFunc(r.Runs, func(p PolicyRun) bool { return p.Policy.Name == o.Baseline })
	if base < 0 {
		return
	}
	n := len(r.Config.Trace.Requests)
	windows := cmp.Or(o.Windows, defaultWindows)
	windows = min(windows, n/leastWindow)
	if windows < 2 {
		return // nothing to draw from
	}
	b := r.samples(base, o.SLO, windows)
	for i := range r.Runs {
		if i != base {
			out.Policies[i].Difference = differences(r.samples(i, o.SLO, windows), b, windows, r.Config.Seed)
		}
	}
}

// A sample is a run's requests as a bootstrap needs them.
type sample struct {
	input, cached, requests, good []float64 // by window
	ttft, e2e                     []timed   // sorted
	slo                           bool
}

// timed is a time in seconds and the window of its request.
type timed struct {
	seconds float64
	window  int
}

func (r *Runs) samples(run int, slo *SLO, windows int) *sample {
	s := &sample{
		input: make([]float64, windows), cached: make([]float64, windows),
		requests: make([]float64, windows), good: make([]float64, windows), slo: slo != nil,
	}
	outcomes := r.Runs[run].Outcomes
	for i := range outcomes {
		o, q, w := &outcomes[i], &r.Config.Trace.Requests[i], i*windows/len(outcomes)
		s.requests[w]++
		if slo != nil && slo.good(r.Config.Profile, q, o) {
			s.good[w]++
		}
		if o.Ending != Completed {
			continue
		}
		s.input[w] += float64(q.Input())
		s.cached[w] += float64(o.Cached)
		s.ttft = append(s.ttft, timed{o.TTFT.Seconds(), w})
		s.e2e = append(s.e2e, timed{o.E2E.Seconds(), w})
	}
	for _, times := range [][]timed{s.ttft, s.e2e} {
		slices.SortFunc(times, func(a, b timed) int { return cmp.Compare(a.seconds, b.seconds) })
	}
	return s
}

// metrics are the values of a sample in which window w counts times[w] times; NaN where
// no request was completed.
func (s *sample) metrics(times []int) []float64 {
	m := []float64{weigh(s.cached, times) / weigh(s.input, times)}
	for _, all := range [][]timed{s.ttft, s.e2e} {
		for _, q := range [...]float64{0.5, 0.9, 0.99} {
			m = append(m, quantile(all, times, q))
		}
	}
	if s.slo {
		m = append(m, weigh(s.good, times)/max(1, weigh(s.requests, times)))
	}
	return m
}

var metricNames = []string{
	"cacheHitRatio", "ttftSeconds.p50", "ttftSeconds.p90", "ttftSeconds.p99", "e2eSeconds.p50", "e2eSeconds.p90", "e2eSeconds.p99", "goodRatio",
}

func weigh(values []float64, times []int) (sum float64) {
	for w, v := range values {
		sum += v * float64(times[w])
	}
	return sum
}

// quantile is the nearest rank among sorted values that count times[window] times; NaN
// of none.
func quantile(sorted []timed, times []int, q float64) float64 {
	n := 0
	for _, t := range sorted {
		n += times[t.window]
	}
	if n == 0 {
		return math.NaN()
	}
	want := rank(q, n)
	for _, t := range sorted {
		if want -= times[t.window]; want < 0 {
			return t.seconds
		}
	}
	return sorted[len(sorted)-1].seconds
}

// differences compares two samples with the same windows. What one of them does not
// have differs from nothing: it is left out.
func differences(a, b *sample, windows int, seed uint64) []Difference {
	once := make([]int, windows)
	for w := range once {
		once[w] = 1
	}
	all := make([][]float64, len(a.metrics(once)))
	rng := rand.New(rand.NewPCG(seed, 3))
	times := make([]int, windows)
	for range draws {
		clear(times)
		for range windows {
			times[rng.IntN(windows)]++
		}
		x, y := a.metrics(times), b.metrics(times)
		for m := range all {
			if d := x[m] - y[m]; !math.IsNaN(d) {
				all[m] = append(all[m], d)
			}
		}
	}
	x, y := a.metrics(once), b.metrics(once)
	var out []Difference
	for m, drawn := range all {
		n := len(drawn)
		if n == 0 || math.IsNaN(x[m]-y[m]) {
			continue
		}
		slices.Sort(drawn)
		out = append(out, Difference{Metric: metricNames[m], Value: x[m] - y[m], Low: drawn[rank(0.025, n)], High: drawn[rank(0.975, n)]})
	}
	return out
}
