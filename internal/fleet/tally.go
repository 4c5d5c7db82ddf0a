package fleet

import (
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// maxNumbers is how many pods are counted one by one: as many as a pool can have,
// and as many that have left it.
const maxNumbers = 2 * pool.MaxEndpoints

// place is an endpoint.
type place struct{ pod, endpoint string }

// numbered is a pod that has got its number.
type numbered struct {
	n uint16
	place
}

// tally counts into the bucket of the running second.
type tally struct {
	mu      sync.Mutex
	open    *bucket
	numbers map[place]uint16
	names   []place // by number; zero = free
	free    []uint16
}

func newTally(now time.Time) *tally {
	return &tally{open: &bucket{begin: now}, numbers: map[place]uint16{}}
}

// number finds a pod's number, or gives it one; false when there is none left.
func (t *tally) number(p place) (uint16, bool) {
	if n, ok := t.numbers[p]; ok {
		return n, true
	}
	var n uint16
	switch last := len(t.free) - 1; {
	case last >= 0:
		n, t.free = t.free[last], t.free[:last]
		t.names[n] = p
	case len(t.names) < maxNumbers:
		n = uint16(len(t.names))
		t.names = append(t.names, p)
	default:
		return 0, false
	}
	t.numbers[p] = n
	t.open.fresh = append(t.open.fresh, numbered{n, p})
	return n, true
}

// picked counts a decision, also a refused one.
func (t *tally) picked(e *record.Entry) {
	d := e.Decision
	pickTime := class(e.Timings.Lookup+e.Timings.Scorers+e.Timings.Decide, pickTimeUnit)
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.open
	b.decisions++
	b.pickTime[pickTime]++
	if e.Picked < 0 {
		b.refused++
		if d.Refused == score.Saturated {
			b.shed++
		}
		return
	}
	result := &d.Results[e.Picked]
	if result.States[score.CacheMatch].Usable() {
		b.matched++
		b.matchRatio += uint64(min(max(0, result.Values[score.CacheMatch]), 1) * matchUnit)
	}
	if d.Relaxed {
		b.relaxed++
	}
	by := d.DecidedBy
	if e.Policy != "" && e.Policy != explain.PolicyScores {
		by = score.ByNothing
	} else if by.Tie() {
		b.ties++
	}
	loads := loadsAdapter(e, result)
	if loads {
		b.adapterLoads++
	}
	pod := &e.Inputs.Pods[e.Picked]
	n, ok := t.number(place{pod.Pod, pod.Endpoint})
	if !ok {
		return
	}
	c := b.cell(n)
	increase(&c.picks)
	increase(&c.by[decider(by)])
	if loads {
		increase(&c.loads)
		if len(b.loads) < maxLoads {
			b.loads = append(b.loads, load{pod: n, adapter: e.Inputs.Request.Adapter})
		}
	}
}

// loadsAdapter reports whether the picked pod has to load the adapter first.
func loadsAdapter(e *record.Entry, result *score.PodResult) bool {
	return e.Inputs.Request.Adapter != "" && result.States[score.AdapterMatch].Usable() && result.Values[score.AdapterMatch] == 0
}

// completed counts the end of a request that was served at p. predicted is −1 when
// nothing was.
func (t *tally) completed(p place, o *record.Outcome, predicted int, stale bool) {
	ttft := -1
	if o.TTFT >= 0 {
		ttft = class(o.TTFT, ttftUnit)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.open
	b.completed++
	if failed(o) {
		b.failed++
	}
	if stale {
		b.stale++
	}
	if predicted >= 0 && o.CachedTokens >= 0 {
		b.predicted += uint64(predicted)
		b.cached += uint64(o.CachedTokens)
	}
	if ttft >= 0 {
		b.ttft[ttft]++
	}
	n, ok := t.number(p)
	if !ok {
		return
	}
	c := b.cell(n)
	increase(&c.served)
	if ttft >= 0 {
		increase(&c.ttft[ttft])
	}
	if o.PromptTokens > 0 && o.CachedTokens >= 0 {
		increase(&c.told)
		c.prompt += uint32(o.PromptTokens)
		c.found += uint32(min(o.CachedTokens, o.PromptTokens))
	}
}

// firstError is the lowest HTTP status that is an error.
const firstError = 400

// failed reports whether a request ended without a success, as far as is known.
func failed(o *record.Outcome) bool { return o.Error != "" || o.Status >= firstError }

// turn closes the bucket of the running second and opens the next, whose places
// are kept in at. The numbers in idle are given up, unless they were used
// meanwhile; those that were are returned.
func (t *tally) turn(now time.Time, idle []uint16, at []uint16) (closed *bucket, kept []uint16) {
	clear(at)
	next := &bucket{begin: now, at: at}
	t.mu.Lock()
	defer t.mu.Unlock()
	closed, t.open = t.open, next
	for _, n := range idle {
		if int(n) < len(closed.at) && closed.at[n] != 0 {
			kept = append(kept, n)
			continue
		}
		delete(t.numbers, t.names[n])
		t.names[n] = place{}
		t.free = append(t.free, n)
	}
	return closed, kept
}
