package pool

import (
	"time"

	"github.com/eppctl/eppctl/score"
)

// Limits say how old a reading may be before it is stale.
type Limits struct {
	Metrics time.Duration // scrapes and probes; default 5 s
	Reports time.Duration // pushed reports; default 3 × the report interval of 2 s
}

// DefaultLimits are the limits of the specification.
var DefaultLimits = Limits{Metrics: 5 * time.Second, Reports: 6 * time.Second}

func (l Limits) of(s score.Source) time.Duration {
	if s == score.SourceReport {
		return l.Reports
	}
	return l.Metrics
}

// reading is a value with its time. The zero reading is unknown.
type reading struct {
	value  float64
	at     time.Time // when it was received; zero = there never was one
	source score.Source
}

func (r reading) known() bool { return !r.at.IsZero() }

// seen is the reading as a decision sees it now.
func (r reading) seen(now time.Time, l Limits) score.Reading {
	if !r.known() {
		return score.Reading{}
	}
	out := score.Reading{Value: r.value, State: score.Known, Source: r.source, Age: max(0, now.Sub(r.at))}
	if out.Age > l.of(r.source) {
		out.State = score.Stale
	}
	return out
}

// newer returns the reading that was received later.
func newer(a, b reading) reading {
	if b.at.After(a.at) {
		return b
	}
	return a
}

// fresh returns the first of the readings that is not stale, else the newest.
func fresh(now time.Time, l Limits, readings ...reading) reading {
	best := reading{}
	for _, r := range readings {
		if r.known() && now.Sub(r.at) <= l.of(r.source) {
			return r
		}
		best = newer(best, r)
	}
	return best
}

// worst returns the lower of two readings that are both fresh, else the one
// that is: a pod is as healthy as its worst signal.
func worst(now time.Time, l Limits, a, b reading) reading {
	aFresh := a.known() && now.Sub(a.at) <= l.of(a.source)
	bFresh := b.known() && now.Sub(b.at) <= l.of(b.source)
	switch {
	case aFresh && bFresh && b.value < a.value:
		return b
	case aFresh:
		return a
	case bFresh:
		return b
	}
	return newer(a, b)
}
