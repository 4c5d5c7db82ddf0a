package prefix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// rounds scales a stress test down for -short and the race detector's pace.
func rounds(n int) int {
	if testing.Short() || raceEnabled {
		return n / 10
	}
	return n
}

// A pod whose blocks nobody touches holds all of its chains at every moment,
// while its runs are copied and the tables grow and shrink around it. And each
// writer sees its own changes at once and nothing of others in them.
func TestUntouchedPodIsAlwaysWhole(t *testing.T) {
	tree := newTree(3, 1) // few tables, which grow often
	pinned := Slot{0, 1}
	tree.Admit(pinned)
	chains := family(rand.New(rand.NewPCG(1, 1)).IntN, 6, 300)
	for _, chain := range chains {
		tree.Store(pinned, testRoot, chain)
	}
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for i := range 3 {
		writers.Go(func() {
			w := newWriter(tree, Slot{uint32(i + 1), 1}, chains)
			for range rounds(800) {
				if err := w.step(); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
			tree.Release(w.slot)
		})
	}
	for range 2 {
		readers.Go(func() {
			counts := make([]uint32, 8)
			for n := 0; !done.Load(); n++ {
				chain := chains[n%len(chains)]
				if tree.Lookup(chain, counts); int(counts[0]) != len(chain) {
					t.Errorf("the untouched pod has %d of %d blocks", counts[0], len(chain))
					return
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
	if got, want := tree.Stats().Blocks, tree.PodBlocks(pinned); got != want {
		t.Errorf("%d blocks are left, want the untouched pod's %d", got, want)
	}
}

// The run that an untouched block stands in is copied all the time, and its
// table replaced, just when it is looked for.
func TestMovingBlockIsAlwaysFound(t *testing.T) {
	tree := newTree(3, 0)
	pinned, other := Slot{0, 1}, Slot{1, 1}
	tree.Admit(pinned)
	tree.Admit(other)
	chain := chainOf(60)
	tree.Store(pinned, testRoot, chain[:3])
	var writer sync.WaitGroup
	var done atomic.Bool
	writer.Go(func() {
		defer done.Store(true)
		moved := map[uint32]bool{}
		for range rounds(15_000) {
			_, w, _ := tree.seek(tree.index.hash(chain[0]), chain[0])
			moved[wordID(w)] = true
			tree.Store(other, chain[2], chain[3:])
			tree.Remove(other, chain[3:])
		}
		if len(moved) < 2 {
			t.Error("the block never moved: the test shows nothing")
		}
	})
	counts := make([]uint32, 1)
	for n := 0; !done.Load(); n++ {
		if tree.Lookup(chain[:3], counts); counts[0] != 3 {
			t.Errorf("lookup %d finds %d of 3 blocks", n, counts[0])
			break
		}
	}
	writer.Wait()
}

// writer changes one pod at random and compares it with a set.
type writer struct {
	*rand.Rand
	tree   *Tree
	slot   Slot
	chains [][]uint64
	held   map[uint64]bool
	counts []uint32
}

// newWriter gives the writer chains that go on where the shared ones end.
func newWriter(tree *Tree, s Slot, shared [][]uint64) *writer {
	w := &writer{
		Rand: rand.New(rand.NewPCG(uint64(s.Index), 2)), tree: tree, slot: s,
		held: map[uint64]bool{}, counts: make([]uint32, 8),
	}
	tree.Admit(s)
	for _, chain := range shared {
		w.chains = append(w.chains, chain, append(slices.Clip(chain), randomBlocks(w.Rand, 900)...))
	}
	return w
}

func (w *writer) step() error {
	chain := w.chains[w.IntN(len(w.chains))]
	from := w.IntN(len(chain))
	part := chain[from : from+w.IntN(len(chain)-from+1)]
	parent := chain[max(from-1, 0)]
	switch op := w.IntN(100); {
	case op < 50:
		w.tree.Store(w.slot, parent, part)
		for _, fp := range part {
			w.held[fp] = true
		}
	case op < 90:
		w.tree.Remove(w.slot, part)
		for _, fp := range part {
			delete(w.held, fp)
		}
	case op < 94:
		bit := uint64(1) << w.IntN(64)
		w.tree.Retain(w.slot, func(fp uint64) bool { return fp&bit != 0 })
		for fp := range w.held {
			if fp&bit == 0 {
				delete(w.held, fp)
			}
		}
	case op < 97:
		w.tree.Clear(w.slot)
		clear(w.held)
	default:
		w.tree.Release(w.slot)
		w.slot.Generation++
		w.tree.Admit(w.slot)
		clear(w.held)
	}
	return w.check(chain)
}

// check compares what the tree says of the writer's own pod.
func (w *writer) check(chain []uint64) error {
	want := 0
	for want < len(chain) && w.held[chain[want]] {
		want++
	}
	w.tree.Lookup(chain, w.counts)
	if got := int(w.counts[w.slot.Index]); got != want {
		return fmt.Errorf("Lookup = %d, want %d", got, want)
	}
	if got := w.tree.PodBlocks(w.slot); got != len(w.held) {
		return fmt.Errorf("PodBlocks = %d, want %d", got, len(w.held))
	}
	return nil
}
