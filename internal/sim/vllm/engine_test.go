package vllm

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

func testEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	cfg.Vocabulary = []uint32{101, 102, 103, 104, 105}
	cfg.EndID = 999
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// prompt is n ids that differ from those of other families.
func prompt(family uint32, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = family<<20 + uint32(i)
	}
	return ids
}

func submit(t testing.TB, e *Engine, now time.Duration, sequences ...*Sequence) {
	t.Helper()
	if err := e.Submit(now, sequences...); err != nil {
		t.Fatal(err)
	}
}

// drain runs until the engine is idle and returns when that was.
func drain(t testing.TB, e *Engine) (idle time.Duration) {
	t.Helper()
	for range 1_000_000 {
		next, busy := e.NextStep()
		if !busy {
			return idle
		}
		idle = next
		e.Advance(next)
	}
	t.Fatal("the engine does not come to rest")
	return 0
}

// The anchors of scoring.md §5.
func TestCostAnchors(t *testing.T) {
	seventy, err := ProfileNamed("llama-70b")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		profile  Profile
		warm     int // tokens of the same prompt served before
		min, max time.Duration
	}{
		{"8b, 4096 tokens cold: 0.9 s", Profile{}, 0, 890 * ms, 930 * ms},
		{"8b, all cached: 45 ms and a step", Profile{}, 4096, 45 * ms, 60 * ms},
		{"8b, 3072 of 4096 cached", Profile{}, 3072, 225 * ms, 275 * ms},
		{"70b, 4096 tokens cold: 8.2 s", seventy, 0, 8_200 * ms, 8_300 * ms},
		{"70b, 3072 of 4096 cached: 2.05 s more", seventy, 3072, 2_050 * ms, 2_130 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, Config{Profile: tt.profile})
			start := time.Duration(0)
			if tt.warm > 0 {
				submit(t, e, 0, &Sequence{Prompt: prompt(1, tt.warm), MaxTokens: 1})
				start = drain(t, e) + time.Second
			}
			s := &Sequence{Prompt: prompt(1, 4096), MaxTokens: 1}
			submit(t, e, start, s)
			drain(t, e)
			if ttft := s.FirstToken - s.Arrived; ttft < tt.min || ttft > tt.max {
				t.Errorf("first token after %v, want %v to %v", ttft, tt.min, tt.max)
			}
		})
	}
}

