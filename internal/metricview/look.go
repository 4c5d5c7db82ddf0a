package metricview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/score"
)

// MixedError is an observation of pages that can't be added up.
type MixedError struct{ First, Second Maker }

// Error implements error.
func (e *MixedError) Error() string {
	return fmt.Sprintf("one page is of %s, another of %s", e.First.of(), e.Second.of())
}

func (m Maker) of() string {
	switch m {
	case Eppctl:
		return "an eppctl picker"
	case LLMD:
		return "an llm-d picker"
	case Engine:
		return "an engine"
	case Stranger:
	}
	return "something else"
}

// StrangerError is a page that none of the questions can be asked of.
type StrangerError struct {
	Source string
	Names  []string // some of the families that it has
}

// Error implements error.
func (e *StrangerError) Error() string {
	if len(e.Names) == 0 {
		return fmt.Sprintf("the page at %s is empty", e.Source)
	}
	return fmt.Sprintf("the page at %s is neither a picker's nor an engine's; it has %s", e.Source, strings.Join(e.Names, ", "))
}

// Look answers all questions. held keeps what is beyond its threshold from one
// observation to the next, when there are several; nil when there is one.
//
// An error is a [*MixedError], a [*StrangerError], or that there is no page.
func Look(o Observation, held *Held) (*Document, error) {
	maker, err := o.maker()
	if err != nil {
		return nil, err
	}
	d := newDocument(&o, maker)
	f := newFacts(&o, maker)
	d.describe(&o, f)
	if maker == Engine {
		for i := range f.replicas {
			d.Engines = append(d.Engines, engineOf(&f.replicas[i]))
		}
		return d, nil
	}
	d.routing(f)
	d.CacheMatch = distribution(f.histogram(&cacheMatch))
	d.CompositeScore = distribution(f.histogram(&compositeScore))
	d.CompositeScore.shape()
	d.ScoringLatencyUs = distribution(f.histogram(&scoringLatency))
	d.pods(f)
	d.CandidatePods, d.PoolPods = f.gauge(&candidates, math.Min), f.gauge(&poolPods, math.Max)
	d.PrefixTree = Tree{f.gauge(&treeNodes, math.Max), f.gauge(&treeBytes, math.Max)}
	d.stale(f)
	d.adapters(f)
	d.Missing = append(d.Missing, f.missing...)
	slices.Sort(f.broken)
	d.Notes = append(d.Notes, slices.Compact(f.broken)...)
	d.Families = f.used
	d.judge(held, o.Now)
	return d, nil
}

// maker is whose pages they all are.
func (o *Observation) maker() (Maker, error) {
	if len(o.Replicas) == 0 {
		return "", errors.New("no page was read")
	}
	first := Stranger
	for i, r := range o.Replicas {
		m := r.After.maker()
		switch {
		case m == Stranger:
			return "", &StrangerError{r.After.Source, someNames(r.After)}
		case i > 0 && m != first:
			return "", &MixedError{first, m}
		}
		first = m
	}
	return first, nil
}

// someNames are the first few families of a page.
func someNames(p *Page) []string {
	var names []string
	for _, f := range p.Families {
		if len(names) == 3 {
			return append(names, "…")
		}
		names = append(names, f.Name)
	}
	return names
}

// describe tells of the pages and of the time that they are about.
func (d *Document) describe(o *Observation, f *facts) {
	d.Window.Kind = "start"
	for i, r := range o.Replicas {
		info := PageInfo{Source: r.After.Source, Format: r.After.Format, Families: len(r.After.Families), Restarted: r.restarted()}
		for _, family := range r.After.Families {
			info.Series += len(family.Series)
		}
		if start, ok := r.After.started(); ok {
			at := time.UnixMilli(int64(start * 1e3)).UTC()
			info.StartedAt = &at
		}
		d.Pages = append(d.Pages, info)
		if r.Before != nil {
			d.Window.Kind = "scrapes"
		}
		if span := f.spans[i]; finite(span) && (d.Window.Seconds == nil || span < *d.Window.Seconds) {
			d.Window.Seconds = &f.spans[i]
		}
		if info.Restarted {
			d.Notes = append(d.Notes, r.After.Source+" was started anew in between; it counts since then")
		}
		if n := r.After.Repeated; n > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("%s has %d series more than once; the first of each counts", r.After.Source, n))
		}
	}
}

