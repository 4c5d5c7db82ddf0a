package kvindex

import (
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/prefix"
)

// case K3: nothing matches after a clear, a removal, and a late event of the pod
// that had the slot before.
func TestClear(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 4*ours)}
	t.Run("event", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, 4), cleared())
		f.mustMatch(c, 0)
		f.apply(1, c.stored(ours, 0, 2))
		f.mustMatch(c, 2)
	})
	t.Run("closed", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, 4))
		f.Close()
		f.mustMatch(c, 0)
		if out := f.apply(1, c.stored(ours, 0, 4)); !out.Closed {
			t.Errorf("Apply = %+v, want Closed", out)
		}
		f.mustMatch(c, 0)
	})
	t.Run("slot given to another", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, 4))
		f.tree.Release(f.slot)
		f.tree.Admit(prefix.Slot{Index: f.slot.Index, Generation: f.slot.Generation + 1})
		if out := f.apply(1, c.stored(ours, 0, 4)); !out.Closed {
			t.Errorf("Apply = %+v, want Closed", out)
		}
		f.mustMatch(c, 0)
		if got := f.Stats().Blocks; got != 0 {
			t.Errorf("the old rank still holds %d blocks", got)
		}
	})
	t.Run("slot given away, and a removal comes first", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, 4))
		f.tree.Release(f.slot)
		f.apply(1, c.removed(ours, 3, 4), c.stored(ours, 3, 4))
		if got := f.Stats().Blocks; got != 0 {
			t.Errorf("the old rank still holds %d blocks", got)
		}
	})
	t.Run("by hand", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, 4))
		f.Clear()
		f.mustMatch(c, 0)
		f.apply(1, c.stored(ours, 2, 4)) // its parent is no longer known
		f.mustMatch(c, 0)
		if got := f.Stats().Degraded; got != JoinedLate {
			t.Errorf("Degraded = %q, want %q", got, JoinedLate)
		}
	})
}

// case K4, and salts: what differs in an adapter or a salt shares nothing.
func TestAdapterAndSalt(t *testing.T) {
	tokens := tokensFrom(1, 3*ours)
	f := newFixture(t, nil)
	f.apply(0, chain{adapter: "adapter-1", tokens: tokens}.stored(ours, 0, 2))
	f.apply(1, chain{salt: "tenant", tokens: tokens}.stored(ours, 0, 3))
	number := chain{tokens: tokens}.stored(ours, 0, 3)
	number.LoRAID = 7
	for i := range number.Hashes {
		number.Hashes[i]++
	}
	f.apply(2, number)
	f.mustMatch(chain{adapter: "adapter-1", tokens: tokens}, 2)
	f.mustMatch(chain{salt: "tenant", tokens: tokens}, 3)
	f.mustMatch(chain{tokens: tokens}, 0)
	f.mustMatch(chain{adapter: "7", tokens: tokens}, 0)
}

// case K5: ranks that share a topic, an endpoint and a tree share no block.
func TestRanksAreApart(t *testing.T) {
	tree := prefix.New()
	ranks := make([]*fixture, 8)
	c := chain{tokens: tokensFrom(1, 16*ours)}
	for i := range ranks {
		ranks[i] = newFixture(t, func(cfg *Config) {
			cfg.Tree, cfg.Slots = tree, []prefix.Slot{{Index: uint32(i), Generation: 1}}
		})
		ranks[i].apply(0, c.stored(ours, 0, 1), c.stored(ours, 1+i, 2+i))
	}
	for i, f := range ranks {
		want := 1
		if i == 0 {
			want = 2 // its own second block is the chain's
		}
		f.mustMatch(c, want)
		f.apply(1, cleared())
		f.mustMatch(c, 0)
	}
}

// vLLM holds several copies of a block, and each has its own removal.
func TestCopies(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 3*ours)}
	last := c.stored(ours, 2, 3)
	f := newFixture(t, nil)
	f.apply(0, c.stored(ours, 0, 3))
	f.apply(1, last)
	f.apply(2, last)
	f.apply(3, c.removed(ours, 2, 3), c.removed(ours, 2, 3))
	f.mustMatch(c, 3)
	f.apply(4, c.removed(ours, 2, 3))
	f.mustMatch(c, 2)
	f.apply(5, c.removed(ours, 2, 3))
	if got := f.Stats().UnknownRemovals; got != 1 {
		t.Errorf("UnknownRemovals = %d, want 1", got)
	}
}

