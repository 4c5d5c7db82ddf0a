package prefix

import "runtime"

// Remove takes blocks from those that a pod holds and returns how many of them
// it held. Blocks behind a removed one stay the pod's, out of reach until it
// returns. It is not ok, and the message is dropped and counted, when the
// generation is not the admitted one.
func (t *Tree) Remove(s Slot, blocks []uint64) (removed int, ok bool) {
	for first := true; first || len(blocks) > 0; first = false {
		piece := blocks[:min(len(blocks), pieceBlocks)]
		n, ok := t.removePiece(s, piece)
		removed += n
		if !ok {
			return removed, false
		}
		if blocks = blocks[len(piece):]; len(blocks) > 0 {
			yield()
		}
	}
	return removed, true
}

func (t *Tree) removePiece(s Slot, blocks []uint64) (removed int, ok bool) {
	var array [pieceBlocks]uint64
	hashes := t.warm(array[:0], blocks)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pod(s)
	if p == nil {
		t.staleMessages.Add(1)
		return 0, false
	}
	var c stretch
	for k, fp := range blocks {
		if c.extend(fp) {
			continue
		}
		r, w, _ := t.seek(hashes[k], fp)
		if r == c.run && c.join(wordOff(w)) {
			continue
		}
		if c.run != nil {
			removed += t.cut(c.ref, p, c.from, c.to)
			t.settle(c.ref)
			if r == c.run { // which may be another by now
				r, w, _ = t.seek(hashes[k], fp)
			}
		}
		c = stretch{ref{r, wordID(w)}, wordOff(w), wordOff(w) + 1}
	}
	if c.run != nil {
		removed += t.cut(c.ref, p, c.from, c.to)
		t.settle(c.ref)
	}
	return removed, true
}

// stretch is a part of a run that is removed at once: the cells [from, to). It
// grows in either direction, for engines evict the end of a chain first.
type stretch struct {
	ref
	from, to int
}

// join adds the cell at off when it is next to the others.
func (c *stretch) join(off int) bool {
	switch {
	case c.run == nil:
		return false
	case off == c.to:
		c.to++
	case off == c.from-1:
		c.from--
	default:
		return false
	}
	return true
}

// extend adds the cell of fp when it is next to the others, without asking the
// index: in a run without dead cells it would say no other.
func (c *stretch) extend(fp uint64) bool {
	switch {
	case c.run == nil || int(c.live) != c.size():
		return false
	case c.has(c.to, fp):
		c.to++
	case c.from > 0 && c.has(c.from-1, fp):
		c.from--
	default:
		return false
	}
	return true
}

// warm hashes blocks that a writer is about to look up, and loads what it will
// need for that while it does not yet hold the lock: the first block's run,
// whose parts can be found one after the other only, and the buckets of all.
func (t *Tree) warm(hashes, blocks []uint64) []uint64 {
	if len(blocks) > 0 {
		t.find(blocks[0])
	}
	return t.index.touch(hashes, blocks)
}

// yield lets other writers have their turn between two pieces of work.
func yield() { runtime.Gosched() }

// cut takes the blocks [from, to) of a run from a pod, and out of the index
// those that nobody else holds. The run has to be settled afterwards.
func (t *Tree) cut(r ref, p *pod, from, to int) (removed int) {
	before := r.more.Load().size()
	for {
		k := r.overlap(p.owner, from, to)
		if k < 0 {
			break
		}
		a, b, spans := r.trim(k, from, to)
		removed += b - a
		p.spans += spans
		t.dropUnheld(r, 0, a, b)
	}
	t.runBytes.Add(r.more.Load().size() - before)
	p.blocks.Add(int64(-removed))
	return removed
}

// overlap finds the place of a span of o that has a block of [from, to), or -1.
func (r *run) overlap(o owner, from, to int) int {
	for k := range r.spanCells() {
		w := r.spanCell(k).Load()
		if spanOwner(w) == o && spanFrom(w) < to && spanTo(w) > from {
			return k
		}
	}
	return -1
}

// trim takes [from, to) out of the span at the k-th place. It returns what it
// took, and how many spans there are more by it (-1 to 1).
func (r *run) trim(k, from, to int) (a, b, spans int) {
	w := r.spanCell(k).Load()
	o, lo, hi := spanOwner(w), spanFrom(w), spanTo(w)
	a, b = max(lo, from), min(hi, to)
	switch {
	case lo < a && b < hi:
		r.addSpan(k, o.span(b, hi))
		k = min(k, r.spanCells()-1)
		for r.spanCell(k).Load() != w { // a copy only moves it down
			k--
		}
		r.spanCell(k).Store(o.span(lo, a))
		return a, b, 1
	case lo < a:
		r.spanCell(k).Store(o.span(lo, a))
		return a, b, 0
	case b < hi:
		r.spanCell(k).Store(o.span(b, hi))
		return a, b, 0
	}
	r.dropSpan(k)
	return a, b, -1
}

// dropUnheld takes those blocks of [a, b) out of the index that no span from
// the k-th place on covers.
func (t *Tree) dropUnheld(r ref, k, a, b int) {
	for n := r.spanCells(); k < n; k++ {
		w := r.spanCell(k).Load()
		if w == 0 || spanFrom(w) >= b || spanTo(w) <= a || !t.current(w) {
			continue
		}
		if a < spanFrom(w) {
			t.dropUnheld(r, k+1, a, spanFrom(w))
		}
		if a = spanTo(w); a >= b {
			return
		}
	}
	dropped := 0
	for off, fp := range r.all()[a:b] {
		if t.index.remove(fp, r.id, a+off) { // else it is a dead cell already
			dropped++
		}
	}
	r.live -= uint16(dropped)
	t.blocks.Add(int64(-dropped))
}