func (d *Document) routing(f *facts) {
	by := f.counts(&decisions)
	if by == nil {
		return
	}
	all := count{}
	d.Routing = &Routing{Models: []Model{}}
	names := slices.Sorted(maps.Keys(by)) // sums of floats depend on their order
	for _, name := range names {
		c := by[name]
		all.total, all.grown, all.rate = all.total+c.total, all.grown+c.grown, all.rate+c.rate
	}
	for _, name := range names {
		c := by[name]
		if c.total == 0 {
			continue // "other" is there from the start
		}
		d.Routing.Models = append(d.Routing.Models, Model{
			Model: name, Total: c.total, Decisions: c.grown, PerSecond: known(c.rate), Share: known(c.grown / all.grown),
		})
	}
	slices.SortFunc(d.Routing.Models, func(a, b Model) int {
		return cmp.Or(cmp.Compare(b.Decisions, a.Decisions), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Model, b.Model))
	})
	d.Routing.Total, d.Routing.Decisions, d.Routing.PerSecond = all.total, all.grown, known(all.rate)
}

func (d *Document) pods(f *facts) {
	queues, healths := f.gauges(&queueDepth, math.Max), f.gauges(&health, math.Min)
	used, running := f.gauges(&utilization, math.Max), f.gauges(&inFlight, sum)
	picked := f.counts(&picks)
	d.MaxQueue = f.gauge(&maxQueue, math.Min)
	total := 0.0
	names := map[string]bool{}
	for name, c := range picked {
		total += c.grown
		names[name] = true
	}
	for _, by := range []map[string]float64{queues, healths, used} {
		for name := range by {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := Pod{Pod: name, Queue: at(queues, name), Health: at(healths, name), Utilization: at(used, name), InFlight: at(running, name)}
		p.State = stateOf(p.Health)
		if p.Queue != nil && d.MaxQueue != nil {
			p.QueueShare = known(*p.Queue / *d.MaxQueue)
		}
		if c := picked[name]; c != nil {
			p.Picks, p.PicksShare = &c.grown, known(c.grown/total)
		}
		d.Pods = append(d.Pods, p)
	}
}

// healthOK is from where on a pod's health is OK in words.
const healthOK = .95

func stateOf(h *float64) string {
	switch {
	case h == nil:
		return StateUnknown
	case *h >= healthOK:
		return StateOK
	case *h < score.HealthCutoff:
		return StateOut
	}
	return StateDegraded
}

func (d *Document) stale(f *facts) {
	by := f.counts(&stale)
	if by == nil {
		return
	}
	d.Stale = new(Stale)
	for _, c := range by {
		d.Stale.Picks += c.grown
	}
	if d.Routing != nil {
		d.Stale.Ratio = known(d.Stale.Picks / d.Routing.Decisions)
	}
}

func (d *Document) adapters(f *facts) {
	for name, c := range f.counts(&adapterLoads) {
		if c.total > 0 {
			d.Adapters = append(d.Adapters, Adapter{Adapter: name, Total: c.total, Loads: c.grown, PerMinute: known(c.rate * 60)})
		}
	}
	slices.SortFunc(d.Adapters, func(a, b Adapter) int {
		return cmp.Or(cmp.Compare(b.Loads, a.Loads), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Adapter, b.Adapter))
	})
}

// distribution is a histogram as it is told; one without observations has a count
// of 0 and nothing else that is known.
func distribution(h *Histogram) *Distribution {
	if h == nil {
		return nil
	}
	out := &Distribution{Count: h.Count, Mean: known(h.Mean()), Beyond: []string{}, Buckets: []Bin{}}
	for _, q := range []struct {
		name string
		q    float64
		into **float64
	}{{"p10", .1, &out.P10}, {"p50", .5, &out.P50}, {"p90", .9, &out.P90}, {"p99", .99, &out.P99}} {
		v, beyond := h.Quantile(q.q)
		if *q.into = known(v); beyond {
			out.Beyond = append(out.Beyond, q.name)
		}
	}
	below, lower := 0.0, (*float64)(nil)
	for _, b := range h.Buckets {
		bin := Bin{Above: lower, UpTo: known(b.LE), Count: b.Count - below}
		out.Buckets = append(out.Buckets, bin)
		below, lower = b.Count, bin.UpTo
	}
	return out
}

// known is a number of the document; nil for what is none.
func known(v float64) *float64 {
	if !finite(v) {
		return nil
	}
	return &v
}

func at(by map[string]float64, name string) *float64 {
	if v, ok := by[name]; ok {
		return &v
	}
	return nil
}
