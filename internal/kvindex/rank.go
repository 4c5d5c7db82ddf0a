package kvindex

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/prefix"
)

// OnGap is what happens to a rank's claims when batches are missed.
type OnGap uint8

// Keep goes on with what is known, marked as degraded. Clear forgets it: the
// rank claims nothing that was stored before the gap.
const (
	Keep OnGap = iota
	Clear
)

// Config is what a rank needs to know. Tree, Slots, Model and BlockSize are
// required.
type Config struct {
	Tree *prefix.Tree
	// Slots are the rank's own, admitted by the caller: one for each of Levels.
	Slots []prefix.Slot
	// Levels are where a block counts as cached; nil: [GPUAlone].
	Levels []Level
	// Model is the base model, as in the root of requests' fingerprints.
	Model string
	// BlockSize is ours, in tokens. The engine's is a multiple or a divisor.
	BlockSize int
	OnGap     OnGap
	// Replay says that the caller answers each [Outcome.Replay] with
	// [Rank.Replayed] and [Rank.ReplayDone].
	Replay bool
	Limits Limits
	// Removed is told which blocks the rank no longer holds on any level, nil for
	// all of them, and when by the engine's clock. It may be nil, must not keep the
	// slice, and must not call the rank.
	Removed func(blocks []uint64, at time.Time)
}

// Limits bound a rank's memory. Zero fields have the defaults.
type Limits struct {
	Blocks      int // of the engine that are held; 2,097,152
	OrphanBytes int // of events whose parent is missing; 4 MiB
	HeldBytes   int // of batches that wait for a replay; 16 MiB
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Blocks, 1<<21)
	set(&l.OrphanBytes, 4<<20)
	set(&l.HeldBytes, 16<<20)
	return l
}

// A Rank is one event stream: one data parallel rank of an engine. All methods
// may be called at the same time, but the stream has one order: [Rank.Apply],
// [Rank.Replayed] and [Rank.ReplayDone] belong to one goroutine. Make one with
// [New].
type Rank struct {
	cfg  Config
	base uint64 // the root of chains without adapter and salt

	batches atomic.Uint32 // that were applied

	mu     sync.Mutex
	closed bool
	table  table
	places places
	levels []level
	size   int       // tokens in a block of the engine; 0: not known
	groups groups    // that events named
	aside  aside     // events that wait for their parent
	ready  []*orphan // whose parent has come
	order  order     // where the stream is
	at     time.Time // of the batch that is applied
	fps    []uint64  // memory for an event's fingerprints
	held   []uint64  // and for those that go to the tree
	stats  Stats
}

// level is a [Level] as the tree has it.
type level struct {
	tiers   TierSet
	slot    prefix.Slot
	removed []uint64 // not yet taken from the tree
}

// New makes a rank that holds nothing and has seen no batch.
func New(cfg Config) *Rank {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Levels == nil {
		cfg.Levels = GPUAlone()
	}
	r := &Rank{cfg: cfg, base: prefix.Root(cfg.Model, "", ""), table: newTable(), levels: make([]level, len(cfg.Levels))}
	for k := range r.levels {
		r.levels[k].tiers, r.levels[k].slot = cfg.Levels[k].Tiers, cfg.Slots[k]
	}
	return r
}

// last is the level that holds all that counts.
func (r *Rank) last() *level { return &r.levels[len(r.levels)-1] }

// levelOf is the first level that a tier is on; [MaxLevels] when it does not count.
func (r *Rank) levelOf(tier kvevent.Tier) int {
	for k := range r.levels {
		if r.levels[k].tiers.Has(tier) {
			return k
		}
	}
	return MaxLevels
}

// Clear forgets all that the rank holds. The stream goes on from where it is,
// and blocks that the engine still has are known again when it stores them.
func (r *Rank) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.wipe()
		r.order.late, r.order.holes = true, true // a replay under way can't make it whole
	}
}

// Close forgets all that the rank holds; later calls do nothing. The slots are
// the caller's to release.
func (r *Rank) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut()
}

// shut is Close with the lock held.
func (r *Rank) shut() {
	if r.closed {
		return
	}
	r.wipe()
	r.forget()
	r.closed = true
}

// wipe empties the holdings and the slots.
func (r *Rank) wipe() {
	r.table.reset()
	r.places = places{}
	r.aside.reset()
	r.ready = nil
	r.size, r.stats.Mismatch = 0, 0
	for k := range r.levels {
		l := &r.levels[k]
		l.removed = l.removed[:0]
		r.cfg.Tree.Clear(l.slot)
	}
	if r.cfg.Removed != nil {
		r.cfg.Removed(nil, r.at)
	}
}

// Stats are a rank's figures. Those without a word of time count since [New].
type Stats struct {
	Blocks     int                         // of the engine, held now in any tier
	Tiers      [kvevent.OtherTier + 1]int  // of these in each; some are in several
	TreeBlocks int                         // that count as cached, in the tree now
	Events     [kvevent.Cleared + 1]uint64 // by kind
	Batches    uint64                      // applied
	LastEvent  time.Time                   // by the engine's clock; zero: none yet
	BlockSize  int                         // of the engine, in tokens; 0: not known
	Mismatch   int                         // a block size that is not indexed; 0: none
	Hybrid     bool                        // several groups: a match is an upper bound
	Degraded   Degraded                    // now
	Waiting    bool                        // for a replay, now
	Gaps       uint64                      // jumps of the sequence number
	Missed     uint64                      // batches that these skipped
	Restarts   uint64                      // of the engine
	Replays    uint64                      // that were done
	Recovered  uint64                      // batches that came by replay
	Duplicates uint64                      // batches that came twice
	GivenUp    uint64                      // replays that took too long to wait for
	Skipped    uint64                      // events that the decoder could not read
	Restated   uint64                      // blocks of chains that were announced again
	Conflicts  uint64                      // blocks whose hash stands for other tokens
	Sparse     uint64                      // blocks of sparse groups, not indexed
	Unresolved uint64                      // blocks announced by hash alone that nobody knows
	Unfit      uint64                      // blocks of events that can't be indexed
	Dropped    uint64                      // blocks beyond a limit
	Corrected  uint64                      // blocks that [Rank.Correct] took back

	UnknownParents  uint64 // events whose parent was not known
	Orphans         uint64 // blocks of these
	Aside           int    // of these, kept now
	OrphansDropped  uint64 // of these, dropped for want of room
	UnknownRemovals uint64 // blocks that were removed and not held
}

// Stats takes some microseconds, or as long as a batch that is being applied.
func (r *Rank) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Blocks = r.table.used
	for i := range r.places.known() {
		p := &r.places.list[i]
		s.Tiers[p.tier] += p.blocks
	}
	s.TreeBlocks = r.cfg.Tree.PodBlocks(r.last().slot)
	s.BlockSize = r.size
	s.Hybrid = r.groups.hybrid()
	s.Degraded = r.order.degraded()
	s.Waiting = r.order.waiting
	s.Aside = r.aside.blocks
	return s
}
