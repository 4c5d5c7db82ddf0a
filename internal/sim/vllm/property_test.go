package vllm

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checkBlocks verifies that every block is accounted for exactly once.
func checkBlocks(t *rapid.T, e *Engine) {
	refs := make(map[int32]int32)
	for _, s := range e.running {
		for _, b := range s.blocks {
			refs[b]++
		}
	}
	for _, s := range e.waiting {
		if len(s.blocks) != 0 {
			t.Fatalf("a waiting sequence holds %d blocks", len(s.blocks))
		}
	}
	c := e.cache
	idle := make(map[int32]bool)
	for i := c.idle.first; i != none; i = c.blocks[i].next {
		idle[i] = true
	}
	if len(idle) != c.idle.length || len(idle)+len(c.blank)+len(refs) != len(c.blocks) {
		t.Fatalf("%d idle (%d counted), %d blank, %d held of %d", len(idle), c.idle.length, len(c.blank), len(refs), len(c.blocks))
	}
	stored, copies := 0, 0
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.refs != refs[int32(i)] {
			t.Fatalf("block %d has %d references, sequences hold it %d times", i, b.refs, refs[int32(i)])
		}
		if b.stored == 0 {
			continue
		}
		stored++
		if _, found := c.index.find(c.blocks, b.hash); found != int32(i) {
			copies++
			if !slices.Contains(c.copies[b.hash], int32(i)) {
				t.Fatalf("block %d is stored and not found", i)
			}
		}
		if _, found := c.index.find(c.blocks, b.parent); b.depth > 0 && found == none {
			t.Fatalf("block %d is stored and its parent is not", i)
		}
	}
	if stored != c.index.length+copies {
		t.Fatalf("%d blocks stored, %d found and %d copies of them", stored, c.index.length, copies)
	}
	for _, list := range c.copies {
		copies -= len(list)
	}
	if copies != 0 {
		t.Fatalf("%d copies are not known", copies)
	}
}

func checkSchedule(t *rapid.T, e *Engine) {
	budget := 0
	for _, s := range e.running {
		budget += s.scheduled
		if len(s.blocks) < blocksFor(s.computed+s.scheduled) {
			t.Fatalf("%d blocks for %d tokens", len(s.blocks), s.computed+s.scheduled)
		}
	}
	if budget > e.cfg.Budget || len(e.running) > e.cfg.Sequences {
		t.Fatalf("%d tokens and %d sequences in a step", budget, len(e.running))
	}
	if len(e.adapters.loaded) > e.cfg.MaxAdapters {
		t.Fatalf("%v loaded in %d slots", e.adapters.loaded, e.cfg.MaxAdapters)
	}
	for _, s := range e.running {
		if s.Adapter != "" && !slices.Contains(e.adapters.loaded, s.Adapter) {
			t.Fatalf("%s runs and is not loaded", s.Adapter)
		}
	}
}

// A mirror is what a receiver of Changes knows.
type mirror map[uint64]bool

func (m mirror) apply(t *rapid.T, c Changes) {
	if c.Full {
		clear(m)
	}
	for _, h := range c.Removed {
		if !m[h] {
			t.Fatalf("%x removed and never stored", h)
		}
		delete(m, h)
	}
	for _, b := range c.Stored {
		if m[b.Hash] {
			t.Fatalf("%x stored twice", b.Hash)
		}
		if !b.First && !m[b.Parent] {
			t.Fatalf("%x comes before its parent", b.Hash)
		}
		m[b.Hash] = true
	}
}

func (m mirror) check(t *rapid.T, e *Engine) {
	if len(m) != e.cache.index.length {
		t.Fatalf("the mirror has %d blocks, the cache %d", len(m), e.cache.index.length)
	}
	for _, b := range e.cache.everything() {
		if !m[b.Hash] {
			t.Fatalf("%x is missing in the mirror", b.Hash)
		}
	}
}

// Any history keeps the books, ends, and can be followed from its changes.
func TestEngineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heard := newListener(t)
		e, err := New(Config{
			Events: heard.apply, Model: "m", Blocks: rapid.IntRange(8, 60).Draw(t, "blocks"),
			Sequences: rapid.IntRange(1, 6).Draw(t, "sequences"), Budget: rapid.IntRange(6, 200).Draw(t, "budget"),
			MaxAdapters: rapid.IntRange(1, 2).Draw(t, "slots"), Adapters: []Adapter{{Name: "a", Rank: 8}, {Name: "b", Rank: 8}, {Name: "c", Rank: 8}},
			Vocabulary: []uint32{1, 2, 3}, EndID: 9,
		})
		if err != nil {
			t.Fatal(err)
		}
		var now time.Duration
		var live []*Sequence
		seen := mirror{}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				s := &Sequence{
					Prompt:    prompt(rapid.Uint32Range(1, 3).Draw(t, "family"), rapid.IntRange(1, 200).Draw(t, "length")),
					MaxTokens: rapid.IntRange(0, 60).Draw(t, "max"), Stream: rapid.Bool().Draw(t, "stream"),
					Adapter: rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "adapter"),
				}
				if e.Submit(now, s) == nil {
					live = append(live, s)
				}
			},
			"pass": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(1, 200).Draw(t, "ms")) * time.Millisecond
				e.Advance(now)
			},
			"abort": func(t *rapid.T) {
				if len(live) > 0 {
					e.Abort(now, rapid.SampledFrom(live).Draw(t, "victim"))
				}
			},
			"evict": func(t *rapid.T) { e.EvictIdle(now, rapid.IntRange(0, 5).Draw(t, "n")) },
			"reset": func(t *rapid.T) {
				held := e.Stats(now).Held
				if done := e.Reset(now); done != (held == 0) {
					t.Fatalf("Reset with %d blocks held: %v", held, done)
				}
			},
			"report": func(t *rapid.T) {
				seen.apply(t, e.Changes(rapid.IntRange(0, 5).Draw(t, "full") == 0))
				seen.check(t, e)
			},
			"": func(t *rapid.T) {
				checkBlocks(t, e)
				checkSchedule(t, e)
				heard.check(t, e)
			},
		})
		for range 100_000 {
			next, busy := e.NextStep()
			if !busy {
				break
			}
			e.Advance(next)
			checkBlocks(t, e)
			heard.check(t, e)
		}
		for _, s := range live {
			if s.State == Running || s.State == Waiting {
				t.Fatalf("a sequence is left in state %d", s.State)
			}
			if s.State == Finished && s.MaxTokens > 0 && len(s.Output) != s.MaxTokens {
				t.Fatalf("%d tokens for %d", len(s.Output), s.MaxTokens)
			}
		}
		if held := e.cache.held(); held != 0 {
			t.Fatalf("%d blocks are held by nobody", held)
		}
	})
}
