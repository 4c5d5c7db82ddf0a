package prefix

import (
	"slices"
	"sync/atomic"
)

// fewDead is a number of cells that are not worth the work to reclaim.
const fewDead = 8

// settle gives back the memory of a run that has lost blocks: all of it when
// none is left, the dead cells' when they are more than the live ones.
func (t *Tree) settle(r ref) {
	live, size := int(r.live), r.size()
	switch {
	case live == 0:
		t.freeRun(r)
	case size-live > fewDead && live*2 < size:
		t.compact(r)
	}
}

// offsets maps the cells of a run to those of its copy; -1 is not copied.
type offsets [maxRun]int16

// compact replaces a run by a copy without dead cells and former epochs' spans.
func (t *Tree) compact(old ref) {
	words, others := t.currentSpans(old)
	var held offsets
	live := held.number(words, old.size())
	if live == 0 || t.runCount.Load() == maxRuns-1 {
		return // a purge is about to collect the rest, or there is no id left
	}
	fresh := newRun(live)
	for off, fp := range old.all() {
		if held[off] >= 0 {
			fresh.push(fp, 1)
		}
	}
	fresh.publish()
	t.setSpans(fresh, words, &held)
	fresh.live = uint16(live)
	to, _ := t.addRun(fresh)
	for off, fp := range old.all() {
		if held[off] >= 0 {
			t.index.move(fp, old, off, to, int(held[off]))
		} else if others && t.index.remove(fp, old.id, off) {
			t.blocks.Add(-1)
		}
	}
	t.freeRun(old)
	for _, sw := range t.sweeps {
		sw.moved = append(sw.moved, to.id)
	}
}

// currentSpans returns the spans of a run that count, by pod and offset, and
// whether there are others.
func (t *Tree) currentSpans(r ref) (words []uint64, others bool) {
	words = make([]uint64, 0, r.spanCells())
	for k := range r.spanCells() {
		w := r.spanCell(k).Load()
		switch {
		case w == 0:
		case t.current(w):
			words = append(words, w)
		default:
			others = true
		}
	}
	slices.Sort(words)
	return words, others
}

// number assigns consecutive offsets to the cells that a span covers and
// returns how many there are.
func (o *offsets) number(words []uint64, size int) (live int) {
	for off := range o[:size] {
		o[off] = -1
	}
	for _, w := range words {
		clear(o[spanFrom(w):spanTo(w)])
	}
	for off := range o[:size] {
		if o[off] == 0 {
			o[off] = int16(live)
			live++
		}
	}
	return live
}

// setSpans gives a new run the sorted spans of another, at their new offsets.
// Two of a pod become one when all cells between them are gone.
func (t *Tree) setSpans(r *run, words []uint64, to *offsets) {
	pods := t.pods.Load().pods
	merged := words[:0]
	for _, w := range words {
		o, from := spanOwner(w), int(to[spanFrom(w)])
		end := from + spanTo(w) - spanFrom(w)
		if n := len(merged); n > 0 && spanOwner(merged[n-1]) == o && spanTo(merged[n-1]) == from {
			merged[n-1] = o.span(spanFrom(merged[n-1]), end)
			pods[spanSlot(w)].spans--
			continue
		}
		merged = append(merged, o.span(from, end))
	}
	r.first[0].Store(merged[0])
	if rest := merged[1:]; len(rest) > 0 {
		l := &spanList{cells: make([]atomic.Uint64, len(rest)), used: len(rest)}
		for k, w := range rest {
			l.cells[k].Store(w)
		}
		r.more.Store(l)
	}
}
