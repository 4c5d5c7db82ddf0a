package fleet

import (
	"math"
	"time"

	"github.com/eppctl/eppctl/score"
)

// totals are the counts of all pods together.
type totals struct {
	decisions, refused, shed, relaxed, ties uint32
	completed, failed, stale, adapterLoads  uint32
	matched                                 uint32 // picks whose cache match is known
	matchRatio                              uint64 // … the sum of the ratios, in parts of matchUnit
	predicted, cached                       uint64 // tokens, where both are known
	pickTime, ttft                          sketch
}

const matchUnit = 1 << 20

func (t *totals) add(o *totals) { t.merge(o, 1) }

func (t *totals) subtract(o *totals) { t.merge(o, math.MaxUint32) }

// merge adds o sign times; sign is 1 or, modulo 2³², −1.
func (t *totals) merge(o *totals, sign uint32) {
	wide := uint64(int64(int32(sign)))
	for _, c := range [...]struct{ to, from *uint32 }{
		{&t.decisions, &o.decisions},
		{&t.refused, &o.refused},
		{&t.shed, &o.shed},
		{&t.relaxed, &o.relaxed},
		{&t.ties, &o.ties},
		{&t.completed, &o.completed},
		{&t.failed, &o.failed},
		{&t.stale, &o.stale},
		{&t.adapterLoads, &o.adapterLoads},
		{&t.matched, &o.matched},
	} {
		*c.to += sign * *c.from
	}
	t.matchRatio += wide * o.matchRatio
	t.predicted += wide * o.predicted
	t.cached += wide * o.cached
	for i := range classes {
		t.pickTime[i] += sign * o.pickTime[i]
		t.ttft[i] += sign * o.ttft[i]
	}
}

// What a pick can be decided by: first what is no factor, then the factors. Those
// beyond share the last place.
const (
	noFactors = -int(score.ByTieSeed) // ByNothing (with another policy) to ByTieSeed
	deciders  = noFactors + score.NumFactors + 6
)

func decider(by score.DecidedBy) int {
	if by < 0 {
		return min(-int(by), noFactors) - 1
	}
	return min(noFactors+int(by), deciders-1)
}

// cell is what one pod did in a second. Its counts stop at their largest value.
type cell struct {
	picks, served, loads uint16
	told                 uint16 // served requests of which the tokens below are known
	by                   [deciders]uint16
	ttft                 [classes]uint16
	prompt, found        uint32 // tokens of served requests, and those of them from its cache
}

func increase(n *uint16) { *n += min(1, math.MaxUint16-*n) }

// load is a pick that made a pod load an adapter.
type load struct {
	pod     uint16
	adapter string
}

// maxLoads bounds the loads that are remembered of a second, beside their number.
const maxLoads = 256

// bucket is what happened in about a second. It is written under the tally's lock
// while it is open, and after that never again.
type bucket struct {
	totals
	begin, end time.Time
	pods       []uint16 // their numbers
	cells      []cell   // one for each of them; nil when only their picks are left
	picks      []uint16 // … these
	loads      []load
	fresh      []numbered // pods that got their number meanwhile
	at         []uint16   // by a pod's number: 1 + its place in pods; 0: none. While it is open
}

// middle is when it happened, for the windows.
func (b *bucket) middle() time.Time { return b.begin.Add(b.end.Sub(b.begin) / 2) }

// cell finds a pod's cell.
func (b *bucket) cell(pod uint16) *cell {
	for int(pod) >= len(b.at) {
		b.at = append(b.at, 0)
	}
	if b.at[pod] == 0 {
		b.pods, b.cells = append(b.pods, pod), append(b.cells, cell{})
		b.at[pod] = uint16(len(b.pods))
	}
	return &b.cells[b.at[pod]-1]
}

// shrink keeps of the pods only how often they were picked.
func (b *bucket) shrink() {
	b.picks = make([]uint16, len(b.cells))
	for i := range b.cells {
		b.picks[i] = b.cells[i].picks
	}
	b.cells = nil
}
