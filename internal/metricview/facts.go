package metricview

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Replica is one process's pages.
type Replica struct {
	Before *Page // the page read first; nil = there is one page alone
	After  *Page
}

// Observation is what was seen.
type Observation struct {
	Replicas []Replica
	// Failed are the replicas that gave no page, and what was wrong.
	Failed []Failure
	Now    time.Time
}

// Failure is a replica that gave no page.
type Failure struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// facts looks answers up in the pages of an observation.
type facts struct {
	maker    Maker
	replicas []Replica
	spans    []float64 // of each replica, in seconds; NaN = not known
	missing  []Missing
	broken   []string
	used     map[string]string // question → family
}

func newFacts(o *Observation, maker Maker) *facts {
	f := &facts{maker: maker, used: map[string]string{}}
	for _, r := range o.Replicas {
		if r.restarted() {
			// It counted anew, at most since the page before: clocks may differ.
			span, between := r.sinceStart(), seconds(r.After.At.Sub(r.Before.At))
			if !(span <= between) {
				span = between
			}
			r.Before = nil
			f.replicas, f.spans = append(f.replicas, r), append(f.spans, span)
			continue
		}
		f.replicas = append(f.replicas, r)
		if r.Before == nil {
			f.spans = append(f.spans, r.sinceStart())
		} else {
			f.spans = append(f.spans, seconds(r.After.At.Sub(r.Before.At)))
		}
	}
	return f
}

// restarted reports whether the process began anew between the pages.
func (r *Replica) restarted() bool {
	if r.Before == nil {
		return false
	}
	before, known := r.Before.started()
	after, knownToo := r.After.started()
	return known && knownToo && before != after
}

// sinceStart is how long the process had run when its page was read.
func (r *Replica) sinceStart() float64 {
	start, ok := r.After.started()
	if !ok || r.After.At.IsZero() {
		return math.NaN()
	}
	return seconds(r.After.At.Sub(time.Unix(0, int64(start*1e9))))
}

// seconds of a span that can be divided by; NaN for others.
func seconds(d time.Duration) float64 {
	if d <= 0 {
		return math.NaN()
	}
	return d.Seconds()
}

// count is a counter's growth.
type count struct {
	total float64 // since the start of the processes
	grown float64 // in the time that was watched
	rate  float64 // a second; NaN = not known
}

func (c *count) add(total, grown, span float64) {
	c.total += total
	c.grown += grown
	c.rate += grown / span
}

// miss notes that no page answers a question.
func (f *facts) miss(q *question) {
	m := Missing{Question: q.name, Reason: q.why.of(f.maker)}
	for _, s := range q.sources {
		m.Families = append(m.Families, s.name)
	}
	f.missing = append(f.missing, m)
}

// counts are the counters of a question by their label, nil when no page has them.
func (f *facts) counts(q *question) map[string]*count {
	var by map[string]*count
	var broken []string
	for i, r := range f.replicas {
		s, family := q.find(r.After)
		if family == nil {
			continue
		}
		f.used[q.name] = s.name
		if by == nil {
			by = map[string]*count{}
		}
		for j := range family.Series {
			series := &family.Series[j]
			if !s.takes(series) {
				continue
			}
			if !(series.Value >= 0) || math.IsInf(series.Value, 0) {
				broken = append(broken, fmt.Sprintf("%s: %s can't be used: a count is none", r.After.Source, family.Name))
				continue
			}
			name := series.Label(s.label)
			if by[name] == nil {
				by[name] = new(count)
			}
			by[name].add(series.Value, grown(series, r.Before, family.Name), f.spans[i])
		}
	}
	if len(by) == 0 && len(broken) > 0 {
		by, f.broken = nil, append(f.broken, broken...)
	}
	if by == nil {
		f.miss(q)
	}
	return by
}

// grown is what a counter gained since the page before. One that has fallen began
// anew; one that was not there began at 0.
func grown(s *Series, before *Page, name string) float64 {
	if before == nil {
		return s.Value
	}
	old := before.series(name, s)
	if old == nil || !(old.Value >= 0) || old.Value > s.Value {
		return s.Value
	}
	return s.Value - old.Value
}

// series is the series of a family that has the labels of another.
func (p *Page) series(name string, like *Series) *Series {
	f := p.Family(name)
	if f == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(f.Series, like.Labels, func(s Series, labels []Label) int { return compareLabels(s.Labels, labels) })
	if !ok {
		return nil
	}
	return &f.Series[i]
}

// histogram is the distribution that answers a question, of what was observed in
// the time that was watched, over all series and replicas; nil when there is none.
func (f *facts) histogram(q *question) *Histogram {
	var sum *Histogram
	found := false
	for _, r := range f.replicas {
		s, family := q.find(r.After)
		if family == nil {
			continue
		}
		found = true
		f.used[q.name] = s.name
		for i := range family.Series {
			series := &family.Series[i]
			h := series.Histogram
			if h == nil || h.Broken != "" {
				f.broken = append(f.broken, brokenText(r.After.Source, family.Name, h))
				continue
			}
			if r.Before != nil {
				if old := r.Before.series(family.Name, series); old != nil {
					h = h.Since(old.Histogram)
				}
			}
			sum = sum.Plus(h.scaled(s.factor()))
		}
	}
	if !found {
		f.miss(q)
	}
	return sum
}

func brokenText(source, name string, h *Histogram) string {
	reason := "it is no histogram"
	if h != nil {
		reason = h.Broken
	}
	return fmt.Sprintf("%s: %s can't be used: %s", source, name, reason)
}

// gauges are the present values of a question by their label, folded over the
// replicas, which each have a view of their own.
func (f *facts) gauges(q *question, fold func(a, b float64) float64) map[string]float64 {
	var by map[string]float64
	for _, r := range f.replicas {
		s, family := q.find(r.After)
		if family == nil {
			continue
		}
		f.used[q.name] = s.name
		if by == nil {
			by = map[string]float64{}
		}
		for i := range family.Series {
			v := family.Series[i].Value
			if family.Series[i].Histogram != nil || !finite(v) {
				continue
			}
			name := family.Series[i].Label(s.label)
			if old, there := by[name]; there {
				v = fold(old, v)
			}
			by[name] = v
		}
	}
	if by == nil && q.why.ours != "" {
		f.miss(q)
	}
	return by
}

// gauge is the present value of a question without a label.
func (f *facts) gauge(q *question, fold func(a, b float64) float64) *float64 {
	if v, ok := f.gauges(q, fold)[""]; ok {
		return &v
	}
	return nil
}

func sum(a, b float64) float64 { return a + b }
