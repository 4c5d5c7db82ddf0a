package prefix

import "testing"

// A run that is copied to an id which a sweep has passed is visited there.
func TestSweepFollowsCopies(t *testing.T) {
	tree := newTree(1, 0)
	s := Slot{0, 1}
	tree.Admit(s)
	first, chain := chainOf(1), chainOf(100)
	tree.Store(s, testRoot, first)
	tree.Store(s, testRoot, chain)
	visited := map[uint32]bool{}
	sw := &sweep{}
	tree.sweeps = append(tree.sweeps, sw)
	visit := func(r ref) (int, bool) {
		visited[r.id] = true
		return sweepWork, true
	}
	if !tree.piece(sw, visit) || !visited[1] || visited[2] {
		t.Fatalf("the first piece visits %v, want run 1 alone", visited)
	}
	tree.Remove(s, first)
	tree.Remove(s, chain[10:]) // copies the run to id 1
	if tree.runs.at(2) != nil || tree.runs.at(1).size() != 10 {
		t.Fatal("the run is not copied to the lowest id")
	}
	clear(visited)
	for tree.piece(sw, visit) {
	}
	if !visited[1] {
		t.Error("the copied run is never visited")
	}
}

// What is split off a span stands behind it: a reader that comes by finds it.
func TestSplitSpanStandsBehind(t *testing.T) {
	r := newRun(100)
	for i := range 100 {
		r.push(uint64(i), 1)
	}
	o, other := makeOwner(1, 1), makeOwner(2, 1)
	r.hold(other, 0, 100)
	r.hold(o, 0, 100)
	r.dropSpan(0) // a free place before it
	k := r.overlap(o, 40, 60)
	if a, b, spans := r.trim(k, 40, 60); a != 40 || b != 60 || spans != 1 {
		t.Errorf("trim = %d, %d, %d, want 40, 60, 1", a, b, spans)
	}
	left, right := r.overlap(o, 0, 40), r.overlap(o, 60, 100)
	if left < 0 || right < left {
		t.Errorf("the parts stand at %d and %d, want the right one behind", left, right)
	}
	// And what is joined stands in the last place of its parts.
	if blocks, spans := r.hold(o, 40, 60); blocks != 20 || spans != -1 {
		t.Errorf("hold = %d, %d, want 20, -1", blocks, spans)
	}
	if k := r.overlap(o, 0, 100); r.spanCell(k).Load() != o.span(0, 100) {
		t.Errorf("the joined span is %x", r.spanCell(k).Load())
	}
}

// Memory that was taken for blocks which did not come is given back.
func TestRunFits(t *testing.T) {
	tree := newTree(1, 0)
	a, b := Slot{0, 1}, Slot{1, 1}
	tree.Admit(a)
	tree.Admit(b)
	chain, fresh := chainOf(1000), chainOf(3)
	tree.Store(a, testRoot, chain)
	for _, mixed := range [][]uint64{
		append(fresh[:1:1], chain...),  // one new, all others known
		append(fresh[1:3:3], chain...), // two
	} {
		tree.Store(b, testRoot, mixed)
	}
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
	if got, want := tree.runBytes.Load(), int64(1000*8+3*runBytes+2*(listHeader+3*8)); got > want {
		t.Errorf("the runs of 1003 blocks take %d bytes, want at most %d", got, want)
	}
}
