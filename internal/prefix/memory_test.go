package prefix

import (
	"math/rand/v2"
	"testing"
	"testing/quick"

	"github.com/eppctl/eppctl/internal/heaptest"
)

// case K6
func TestMemoryReturns(t *testing.T) {
	const kept = 256 << 10 // one bucket for each of 1024 tables, and their kind
	shared := chainOf(64)  // 1k tokens
	cases := []struct {
		name     string
		suffixes int
		leave    func(tree *Tree, s Slot, suffixes int)
	}{
		{"suffixes removed", 1_000_000, func(tree *Tree, s Slot, suffixes int) {
			for i := range suffixes {
				tree.Remove(s, suffix(i))
			}
		}},
		{"suffixes removed in another order", 200_000, func(tree *Tree, s Slot, suffixes int) {
			for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(suffixes) {
				tree.Remove(s, suffix(i))
			}
		}},
		{"pod removed", 200_000, func(tree *Tree, s Slot, _ int) { tree.Release(s) }},
		{"all cleared", 200_000, func(tree *Tree, s Slot, _ int) { tree.Clear(s) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			suffixes := rounds(c.suffixes)
			stays, goes := Slot{0, 1}, Slot{1, 1}
			tree := openTree(stays, goes)
			tree.Store(stays, testRoot, shared)
			tree.Store(goes, testRoot, shared)
			before := heaptest.Live()
			for i := range suffixes {
				tree.Store(goes, shared[63], suffix(i))
			}
			if got, want := tree.PodBlocks(goes), 64+2*suffixes; got != want {
				t.Fatalf("PodBlocks = %d, want %d", got, want)
			}
			full := heaptest.Live() - before
			if est := tree.Stats().BytesEstimate; est < full*8/10 || est > full*12/10 {
				t.Errorf("BytesEstimate = %d, the heap says %d", est, full)
			}
			c.leave(tree, goes, suffixes)
			after := heaptest.Live() - before
			t.Logf("%d suffixes: %d kB, then %d kB", suffixes, full>>10, after>>10)
			if after > kept {
				t.Errorf("%d bytes are left of %d", after, full)
			}
			if got := tree.Stats(); got.Blocks != 64 || got.BytesEstimate > kept {
				t.Errorf("Blocks, BytesEstimate = %d, %d, want 64 and less than %d", got.Blocks, got.BytesEstimate, kept)
			}
			mustCount(t, tree, stays, shared, 64)
			if err := checkTree(tree); err != nil {
				t.Error(err)
			}
		})
	}
}

// suffix is two blocks that belong to i alone.
func suffix(i int) []uint64 {
	n := uint64(i) + 1
	return []uint64{n * 0x9e3779b97f4a7c15, n * 0xbf58476d1ce4e5b9}
}

// Ids are taken lowest first and the directory follows the highest.
func TestRunTable(t *testing.T) {
	var table runTable
	runs := map[uint32]*run{}
	put := func() {
		r := newRun(1)
		id, ok := table.put(r)
		if !ok || id == 0 || runs[id] != nil {
			t.Fatalf("put = %d, %v, which is taken", id, ok)
		}
		runs[id] = r
	}
	for range 200_000 {
		put()
	}
	if got, want := len(*table.dir.Load()), 512; got != want {
		t.Errorf("the directory has %d places for 200,000 runs, want %d", got, want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for id := range table.end() {
		if runs[id] != nil && (id > 20_000 || rng.IntN(2) == 0) {
			table.drop(id)
			delete(runs, id)
		}
	}
	if got := len(*table.dir.Load()); got > 128 {
		t.Errorf("the directory has %d places for %d runs", got, len(runs))
	}
	if table.end() > 20_480 {
		t.Errorf("end() = %d, want at most 20,480", table.end())
	}
	for range 5000 {
		put()
	}
	if table.end() > 20_480 {
		t.Errorf("end() = %d after ids were free below it", table.end())
	}
	for id := range uint32(300_000) {
		if got := table.at(id); got != runs[id] {
			t.Fatalf("at(%d) = %p, want %p", id, got, runs[id])
		}
	}
}

// Words survive any filling and emptying of a table.
func TestTable(t *testing.T) {
	err := quick.Check(func(words []uint64, keep uint8) bool {
		tb := &table{buckets: make([]bucket, 1+len(words)/6)}
		set := map[uint64]bool{}
		for _, w := range words {
			if w != 0 && !set[w] {
				set[w] = true
				tb.insert(w)
			}
		}
		for w := range set {
			if uint8(w) > keep {
				if !tb.remove(w) || tb.remove(w) {
					return false
				}
				delete(set, w)
			}
		}
		for w := range set {
			if cell, _ := tb.find(w); cell == nil || cell.Load() != w {
				return false
			}
		}
		past := uint64(0)
		for b := range tb.buckets {
			past += tb.buckets[b].past.Load()
		}
		return tb.live == len(set) && (len(set) > 0 || past == 0)
	}, nil)
	if err != nil {
		t.Error(err)
	}
}
