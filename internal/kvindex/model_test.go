package kvindex

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/prefix"
)

// copyKey is what an engine counts copies by.
type copyKey struct {
	hash  uint64
	tier  kvevent.Tier
	group int
}

// model is what a rank must know, as a multiset of blocks.
type model map[copyKey]int

func (m model) apply(b *kvevent.Batch) {
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case kvevent.Stored:
			for _, hash := range e.Hashes {
				k := copyKey{hash, e.Tier, e.Group}
				if e.HasParent || len(e.Hashes) == 1 || m[k] == 0 {
					m[k]++
				}
			}
		case kvevent.Removed:
			for _, hash := range e.Hashes {
				k := copyKey{hash, e.Tier, e.Group}
				m[k] = max(0, m[k]-1)
			}
		case kvevent.Cleared:
			clear(m)
		}
	}
}

// matched is the number of blocks from the start of the chain that are in some
// tiers.
func (m model) matched(c chain, size int, tiers TierSet) int {
	for i := range len(c.tokens) / size {
		hash := c.hash(i, size)
		held := false
		for k, n := range m {
			held = held || k.hash == hash && n > 0 && tiers.Has(k.tier)
		}
		if !held {
			return i
		}
	}
	return len(c.tokens) / size
}

// engine is the other end of the stream, and what the rank must make of it.
type engine struct {
	*fixture
	chains []chain
	sites  []place // of its events: not more than are counted of a block
	clear  bool    // at a gap
	replay bool
	model  model
	seq    uint64
	log    []*kvevent.Batch // of this life, by number
	lost   bool             // batches since the last that arrived
}

// newEngine draws an engine with chains that have common starts.
func newEngine(t *rapid.T, tb testing.TB) *engine {
	e := &engine{
		clear:  rapid.Bool().Draw(t, "clear"),
		replay: rapid.Bool().Draw(t, "replay"),
		model:  model{},
	}
	e.sites = rapid.SampledFrom([][]place{
		{{tier: kvevent.GPU, group: -1}, {tier: kvevent.GPU}, {tier: kvevent.CPU}},
		{{tier: kvevent.GPU}, {tier: kvevent.CPU, group: -1}, {tier: kvevent.Disk}},
	}).Draw(t, "places")
	weights := rapid.SampledFrom([]TierWeights{
		{kvevent.GPU: 1},
		{kvevent.GPU: 1, kvevent.CPU: 1},
		{kvevent.GPU: 1, kvevent.CPU: 0.5},
		{kvevent.GPU: 1, kvevent.CPU: 0.5, kvevent.Disk: 0.25},
	}).Draw(t, "weights")
	e.fixture = newFixture(tb, func(c *Config) {
		c.Levels, c.Replay = weights.Levels(), e.replay
		if e.clear {
			c.OnGap = Clear
		}
	})
	e.size = rapid.SampledFrom([]int{8, 16, 32, 48}).Draw(t, "size")
	const blocks = 6
	trunk := tokensFrom(1, blocks*e.size)
	for fork := range blocks {
		for k := range 2 {
			tokens := slices.Clone(trunk)
			for i := fork * e.size; i < len(tokens); i++ {
				tokens[i] += uint32(k) << 20
			}
			e.chains = append(e.chains, chain{tokens: tokens}, chain{adapter: "fr", tokens: tokens}, chain{salt: "s", tokens: tokens})
		}
	}
	return e
}

// batch draws what happens in a step of the engine.
func (e *engine) batch(t *rapid.T) *kvevent.Batch {
	b := &kvevent.Batch{At: e.now.AddDate(0, 0, int(e.seq))}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		c := rapid.SampledFrom(e.chains).Draw(t, "chain")
		from := rapid.IntRange(0, len(c.tokens)/e.size-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(c.tokens)/e.size).Draw(t, "to")
		var ev kvevent.Event
		switch kind := rapid.IntRange(0, 19).Draw(t, "kind"); {
		case kind == 0:
			ev = cleared()
		case kind < 10:
			ev = c.removed(e.size, from, to)
		default:
			ev = c.stored(e.size, from, to)
		}
		if ev.Kind != kvevent.Cleared {
			at := rapid.SampledFrom(e.sites).Draw(t, "place")
			ev.Tier, ev.Group = at.tier, at.group
		}
		b.Events = append(b.Events, ev)
	}
	return b
}

func (e *engine) step(t *rapid.T) {
	b := e.batch(t)
	e.log = append(e.log, b)
	seq := e.seq
	e.seq++
	if seq > 0 && rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
		e.lost = true
		return
	}
	switch {
	case e.lost && e.replay: // all of it comes
		clear(e.model)
		for _, missed := range e.log {
			e.model.apply(missed)
		}
	case e.lost && e.clear:
		clear(e.model)
		e.model.apply(b)
	default:
		e.model.apply(b)
	}
	out := e.Apply(seq, b)
	if out.Replay != (e.lost && e.replay) || (out.Missed > 0) != e.lost {
		t.Fatalf("Apply(%d) = %+v after a loss: %v", seq, out, e.lost)
	}
	e.lost = false
	if out.Replay {
		for i := out.From; i < uint64(len(e.log)); i++ {
			e.Replayed(i, e.log[i])
		}
		e.ReplayDone(out.From)
	}
}

func (e *engine) restart(t *rapid.T) {
	if e.seq == 0 {
		return
	}
	clear(e.model)
	e.seq, e.log, e.lost = 0, nil, false
	e.now = e.now.AddDate(1, 0, 0)
	e.step(t)
}

