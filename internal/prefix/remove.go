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
	t.index.touch(blocks)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pod(s)
	if p == nil {
		t.staleMessages.Add(1)
		return 0, false
	}
	// A stretch of consecutive blocks, in either direction (engines evict the
	// last first), is cut at once.
	var open ref
	var from, to int
	for _, fp := range blocks {
		r, w := t.find(fp)
		if r != nil && r == open.run && wordOff(w) == to {
			to++
			continue
		}
		if r != nil && r == open.run && wordOff(w) == from-1 {
			from--
			continue
		}
		if open.run != nil {
			removed += t.cut(open, p, from, to)
			t.settle(open)
			if r == open.run { // which may be another by now
				r, w = t.find(fp)
			}
		}
		open, from, to = ref{r, wordID(w)}, wordOff(w), wordOff(w)+1
	}
	if open.run != nil {
		removed += t.cut(open, p, from, to)
		t.settle(open)
	}
	return removed, true
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
	for off, fp := range r.blocks()[a:b] {
		t.unindex(r, a+off, fp)
	}
}

// unindex makes a cell a dead one, if it is not.
func (t *Tree) unindex(r ref, off int, fp uint64) {
	if t.index.remove(fp, r.id, off) {
		t.blocks.Add(-1)
		r.live--
	}
}
