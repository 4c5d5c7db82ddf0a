package prefix

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// reference is the tree, slow and obviously right: each pod is a set.
type reference struct {
	generation map[uint32]uint32
	open       map[uint32]bool
	held       map[uint32]map[uint64]bool
}

func newReference() *reference {
	return &reference{
		generation: map[uint32]uint32{},
		open:       map[uint32]bool{},
		held:       map[uint32]map[uint64]bool{},
	}
}

func (r *reference) isOpen(s Slot) bool {
	return r.open[s.Index] && r.generation[s.Index] == s.Generation
}

func (r *reference) admit(s Slot) {
	if g, ok := r.generation[s.Index]; r.isOpen(s) || ok && s.Generation < g {
		return
	}
	r.generation[s.Index], r.open[s.Index] = s.Generation, true
	r.held[s.Index] = map[uint64]bool{}
}

func (r *reference) store(s Slot, blocks []uint64) bool {
	if !r.isOpen(s) {
		return false
	}
	for _, fp := range blocks {
		r.held[s.Index][fp] = true
	}
	return true
}

func (r *reference) remove(s Slot, blocks []uint64) (int, bool) {
	gone := map[uint64]bool{}
	for _, fp := range blocks {
		gone[fp] = true
	}
	return r.retain(s, func(fp uint64) bool { return !gone[fp] })
}

func (r *reference) retain(s Slot, keep func(uint64) bool) (removed int, ok bool) {
	if !r.isOpen(s) {
		return 0, false
	}
	for fp := range r.held[s.Index] {
		if !keep(fp) {
			delete(r.held[s.Index], fp)
			removed++
		}
	}
	return removed, true
}

func (r *reference) clear(s Slot) bool {
	_, ok := r.retain(s, func(uint64) bool { return false })
	return ok
}

func (r *reference) release(s Slot) {
	if r.clear(s) {
		r.open[s.Index] = false
	}
}

func (r *reference) lookup(blocks []uint64, slots int) (counts []uint32, deepest int) {
	counts = make([]uint32, slots)
	for slot := range counts {
		n := 0
		for n < len(blocks) && r.held[uint32(slot)][blocks[n]] {
			n++
		}
		counts[slot] = uint32(n)
		deepest = max(deepest, n)
	}
	return counts, deepest
}

func (r *reference) blocks() int {
	all := map[uint64]bool{}
	for _, held := range r.held {
		for fp := range held {
			all[fp] = true
		}
	}
	return len(all)
}

func (r *reference) slots() int {
	n := 0
	for slot, open := range r.open {
		if open {
			n = max(n, int(slot)+1)
		}
	}
	return n
}

// compare holds the tree against the reference for some chains.
func (r *reference) compare(t *Tree, chains [][]uint64) error {
	if got, want := t.Stats().Blocks, r.blocks(); got != want {
		return fmt.Errorf("Blocks = %d, want %d", got, want)
	}
	if got, want := t.Slots(), r.slots(); got != want {
		return fmt.Errorf("Slots() = %d, want %d", got, want)
	}
	for slot, g := range r.generation {
		if got, want := t.PodBlocks(Slot{slot, g}), len(r.held[slot]); got != want {
			return fmt.Errorf("PodBlocks(%d) = %d, want %d", slot, got, want)
		}
	}
	for _, chain := range chains {
		counts := make([]uint32, t.Slots())
		for i := range counts {
			counts[i] = 99 // to be overwritten
		}
		deepest := t.Lookup(chain, counts)
		want, wantDeepest := r.lookup(chain, len(counts))
		if !slices.Equal(counts, want) || deepest != wantDeepest {
			return fmt.Errorf("Lookup(%x) = %v, %d, want %v, %d", chain, counts, deepest, want, wantDeepest)
		}
	}
	return checkTree(t)
}

// checkTree verifies what the tree relies on, with no writer at work.
func checkTree(t *Tree) error {
	words, tableBytes := 0, int64(0)
	for s := range t.index.shards {
		tb := t.index.shards[s].Load()
		if tb == nil {
			continue
		}
		tableBytes += tb.size()
		n, err := checkTable(t, tb)
		if err != nil {
			return fmt.Errorf("shard %d: %w", s, err)
		}
		words += n
	}
	if int64(words) != t.blocks.Load() || tableBytes != t.index.bytes.Load() {
		return fmt.Errorf("index has %d words, %d bytes; counters say %d, %d",
			words, tableBytes, t.blocks.Load(), t.index.bytes.Load())
	}
	return checkRuns(t, words)
}