// A full report announces a chain again that is there once.
func TestRestatedChainCountsOnce(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 3*ours)}
	f := newFixture(t, nil)
	f.apply(0, c.stored(ours, 0, 2))
	f.apply(1, c.stored(ours, 0, 3))
	f.mustMatch(c, 3)
	f.apply(2, c.removed(ours, 0, 2))
	f.mustMatch(c, 0)
	if s := f.Stats(); s.Restated != 2 || s.Blocks != 1 {
		t.Errorf("Restated, Blocks = %d, %d, want 2, 1", s.Restated, s.Blocks)
	}
}

func TestTiersAndGroups(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 2*ours)}
	in := func(e kvevent.Event, tier kvevent.Tier, group int) kvevent.Event {
		e.Tier, e.Group = tier, group
		return e
	}
	alone := func(e kvevent.Event) kvevent.Event {
		e.Tokens, e.BlockSize, e.HasParent = nil, 0, false
		return e
	}
	t.Run("another tier is not counted", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, in(c.stored(ours, 0, 2), kvevent.CPU, 0))
		f.mustMatch(c, 0)
		f.apply(1, in(c.stored(ours, 0, 2), kvevent.GPU, 0))
		f.mustMatch(c, 2)
		if s := f.Stats(); s.Tiers[kvevent.CPU] != 2 || s.Tiers[kvevent.GPU] != 2 || s.Blocks != 2 {
			t.Errorf("Tiers = %v of %d blocks, want 2 in both of 2", s.Tiers, s.Blocks)
		}
		f.apply(2, in(c.removed(ours, 1, 2), kvevent.CPU, 0))
		f.mustMatch(c, 2)
		f.apply(3, in(c.removed(ours, 1, 2), kvevent.GPU, 0))
		f.mustMatch(c, 1)
	})
	t.Run("counted when so configured", func(t *testing.T) {
		f := newFixture(t, func(cfg *Config) { cfg.Levels = (&TierWeights{kvevent.GPU: 1, kvevent.CPU: 1}).Levels() })
		f.apply(0, in(c.stored(ours, 0, 2), kvevent.GPU, 0))
		f.apply(1, in(alone(c.stored(ours, 0, 2)), kvevent.CPU, -1))
		f.apply(2, in(c.removed(ours, 0, 2), kvevent.GPU, 0))
		f.mustMatch(c, 2)
		f.apply(3, in(c.removed(ours, 0, 2), kvevent.CPU, -1))
		f.mustMatch(c, 0)
	})
	t.Run("hashes alone that nobody knows", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, in(alone(c.stored(ours, 0, 2)), kvevent.CPU, -1))
		if s := f.Stats(); s.Unresolved != 2 || s.Blocks != 0 {
			t.Errorf("Unresolved, Blocks = %d, %d, want 2, 0", s.Unresolved, s.Blocks)
		}
	})
	t.Run("hashes alone of a group", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, in(c.stored(ours, 0, 1), kvevent.GPU, 3))
		f.apply(1, in(alone(c.stored(ours, 0, 2)), kvevent.CPU, 3), in(alone(c.stored(ours, 0, 1)), kvevent.GPU, 1))
		if s := f.Stats(); s.Unresolved != 2 || s.Tiers[kvevent.CPU] != 1 || s.Tiers[kvevent.GPU] != 1 {
			t.Errorf("Unresolved, Tiers = %d, %v, want 2, one each on CPU and GPU", s.Unresolved, s.Tiers)
		}
	})
	t.Run("more places than are counted", func(t *testing.T) {
		f := newFixture(t, nil)
		for group := range maxPlaces + 1 {
			f.apply(uint64(group), in(c.stored(ours, 0, 1), kvevent.GPU, group))
		}
		if s := f.Stats(); s.Dropped != maxPlaces+1-fields || s.Tiers[kvevent.GPU] != fields {
			t.Errorf("Dropped, Tiers = %d, %v, want %d, %d", s.Dropped, s.Tiers, maxPlaces+1-fields, fields)
		}
	})
	t.Run("sparse groups", func(t *testing.T) {
		f := newFixture(t, nil)
		sparse := in(c.stored(ours, 1, 2), kvevent.GPU, 1)
		sparse.Tokens, sparse.Attention, sparse.HasParent = c.tokens, kvevent.Sparse, false
		f.apply(0, sparse)
		f.apply(1, in(c.stored(ours, 0, 2), kvevent.GPU, 3))
		f.apply(2, in(c.removed(ours, 1, 2), kvevent.GPU, 1))
		f.mustMatch(c, 2)
		if s := f.Stats(); !s.Hybrid || s.Sparse != 1 || s.UnknownRemovals != 0 {
			t.Errorf("Hybrid, Sparse, UnknownRemovals = %v, %d, %d, want true, 1, 0", s.Hybrid, s.Sparse, s.UnknownRemovals)
		}
	})
	t.Run("tokens that are not the blocks'", func(t *testing.T) {
		f := newFixture(t, nil)
		e := c.stored(ours, 0, 2)
		e.Tokens = e.Tokens[:ours]
		f.apply(0, e)
		if s := f.Stats(); s.Unfit != 2 || s.Blocks != 0 {
			t.Errorf("Unfit, Blocks = %d, %d, want 2, 0", s.Unfit, s.Blocks)
		}
	})
}

