package pool

import (
	"math"
	"time"

	"github.com/eppctl/eppctl/score"
)

// Limits say how old a reading may be before it is stale.
type Limits struct {
	Metrics time.Duration // scrapes and probes; default 5 s
	Reports time.Duration // pushed reports; default 3 × the report interval of 2 s
	Events  time.Duration // KV events whose connection is lost; default 30 s
	// Generation is for 1-token probes; default 3 × their interval of 30 s.
	Generation time.Duration
	// Allowance is how long before the start of a scrape a pick may have been made
	// and still not be counted by the engine: the way of a request to its pod; 0 =
	// [Allowance].
	Allowance time.Duration
}

// DefaultLimits are the limits of the specification.
var DefaultLimits = Limits{
	Metrics: 5 * time.Second, Reports: 6 * time.Second, Events: 30 * time.Second, Generation: 90 * time.Second,
}

func (l Limits) of(s score.Source) instant {
	switch s {
	case score.SourceReport:
		return instant(l.Reports)
	case score.SourceEvents:
		return instant(l.Events)
	default:
		return instant(l.Metrics)
	}
}

// instant is a time by the pool's clock: nanoseconds since the pool was made.
// The hot path compares hundreds of them for each decision.
type instant int64

// never is the time of what has not happened, always that of what goes on: it is
// of now, whenever now is.
const (
	never  = instant(math.MinInt64)
	always = instant(math.MaxInt64)
)

// reading is a value with its time.
type reading struct {
	value  float64
	at     instant // when it was received; never = there is none
	source score.Source
	note   string // the series it was read from, or why there is none; "" = nothing to say
}

// none is the reading of what was never reported.
var none = reading{at: never}

// noneFor is none with the reason.
func noneFor(reason string) reading { return reading{at: never, note: reason} }

func (r reading) known() bool { return r.at != never }

// expires is the last moment at which the reading is fresh.
func (r reading) expires(l Limits) instant {
	if r.at == never || r.at == always {
		return r.at
	}
	return r.at + l.of(r.source)
}

// shown is the reading as a decision sees it, but for its age.
func (r reading) shown() score.Reading {
	if !r.known() {
		return score.Reading{}
	}
	return score.Reading{Value: r.value, State: score.Known, Source: r.source}
}

// newer returns the reading that was received later.
func newer(a, b reading) reading {
	if b.at > a.at {
		return b
	}
	return a
}

// fresh returns the first of the readings that is not stale, else the newest.
func fresh(now instant, l Limits, readings ...reading) reading {
	best := none
	for _, r := range readings {
		if r.known() && now <= r.expires(l) {
			return r
		}
		best = newer(best, r)
	}
	return best
}

// The readings of a decision whose age the hot path computes.
const (
	ofCache = iota
	ofLoad
	ofWaiting
	ofHealth
	ofAdapters
	aged
)

// ages holds what is needed to tell the age and freshness of an endpoint's
// readings without looking at where they came from.
type ages struct {
	at, expires [aged]instant
	// review is when the choice among several sources has to be made anew.
	review instant
}

// arrange chooses the readings that decisions see, and is called after every
// change. The hot path then only adds ages.
func (e *endpoint) arrange(now instant, l Limits) {
	e.adapters = e.loadedAdapters(now, l)
	e.arrangeCache(now, l)
	e.assumeCache(now, l)
	load := e.load(now, l)
	health, until := e.feel(now, l)
	for i, r := range [aged]reading{e.cache, load, e.waiting, health, e.adapters.reading} {
		e.ages.at[i], e.ages.expires[i] = r.at, r.expires(l)
	}
	e.ages.expires[ofHealth] = until
	e.base.Cache, e.base.Utilization = e.cache.shown(), load.shown()
	e.base.Waiting, e.base.Health = e.waiting.shown(), health.shown()
	e.base.AdapterState = e.adapters.shown().State
	e.base.Adapters, e.base.MaxAdapters = e.adapters.names, e.adapters.max
	e.base.Notes = e.explain(now, l, load, health)
	e.base.Excluded = score.Eligible
	switch {
	case e.member.Terminating:
		e.base.Excluded = score.Terminating
	case e.member.NotReady:
		e.base.Excluded = score.NotReady
	case e.member.PrefillOnly:
		e.base.Excluded = score.PrefillOnly
	}
	e.ages.review = math.MaxInt64
	for _, r := range [...]reading{
		e.cache, e.reportedCache, e.waiting, e.reportedLoad, e.gpuLoad, e.runningLoad, e.kvLoad, e.probe, e.reportHealth, e.reportedAdapters.reading,
	} {
		if expires := r.expires(l); expires >= now {
			e.ages.review = min(e.ages.review, expires)
		}
	}
	for _, r := range e.ranks {
		if expires := r.expires(l); expires >= now {
			e.ages.review = min(e.ages.review, expires)
		}
	}
}

// load is the utilization by its best source: the GPU's own, from the exporter or
// a report, whichever is newer; else what the engine's numbers stand in for it.
func (e *endpoint) load(now instant, l Limits) reading {
	measured := fresh(now, l, newer(e.gpuLoad, e.reportedLoad), e.gpuLoad, e.reportedLoad)
	return fresh(now, l, measured, e.runningLoad, e.kvLoad)
}

// explain says in words why the readings are what they are; nil when there is
// nothing to say. What could not be scraped is the reason of a value that is
// missing or has grown stale, and of no other.
func (e *endpoint) explain(now instant, l Limits, load, health reading) *score.Notes {
	var n score.Notes
	n[score.CacheMatch], n[score.Health], n[score.AdapterMatch] = e.cache.note, health.note, e.adapters.note
	for f, r := range map[int]reading{score.Load: load, score.QueueDepth: e.waiting} {
		n[f] = r.note
		if e.engine.lastError != "" && (!r.known() || now > r.expires(l)) {
			n[f] = e.engine.lastError
		}
	}
	switch {
	case n == score.Notes{}:
		return nil
	case e.base.Notes != nil && *e.base.Notes == n:
		return e.base.Notes // decisions keep it: it is never changed
	}
	return &n
}

// show writes the endpoint as a decision sees it now.
func (e *endpoint) show(s *score.PodState, now instant, l Limits) {
	if now > e.ages.review {
		e.arrange(now, l)
	}
	*s = e.base
	s.Pending, s.InFlight, s.PeerPending = e.pending, e.inFlight, e.shared.pending
	at, expires := &e.ages.at, &e.ages.expires
	age(&s.Cache, now, at[ofCache], expires[ofCache])
	age(&s.Utilization, now, at[ofLoad], expires[ofLoad])
	age(&s.Waiting, now, at[ofWaiting], expires[ofWaiting])
	age(&s.Health, now, at[ofHealth], expires[ofHealth])
	if s.AdapterState == score.Known && now > expires[ofAdapters] {
		s.AdapterState = score.Stale
	}
}

// state is [endpoint.show] as a value.
func (e *endpoint) state(now instant, l Limits) (s score.PodState) {
	e.show(&s, now, l)
	return s
}

func age(r *score.Reading, now, at, expires instant) {
	if r.State == score.Unknown {
		return
	}
	r.Age = max(0, time.Duration(now-at))
	if now > expires {
		r.State = score.Stale
	}
}
