package prefix

import (
	"sync/atomic"
	"unsafe"
)

// run is a stretch of blocks, mostly of one chain, at the offsets from 0 on. A
// cell within the published length never changes, so who has compared it may
// trust it, and a run that left the tree stays as it was for those who still
// read it.
type run struct {
	cells  atomic.Pointer[uint64] // the first of room cells
	first  [1]atomic.Uint64       // a span; most runs need no other
	more   atomic.Pointer[spanList]
	shape  atomic.Uint32 // room<<16 | published length
	length uint16        // cells in use; the writer's
	live   uint16        // cells that the index points at; the writer's
	few    [2]uint64     // the cells of a run that is that short
}

// runBytes is the size of a run without its cells and spans, with its place in
// the run table.
const runBytes = 48 + 8

// newRun makes a run with memory for room blocks.
func newRun(room int) *run {
	r := &run{}
	if room <= len(r.few) {
		r.cells.Store(&r.few[0])
		r.shape.Store(uint32(len(r.few)) << 16)
		return r
	}
	r.resize(room)
	return r
}

// blocks are the published cells of the run. The length is read before the
// cells: memory that grew is published before a length that needs it.
func (r *run) blocks() []uint64 {
	n := r.shape.Load() & 0xffff
	return unsafe.Slice(r.cells.Load(), n)
}

// all are the cells of the run, for the writer.
func (r *run) all() []uint64 { return unsafe.Slice(r.cells.Load(), r.length) }

// has reports whether the block at off is fp, for the writer.
func (r *run) has(off int, fp uint64) bool {
	cells := r.all()
	return off < len(cells) && cells[off] == fp
}

// size is the number of cells, dead ones included, for the writer.
func (r *run) size() int { return int(r.length) }

// room is the number of cells there is memory for.
func (r *run) room() int { return int(r.shape.Load() >> 16) }

// cellBytes is the memory of the cells that is not part of the run itself.
func (r *run) cellBytes() int64 {
	if r.room() <= len(r.few) {
		return 0
	}
	return int64(r.room()) * 8
}

// push appends a block, which has to be published. When there is no memory left
// it makes room for expect blocks, and by half of what there is at least; it
// returns how many bytes that took.
func (r *run) push(fp uint64, expect int) (grown int64) {
	n := r.size()
	if n == r.room() {
		grown = -r.cellBytes()
		r.resize(max(n+expect, n+n/2, n+4))
		grown += r.cellBytes()
	}
	r.length++
	r.all()[n] = fp
	return grown
}

// publish shows all cells to readers.
func (r *run) publish() {
	if shape := r.shape.Load()&^0xffff | uint32(r.length); r.shape.Load() != shape {
		r.shape.Store(shape)
	}
}

// resize copies the cells to other memory, which a reader may or may not see,
// and publishes them.
func (r *run) resize(room int) {
	room = min(room, maxRun)
	cells := make([]uint64, room)
	copy(cells, r.all())
	r.cells.Store(&cells[0])
	r.shape.Store(uint32(room)<<16 | uint32(r.length))
}

// fit gives back the memory for cells beyond the last.
func (r *run) fit() {
	blocks := r.all()
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
	r.shape.Store(uint32(len(r.few))<<16 | uint32(r.length))
}
