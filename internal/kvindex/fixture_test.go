package kvindex

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/prefix"
)

const (
	testModel = "llama"
	ours      = 16
)

// fixture is a rank and its tree.
type fixture struct {
	*Rank
	tb   testing.TB
	tree *prefix.Tree
	slot prefix.Slot // of the first level
	size int         // the engine's blocks
	now  time.Time
}

func newFixture(tb testing.TB, change func(*Config)) *fixture {
	tb.Helper()
	f := &fixture{tb: tb, size: ours, now: time.Unix(1_800_000_000, 0)}
	cfg := Config{Tree: prefix.New(), Slots: []prefix.Slot{{Index: 2, Generation: 1}}, Model: testModel, BlockSize: ours}
	if change != nil {
		change(&cfg)
	}
	for k := len(cfg.Slots); k < len(cfg.Levels); k++ {
		cfg.Slots = append(cfg.Slots, prefix.Slot{Index: uint32(2 + k), Generation: 1})
	}
	f.tree, f.slot = cfg.Tree, cfg.Slots[0]
	for _, slot := range cfg.Slots {
		f.tree.Admit(slot)
	}
	f.Rank = New(cfg)
	return f
}

// apply sends a batch, a second after the last.
func (f *fixture) apply(seq uint64, events ...kvevent.Event) Outcome {
	f.now = f.now.Add(time.Second)
	return f.Apply(seq, &kvevent.Batch{At: f.now, Events: events})
}

func (f *fixture) replayed(seq uint64, events ...kvevent.Event) {
	f.now = f.now.Add(time.Second)
	f.Replayed(seq, &kvevent.Batch{At: f.now, Events: events})
}

// matched is what the tree says of the chain on the first level, in blocks of the
// engine.
func (f *fixture) matched(c chain) int { return f.matches(c)[0] }

// matches is the same on each level.
func (f *fixture) matches(c chain) []int {
	counts := make([]uint32, f.tree.Slots())
	f.tree.Lookup(c.fingerprints(f.size), counts)
	out := make([]int, len(f.levels))
	for k := range f.levels {
		if at := int(f.levels[k].slot.Index); at < len(counts) {
			out[k] = int(counts[at])
		}
	}
	return out
}

func (f *fixture) mustMatchBy(c chain, want ...int) {
	f.tb.Helper()
	if got := f.matches(c); !slices.Equal(got, want) {
		f.tb.Errorf("%d blocks of the chain match by level, want %d", got, want)
	}
}

func (f *fixture) mustMatch(c chain, want int) {
	f.tb.Helper()
	if got := f.matched(c); got != want {
		f.tb.Errorf("%d blocks of the chain match, want %d", got, want)
	}
}

// chain is a prompt.
type chain struct {
	adapter, salt string
	tokens        []uint32
}

// tokensFrom are n tokens that start with another one for each seed.
func tokensFrom(seed uint32, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = seed + uint32(i)
	}
	return tokens
}

func (c chain) fingerprints(size int) []uint64 {
	return prefix.Fingerprints(nil, prefix.Root(testModel, c.adapter, prefix.SaltHash(c.salt)), c.tokens, size)
}

// hash is the engine's for the i-th block, which covers all before it.
func (c chain) hash(i, size int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.adapter + "\x00" + c.salt + "\x00"))
	_ = binary.Write(h, binary.LittleEndian, c.tokens[:(i+1)*size])
	return h.Sum64()
}

// stored announces the blocks [from, to).
func (c chain) stored(size, from, to int) kvevent.Event {
	e := kvevent.Event{
		Kind: kvevent.Stored, BlockSize: size, LoRA: c.adapter, LoRAID: -1, Group: -1,
		Tokens: c.tokens[from*size : to*size],
	}
	for i := from; i < to; i++ {
		e.Hashes = append(e.Hashes, c.hash(i, size))
	}
	if from > 0 {
		e.Parent, e.HasParent = c.hash(from-1, size), true
	} else {
		e.SaltHash = prefix.SaltHash(c.salt)
	}
	return e
}

// removed evicts the blocks [from, to).
func (c chain) removed(size, from, to int) kvevent.Event {
	e := kvevent.Event{Kind: kvevent.Removed, LoRAID: -1, Group: -1}
	for i := from; i < to; i++ {
		e.Hashes = append(e.Hashes, c.hash(i, size))
	}
	return e
}

func cleared() kvevent.Event { return kvevent.Event{Kind: kvevent.Cleared, LoRAID: -1, Group: -1} }
