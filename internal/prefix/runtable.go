package prefix

import (
	"math/bits"
	"sync/atomic"
)

const (
	chunkRuns = 512
	maxChunks = maxRuns / chunkRuns
	minChunks = 64 // a directory this small never shrinks
)

// runTable gives runs their ids. The lowest free one is taken first, so that
// memory comes back from the upper end.
type runTable struct {
	dir atomic.Pointer[[]atomic.Pointer[chunk]]

	// The rest is the writer's.
	free  []uint64 // one bit a chunk of dir: has a free place
	low   int      // no word of free below it has a bit set
	count int      // chunks in use
	top   int      // no chunk in use from here on
}

// chunk holds the runs of 512 consecutive ids.
type chunk struct {
	runs [chunkRuns]atomic.Pointer[run]
	free [chunkRuns / 64]uint64
	used int
}

// at returns the run with that id, or nil.
func (t *runTable) at(id uint32) *run {
	dir := t.dir.Load()
	c := int(id / chunkRuns)
	if dir == nil || c >= len(*dir) {
		return nil
	}
	ch := (*dir)[c].Load()
	if ch == nil {
		return nil
	}
	return ch.runs[id%chunkRuns].Load()
}

// end is a bound above all ids in use.
func (t *runTable) end() uint32 { return uint32(t.top) * chunkRuns }

// skip returns the first id from id on whose chunk is in use, or end.
func (t *runTable) skip(id uint32) uint32 {
	for ; id < t.end(); id = (id/chunkRuns + 1) * chunkRuns {
		if (*t.dir.Load())[id/chunkRuns].Load() != nil {
			return id
		}
	}
	return t.end()
}

// put gives r an id, or none when all are taken.
func (t *runTable) put(r *run) (id uint32, ok bool) {
	c, ok := t.place()
	if !ok {
		return 0, false
	}
	slot := &(*t.dir.Load())[c]
	ch := slot.Load()
	if ch == nil {
		ch = newChunk(c)
		slot.Store(ch)
		t.count++
		t.top = max(t.top, c+1)
	}
	for i := range ch.free {
		if ch.free[i] == 0 {
			continue
		}
		k := i*64 + bits.TrailingZeros64(ch.free[i])
		ch.free[i] &= ch.free[i] - 1
		ch.used++
		ch.runs[k].Store(r)
		id = uint32(c*chunkRuns + k)
		break
	}
	if ch.used == chunkRuns {
		t.free[c/64] &^= 1 << (c % 64)
	}
	return id, true
}

func newChunk(c int) *chunk {
	ch := &chunk{}
	for i := range ch.free {
		ch.free[i] = ^uint64(0)
	}
	if c == 0 { // id 0 is no run
		ch.free[0] &^= 1
		ch.used = 1
	}
	return ch
}

// place finds the lowest chunk with a free place; the directory grows for it.
func (t *runTable) place() (c int, ok bool) {
	for ; t.low < len(t.free); t.low++ {
		if w := t.free[t.low]; w != 0 {
			return t.low*64 + bits.TrailingZeros64(w), true
		}
	}
	size := 0
	if dir := t.dir.Load(); dir != nil {
		size = len(*dir)
	}
	if size == maxChunks {
		return 0, false
	}
	t.resize(max(minChunks, size*2))
	return size, true
}

// resize copies the directory. Readers of the old one find what they found
// before; an id that is newer than it is read after the new one is there.
func (t *runTable) resize(size int) {
	dir := make([]atomic.Pointer[chunk], size)
	free := make([]uint64, size/64)
	if old := t.dir.Load(); old != nil {
		for c := range min(size, len(*old)) {
			dir[c].Store((*old)[c].Load())
		}
	}
	for c := copy(free, t.free); c < len(free); c++ {
		free[c] = ^uint64(0)
	}
	t.free = free
	t.dir.Store(&dir)
}

// drop takes a run out; its id is free.
func (t *runTable) drop(id uint32) {
	dir := *t.dir.Load()
	c, k := int(id/chunkRuns), int(id%chunkRuns)
	ch := dir[c].Load()
	ch.runs[k].Store(nil)
	ch.free[k/64] |= 1 << (k % 64)
	ch.used--
	t.free[c/64] |= 1 << (c % 64)
	t.low = min(t.low, c/64)
	if ch.used > 0 {
		return
	}
	dir[c].Store(nil)
	t.count--
	for t.top > 0 && dir[t.top-1].Load() == nil {
		t.top--
	}
	size := len(dir)
	for size > minChunks && t.top <= size/4 {
		size /= 2
	}
	if size < len(dir) {
		t.resize(size)
		t.low = min(t.low, len(t.free))
	}
}
