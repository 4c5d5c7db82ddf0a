package tokens

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

// sources are the names under which requests are counted.
var sources = [...]string{FromEngine, FromRender, Joined, request.FromText}

type counts struct {
	bySource                                          [len(sources)]atomic.Uint64
	hits, misses, coalesced, waitedInVain, mismatches atomic.Uint64
}

func (c *counts) served(from string) {
	if i := slices.Index(sources[:], from); i >= 0 {
		c.bySource[i].Add(1)
	}
}

// latencyBounds are the upper bounds of the histogram of calls.
var latencyBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond,
}

type histogram struct {
	buckets [len(latencyBounds) + 1]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	i, _ := slices.BinarySearch(latencyBounds[:], d)
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// Latency is how long calls took that were not given up.
type Latency struct {
	Count   uint64
	Sum     time.Duration
	Buckets []Bucket // the lower bounds first
}

// Bucket is how many calls took no longer than a bound.
type Bucket struct {
	Bound time.Duration
	Count uint64
}

// Stats are counts since the start, and what is held now.
type Stats struct {
	Requests     map[string]uint64 // by where their ids came from
	Calls        map[string]uint64 // by outcome
	Hits, Misses uint64            // of prompts in the cache
	Coalesced    uint64            // prompts that waited for the call of an equal one
	WaitedInVain uint64            // prompts that waited for the whole timeout
	Busy         uint64            // calls that were not made because too many ran
	Mismatches   uint64            // see [Tokeniser.Told]
	Latency      Latency

	CacheBytes  int64
	CacheItems  int
	CallsNow    int
	Open        bool // there is a model of which nobody is asked
	OpenServers int  // that are not asked
}

// Stats returns the tokeniser's counts.
func (t *Tokeniser) Stats() Stats {
	c, k := &t.counts, t.asker
	s := Stats{
		Requests: map[string]uint64{}, Calls: map[string]uint64{},
		Hits: c.hits.Load(), Misses: c.misses.Load(), Coalesced: c.coalesced.Load(), WaitedInVain: c.waitedInVain.Load(),
		Busy: k.busy.Load(), Mismatches: c.mismatches.Load(),
		Latency: k.latency.read(),
	}
	for i, from := range sources {
		s.Requests[from] = c.bySource[i].Load()
	}
	for o := range outcomes {
		s.Calls[o.String()] = k.results[o].Load()
	}
	s.CacheBytes, s.CacheItems = t.cache.size()
	s.Open, s.OpenServers = k.open()
	k.mu.Lock()
	defer k.mu.Unlock()
	s.CallsNow = k.calls
	return s
}

func (h *histogram) read() Latency {
	l := Latency{Sum: time.Duration(h.sum.Load())}
	for i := range h.buckets {
		l.Count += h.buckets[i].Load()
		if i < len(latencyBounds) {
			l.Buckets = append(l.Buckets, Bucket{latencyBounds[i], l.Count})
		}
	}
	return l
}
