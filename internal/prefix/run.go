package prefix

import (
	"sync/atomic"
	"unsafe"
)

// run is a stretch of blocks, mostly of one chain, at the offsets 0 to n-1. A
// cell that is within n never changes, so who has compared it may trust it, and
// a run that left the tree stays as it was for those who still read it.
type run struct {
	cells atomic.Pointer[uint64] // the first of room cells
	first atomic.Uint64          // a span; most runs need no other
	more  atomic.Pointer[spanList]
	n     atomic.Uint32
	live  uint16    // cells that the index points at
	room  uint16    // cells there is memory for
	few   [2]uint64 // the cells of a run that is that short
}

// runBytes is the size of a run without its cells and spans, with its place in
// the run table.
const runBytes = 48 + 8

// newRun makes a run with memory for room blocks.
func newRun(room int) *run {
	r := &run{}
	if room <= len(r.few) {
		r.room = uint16(len(r.few))
		r.cells.Store(&r.few[0])
		return r
	}
	room = min(room, maxRun)
	r.room = uint16(room)
	r.cells.Store(&make([]uint64, room)[0])
	return r
}

// blocks are the cells of the run. The length is read before the cells: memory
// that grew is published before the length that needs it.
func (r *run) blocks() []uint64 {
	n := r.n.Load()
	return unsafe.Slice(r.cells.Load(), n)
}

// size is the number of cells, dead ones included.
func (r *run) size() int { return int(r.n.Load()) }

// cellBytes is the memory of the cells that is not part of the run itself.
func (r *run) cellBytes() int64 {
	if int(r.room) <= len(r.few) {
		return 0
	}
	return int64(r.room) * 8
}

// push appends a block. When there is no memory left it makes room for expect
// blocks, and by half of what there is at least.
func (r *run) push(fp uint64, expect int) {
	n := r.size()
	if n == int(r.room) {
		r.resize(max(n+expect, n+n/2, n+4))
	}
	unsafe.Slice(r.cells.Load(), r.room)[n] = fp
	r.n.Store(uint32(n) + 1)
}

// fit gives back the memory for cells beyond the last.
func (r *run) fit() {
	blocks := r.blocks()
	if len(blocks) > len(r.few) {
		r.resize(len(blocks))
		return
	}
	for off, fp := range blocks {
		if r.few[off] != fp { // else a reader may still have them from before
			r.few[off] = fp
		}
	}
	r.cells.Store(&r.few[0])
	r.room = uint16(len(r.few))
}

// resize copies the cells to other memory, which a reader may or may not see.
func (r *run) resize(room int) {
	room = min(room, maxRun)
	cells := make([]uint64, room)
	copy(cells, r.blocks())
	r.cells.Store(&cells[0])
	r.room = uint16(room)
}
