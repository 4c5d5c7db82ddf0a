package vllm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A listener holds what batches say that a cache holds: ids and how many blocks
// have each.
type listener struct {
	t      rapid.TB
	copies map[uint64]int
	prints map[uint64]uint64 // id → fingerprint, of all that was ever stored
	at     time.Duration
}

func newListener(t rapid.TB) *listener {
	return &listener{t: t, copies: map[uint64]int{}, prints: map[uint64]uint64{}}
}

func (l *listener) apply(b Batch) {
	if b.At < l.at {
		l.t.Fatalf("a batch of %v after one of %v", b.At, l.at)
	}
	l.at = b.At
	if b.Cleared {
		clear(l.copies)
	}
	for _, id := range b.Removed {
		l.remove(id)
	}
	for _, run := range b.Stored {
		l.store(run)
	}
}

func (l *listener) remove(id uint64) {
	if l.copies[id]--; l.copies[id] < 0 {
		l.t.Fatalf("%x removed oftener than stored", id)
	}
	if l.copies[id] == 0 {
		delete(l.copies, id)
	}
}

func (l *listener) store(run Run) {
	if len(run.IDs) == 0 || len(run.Tokens) != len(run.IDs)*TokensPerBlock {
		l.t.Fatalf("%d blocks have %d tokens", len(run.IDs), len(run.Tokens))
	}
	parent := run.Root.hash
	if !run.First {
		if l.copies[run.Parent] == 0 {
			l.t.Fatalf("a run's parent %x is not stored", run.Parent)
		}
		parent = l.prints[run.Parent]
	}
	for i, fp := range appendFingerprints(nil, parent, run.Tokens) {
		if run.IDs[i] != BlockID(fp) {
			l.t.Fatalf("block %d of a run is not of its tokens", i)
		}
		l.prints[run.IDs[i]] = fp
		l.copies[run.IDs[i]]++
	}
}

// check compares with the cache, as it was before what is not told yet.
func (l *listener) check(t rapid.TB, e *Engine) {
	pending := e.cache.events.batch
	if pending.Cleared {
		return // what was told of before is gone without a word
	}
	want := map[uint64]int{}
	for i := range e.cache.blocks {
		if b := &e.cache.blocks[i]; b.stored != 0 {
			want[BlockID(b.hash)]++
		}
	}
	for _, id := range pending.Removed {
		want[id]++
	}
	if diff := cmp.Diff(want, l.copies); diff != "" {
		t.Fatalf("what the cache holds, and what batches tell (-want +got):\n%s", diff)
	}
}

// tell makes an engine whose batches are kept.
func tell(t *testing.T, cfg Config) (*Engine, *[]Batch) {
	t.Helper()
	var batches []Batch
	cfg.Events = func(b Batch) { batches = append(batches, b) }
	return testEngine(t, cfg), &batches
}

// counts is what batches have: evicted blocks and stored ones, of each.
func counts(batches []Batch) (all [][2]int) {
	for _, b := range batches {
		stored := 0
		for _, run := range b.Stored {
			stored += len(run.IDs)
		}
		all = append(all, [2]int{len(b.Removed), stored})
	}
	return all
}

// A prompt that ends with a block finds all blocks but that one, computes it
// again and keeps it as a copy, which leaves by itself.
func TestExactMultiplesAreToldAgain(t *testing.T) {
	e, batches := tell(t, Config{Blocks: 8})
	for range 3 {
		submit(t, e, drain(t, e), &Sequence{Prompt: prompt(1, 64), MaxTokens: 1})
	}
	drain(t, e)
	if got, want := counts(*batches), [][2]int{{0, 4}, {0, 1}, {0, 1}}; !slices.Equal(got, want) {
		t.Fatalf("evicted and stored: %v, want %v", got, want)
	}
	last := (*batches)[0].Stored[0].IDs[3]
	for _, b := range (*batches)[1:] {
		if run := b.Stored[0]; run.First || run.Parent != (*batches)[0].Stored[0].IDs[2] || run.IDs[0] != last {
			t.Errorf("told again: %+v", run)
		}
	}
	if s := e.Stats(0); s.Cached != 4 {
		t.Errorf("%d blocks can be found, want 4", s.Cached)
	}

	// Another prompt of 7 blocks needs 5 of those 6.
	submit(t, e, drain(t, e), &Sequence{Prompt: prompt(2, 112), MaxTokens: 1})
	drain(t, e)
	b := (*batches)[3]
	gone := 0
	for _, id := range b.Removed {
		if id == last {
			gone++
		}
	}
	if len(b.Removed) != 5 || gone != 3 || len(b.Stored) != 1 || len(b.Stored[0].IDs) != 7 {
		t.Errorf("the batch of an eviction: %d removed, the copied block %d times, then %d runs", len(b.Removed), gone, len(b.Stored))
	}
}

// What was reset is told of with the next step, and not while requests run.
func TestResetIsToldWithTheNextStep(t *testing.T) {
	e, batches := tell(t, Config{})
	submit(t, e, 0, &Sequence{Prompt: prompt(1, 40), MaxTokens: 2})
	if e.Reset(0) {
		t.Error("reset while a sequence holds blocks")
	}
	now := drain(t, e)
	if !e.Reset(now) || len(*batches) != 1 {
		t.Fatalf("a reset tells at once: %+v", *batches)
	}
	again := &Sequence{Prompt: prompt(1, 40), MaxTokens: 1}
	submit(t, e, now+time.Minute, again)
	drain(t, e)
	if again.Cached != 0 {
		t.Errorf("%d tokens found after a reset", again.Cached)
	}
	if last := (*batches)[1]; len(*batches) != 2 || !last.Cleared || len(last.Removed) != 0 || len(last.Stored) != 1 {
		t.Errorf("after a reset: %+v", *batches)
	}
	if c := e.Changes(false); !c.Full || len(c.Stored) != 2 {
		t.Errorf("a report after a reset: %+v", c)
	}
}

// A step that changes nothing tells nothing; an answer's blocks are told as they
// fill; an eviction on an idle engine is told at once.
func TestBatchesOfSteps(t *testing.T) {
	e, batches := tell(t, Config{})
	submit(t, e, 0, &Sequence{Prompt: prompt(1, 30), MaxTokens: 20})
	now := drain(t, e)
	if got, want := counts(*batches), [][2]int{{0, 1}, {0, 1}, {0, 1}}; !slices.Equal(got, want) {
		t.Fatalf("evicted and stored: %v, want %v", got, want)
	}
	e.EvictIdle(now+time.Second, 2)
	if last := (*batches)[3]; last.At != now+time.Second || len(last.Removed) != 2 {
		t.Errorf("an eviction on an idle engine: %+v", last)
	}
}
