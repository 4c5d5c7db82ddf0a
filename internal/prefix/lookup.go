package prefix

import (
	"math/bits"
	"sync/atomic"
)

// Lookup sets counts[i], for each slot index i, to the number of consecutive
// blocks from blocks[0] on that the pod there holds, and returns the highest.
// Indices beyond counts are left out, of the return value too; [Tree.Slots] is
// the length that has them all. It allocates nothing and takes no lock.
func (t *Tree) Lookup(blocks []uint64, counts []uint32) int {
	clear(counts)
	epochs := t.pods.Load().epochs
	slots := min(len(counts), len(epochs))
	w := walk{blocks: blocks, counts: counts[:slots], epochs: epochs[:slots]}
	// A block stands in one place only, together with all pods that hold it.
	// So nobody goes further in a run than the deepest there, and who stopped
	// before it is done.
	for w.at < len(blocks) {
		r, word := t.find(blocks[w.at])
		if r == nil {
			break
		}
		deepest := w.credit(r, wordOff(word))
		if deepest == 0 {
			break
		}
		w.at += deepest
	}
	return w.at
}

// Holds reports whether the pod with that slot index holds a block, whatever is
// before it. It takes no lock.
func (t *Tree) Holds(slot uint32, block uint64) bool {
	epochs := t.pods.Load().epochs
	if int(slot) >= len(epochs) {
		return false
	}
	r, word := t.find(block)
	if r == nil {
		return false
	}
	o, off := makeOwner(slot, epochs[slot].Load()), wordOff(word)
	holds := func(cells []atomic.Uint64) bool {
		for k := range cells {
			s := cells[k].Load()
			if s != 0 && spanOwner(s) == o && off >= spanFrom(s) && off < spanTo(s) {
				return true
			}
		}
		return false
	}
	if holds(r.first[:]) {
		return true
	}
	l := r.more.Load()
	return l != nil && holds(l.cells)
}

// find returns the run that a block stands in and its index word, or nil. It
// takes no lock.
func (t *Tree) find(fp uint64) (*run, uint64) {
	h := t.index.hash(fp)
	sh, tag := t.index.shard(h), tagOf(h)
restart:
	tb := sh.Load()
	if tb == nil {
		return nil, 0
	}
	b := tb.home(tag)
	for range tb.buckets {
		bk := &tb.buckets[b]
		for mask := bk.tagged(tag); mask != 0; mask &= mask - 1 {
			c := bits.TrailingZeros64(mask)
			w := bk.cells[c].Load()
			if w>>tagShift != tag || w == 0 {
				continue
			}
			r := t.runs.at(wordID(w))
			if r != nil && r.is(wordOff(w), fp) {
				return r, w
			}
			// Another block with the same tag, unless the block moved between
			// the loads: then its old place is gone, and one of these differs.
			if bk.cells[c].Load() != w || t.runs.at(wordID(w)) != r || sh.Load() != tb {
				goto restart
			}
		}
		if bk.past.Load() == 0 {
			break
		}
		b = tb.after(b)
	}
	return nil, 0
}

// is reports whether the block at off is fp.
func (r *run) is(off int, fp uint64) bool {
	cells := r.blocks()
	return off < len(cells) && cells[off] == fp
}

// walk is a lookup under way: the blocks before at are done. counts and epochs
// are of one length.
type walk struct {
	blocks []uint64
	counts []uint32
	epochs []atomic.Uint32
	at     int
}

// credit counts the blocks from at on that stand in r from off on, for the pods
// that hold all before them, and returns the highest number.
func (w *walk) credit(r *run, off int) int {
	m := equal(r.blocks()[off:], w.blocks[w.at:])
	deepest := w.spans(r.first[:], off, m)
	if l := r.more.Load(); l != nil {
		deepest = max(deepest, w.spans(l.cells, off, m))
	}
	return deepest
}

// spans credits the pods of some spans with the blocks of theirs from off on, m
// at most.
func (w *walk) spans(cells []atomic.Uint64, off, m int) (deepest int) {
	at, counts := uint32(w.at), w.counts
	epochs := w.epochs[:len(counts)]
	for k := range cells {
		s := cells[k].Load()
		slot := int(spanSlot(s))
		if off < spanFrom(s) || off >= spanTo(s) || slot >= len(counts) {
			continue
		}
		if counts[slot] != at || epochs[slot].Load() != spanEpoch(s) {
			continue
		}
		n := min(spanTo(s)-off, m)
		counts[slot] = at + uint32(n)
		deepest = max(deepest, n)
	}
	return deepest
}

// equal is the length of the common start of a and b, of which the first
// blocks are known to be equal. It compares 32 blocks in one go while it can:
// equal arrays are memory that the runtime compares with vector instructions.
func equal(a, b []uint64) int {
	const step = 32
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	m := 0
	for n-m >= step && *(*[step]uint64)(a[m:]) == *(*[step]uint64)(b[m:]) {
		m += step
	}
	for m < n && a[m] == b[m] {
		m++
	}
	return m
}
