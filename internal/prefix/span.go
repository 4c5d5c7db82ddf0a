package prefix

import "sync/atomic"

// A span says that a pod holds the blocks from..last of a run. From the top: 24
// bits epoch, 20 bits slot index, 10 bits from, 10 bits last. Epochs are never
// 0, so 0 is no span. One pod's spans of a run neither overlap nor touch; while
// the writer works a reader may see two of them overlap.
const (
	epochBits = 24
	slotBits  = 20

	ownerShift = 2 * offBits
	epochShift = ownerShift + slotBits
	slotMask   = 1<<slotBits - 1
	maxEpoch   = 1<<epochBits - 1
)

// owner is the upper part of a span: a pod in one of its epochs.
type owner uint64

func makeOwner(slot, epoch uint32) owner {
	return owner(uint64(epoch)<<slotBits | uint64(slot))
}

// span builds the word for the blocks [from, to).
func (o owner) span(from, to int) uint64 {
	return uint64(o)<<ownerShift | uint64(from)<<offBits | uint64(to-1)
}

func spanOwner(w uint64) owner  { return owner(w >> ownerShift) }
func spanSlot(w uint64) uint32  { return uint32(w >> ownerShift & slotMask) }
func spanEpoch(w uint64) uint32 { return uint32(w >> epochShift) }
func spanFrom(w uint64) int     { return int(w >> offBits & offMask) }
func spanTo(w uint64) int       { return int(w&offMask) + 1 }

// spanList holds the spans of a run beyond its first. Cells are set, changed
// and set to 0 in place, so that a reader on its way through never misses a
// span that merely moved; to grow or shrink is to build another list.
type spanList struct {
	cells []atomic.Uint64
	used  int // cells that are not 0; the writer's
}

// listHeader is what a list costs beside its cells, in bytes.
const listHeader = 32

func (l *spanList) size() int64 {
	if l == nil {
		return 0
	}
	return listHeader + 8*int64(len(l.cells))
}

// spanCells is the number of places for a span, [run.spanCell] the k-th.
func (r *run) spanCells() int {
	if l := r.more.Load(); l != nil {
		return 1 + len(l.cells)
	}
	return 1
}

func (r *run) spanCell(k int) *atomic.Uint64 {
	if k == 0 {
		return &r.first[0]
	}
	return &r.more.Load().cells[k-1]
}

// addSpan places a new span behind the k-th place (-1: anywhere). A reader goes
// through the places in order: the part of a span that is split off has to
// come behind it to be seen when its first part has shrunk already.
func (r *run) addSpan(behind int, w uint64) {
	if behind < 0 && r.first[0].Load() == 0 {
		r.first[0].Store(w)
		return
	}
	l := r.more.Load()
	if l != nil && l.used < len(l.cells) {
		for c := max(behind, 0); c < len(l.cells); c++ {
			if l.cells[c].Load() == 0 {
				l.cells[c].Store(w)
				l.used++
				return
			}
		}
	}
	used := 0
	if l != nil {
		used = l.used
	}
	grown := l.copy(max(3, used+1+used/2))
	grown.cells[used].Store(w)
	grown.used++
	r.more.Store(grown)
}

// dropSpan empties the k-th place. Places may shift by it.
func (r *run) dropSpan(k int) {
	if k == 0 {
		r.first[0].Store(0)
		return
	}
	l := r.more.Load()
	l.cells[k-1].Store(0)
	l.used--
	switch {
	case l.used == 0:
		r.more.Store(nil)
	case len(l.cells) > 8 && l.used*2 < len(l.cells):
		r.more.Store(l.copy(l.used + l.used/4))
	}
}

// copy makes a list with the same spans, close together, and the given room.
func (l *spanList) copy(room int) *spanList {
	c := &spanList{cells: make([]atomic.Uint64, room)}
	if l == nil {
		return c
	}
	for k := range l.cells {
		if w := l.cells[k].Load(); w != 0 {
			c.cells[c.used].Store(w)
			c.used++
		}
	}
	return c
}

// hold makes o's spans cover [from, to), and returns how many blocks and spans
// o has more by it.
func (r *run) hold(o owner, from, to int) (blocks, spans int) {
	lo, hi, last, merged := from, to, -1, 0
	blocks = to - from
	for k := range r.spanCells() {
		w := r.spanCell(k).Load()
		if spanOwner(w) != o || spanFrom(w) > to || spanTo(w) < from {
			continue
		}
		blocks -= min(to, spanTo(w)) - max(from, spanFrom(w))
		lo, hi = min(lo, spanFrom(w)), max(hi, spanTo(w))
		last = k
		merged++
	}
	if merged == 0 {
		r.addSpan(-1, o.span(from, to))
		return blocks, 1
	}
	// The whole goes to the last place: a reader that finds one of the parts
	// gone has the whole still before it.
	union := o.span(lo, hi)
	if cell := r.spanCell(last); cell.Load() != union {
		cell.Store(union)
	}
	for k := last - 1; k >= 0 && merged > 1; k-- {
		w := r.spanCell(k).Load()
		if spanOwner(w) == o && w != union && spanFrom(w) >= lo && spanTo(w) <= hi {
			r.dropSpan(k)
			k = min(k, r.spanCells()) // what shifts comes to places still ahead
			merged--
			spans--
		}
	}
	return blocks, spans
}
