package kvindex

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eppctl/eppctl/internal/heaptest"
	"github.com/eppctl/eppctl/internal/kvevent"
)

// stream makes events that are cheap to make: hashes are numbers, and an event's
// first token is its own.
type stream struct {
	tokens []uint32
	hashes []uint64
	events []kvevent.Event
}

func newStream(blocks int) *stream {
	return &stream{tokens: tokensFrom(1, blocks*ours), hashes: make([]uint64, blocks)}
}

// stored is the i-th chain of its kind; parent 0 is none.
func (s *stream) stored(i int, parent uint64) kvevent.Event {
	s.tokens[0] = uint32(i)
	for k := range s.hashes {
		s.hashes[k] = s.hash(i, k)
	}
	return kvevent.Event{
		Kind: kvevent.Stored, Hashes: s.hashes, Tokens: s.tokens, BlockSize: ours,
		Parent: parent, HasParent: parent != 0, LoRAID: -1, Group: 0,
	}
}

// removed evicts the i-th chain as vLLM does: an event for each block, the last
// one first.
func (s *stream) removed(i int) []kvevent.Event {
	s.events = s.events[:0]
	for k := len(s.hashes) - 1; k >= 0; k-- {
		s.hashes[k] = s.hash(i, k)
		s.events = append(s.events, kvevent.Event{Kind: kvevent.Removed, Hashes: s.hashes[k : k+1], LoRAID: -1, Group: 0})
	}
	return s.events
}

func (s *stream) hash(i, k int) uint64 {
	return (uint64(i)*uint64(len(s.hashes))+uint64(k)+1)*0x9e3779b97f4a7c15 + 1
}

// case K6
func TestMemoryReturns(t *testing.T) {
	const (
		each  = 64       // bytes a block may take beside the tree
		stays = 64 << 10 // that may be left
	)
	suffixes := 1_000_000
	if raceEnabled {
		suffixes /= 10
	}
	f := newFixture(t, nil)
	shared := chain{tokens: tokensFrom(1<<30, 1024)}
	seq := uint64(0)
	send := func(events ...kvevent.Event) {
		f.Apply(seq, &kvevent.Batch{At: f.now, Events: events})
		seq++
	}
	send(shared.all())
	s, parent := newStream(1), shared.hash(63, ours)
	before, treeBefore := heaptest.Live(), f.tree.Stats().BytesEstimate
	for i := range suffixes {
		send(s.stored(i, parent))
	}
	if got := f.Stats(); got.Blocks != suffixes+64 || got.TreeBlocks != suffixes+64 {
		t.Fatalf("Blocks, TreeBlocks = %d, %d, want %d of both", got.Blocks, got.TreeBlocks, suffixes+64)
	}
	full, tree := heaptest.Live()-before, f.tree.Stats().BytesEstimate-treeBefore
	table := int64(len(f.table.records)) * 24
	n := int64(suffixes)
	t.Logf("%d suffixes: %d bytes each, %d of them the table's, %d the tree's", n, full/n, table/n, tree/n)
	if table > each*n || full-tree > each*n {
		t.Errorf("%d blocks take %d bytes beside the tree, the table %d", n, full-tree, table)
	}
	for i := range suffixes {
		send(s.removed(i)...)
	}
	f.mustMatch(shared, 64)
	after, treeAfter := heaptest.Live()-before, f.tree.Stats().BytesEstimate-treeBefore
	t.Logf("removed: %d kB are left, %d of them the tree's", after>>10, treeAfter>>10)
	if got := f.Stats(); got.Blocks != 64 || got.TreeBlocks != 64 || got.UnknownRemovals != 0 {
		t.Errorf("Blocks, TreeBlocks, UnknownRemovals = %d, %d, %d, want 64, 64, 0", got.Blocks, got.TreeBlocks, got.UnknownRemovals)
	}
	if after > 256<<10+stays { // the first is the tree's: a bucket for each of its tables
		t.Errorf("%d kB are left of %d", after>>10, full>>10)
	}
}

// case K7: events that never find their parent, batches that never find their replay,
// and removals of nothing cost no more than their bounds.
func TestHostileStreamIsBounded(t *testing.T) {
	limits := Limits{Blocks: 1000, OrphanBytes: 1 << 20, HeldBytes: 1 << 20}
	f := newFixture(t, func(cfg *Config) { cfg.Limits, cfg.Replay = limits, true })
	s := newStream(4)
	before := heaptest.Live()
	batches := 100_000
	if raceEnabled {
		batches /= 10
	}
	for i := range batches {
		seq := uint64(i)
		if i > batches/2 {
			seq += 5 // a gap whose replay never comes
		}
		e := s.stored(i, s.hash(i+1_000_000, 0))
		e.Group, e.Tier = i%200, kvevent.Tier(i%5)
		f.Apply(seq, &kvevent.Batch{At: f.now, Events: append([]kvevent.Event{e, s.stored(i, 0)}, s.removed(i+7)...)})
	}
	took := heaptest.Live() - before
	t.Logf("%d kB", took>>10)
	if bound := int64(limits.OrphanBytes + limits.HeldBytes + limits.Blocks*256 + 1<<20); took > bound {
		t.Errorf("%d bytes are taken, want less than %d", took, bound)
	}
	if st := f.Stats(); st.Blocks > limits.Blocks || st.GivenUp == 0 || st.OrphansDropped == 0 {
		t.Errorf("Stats = %+v, want at most 1000 blocks, and drops", st)
	}
}

// Lookups, figures and corrections beside the stream. A block that was removed
// before a lookup began is never found by it.
func TestConcurrentUse(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(0)
	f.apply(2) // degraded, so that corrections do something
	c := chain{tokens: tokensFrom(5, 8*ours)}
	fps := c.fingerprints(ours)
	var phase, lookups atomic.Uint64 // in odd phases the chain is gone
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		counts := make([]uint32, f.tree.Slots())
		for !stop.Load() {
			before := phase.Load()
			n := f.tree.Lookup(fps, counts)
			if before%2 == 1 && phase.Load() == before && n > 0 {
				t.Errorf("%d blocks match after their removal", n)
			}
			lookups.Add(1)
		}
	})
	wg.Go(func() {
		for !stop.Load() {
			f.Stats()
			f.Correct(Answer{Blocks: fps, Prompt: len(c.tokens) + 1, Cached: 6 * ours, Picked: f.Mark()})
			runtime.Gosched()
		}
	})
	s := newStream(8)
	seq := uint64(3)
	for i := range 100 {
		f.apply(seq, s.stored(i+1, 0), c.all())
		f.apply(seq+1, append(s.removed(i), c.gone())...)
		seq += 2
		phase.Add(1)
		for seen := lookups.Load(); lookups.Load() < seen+2; {
			runtime.Gosched()
		}
		phase.Add(1)
	}
	stop.Store(true)
	wg.Wait()
	f.apply(seq, cleared())
	if got := f.tree.Stats().Blocks; got != 0 {
		t.Errorf("%d blocks are left in the tree", got)
	}
}
