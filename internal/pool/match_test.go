package pool

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// silent is a stream on which nothing happens.
type silent struct{}

func (silent) Stats() kvfeed.Stats    { return kvfeed.Stats{} }
func (silent) Mark() kvindex.Mark     { return 0 }
func (silent) Correct(kvindex.Answer) {}

// onTiers opens a rank of pod a that holds so many blocks of the prompt on each
// level, and returns its slots.
func onTiers(t *testing.T, p *Pool, tree *prefix.Tree, number int, levels []kvindex.Level, size int, prompt []uint64, held ...int) []prefix.Slot {
	t.Helper()
	slots, ok := p.RankOpened(p.Targets()[0].ID, number, levels, silent{})
	if !ok || len(slots) != len(levels) {
		t.Fatalf("slots %v, %v for %d levels", slots, ok, len(levels))
	}
	for k, n := range held {
		tree.Store(slots[k], 0, prompt[:n])
	}
	p.RankChanged(slots[0], kvfeed.State{Connected: true, BlockSize: size})
	return slots
}

// asked is a prompt as a decision looks for it, by the sizes of its blocks.
func asked(tree *prefix.Tree, prompts map[int][]uint64) *Query {
	q := &Query{}
	for size, blocks := range prompts {
		m := Match{BlockSize: size, Blocks: blocks, Counts: make([]uint32, tree.Slots())}
		tree.Lookup(blocks, m.Counts)
		q.Matches = append(q.Matches, m)
	}
	return q
}

func TestMatchByTier(t *testing.T) {
	type part = score.TierBlocks
	gpu := kvindex.GPUAlone()
	two := (&kvindex.TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}).Levels()
	three := (&kvindex.TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5, kvevent.Disk: 0.125}).Levels()
	type rank struct {
		levels []kvindex.Level
		size   int
		held   []int
	}
	for _, tc := range []struct {
		name  string
		ranks []rank
		value float64
		parts []part
		last  int // block that the pick counts on, of the best rank's size
	}{
		{"the GPU alone", []rank{{gpu, 16, []int{12}}}, 12, nil, 12},
		{"all on the GPU", []rank{{two, 16, []int{12, 12}}}, 12, nil, 12},
		{"more on the CPU", []rank{{two, 16, []int{12, 18}}}, 15, []part{{Tier: "gpu", Blocks: 12, Weight: 1}, {Tier: "cpu", Blocks: 6, Weight: .5}}, 18},
		{"on the CPU alone", []rank{{two, 16, []int{0, 7}}}, 3.5, []part{{Tier: "cpu", Blocks: 7, Weight: .5}}, 7},
		{"nothing", []rank{{two, 16, []int{0, 0}}}, 0, nil, 0},
		{"three levels", []rank{{three, 16, []int{4, 8, 16}}}, 7, []part{
			{Tier: "gpu", Blocks: 4, Weight: 1}, {Tier: "cpu", Blocks: 4, Weight: .5}, {Tier: "disk", Blocks: 8, Weight: .125},
		}, 16},
		{"no more on the middle one", []rank{{three, 16, []int{4, 4, 12}}}, 5, []part{
			{Tier: "gpu", Blocks: 4, Weight: 1}, {Tier: "disk", Blocks: 8, Weight: .125},
		}, 12},
		{"a block that came on one level first", []rank{{three, 16, []int{4, 3, 4}}}, 4, nil, 4},
		{"one that left one level first", []rank{{three, 16, []int{4, 9, 6}}}, 5, []part{
			{Tier: "gpu", Blocks: 4, Weight: 1}, {Tier: "cpu", Blocks: 2, Weight: .5},
		}, 6},
		{"the better of two ranks, by weight", []rank{{two, 16, []int{2, 10}}, {two, 16, []int{7, 7}}}, 7, nil, 7},
		{"the other way", []rank{{two, 16, []int{2, 20}}, {two, 16, []int{7, 7}}}, 11, []part{
			{Tier: "gpu", Blocks: 2, Weight: 1}, {Tier: "cpu", Blocks: 18, Weight: .5},
		}, 20},
		{"blocks of another size", []rank{{two, 32, []int{3, 5}}}, 8, []part{
			{Tier: "gpu", Blocks: 6, Weight: 1}, {Tier: "cpu", Blocks: 4, Weight: .5},
		}, 5},
		{"half a block of ours", []rank{{two, 8, []int{6, 7}}}, 3, nil, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, tree := newPool(t, "a")
			prompts := map[int][]uint64{}
			for i, r := range tc.ranks {
				prompts[r.size] = blocks(20)
				onTiers(t, p, tree, i, r.levels, r.size, prompts[r.size], r.held...)
			}
			q := asked(tree, prompts)
			states, _ := p.States(nil, q)
			if got := states[0].Cache.Value; got != tc.value {
				t.Errorf("%v blocks match, want %v", got, tc.value)
			}
			if diff := cmp.Diff(tc.parts, states[0].CacheTiers); diff != "" {
				t.Errorf("parts (−want +got):\n%s", diff)
			}
			var r Reservation
			p.Choose(nil, q, first{}, &r)
			defer r.Release()
			want := uint64(0)
			if tc.last > 0 {
				want = blocks(20)[tc.last-1]
			}
			if r.last != want {
				t.Errorf("the pick counts on %x, want block %d", r.last, tc.last)
			}
		})
	}
}

// A rank takes one slot unless there is a second weight, and gives all back.
func TestSlotsOfARank(t *testing.T) {
	p, tree := newPool(t, "a", "b")
	endpoints := tree.Stats().Pods
	one := onTiers(t, p, tree, 0, kvindex.GPUAlone(), blockSize, blocks(4), 4)
	if got := tree.Stats().Pods - endpoints; got != 1 || p.byID[p.Targets()[0].ID].tally.rank != nil {
		t.Errorf("%d slots for the GPU alone, want 1 and no look at further ones", got)
	}
	levels := (&kvindex.TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}).Levels()
	onTiers(t, p, tree, 1, levels, blockSize, blocks(4), 1, 3)
	if got := tree.Stats().Pods - endpoints; got != 3 {
		t.Errorf("%d slots, want 3", got)
	}
	p.RankClosed(one[0])
	if got := tree.Stats().Pods - endpoints; got != 2 {
		t.Errorf("%d slots after the first was closed, want 2", got)
	}
	if got := p.Views()[0].TreeBlocks; got != 3 {
		t.Errorf("TreeBlocks = %d, want those in any tier that counts", got)
	}
	if err := p.Set(members("a")[:0]); err != nil {
		t.Fatal(err)
	}
	if s := tree.Stats(); s.Pods != 0 || s.Blocks != 0 {
		t.Errorf("%d slots and %d blocks are left of nothing", s.Pods, s.Blocks)
	}
	if _, ok := p.RankOpened("gone", 0, levels, silent{}); ok || tree.Stats().Pods != 0 {
		t.Errorf("a rank of a pod that is gone has slots")
	}
}
