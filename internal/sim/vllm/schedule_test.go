package vllm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPreemption(t *testing.T) {
	e := testEngine(t, Config{Blocks: 10})
	old := &Sequence{Prompt: prompt(1, 64), MaxTokens: 60}   // up to 8 blocks
	young := &Sequence{Prompt: prompt(2, 64), MaxTokens: 60} // together 16
	submit(t, e, 0, old, young)
	drain(t, e)
	if e.totals.Preemptions == 0 {
		t.Error("16 blocks were needed of 10 and nothing was preempted")
	}
	if old.Ended >= young.Ended {
		t.Errorf("the older one ended at %v, the younger at %v", old.Ended, young.Ended)
	}
	for _, s := range []*Sequence{old, young} {
		if len(s.Output) != 60 || s.State != Finished {
			t.Errorf("a preempted sequence ended %v with %d tokens", s.State, len(s.Output))
		}
	}
	alone := &Sequence{Prompt: prompt(2, 64), MaxTokens: 60}
	f := testEngine(t, Config{})
	submit(t, f, 0, alone)
	drain(t, f)
	if !slices.Equal(young.Output, alone.Output) {
		t.Error("preemption changed the answer")
	}
}

func TestAdapterSlots(t *testing.T) {
	e := testEngine(t, Config{MaxAdapters: 2, Adapters: []Adapter{{Name: "a", Rank: 16}, {Name: "b", Rank: 64}, {Name: "c", Rank: 0}}})
	run := func(adapter string, tokens int) *Sequence {
		s := &Sequence{Prompt: prompt(1, 10), Adapter: adapter, MaxTokens: tokens}
		submit(t, e, drain(t, e), s)
		return s
	}
	const step = 8*ms + 10*220*time.Microsecond
	for _, tt := range []struct {
		adapter string
		load    time.Duration
		loaded  []string
	}{
		{"a", 200 * ms, []string{"a"}},
		{"b", 800 * ms, []string{"a", "b"}},
		{"a", 0, []string{"a", "b"}},
		{"c", 200 * ms, []string{"a", "c"}}, // b was used longest ago
		{"", 0, []string{"a", "c"}},
	} {
		s := run(tt.adapter, 1)
		drain(t, e)
		if got := s.FirstToken - s.Arrived; got != step+tt.load {
			t.Errorf("adapter %q: first token after %v, want %v", tt.adapter, got, step+tt.load)
		}
		if got := e.Stats(s.Ended).LoadedAdapters; !slices.Equal(got, tt.loaded) {
			t.Errorf("after %q: %v loaded, want %v", tt.adapter, got, tt.loaded)
		}
	}

	at := drain(t, e) + time.Minute
	running := []*Sequence{
		{Prompt: prompt(1, 10), Adapter: "a", MaxTokens: 50},
		{Prompt: prompt(1, 10), Adapter: "c", MaxTokens: 50},
		{Prompt: prompt(1, 10), Adapter: "b", MaxTokens: 1}, // no slot while both run
		{Prompt: prompt(1, 10), MaxTokens: 1},               // passes it
	}
	submit(t, e, at, running...)
	s := e.Stats(at + 1)
	if diff := cmp.Diff([][]string{{"a", "c"}, {"b"}}, [][]string{s.RunningAdapters, s.WaitingAdapters}); diff != "" {
		t.Errorf("adapters running and waiting (-want +got):\n%s", diff)
	}
	drain(t, e)
	if running[2].FirstToken < running[0].Ended || running[3].Ended > running[0].Ended {
		t.Errorf("the one without a slot began at %v, the one that needs none ended at %v, a slot became free at %v",
			running[2].FirstToken, running[3].Ended, running[0].Ended)
	}
}

func TestAbort(t *testing.T) {
	e := testEngine(t, Config{Sequences: 1, Budget: 100})
	a := &Sequence{Prompt: prompt(1, 1000), MaxTokens: 5}
	b := &Sequence{Prompt: prompt(2, 10), MaxTokens: 5}
	c := &Sequence{Prompt: prompt(3, 10), MaxTokens: 5}
	submit(t, e, 0, a, b, c)
	e.Abort(ms, b)
	e.Abort(2*ms, a)
	if s := e.Stats(2 * ms); s.Running != 0 || s.Waiting != 1 || s.Held != 0 {
		t.Errorf("after two aborts: %+v", s)
	}
	drain(t, e)
	e.Abort(time.Hour, c)
	if a.State != Aborted || b.State != Aborted || c.State != Finished || e.totals.Aborted != 2 {
		t.Errorf("states %v %v %v, %d aborted", a.State, b.State, c.State, e.totals.Aborted)
	}
}
