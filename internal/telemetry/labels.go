package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of a label that clients have a say in.
const (
	// maxUnchecked is how many values are kept that nobody vouches for.
	maxUnchecked = 200
	// maxValues is how many are kept in all, those of a catalogue included.
	maxValues = 1000
	// maxLabel is the longest value, in bytes.
	maxLabel = 256

	labelOther = "other" // the values beyond the bounds
	labelNone  = "none"  // the empty value, which Prometheus can't tell from no label
)

// capped is a counter with one label of bounded values. A value that was seen
// before costs one look into a map that is never changed in place.
type capped struct {
	vec   *prometheus.CounterVec
	other prometheus.Counter
	mu    sync.Mutex // of the writers of known
	known atomic.Pointer[map[string]prometheus.Counter]
}

func newCapped(vec *prometheus.CounterVec) *capped {
	c := &capped{vec: vec, other: vec.WithLabelValues(labelOther)}
	c.known.Store(&map[string]prometheus.Counter{})
	return c
}

// of is the counter of a value. checked says that the value is one of a
// catalogue, not just what a client sent.
func (c *capped) of(value string, checked bool) prometheus.Counter {
	known := *c.known.Load()
	if counter, ok := known[value]; ok {
		return counter
	}
	if len(known) >= bound(checked) || len(value) > maxLabel || !utf8.ValidString(value) {
		return c.other
	}
	return c.add(value, checked)
}

func bound(checked bool) int {
	if checked {
		return maxValues
	}
	return maxUnchecked
}

func (c *capped) add(value string, checked bool) prometheus.Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.known.Load()
	if counter, ok := old[value]; ok {
		return counter
	}
	if len(old) >= bound(checked) {
		return c.other
	}
	value = strings.Clone(value) // it may be a piece of a whole request body
	label := value
	if label == "" {
		label = labelNone
	}
	next := make(map[string]prometheus.Counter, len(old)+1)
	maps.Copy(next, old)
	next[value] = c.vec.WithLabelValues(label)
	c.known.Store(&next)
	return next[value]
}

// perPod counts by pod, and forgets pods that have gone.
type perPod struct {
	mu    sync.Mutex // of the writers of known
	known atomic.Pointer[map[string]*atomic.Uint64]
}

func newPerPod() *perPod {
	p := &perPod{}
	p.known.Store(&map[string]*atomic.Uint64{})
	return p
}

func (p *perPod) inc(pod string) {
	count, ok := (*p.known.Load())[pod]
	if !ok {
		count = p.add(pod)
	}
	count.Add(1)
}

func (p *perPod) add(pod string) *atomic.Uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.known.Load()
	if count, ok := old[pod]; ok {
		return count
	}
	next := make(map[string]*atomic.Uint64, len(old)+1)
	maps.Copy(next, old)
	next[pod] = new(atomic.Uint64)
	p.known.Store(&next)
	return next[pod]
}

// keep drops the counts of pods that are not there any more.
func (p *perPod) keep(there map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(*p.known.Load())
	maps.DeleteFunc(next, func(pod string, _ *atomic.Uint64) bool { return !there[pod] })
	if len(next) < len(*p.known.Load()) {
		p.known.Store(&next)
	}
}

func (p *perPod) count(pod string) uint64 {
	if count, ok := (*p.known.Load())[pod]; ok {
		return count.Load()
	}
	return 0
}