// A block with an image is another than one with the same tokens, and what is
// before it is shared.
func TestMedia(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 3*ours)}
	f := newFixture(t, nil)
	e := c.stored(ours, 0, 3)
	e.Media = []kvevent.Media{{Block: 1, Hash: 5}}
	f.apply(0, e)
	f.mustMatch(c, 1)
	fps := c.fingerprints(ours)
	fps[1] = prefix.WithMedia(fps[1], 5)
	fps = prefix.Fingerprints(fps[:2], fps[1], c.tokens[2*ours:], ours)
	counts := make([]uint32, f.tree.Slots())
	if got := f.tree.Lookup(fps, counts); got != 3 {
		t.Errorf("%d blocks match with the image, want 3", got)
	}
}

func TestBlockSizes(t *testing.T) {
	for _, size := range []int{1, 8, 16, 32, 48, 784} {
		f := newFixture(t, nil)
		f.size = size
		c := chain{tokens: tokensFrom(1, 3*size)}
		f.apply(0, c.stored(size, 0, 3))
		f.mustMatch(c, 3)
		if s := f.Stats(); s.BlockSize != size || s.Mismatch != 0 {
			t.Errorf("BlockSize, Mismatch = %d, %d, want %d, 0", s.BlockSize, s.Mismatch, size)
		}
	}
	f := newFixture(t, nil)
	f.size = 24
	c := chain{tokens: tokensFrom(1, 3*24)}
	f.apply(0, c.stored(24, 0, 3))
	f.mustMatch(c, 0)
	if s := f.Stats(); s.BlockSize != 0 || s.Mismatch != 24 || s.Unfit != 3 {
		t.Errorf("BlockSize, Mismatch, Unfit = %d, %d, %d, want 0, 24, 3", s.BlockSize, s.Mismatch, s.Unfit)
	}
	f.apply(1, c.stored(32, 0, 2), c.stored(16, 0, 3))
	if s := f.Stats(); s.BlockSize != 32 || s.Mismatch != 0 || s.Unfit != 6 {
		t.Errorf("BlockSize, Mismatch, Unfit = %d, %d, %d, want 32, 0, 6", s.BlockSize, s.Mismatch, s.Unfit)
	}
}

func TestLimitOfBlocks(t *testing.T) {
	f := newFixture(t, func(cfg *Config) { cfg.Limits.Blocks = 5 })
	c := chain{tokens: tokensFrom(1, 8*ours)}
	f.apply(0, c.stored(ours, 0, 8))
	f.mustMatch(c, 5)
	f.apply(1, c.stored(ours, 7, 8), c.removed(ours, 4, 5), c.stored(ours, 4, 5))
	f.mustMatch(c, 5)
	if s := f.Stats(); s.Blocks != 5 || s.Dropped != 3 || s.UnknownParents != 1 {
		t.Errorf("Blocks, Dropped, UnknownParents = %d, %d, %d, want 5, 3, 1", s.Blocks, s.Dropped, s.UnknownParents)
	}
}

