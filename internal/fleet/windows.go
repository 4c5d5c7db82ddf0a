package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
)

const (
	midWindow  = 1 // of explain.WindowSeconds, for which the details of pods are kept
	longWindow = len(explain.WindowSeconds) - 1
)

// windows are the sums of the buckets of the last 5, 60 and 300 seconds. They
// belong to one goroutine.
type windows struct {
	numbers map[place]uint16
	buckets []*bucket // oldest first
	sums    [len(explain.WindowSeconds)]window
	pods    []podSum // of the middle window, by number
	idle    []uint16 // numbers that nothing is counted for
	spare   []uint16 // memory of the bucket that was closed last
	reloads reloads
}

// window is the sum of the buckets from a place on.
type window struct {
	length time.Duration
	first  int // its oldest bucket
	totals totals
	picks  []uint32 // by a pod's number
}

// podSum is the sum of a pod's cells.
type podSum struct {
	served, loads uint32
	told          uint32
	by            [deciders]uint32
	ttft          sketch
	prompt, found uint64
}

func newWindows() *windows {
	w := &windows{numbers: map[place]uint16{}}
	for i, seconds := range explain.WindowSeconds {
		w.sums[i].length = time.Duration(seconds) * time.Second
	}
	return w
}

// turn takes in the running second of the tally. present are the pods that keep
// their number although nothing is counted for them.
func (w *windows) turn(t *tally, now time.Time, present map[place]bool) {
	w.idle = w.idle[:0]
	for p, n := range w.numbers {
		if !present[p] && w.sums[longWindow].picks[n] == 0 && w.pods[n].served == 0 {
			w.idle = append(w.idle, n)
		}
	}
	b, kept := t.turn(now, w.idle, w.spare)
	w.forget(kept)
	w.spare, b.at = b.at, nil
	b.end = now
	for _, f := range b.fresh {
		w.numbers[f.place] = f.n
		w.room(int(f.n) + 1)
	}
	w.take(b)
	w.leave(now)
	w.reloads.count(b, now)
}

// forget lets the idle numbers go that the tally has given up.
func (w *windows) forget(kept []uint16) {
	gone := make(map[uint16]bool, len(w.idle))
	for _, n := range w.idle {
		gone[n] = true
	}
	for _, n := range kept {
		delete(gone, n)
	}
	if len(gone) > 0 {
		maps.DeleteFunc(w.numbers, func(_ place, n uint16) bool { return gone[n] })
	}
}

// room makes room for n pods.
func (w *windows) room(n int) {
	for len(w.pods) < n {
		w.pods = append(w.pods, podSum{})
		for i := range w.sums {
			w.sums[i].picks = append(w.sums[i].picks, 0)
		}
	}
}

func (w *windows) take(b *bucket) {
	w.buckets = append(w.buckets, b)
	for i := range w.sums {
		s := &w.sums[i]
		s.totals.add(&b.totals)
		for k, n := range b.pods {
			s.picks[n] += uint32(b.cells[k].picks)
		}
	}
	for k, n := range b.pods {
		w.pods[n].merge(&b.cells[k], 1)
	}
}

// leave takes out the buckets that the windows have passed.
func (w *windows) leave(now time.Time) {
	for i := range w.sums {
		s := &w.sums[i]
		for s.first < len(w.buckets) && !w.buckets[s.first].middle().After(now.Add(-s.length)) {
			b := w.buckets[s.first]
			s.first++
			s.totals.subtract(&b.totals)
			for k, n := range b.pods {
				s.picks[n] -= uint32(b.count(k))
			}
			if i == midWindow {
				for k, n := range b.pods {
					w.pods[n].merge(&b.cells[k], ^uint32(0))
				}
				b.shrink()
			}
		}
	}
	// The longest window is the last to pass a bucket.
	passed := w.sums[longWindow].first
	w.buckets = slices.Delete(w.buckets, 0, passed)
	for i := range w.sums {
		w.sums[i].first -= passed
	}
}

// count is how often the k-th of its pods was picked.
func (b *bucket) count(k int) uint16 {
	if b.cells == nil {
		return b.picks[k]
	}
	return b.cells[k].picks
}

// merge adds a cell sign times, as [totals.merge] does.
func (p *podSum) merge(c *cell, sign uint32) {
	wide := uint64(int64(int32(sign)))
	p.served += sign * uint32(c.served)
	p.loads += sign * uint32(c.loads)
	p.told += sign * uint32(c.told)
	for i, n := range c.by {
		p.by[i] += sign * uint32(n)
	}
	for i, n := range c.ttft {
		p.ttft[i] += sign * uint32(n)
	}
	p.prompt += wide * uint64(c.prompt)
	p.found += wide * uint64(c.found)
}

// rates are the windows as a snapshot shows them.
func (w *windows) rates() []explain.WindowRates {
	out := make([]explain.WindowRates, len(w.sums))
	for i := range w.sums {
		t := &w.sums[i].totals
		out[i] = explain.WindowRates{
			Seconds: explain.WindowSeconds[i], Decisions: int(t.decisions), Refused: int(t.refused), Shed: int(t.shed),
			Relaxed: int(t.relaxed), Ties: int(t.ties), Completed: int(t.completed), Failed: int(t.failed), Stale: int(t.stale),
			AdapterLoads: int(t.adapterLoads), PredictedTokens: int(t.predicted), CachedTokens: int(t.cached),
			PickP50: quantile(t.pickTime[:], .5, pickTimeUnit), PickP99: quantile(t.pickTime[:], .99, pickTimeUnit),
			TTFTP50: quantile(t.ttft[:], .5, ttftUnit), TTFTP95: quantile(t.ttft[:], .95, ttftUnit),
		}
		if t.matched > 0 {
			out[i].MatchRatio = new(float64(t.matchRatio) / matchUnit / float64(t.matched))
		}
	}
	return out
}

// reloads are adapters that pods were made to load again, of the middle window.
type reloads struct {
	last  map[load]time.Time // when a pod last had to load an adapter
	again []reload           // oldest first
}

type reload struct {
	pod uint16
	at  time.Time
}

const (
	// loading is how long one load may show in picks: until the pod tells of it.
	loading = 5 * time.Second
	// maxPairs bounds the pods and adapters that are followed, and maxAgain the
	// reloads that are remembered.
	maxPairs = 1 << 14
	maxAgain = 1 << 14
)

// count takes in the loads of a bucket.
func (r *reloads) count(b *bucket, now time.Time) {
	if r.last == nil {
		r.last = map[load]time.Time{}
	}
	seconds := func(i int) time.Duration { return time.Duration(explain.WindowSeconds[i]) * time.Second }
	if len(b.loads) > 0 {
		maps.DeleteFunc(r.last, func(_ load, at time.Time) bool { return now.Sub(at) > seconds(longWindow) })
	}
	for _, l := range b.loads {
		before, known := r.last[l]
		if known && now.Sub(before) < loading || !known && len(r.last) >= maxPairs {
			continue
		}
		r.last[l] = now
		if known && len(r.again) < maxAgain {
			r.again = append(r.again, reload{l.pod, now})
		}
	}
	passed := 0
	for passed < len(r.again) && now.Sub(r.again[passed].at) >= seconds(midWindow) {
		passed++
	}
	r.again = slices.Delete(r.again, 0, passed)
}

// of counts the reloads by pod.
func (r *reloads) of() map[uint16]int {
	out := map[uint16]int{}
	for _, l := range r.again {
		out[l.pod]++
	}
	return out
}
