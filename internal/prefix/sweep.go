package prefix

import "slices"

// sweepWork bounds a piece of a sweep, in runs visited and blocks looked at.
const sweepWork = 256

// sweep is a visit to all runs, in pieces. Runs that are copied meanwhile may
// come to an id that it has passed, so they are noted.
type sweep struct {
	next  uint32
	moved []uint32
}

// all calls visit, with the lock held, for every run that is there all the time
// until it says that it has seen enough.
func (t *Tree) all(visit func(ref) (work int, more bool)) {
	sw := &sweep{}
	t.mu.Lock()
	t.sweeps = append(t.sweeps, sw)
	t.mu.Unlock()
	for t.piece(sw, visit) {
		yield()
	}
	t.mu.Lock()
	t.sweeps = slices.DeleteFunc(t.sweeps, func(s *sweep) bool { return s == sw })
	t.mu.Unlock()
}

// piece is the part of a sweep that is done under one lock.
func (t *Tree) piece(sw *sweep, visit func(ref) (int, bool)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for work := 0; work < sweepWork; work++ {
		id, ok := t.nextRun(sw)
		if !ok {
			return false
		}
		r := t.runs.at(id)
		if r == nil {
			continue
		}
		n, more := visit(ref{r, id})
		if !more {
			return false
		}
		work += n
	}
	return true
}

// nextRun returns an id that the sweep has to visit, or none.
func (t *Tree) nextRun(sw *sweep) (uint32, bool) {
	if sw.next%chunkRuns == 0 {
		sw.next = t.runs.skip(sw.next)
	}
	if sw.next < t.runs.end() {
		sw.next++
		return sw.next - 1, true
	}
	if n := len(sw.moved); n > 0 {
		id := sw.moved[n-1]
		sw.moved = sw.moved[:n-1]
		return id, true
	}
	return 0, false
}

// purge removes what a pod left in former epochs.
func (t *Tree) purge(p *pod) {
	t.all(func(r ref) (int, bool) {
		if p.stale == 0 {
			return 0, false
		}
		work := t.purgeRun(r)
		return work, p.stale > 0
	})
}

// purgeRun removes the spans of all pods' former epochs from a run.
func (t *Tree) purgeRun(r ref) (work int) {
	before := r.more.Load().size()
	for k := r.spanCells() - 1; k >= 0; k-- {
		if k >= r.spanCells() { // the list shrank
			continue
		}
		w := r.spanCell(k).Load()
		if w == 0 || t.current(w) {
			continue
		}
		r.dropSpan(k)
		t.pods.Load().pods[spanSlot(w)].stale--
		t.dropUnheld(r, 0, spanFrom(w), spanTo(w))
		work += spanTo(w) - spanFrom(w)
	}
	t.runBytes.Add(r.more.Load().size() - before)
	if work > 0 {
		t.settle(r)
	}
	return work
}

// Retain takes from a pod the blocks for which keep is false and returns how
// many there were. After a full report, store the new set and then retain what
// is in it: so there is no moment in which the pod shows nothing. keep is
// called with the tree locked and must not use it. Blocks that the same pod
// stores at the same time may or may not be asked for. It is not ok, and is
// counted, when the generation is not the admitted one.
func (t *Tree) Retain(s Slot, keep func(fp uint64) bool) (removed int, ok bool) {
	t.mu.Lock()
	p := t.pod(s)
	t.mu.Unlock()
	if p == nil {
		t.staleMessages.Add(1)
		return 0, false
	}
	ok = true
	var own []uint64
	t.all(func(r ref) (int, bool) {
		if ok = p.admitted(s.Generation); !ok || p.spans == 0 {
			return 0, false
		}
		own = own[:0]
		for k := range r.spanCells() {
			if w := r.spanCell(k).Load(); spanOwner(w) == p.owner {
				own = append(own, w)
			}
		}
		work := 0
		for _, w := range own {
			removed += t.retainSpan(r, p, w, keep)
			work += spanTo(w) - spanFrom(w)
		}
		if work > 0 {
			t.settle(r)
		}
		return work, true
	})
	return removed, ok
}

// retainSpan cuts the blocks of one span for which keep is false.
func (t *Tree) retainSpan(r ref, p *pod, w uint64, keep func(uint64) bool) (removed int) {
	cells := r.all()
	from := spanFrom(w)
	for off := from; off < spanTo(w); off++ {
		if keep(cells[off]) {
			if from < off {
				removed += t.cut(r, p, from, off)
			}
			from = off + 1
		}
	}
	if from < spanTo(w) {
		removed += t.cut(r, p, from, spanTo(w))
	}
	return removed
}