func TestConflictKeepsTheFirst(t *testing.T) {
	f := newFixture(t, nil)
	a, b := chain{tokens: tokensFrom(1, ours)}, chain{tokens: tokensFrom(2, ours)}
	e := b.stored(ours, 0, 1)
	e.Hashes = a.stored(ours, 0, 1).Hashes
	f.apply(0, a.stored(ours, 0, 1), e)
	f.mustMatch(a, 1)
	f.mustMatch(b, 0)
	if got := f.Stats().Conflicts; got != 1 {
		t.Errorf("Conflicts = %d, want 1", got)
	}
}

func TestRemovedIsTold(t *testing.T) {
	var told [][]uint64
	var when time.Time
	f := newFixture(t, func(cfg *Config) {
		cfg.Removed = func(blocks []uint64, at time.Time) {
			told, when = append(told, append([]uint64(nil), blocks...)), at
		}
	})
	c := chain{tokens: tokensFrom(1, 4*ours)}
	f.apply(0, c.stored(ours, 0, 4))
	f.apply(1, c.removed(ours, 3, 4), c.removed(ours, 2, 3), c.stored(ours, 2, 3))
	fps := c.fingerprints(ours)
	if len(told) != 1 || len(told[0]) != 2 || told[0][0] != fps[3] || told[0][1] != fps[2] || !when.Equal(f.now) {
		t.Errorf("told %x at %v, want the last two of %x at %v", told, when, fps, f.now)
	}
	f.apply(2, cleared())
	if len(told) != 2 || told[1] != nil {
		t.Errorf("told %x, want nil for all", told)
	}
}

func TestCorrect(t *testing.T) {
	const blocks = 10
	c := chain{tokens: tokensFrom(1, blocks*ours)}
	answer := func(f *fixture, cached int, mark Mark) Answer {
		return Answer{Blocks: c.fingerprints(ours), Prompt: len(c.tokens) + 1, Cached: cached, Picked: mark}
	}
	gapped := func(t *testing.T) *fixture {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, blocks))
		f.apply(2)
		return f
	}
	t.Run("the tail", func(t *testing.T) {
		f := gapped(t)
		if got := f.Correct(answer(f, 4*ours, f.Mark())); got != 6 {
			t.Errorf("Correct = %d, want 6", got)
		}
		f.mustMatch(c, 4)
		f.apply(3, c.stored(ours, 4, 6), c.removed(ours, 5, 6))
		f.mustMatch(c, 5)
		if s := f.Stats(); s.Blocks != 5 || s.Tiers[kvevent.GPU] != 5 || s.Corrected != 6 {
			t.Errorf("Blocks, Tiers, Corrected = %d, %v, %d, want 5 on the GPU, 6", s.Blocks, s.Tiers, s.Corrected)
		}
	})
	t.Run("not what the request itself stored", func(t *testing.T) {
		f := gapped(t)
		mark := f.Mark()
		f.apply(3, c.stored(ours, 4, 7))
		if got := f.Correct(answer(f, 4*ours, mark)); got != 3 {
			t.Errorf("Correct = %d, want 3", got)
		}
		f.mustMatch(c, 7)
		f.apply(4, c.removed(ours, 6, 7)) // the only copy
		f.mustMatch(c, 6)
	})
	t.Run("nothing to correct", func(t *testing.T) {
		f := gapped(t)
		if got := f.Correct(answer(f, blocks*ours, f.Mark())); got != 0 {
			t.Errorf("Correct = %d when all was found", got)
		}
		repeat := answer(f, (blocks-1)*ours, f.Mark())
		repeat.Prompt-- // its last block is computed again
		if got := f.Correct(repeat); got != 0 {
			t.Errorf("Correct = %d when all was found that can be", got)
		}
		f.mustMatch(c, blocks)
	})
	t.Run("only when degraded", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(0, c.stored(ours, 0, blocks))
		if got := f.Correct(answer(f, 0, f.Mark())); got != 0 {
			t.Errorf("Correct = %d on a rank that missed nothing", got)
		}
		f.mustMatch(c, blocks)
	})
}