func TestStepsAreExact(t *testing.T) {
	e := testEngine(t, Config{})
	s := &Sequence{Prompt: prompt(1, 3000), MaxTokens: 3}
	submit(t, e, time.Second, s)
	drain(t, e)
	first := time.Second + 2*8*ms + 3000*220*time.Microsecond // two chunks: 2048 and 952
	if s.FirstToken != first || s.Ended != first+2*8*ms {
		t.Errorf("first token %v, end %v; want %v and two steps of 8 ms more", s.FirstToken, s.Ended, first)
	}
	want := Totals{Queried: 3000, Prompt: 3000, Generated: 3, ReachedLength: 1, Steps: 4, Busy: s.Ended - time.Second}
	if diff := cmp.Diff(want, e.Stats(s.Ended).Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// Being late changes nothing: time is computed, not measured.
func TestLateDriverSeesTheSameTimes(t *testing.T) {
	run := func(stride time.Duration) []time.Duration {
		e := testEngine(t, Config{})
		var all []*Sequence
		var times []time.Duration
		for i := range 40 {
			s := &Sequence{Prompt: prompt(uint32(i%7), 500+100*i), MaxTokens: 1 + i}
			at := time.Duration(i) * 60 * ms
			for now := at - 60*ms; stride > 0 && now < at; now += stride {
				e.Advance(now)
			}
			submit(t, e, at, s)
			all = append(all, s)
		}
		drain(t, e)
		for _, s := range all {
			times = append(times, s.FirstToken, s.Ended)
		}
		return times
	}
	want := run(0)
	for _, stride := range []time.Duration{ms, 7 * ms, 59 * ms} {
		if diff := cmp.Diff(want, run(stride)); diff != "" {
			t.Errorf("woken every %v (-want +got):\n%s", stride, diff)
		}
	}
}

func TestSixtyFifthWaits(t *testing.T) {
	e := testEngine(t, Config{})
	for i := range 65 {
		submit(t, e, 0, &Sequence{Prompt: prompt(uint32(i), 20), MaxTokens: 100})
	}
	if s := e.Stats(5 * ms); s.Running != 1 || s.Waiting != 64 {
		t.Errorf("in the first step, made for the first request: %d running, %d waiting", s.Running, s.Waiting)
	}
	if s := e.Stats(800 * ms); s.Running != 64 || s.Waiting != 1 {
		t.Errorf("then %d running, %d waiting; want 64 and 1", s.Running, s.Waiting)
	}
	drain(t, e)
	if s := e.Stats(time.Hour); s.Running+s.Waiting+s.Held != 0 || s.ReachedLength != 65 {
		t.Errorf("at the end: %+v", s)
	}
}

// What can be reused of a prompt that was served before: ⌊(n−1)/16⌋ blocks.
func TestHitsFollowTheEnginesRule(t *testing.T) {
	for _, tt := range []struct{ n, cached int }{
		{1, 0}, {15, 0}, {16, 0}, {17, 16}, {31, 16}, {32, 16}, {33, 32}, {4096, 4080}, {4097, 4096},
	} {
		e := testEngine(t, Config{})
		submit(t, e, 0, &Sequence{Prompt: prompt(1, tt.n), MaxTokens: 1})
		again := &Sequence{Prompt: prompt(1, tt.n), MaxTokens: 1}
		submit(t, e, drain(t, e), again)
		drain(t, e)
		if again.Cached != tt.cached {
			t.Errorf("%d tokens sent again: %d cached, want %d", tt.n, again.Cached, tt.cached)
		}
	}
}

func TestAnswersFillBlocks(t *testing.T) {
	e := testEngine(t, Config{})
	first := &Sequence{Prompt: prompt(1, 40), MaxTokens: 60}
	submit(t, e, 0, first)
	next := &Sequence{Prompt: append(append(prompt(1, 40), first.Output...), 7), MaxTokens: 1}
	at := drain(t, e)
	next.Prompt = append(append(prompt(1, 40), first.Output...), 7)
	submit(t, e, at, next)
	drain(t, e)
	if want := 96; next.Cached != want { // of 100 tokens all but the last have entries
		t.Errorf("%d tokens of prompt and answer found, want %d", next.Cached, want)
	}
	if first.Reason != ReasonLength || len(first.Output) != 60 {
		t.Errorf("answer of %d tokens, %q", len(first.Output), first.Reason)
	}
}

func TestAnswers(t *testing.T) {
	answer := func(s *Sequence) []uint32 {
		e := testEngine(t, Config{})
		submit(t, e, 0, s)
		drain(t, e)
		return s.Output
	}
	a := &Sequence{Prompt: prompt(1, 40)}
	out := answer(a)
	if len(out) < 49 || len(out) > 80 || a.Reason != ReasonStop || out[len(out)-1] != 999 {
		t.Errorf("a free answer has %d tokens, ends with %d for %q", len(out), out[len(out)-1], a.Reason)
	}
	if !slices.Equal(out, answer(&Sequence{Prompt: prompt(1, 40)})) {
		t.Error("the same prompt has two answers")
	}
	if slices.Equal(out, answer(&Sequence{Prompt: prompt(1, 41)})) || slices.Equal(out, answer(&Sequence{Prompt: prompt(1, 40), Choice: 1})) {
		t.Error("another prompt or choice has the same answer")
	}
	if one := answer(&Sequence{Prompt: prompt(1, 40), MaxTokens: 3}); len(one) != 3 || one[2] == 999 {
		t.Errorf("3 tokens asked for: %v", one)
	}
}

func TestRootsShareNothing(t *testing.T) {
	e := testEngine(t, Config{Adapters: []Adapter{{Name: "fr"}}})
	for _, s := range []*Sequence{
		{}, {Adapter: "fr"}, {SaltHash: "aa"}, {SaltHash: "bb"}, {Adapter: "fr", SaltHash: "aa"},
	} {
		s.Prompt, s.MaxTokens = prompt(1, 100), 1
		again := *s
		submit(t, e, drain(t, e), s)
		submit(t, e, drain(t, e), &again)
		drain(t, e)
		if s.Cached != 0 || again.Cached != 96 {
			t.Errorf("adapter %q, salt %q: %d cached, then %d; want 0 and 96", s.Adapter, s.SaltHash, s.Cached, again.Cached)
		}
	}
}

func TestLeastRecentlyUsedGoesFirstAndTailsBeforeHeads(t *testing.T) {
	e := testEngine(t, Config{Blocks: 12})
	cached := func(family uint32, n int) int {
		hashes := appendFingerprints(nil, newRoot("", "", "").hash, prompt(family, n))
		return e.cache.match(hashes)
	}
	for family := uint32(1); family <= 3; family++ { // 4 blocks each: full
		submit(t, e, drain(t, e), &Sequence{Prompt: prompt(family, 64), MaxTokens: 1})
	}
	submit(t, e, drain(t, e), &Sequence{Prompt: prompt(1, 64), MaxTokens: 1}) // 1 is now the youngest
	submit(t, e, drain(t, e), &Sequence{Prompt: prompt(4, 32), MaxTokens: 1}) // needs 2 blocks
	drain(t, e)
	got := []int{cached(1, 64), cached(2, 64), cached(3, 64), cached(4, 32)}
	if want := []int{4, 2, 4, 2}; !slices.Equal(got, want) {
		t.Errorf("blocks found of the four prompts: %v, want %v", got, want)
	}
	if n := e.EvictIdle(0, 3); n != 3 {
		t.Errorf("evicted %d, want 3", n)
	}
	got = []int{cached(1, 64), cached(2, 64), cached(3, 64), cached(4, 32)}
	if want := []int{4, 0, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("after 3 evictions: %v, want %v", got, want)
	}
	if n := e.EvictIdle(0, 1<<30); n != 9 || e.cache.index.length != 0 {
		t.Errorf("evicted %d of the rest, %d left", n, e.cache.index.length)
	}
}

func TestImpossibleSequences(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		s    Sequence
		want error
	}{
		{"over the maximum length", Config{}, Sequence{Prompt: prompt(1, 131_000), MaxTokens: 73}, &LengthError{131_000, 73, 131_072}},
		{"no room for a single token", Config{MaxLength: 100}, Sequence{Prompt: prompt(1, 100)}, &LengthError{100, 0, 100}},
		{"more than all blocks", Config{Blocks: 4}, Sequence{Prompt: prompt(1, 60), MaxTokens: 5}, &LengthError{60, 5, 64}},
		{"unknown adapter", Config{}, Sequence{Prompt: prompt(1, 5), Adapter: "x"}, ErrNoAdapter},
		{"empty", Config{}, Sequence{}, ErrEmptyPrompt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testEngine(t, tt.cfg)
			err := e.Submit(0, &Sequence{Prompt: prompt(2, 5), MaxTokens: 1}, &tt.s)
			if want, ok := errors.AsType[*LengthError](tt.want); ok {
				if got, ok := errors.AsType[*LengthError](err); !ok || *got != *want {
					t.Errorf("Submit = %v, want %v", err, want)
				}
			} else if !errors.Is(err, tt.want) {
				t.Errorf("Submit = %v, want %v", err, tt.want)
			}
			if s := e.Stats(0); s.Running+s.Waiting != 0 {
				t.Error("one of two was accepted")
			}
		})
	}
	e := testEngine(t, Config{MaxLength: 100})
	s := &Sequence{Prompt: prompt(1, 97)}
	submit(t, e, 0, s)
	drain(t, e)
	if len(s.Output) != 3 {
		t.Errorf("an open answer with room for 3 tokens has %d", len(s.Output))
	}
}

