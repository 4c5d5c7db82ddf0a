package kvindex

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/prefix"
)

func TestLevels(t *testing.T) {
	const gpu, cpu, disk, external = kvevent.GPU, kvevent.CPU, kvevent.Disk, kvevent.External
	for _, tc := range []struct {
		name    string
		weights TierWeights
		want    []Level
	}{
		{"the GPU alone", TierWeights{gpu: 1}, []Level{{Tiers(gpu), 1, "gpu"}}},
		{"two that count alike", TierWeights{gpu: 1, cpu: 1}, []Level{{Tiers(gpu, cpu), 1, "gpu+cpu"}}},
		{"one that counts less", TierWeights{gpu: 1, cpu: 0.5}, []Level{{Tiers(gpu), 1, "gpu"}, {Tiers(gpu, cpu), 0.5, "cpu"}}},
		{"a slow one before a fast one", TierWeights{gpu: 1, cpu: 0.25, external: 0.5}, []Level{
			{Tiers(gpu), 1, "gpu"}, {Tiers(gpu, external), 0.5, "external"}, {Tiers(gpu, external, cpu), 0.25, "cpu"},
		}},
		{"two that count less alike", TierWeights{gpu: 1, cpu: 0.5, disk: 0.5}, []Level{
			{Tiers(gpu), 1, "gpu"}, {Tiers(gpu, cpu, disk), 0.5, "cpu+disk"},
		}},
		{"nothing", TierWeights{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.weights.Levels()); diff != "" {
				t.Errorf("−want +got:\n%s", diff)
			}
		})
	}
}

// A block is on a level for as long as one copy is left in its tiers.
func TestCopiesByLevel(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 4*ours)}
	in := func(tier kvevent.Tier, e kvevent.Event) kvevent.Event {
		e.Tier, e.Group = tier, 0
		return e
	}
	offloaded := func(tier kvevent.Tier, from, to int) kvevent.Event {
		e := in(tier, c.stored(ours, from, to))
		e.Tokens, e.BlockSize, e.HasParent = nil, 0, false
		return e
	}
	const gpu, cpu, disk, external = kvevent.GPU, kvevent.CPU, kvevent.Disk, kvevent.External
	for _, tc := range []struct {
		name   string
		events []kvevent.Event
		want   []int // on the GPU; there or on the CPU; there or on a disk
	}{
		{"on the GPU", []kvevent.Event{in(gpu, c.stored(ours, 0, 3))}, []int{3, 3, 3}},
		{"on the CPU", []kvevent.Event{in(cpu, c.stored(ours, 0, 3))}, []int{0, 3, 3}},
		{"each behind the other", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 1)), in(cpu, c.stored(ours, 1, 3)), in(disk, c.stored(ours, 3, 4)),
		}, []int{1, 3, 4}},
		{"a hole on the GPU", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 4)), offloaded(cpu, 1, 2), in(gpu, c.removed(ours, 1, 2)),
		}, []int{1, 4, 4}},
		{"evicted from the GPU", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 4)), offloaded(cpu, 0, 4), in(gpu, c.removed(ours, 2, 4)),
		}, []int{2, 4, 4}},
		{"evicted from the CPU", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 4)), offloaded(cpu, 0, 4), in(cpu, c.removed(ours, 2, 4)),
		}, []int{4, 4, 4}},
		{"evicted from both", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 4)), offloaded(cpu, 0, 4), in(gpu, c.removed(ours, 1, 4)), in(cpu, c.removed(ours, 2, 4)),
		}, []int{1, 2, 2}},
		{"from the CPU on to a disk", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 4)), offloaded(cpu, 0, 4), offloaded(disk, 0, 4), in(gpu, c.removed(ours, 0, 4)), in(cpu, c.removed(ours, 3, 4)),
		}, []int{0, 3, 4}},
		{"back on the GPU", []kvevent.Event{
			in(cpu, c.stored(ours, 0, 4)), in(gpu, c.stored(ours, 0, 2)), in(cpu, c.removed(ours, 0, 1)),
		}, []int{2, 4, 4}},
		{"where nothing counts", []kvevent.Event{
			in(external, c.stored(ours, 0, 4)), in(cpu, c.stored(ours, 0, 1)), in(cpu, c.removed(ours, 0, 1)),
		}, []int{0, 0, 0}},
		{"two copies on the CPU", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 1)), offloaded(cpu, 0, 1), offloaded(cpu, 0, 1), in(gpu, c.removed(ours, 0, 1)), in(cpu, c.removed(ours, 0, 1)),
		}, []int{0, 1, 1}},
		{"cleared", []kvevent.Event{
			in(gpu, c.stored(ours, 0, 4)), offloaded(cpu, 0, 4), cleared(),
		}, []int{0, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			weights := TierWeights{gpu: 1, cpu: 0.5, disk: 0.25}
			f := newFixture(t, func(cfg *Config) { cfg.Levels = weights.Levels() })
			f.apply(0, tc.events...)
			f.mustMatchBy(c, tc.want...)
		})
	}
}

