package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testRoot = 7

func openTree(slots ...Slot) *Tree {
	t := New()
	for _, s := range slots {
		t.Admit(s)
	}
	return t
}

func chainOf(n int) []uint64 { return randomBlocks(rand.New(rand.NewPCG(9, uint64(n))), n) }

func count(t *Tree, s Slot, blocks []uint64) int {
	counts := make([]uint32, t.Slots())
	t.Lookup(blocks, counts)
	if int(s.Index) >= len(counts) {
		return 0
	}
	return int(counts[s.Index])
}

func mustCount(t *testing.T, tree *Tree, s Slot, blocks []uint64, want int) {
	t.Helper()
	if got := count(tree, s, blocks); got != want {
		t.Errorf("pod %v holds %d blocks of the chain, want %d", s, got, want)
	}
}

// case K3
func TestNothingOfAPodIsLeft(t *testing.T) {
	pod, other := Slot{0, 4}, Slot{1, 1}
	chain := chainOf(600)
	cases := map[string]func(*Tree) Slot{
		"all blocks cleared": func(tree *Tree) Slot {
			if !tree.Clear(pod) {
				t.Error("Clear is refused")
			}
			return pod
		},
		"pod removed": func(tree *Tree) Slot {
			tree.Release(pod)
			return pod
		},
		"pod back under the same name, an event of the old one still queued": func(tree *Tree) Slot {
			next := Slot{pod.Index, pod.Generation + 1}
			tree.Admit(next)
			if tree.Store(pod, testRoot, chain) {
				t.Error("the old generation's event is taken")
			}
			if _, ok := tree.Remove(pod, chain); ok {
				t.Error("the old generation's removal is taken")
			}
			if _, ok := tree.Retain(pod, func(uint64) bool { return true }); ok || tree.Clear(pod) {
				t.Error("the old generation's report is taken")
			}
			if got := tree.Stats().StaleMessages; got != 4 {
				t.Errorf("StaleMessages = %d, want 4", got)
			}
			return next
		},
	}
	for name, leave := range cases {
		t.Run(name, func(t *testing.T) {
			tree := openTree(pod, other)
			tree.Store(pod, testRoot, chain)
			tree.Store(other, testRoot, chain[:100])
			now := leave(tree)
			mustCount(t, tree, now, chain, 0)
			mustCount(t, tree, other, chain, 100)
			if got := tree.PodBlocks(now); got != 0 {
				t.Errorf("PodBlocks = %d, want 0", got)
			}
			if got := tree.Stats().Blocks; got != 100 {
				t.Errorf("Blocks = %d, want the other pod's 100", got)
			}
			if err := checkTree(tree); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRemovedBlockHidesItsDescendants(t *testing.T) {
	a, b := Slot{0, 1}, Slot{1, 1}
	chain := chainOf(64)
	for name, others := range map[string]int{"another pod holds all": 64, "nobody else holds it": 0} {
		t.Run(name, func(t *testing.T) {
			tree := openTree(a, b)
			tree.Store(a, testRoot, chain)
			tree.Store(b, testRoot, chain[:others])
			if n, ok := tree.Remove(a, chain[20:22]); n != 2 || !ok {
				t.Fatalf("Remove = %d, %v, want 2, true", n, ok)
			}
			mustCount(t, tree, a, chain, 20)
			mustCount(t, tree, b, chain, others)
			if got := tree.PodBlocks(a); got != 62 {
				t.Errorf("PodBlocks = %d, want 62", got)
			}
			tree.Store(a, chain[20], chain[21:22]) // without its predecessor
			mustCount(t, tree, a, chain, 20)
			tree.Store(a, chain[19], chain[20:21])
			mustCount(t, tree, a, chain, 64)
			if err := checkTree(tree); err != nil {
				t.Error(err)
			}
		})
	}
}

// Holds asks for one block, whatever is before it.
func TestHolds(t *testing.T) {
	pod, other, none := Slot{0, 4}, Slot{1, 1}, uint32(7)
	tree, chain := openTree(pod, other), chainOf(100)
	tree.Store(pod, testRoot, chain)
	tree.Store(other, testRoot, chain[:10])
	tree.Remove(pod, chain[20:30])
	holds := func(what string, slot uint32, block uint64, want bool) {
		t.Helper()
		if got := tree.Holds(slot, block); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	holds("the first", pod.Index, chain[0], true)
	holds("the last before a hole", pod.Index, chain[19], true)
	holds("in the hole", pod.Index, chain[20], false)
	holds("behind the hole", pod.Index, chain[99], true)
	holds("the last of another pod", other.Index, chain[9], true)
	holds("what another pod has", other.Index, chain[10], false)
	holds("what nobody has", pod.Index, 1, false)
	holds("a slot that there is not", none, chain[0], false)
	tree.Clear(pod)
	holds("cleared", pod.Index, chain[0], false)
	holds("another pod was cleared", other.Index, chain[0], true)
	if n := testing.AllocsPerRun(10, func() { tree.Holds(other.Index, chain[5]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLyingReportChangesItsOwnPodAlone(t *testing.T) {
	honest, liar := Slot{0, 1}, Slot{1, 1}
	chain, other := chainOf(100), chainOf(101)
	tree := openTree(liar, honest)
	// The liar comes first, so that the layout follows its order.
	mixed := slices.Concat(chain[:10], other[50:60], chain[20:30], chain[10:20], other[:5], chain[9:12])
	tree.Store(liar, chain[3], mixed)
	tree.Store(liar, mixed[0], mixed[:1])
	tree.Store(honest, testRoot, chain)
	tree.Store(honest, testRoot, other[:55])
	mustCount(t, tree, honest, chain, 100)
	mustCount(t, tree, honest, other, 55)
	mustCount(t, tree, liar, chain, 30)
	mustCount(t, tree, liar, other, 5)
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
}

func TestRetainKeepsWhatTheReportHas(t *testing.T) {
	pod := Slot{3, 1}
	tree := openTree(pod)
	old, fresh := chainOf(2000), chainOf(2001)
	copy(fresh, old[:700])
	tree.Store(pod, testRoot, old)
	tree.Store(pod, testRoot, fresh)
	kept := map[uint64]bool{}
	for _, fp := range fresh {
		kept[fp] = true
	}
	if n, ok := tree.Retain(pod, func(fp uint64) bool { return kept[fp] }); n != 1300 || !ok {
		t.Errorf("Retain = %d, %v, want 1300, true", n, ok)
	}
	mustCount(t, tree, pod, fresh, 2001)
	mustCount(t, tree, pod, old, 700)
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
}

func TestLookupFitsCountsOfAnyLength(t *testing.T) {
	chain := chainOf(40)
	tree := openTree(Slot{0, 1}, Slot{5, 1}, Slot{2, 1})
	tree.Store(Slot{2, 1}, testRoot, chain[:30])
	tree.Store(Slot{5, 1}, testRoot, chain)
	if got := tree.Slots(); got != 6 {
		t.Errorf("Slots() = %d, want 6", got)
	}
	for n, want := range map[int][]uint32{
		0: {}, 2: {0, 0}, 3: {0, 0, 30}, 6: {0, 0, 30, 0, 0, 40}, 8: {0, 0, 30, 0, 0, 40, 0, 0},
	} {
		counts := slices.Repeat([]uint32{99}, n)
		deepest := tree.Lookup(chain, counts)
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("counts of length %d (-want +got):\n%s", n, diff)
		}
		if want := slices.Max(append(counts, 0)); deepest != int(want) {
			t.Errorf("Lookup = %d, want %d", deepest, want)
		}
	}
}

func TestUnlikelyInput(t *testing.T) {
	pod := Slot{0, 1}
	tree := New()
	if tree.Lookup(chainOf(3), nil) != 0 || tree.Slots() != 0 || tree.Store(pod, 0, chainOf(3)) || tree.Clear(pod) {
		t.Error("an empty tree holds something")
	}
	tree.Release(pod)
	tree.Admit(Slot{MaxSlots, 1})
	tree.Admit(Slot{1<<32 - 1, 1})
	if got := tree.Slots(); got != 0 {
		t.Errorf("Slots() = %d after indices that are too high, want 0", got)
	}
	tree.Admit(Slot{MaxSlots - 1, 1})
	tree.Admit(pod)
	tree.Admit(pod)
	tree.Admit(Slot{0, 0}) // late
	if got := tree.Stats(); got.Pods != 2 || got.StaleMessages != 6 {
		t.Errorf("Pods, StaleMessages = %d, %d, want 2, 6", got.Pods, got.StaleMessages)
	}
	if !tree.Store(pod, 0, nil) {
		t.Error("an empty message is refused")
	}
	if n, ok := tree.Remove(pod, nil); n != 0 || !ok {
		t.Errorf("Remove of nothing = %d, %v, want 0, true", n, ok)
	}
	tree.Store(pod, 0, []uint64{0, 0, 5, 5, 0, 5})
	tree.Store(pod, 5, []uint64{5})
	mustCount(t, tree, pod, []uint64{0, 5, 0}, 3)
	if n, _ := tree.Remove(pod, []uint64{5, 5, 9, 5}); n != 1 {
		t.Errorf("Remove of a block named thrice = %d, want 1", n)
	}
	mustCount(t, tree, pod, []uint64{0, 5}, 1)
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
}

// Generations may wrap around.
func TestGenerationsWrap(t *testing.T) {
	tree := openTree(Slot{0, 1<<32 - 1})
	tree.Admit(Slot{0, 0})
	if !tree.Store(Slot{0, 0}, testRoot, chainOf(1)) {
		t.Error("the generation after the highest is not admitted")
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	tree := openTree()
	chain := chainOf(256)
	for i := range 100 {
		tree.Admit(Slot{uint32(i), 1})
		tree.Store(Slot{uint32(i), 1}, testRoot, chain[:2*i])
	}
	counts := make([]uint32, tree.Slots())
	if n := testing.AllocsPerRun(100, func() { tree.Lookup(chain, counts) }); n != 0 {
		t.Errorf("Lookup makes %v allocations, want 0", n)
	}
}

// Many fragments of many pods in one run: it is copied when most is gone, and
// what was next to each other by that becomes one.
func TestFragmentsAreJoined(t *testing.T) {
	tree := openTree()
	chain := chainOf(1000)
	ref := newReference()
	for i := range 20 {
		s := Slot{uint32(i), 1}
		tree.Admit(s)
		ref.admit(s)
		tree.Store(s, testRoot, chain)
		ref.store(s, chain)
	}
	for i := range 20 {
		var gone []uint64
		for k, fp := range chain {
			if k%5 != 0 && k%7 != i%7 {
				gone = append(gone, fp)
			}
		}
		tree.Remove(Slot{uint32(i), 1}, gone)
		ref.remove(Slot{uint32(i), 1}, gone)
	}
	mustAgree(t, ref, tree, [][]uint64{chain})
	for i := range 20 {
		keep := func(fp uint64) bool { return slices.Index(chain, fp)%5 == 0 }
		tree.Retain(Slot{uint32(i), 1}, keep)
		ref.retain(Slot{uint32(i), 1}, keep)
	}
	mustAgree(t, ref, tree, [][]uint64{chain})
	if got := tree.Stats(); got.Blocks != 200 || tree.pods.Load().pods[0].spans != 1 {
		t.Errorf("%d blocks, %d spans, want 200, 1", got.Blocks, tree.pods.Load().pods[0].spans)
	}
	if got := tree.runBytes.Load(); got > 200*8+1000 {
		t.Errorf("the runs of 200 blocks take %d bytes", got)
	}
}

// Blocks whose index words differ in their place alone are told apart by their
// cells.
func TestEqualTags(t *testing.T) {
	tree := newTree(1, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	byTag := map[uint64]uint64{}
	var pairs [][2]uint64
	for len(pairs) < 20 {
		fp := rng.Uint64()
		tag := tagOf(tree.index.hash(fp))
		if other, ok := byTag[tag]; ok {
			pairs = append(pairs, [2]uint64{fp, other})
		}
		byTag[tag] = fp
	}
	a, b := Slot{0, 1}, Slot{1, 1}
	tree.Admit(a)
	tree.Admit(b)
	for _, p := range pairs {
		tree.Store(a, testRoot, p[:1])
		mustCount(t, tree, a, p[1:], 0)
		tree.Store(b, testRoot, p[1:])
		mustCount(t, tree, a, p[:1], 1)
		mustCount(t, tree, b, p[1:], 1)
		mustCount(t, tree, b, p[:1], 0)
	}
	for _, p := range pairs {
		tree.Remove(a, p[:1])
		mustCount(t, tree, a, p[:1], 0)
		mustCount(t, tree, b, p[1:], 1)
	}
	if err := checkTree(tree); err != nil {
		t.Error(err)
	}
}