// check compares all chains, and the bookkeeping with itself.
func (e *engine) check(t *rapid.T) {
	for i, c := range e.chains {
		for k, got := range e.matches(c) {
			if want := e.model.matched(c, e.size, e.levels[k].tiers); got != want {
				t.Fatalf("chain %d: %d blocks match on level %d, want %d", i, got, k, want)
			}
		}
	}
	var tiers [kvevent.OtherTier + 1]int
	for k, rec := range e.records() {
		if e.table.find(k) != rec {
			t.Fatalf("the record of %x is out of reach", k)
		}
		for f := range fields {
			if at, n := rec.copies.at(f); n > 0 {
				tiers[e.places.list[at].tier]++
			}
		}
	}
	s := e.Stats()
	if s.Tiers != tiers || s.Blocks != len(e.records()) {
		t.Fatalf("Stats say %d blocks, %v; the table has %d, %v", s.Blocks, s.Tiers, len(e.records()), tiers)
	}
	if e.aside.blocks == 0 && (len(e.aside.spots) > 0 || len(e.aside.waiting) > 0 || e.aside.bytes != 0) {
		t.Fatalf("nothing is aside, and yet %+v", e.aside)
	}
}

func (r *Rank) records() map[uint64]*record {
	all := map[uint64]*record{}
	for i := range r.table.records {
		if rec := &r.table.records[i]; !rec.copies.none() {
			all[rec.hash] = rec
		}
	}
	return all
}

// Whatever an engine says, the tree matches what a multiset of its blocks does.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := newEngine(rt, t)
		other := prefix.Slot{Index: 0, Generation: 1}
		e.tree.Admit(other)
		fps := e.chains[0].fingerprints(e.size)
		e.tree.Store(other, 0, fps)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 24).Draw(rt, "step") {
			case 0:
				e.restart(rt)
			default:
				e.step(rt)
			}
			e.check(rt)
		}
		if got := e.tree.PodBlocks(other); got != len(fps) {
			rt.Fatalf("another slot has %d blocks, want %d", got, len(fps))
		}
		e.Close()
		if got := e.tree.Stats().Blocks; got != len(fps) {
			rt.Fatalf("%d blocks are left of a closed rank", got-len(fps))
		}
	})
}

// A full report may restate blocks that still wait for their parent.
func TestRestatedOrphanCountsOnce(t *testing.T) {
	c := chain{tokens: tokensFrom(1, 3*ours)}
	f := newFixture(t, nil)
	f.apply(0, c.stored(ours, 1, 2))
	f.apply(1, c.stored(ours, 0, 3))
	f.mustMatch(c, 3)
	f.apply(2, c.removed(ours, 1, 2))
	f.mustMatch(c, 1)
}

// The table finds what a map does, at any filling.
func TestTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tb, want := newTable(), map[uint64]uint64{}
		tb.seed = 0
		put := rapid.IntRange(20, 80).Draw(rt, "put") // percent
		for i := range rapid.IntRange(0, 400).Draw(rt, "operations") {
			hash := rapid.Uint64Range(0, 300).Draw(rt, "hash")
			rec := tb.find(hash)
			if fp, ok := want[hash]; ok != (rec != nil) || ok && rec.fp != fp {
				rt.Fatalf("find(%d) = %v, want %d, %v", hash, rec, fp, ok)
			}
			switch {
			case rec == nil && rapid.IntRange(0, 99).Draw(rt, "what") < put:
				c, _ := copies(0).add(i % maxPlaces)
				tb.put(record{hash, uint64(i), c})
				want[hash] = uint64(i)
			case rec != nil:
				tb.remove(rec)
				delete(want, hash)
			}
		}
		for hash, fp := range want {
			if rec := tb.find(hash); rec == nil || rec.fp != fp {
				rt.Fatalf("find(%d) = %v, want %d", hash, rec, fp)
			}
		}
		if tb.used != len(want) {
			rt.Fatalf("used = %d, want %d", tb.used, len(want))
		}
	})
}

func TestCopiesWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c copies
		want := map[int]int{}
		for range rapid.IntRange(0, 60).Draw(rt, "operations") {
			at := rapid.SampledFrom([]int{0, 1, 7, maxPlaces - 1}).Draw(rt, "place")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				c = c.drop(at)
				if want[at]--; want[at] <= 0 {
					delete(want, at)
				}
			case 1:
				c = c.stamped(rapid.Uint32().Draw(rt, "batch"))
			default:
				with, ok := c.add(at)
				if _, known := want[at]; ok != (known || len(want) < fields) {
					rt.Fatalf("add(%d) of %x is ok: %v, with %v", at, c, ok, want)
				}
				if c = with; ok {
					want[at]++
				}
			}
			if c.none() != (len(want) == 0) {
				rt.Fatalf("none of %x = %v, want %v", c, c.none(), want)
			}
			for p := range maxPlaces {
				if got := c.count(p); got != want[p] || c.in(1<<p) != (got > 0) || c.single().count(p) != min(got, 1) {
					rt.Fatalf("count(%d) of %x = %d, want %d", p, c, got, want[p])
				}
			}
		}
	})
	c, _ := copies(0).add(3)
	for range maxCopies + 5 {
		c, _ = c.add(3)
	}
	if c.count(3) != maxCopies {
		t.Errorf("count = %d, want to stop at %d", c.count(3), maxCopies)
	}
}