// What the GPU has lost and the CPU has is not gone.
func TestRemovedIsToldOfTheLastLevel(t *testing.T) {
	var told [][]uint64
	f := newFixture(t, func(cfg *Config) {
		cfg.Levels = (&TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}).Levels()
		cfg.Removed = func(blocks []uint64, _ time.Time) { told = append(told, append([]uint64(nil), blocks...)) }
	})
	c := chain{tokens: tokensFrom(1, 2*ours)}
	onCPU := func(e kvevent.Event) kvevent.Event { e.Tier = kvevent.CPU; return e }
	f.apply(0, c.stored(ours, 0, 2), onCPU(c.stored(ours, 0, 2)))
	f.apply(1, c.removed(ours, 0, 2))
	if told != nil {
		t.Fatalf("told %x while all is on the CPU", told)
	}
	f.apply(2, onCPU(c.removed(ours, 1, 2)))
	if want := [][]uint64{c.fingerprints(ours)[1:]}; !cmp.Equal(told, want) {
		t.Errorf("told %x, want %x", told, want)
	}
	if got := f.Stats().TreeBlocks; got != 1 {
		t.Errorf("TreeBlocks = %d, want the one on the CPU", got)
	}
}

func TestCorrectOnAllLevels(t *testing.T) {
	f := newFixture(t, func(cfg *Config) {
		cfg.Levels = (&TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}).Levels()
	})
	c := chain{tokens: tokensFrom(1, 6*ours)}
	tail := c.stored(ours, 3, 6)
	tail.Tier = kvevent.CPU
	f.apply(0, c.stored(ours, 0, 3), tail)
	f.apply(2)
	answer := Answer{Blocks: c.fingerprints(ours), Prompt: len(c.tokens) + 1, Cached: 4 * ours, Picked: f.Mark()}
	if got := f.Correct(answer); got != 2 {
		t.Errorf("Correct = %d, want 2", got)
	}
	f.mustMatchBy(c, 3, 4)
	answer.Cached = 2 * ours
	f.Correct(answer)
	f.mustMatchBy(c, 2, 2)
}

// A slot of any level that was given to another closes the rank.
func TestSlotOfALevelGivenAway(t *testing.T) {
	f := newFixture(t, func(cfg *Config) {
		cfg.Levels = (&TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}).Levels()
	})
	c := chain{tokens: tokensFrom(1, 2*ours)}
	f.apply(0, c.stored(ours, 0, 2))
	f.tree.Release(f.levels[1].slot)
	f.tree.Admit(prefix.Slot{Index: f.levels[1].slot.Index, Generation: 2})
	f.apply(1, c.stored(ours, 0, 2))
	f.mustMatchBy(c, 0, 0)
}

// By default a rank has one slot, and tells the tree of nothing beside the GPU.
func TestOneLevelByDefault(t *testing.T) {
	f := newFixture(t, nil)
	c := chain{tokens: tokensFrom(1, 4*ours)}
	tail := c.stored(ours, 2, 4)
	tail.Tier = kvevent.CPU
	f.apply(0, c.stored(ours, 0, 2), tail)
	f.mustMatchBy(c, 2)
	if s := f.tree.Stats(); s.Blocks != 2 || s.Pods != 1 {
		t.Errorf("the tree has %d blocks of %d slots, want 2 of 1", s.Blocks, s.Pods)
	}
}