func TestSlowAndBusy(t *testing.T) {
	e := testEngine(t, Config{})
	e.SetSlow(3)
	s := &Sequence{Prompt: prompt(1, 100), MaxTokens: 1}
	submit(t, e, 0, s)
	if b := e.Stats(30 * ms).Busy; b != 30*ms {
		t.Errorf("busy for %v of 30 ms", b)
	}
	drain(t, e)
	if want := 3 * (8*ms + 100*220*time.Microsecond); s.Ended != want {
		t.Errorf("three times slower: %v, want %v", s.Ended, want)
	}
	if b := e.Stats(time.Hour).Busy; b != s.Ended {
		t.Errorf("busy for %v, want %v", b, s.Ended)
	}
}

func TestNextSightIsNeverLate(t *testing.T) {
	e := testEngine(t, Config{})
	if _, busy := e.NextSight(); busy {
		t.Error("an idle engine has something to show")
	}
	seen := 0
	var all []*Sequence
	for i := range 20 {
		s := &Sequence{Prompt: prompt(uint32(i), 30*i+1), MaxTokens: 2 + 3*i, Stream: i%4 == 0, Progress: func() { seen++ }}
		submit(t, e, 0, s)
		all = append(all, s)
	}
	wakes := 0
	for {
		sight, busy := e.NextSight()
		if !busy {
			break
		}
		before := seen
		if e.Advance(sight - 1); seen != before {
			t.Fatal("something happened before NextSight")
		}
		e.Advance(sight)
		wakes++
	}
	want := 0
	for _, s := range all {
		if s.State != Finished {
			t.Fatalf("a sequence is left %v", s.State)
		}
		if want++; s.Stream {
			want += len(s.Output) - 1
		}
	}
	if seen != want || wakes > e.totals.Steps {
		t.Errorf("%d calls of Progress, want %d; %d wakes for %d steps", seen, want, wakes, e.totals.Steps)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Blocks: -1, Budget: 10, Profile: Profile{Name: "x"}})
	want := "blocks: must be at least 1, got -1\n" +
		"budget: 10 tokens a step cannot serve 64 sequences\n" +
		"vocabulary: needs at least one id\n" +
		"profile.Step: must be positive, or time would stand still"
	if err == nil || err.Error() != want {
		t.Errorf("New: %v, want\n%s", err, want)
	}
	if _, err := ProfileNamed("llama-9b"); err == nil || err.Error() != `no profile "llama-9b"; there are llama-8b, llama-70b` {
		t.Errorf("ProfileNamed: %v", err)
	}
}

func TestThrashUnloadsIdleAdapters(t *testing.T) {
	for _, thrash := range []bool{false, true} {
		e := testEngine(t, Config{Adapters: []Adapter{{Name: "a", Rank: 16}}})
		e.SetThrash(thrash)
		firstToken := func() time.Duration {
			s := &Sequence{Prompt: prompt(1, 8), Adapter: "a", MaxTokens: 2}
			submit(t, e, drain(t, e), s)
			drain(t, e)
			return s.FirstToken - s.Arrived
		}
		first, again := firstToken(), firstToken()
		if reloaded := again == first; reloaded != thrash {
			t.Errorf("thrash %v: the first token came after %v and then %v", thrash, first, again)
		}
		if loaded := len(e.Stats(0).LoadedAdapters) == 1; loaded == thrash {
			t.Errorf("thrash %v: loaded while idle: %v", thrash, loaded)
		}
	}
}