func checkTable(t *Tree, tb *table) (words int, err error) {
	past := make([]uint64, len(tb.buckets))
	for b := range tb.buckets {
		for c := range tb.buckets[b].cells {
			w := tb.buckets[b].cells[c].Load()
			if w == 0 {
				continue
			}
			words++
			for p := tb.home(w >> tagShift); p != b; p = tb.after(p) {
				past[p]++
			}
			r := t.runs.at(wordID(w))
			if r == nil || wordOff(w) >= r.size() {
				return 0, fmt.Errorf("word %x points nowhere", w)
			}
			if found, at := t.find(r.all()[wordOff(w)]); found != r || at != w {
				return 0, fmt.Errorf("block of word %x is found at %x", w, at)
			}
		}
	}
	for b := range past {
		if got := tb.buckets[b].past.Load(); got != past[b] {
			return 0, fmt.Errorf("bucket %d: past = %d, want %d", b, got, past[b])
		}
	}
	if words != tb.live {
		return 0, fmt.Errorf("table has %d words, live = %d", words, tb.live)
	}
	return words, nil
}

func checkRuns(t *Tree, words int) error {
	runs, bytes, live := 0, int64(0), 0
	spans := map[owner]int{}
	blocks := map[owner]int{}
	for id := range t.runs.end() {
		r := t.runs.at(id)
		if r == nil {
			continue
		}
		runs++
		bytes += r.footprint()
		live += int(r.live)
		if err := checkRun(t, ref{r, id}, spans, blocks); err != nil {
			return fmt.Errorf("run %d: %w", id, err)
		}
	}
	if runs != int(t.runCount.Load()) || bytes != t.runBytes.Load() || live != words {
		return fmt.Errorf("%d runs, %d bytes, %d live cells; want %d, %d, %d",
			runs, bytes, live, t.runCount.Load(), t.runBytes.Load(), words)
	}
	for _, p := range t.pods.Load().pods {
		if p.stale != 0 || p.spans != spans[p.owner] || int(p.blocks.Load()) != blocks[p.owner] {
			return fmt.Errorf("pod %x: %d stale, %d spans, %d blocks; want 0, %d, %d",
				p.owner, p.stale, p.spans, p.blocks.Load(), spans[p.owner], blocks[p.owner])
		}
	}
	return nil
}

func checkRun(t *Tree, r ref, spans, blocks map[owner]int) error {
	covered := map[int]bool{}
	mine := map[owner]map[int]bool{}
	used := 0
	for k := range r.spanCells() {
		w := r.spanCell(k).Load()
		if w == 0 {
			continue
		}
		if k > 0 {
			used++
		}
		o := spanOwner(w)
		if !t.current(w) || spanTo(w) > r.size() || spanFrom(w) >= spanTo(w) {
			return fmt.Errorf("bad span %x", w)
		}
		if mine[o] == nil {
			mine[o] = map[int]bool{}
		}
		if mine[o][spanFrom(w)-1] || mine[o][spanTo(w)] || mine[o][spanFrom(w)] {
			return fmt.Errorf("span %x touches another of its pod", w)
		}
		spans[o]++
		blocks[o] += spanTo(w) - spanFrom(w)
		for off := spanFrom(w); off < spanTo(w); off++ {
			mine[o][off], covered[off] = true, true
		}
	}
	if len(r.blocks()) != r.size() {
		return fmt.Errorf("%d of %d cells are published", len(r.blocks()), r.size())
	}
	if l := r.more.Load(); l != nil && (l.used != used || used == 0) {
		return fmt.Errorf("%d spans in the list, used = %d", used, l.used)
	}
	if len(covered) != int(r.live) || r.live == 0 {
		return fmt.Errorf("%d cells held, live = %d", len(covered), r.live)
	}
	if n := r.size(); n-int(r.live) > fewDead && int(r.live)*2 < n || n > r.room() || r.room() > n*3/2+6 {
		return fmt.Errorf("%d live of %d cells, room for %d", r.live, n, r.room())
	}
	return nil
}

func mustAgree(t rapid.TB, r *reference, tree *Tree, chains [][]uint64) {
	t.Helper()
	if err := r.compare(tree, chains); err != nil {
		t.Fatal(err)
	}
}
