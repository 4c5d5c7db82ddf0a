package kvindex

import (
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
)

func one(seed uint32) chain { return chain{tokens: tokensFrom(seed, ours)} }

func (c chain) all() kvevent.Event  { return c.stored(ours, 0, len(c.tokens)/ours) }
func (c chain) gone() kvevent.Event { return c.removed(ours, 0, len(c.tokens)/ours) }

func (f *fixture) mustBe(want Degraded) {
	f.tb.Helper()
	if got := f.Stats().Degraded; got != want {
		f.tb.Errorf("Degraded = %q, want %q", got, want)
	}
}

func (f *fixture) mustAsk(out Outcome, want Outcome) {
	f.tb.Helper()
	if out != want {
		f.tb.Errorf("Outcome = %+v, want %+v", out, want)
	}
}

// case K2: 5, 6, 9, then 0.
func TestGapAndRestart(t *testing.T) {
	a, b := one(100), one(200)
	for _, onGap := range []OnGap{Keep, Clear} {
		f := newFixture(t, func(cfg *Config) { cfg.OnGap = onGap })
		f.apply(0)
		f.apply(1)
		f.apply(2, a.all())
		f.mustBe(Whole)
		f.mustAsk(f.apply(5, b.all()), Outcome{Missed: 2})
		f.mustBe(Gapped)
		f.mustMatch(b, 1)
		if onGap == Keep {
			f.mustMatch(a, 1)
		} else {
			f.mustMatch(a, 0)
		}
		f.mustAsk(f.apply(0), Outcome{Restarted: true})
		f.mustBe(Whole)
		f.mustMatch(a, 0)
		f.mustMatch(b, 0)
		if s := f.Stats(); s.Gaps != 1 || s.Missed != 2 || s.Restarts != 1 {
			t.Errorf("Gaps, Missed, Restarts = %d, %d, %d, want 1, 2, 1", s.Gaps, s.Missed, s.Restarts)
		}
	}
}

// case K2: the replay from 7 brings what is known already, too.
func TestReplayOverlapsLiveEvents(t *testing.T) {
	a, b, c, d := one(100), one(200), one(300), one(400)
	f := newFixture(t, func(cfg *Config) { cfg.Replay = true })
	f.mustAsk(f.apply(5), Outcome{Replay: true, To: 4})
	f.mustBe(JoinedLate)
	f.replayed(3, a.all())
	f.replayed(4)
	f.ReplayDone(0)
	f.mustBe(JoinedLate) // what was before 3 is not known
	f.apply(6, b.all())
	f.mustMatch(a, 1)
	f.mustMatch(b, 1)

	f.mustAsk(f.apply(9, b.gone(), d.all()), Outcome{Missed: 2, Replay: true, From: 7, To: 8})
	f.mustBe(Gapped)
	f.apply(10, d.all())
	f.replayed(7, b.gone(), c.all())
	f.replayed(8, b.all())
	f.replayed(9, b.gone(), d.all())
	f.ReplayDone(99) // of another one
	f.ReplayDone(7)
	f.mustBe(JoinedLate)
	f.mustMatch(b, 0)
	f.mustMatch(c, 1)
	f.apply(11, d.gone())
	f.mustMatch(d, 1) // it was stored twice, not more and not less
	f.apply(12, d.gone())
	f.mustMatch(d, 0)
	s := f.Stats()
	if s.Duplicates != 1 || s.Recovered != 5 || s.Replays != 2 || s.UnknownRemovals != 0 || s.Missed != 2 {
		t.Errorf("Stats = %+v, want 1 duplicate, 5 recovered, 2 replays", s)
	}
}

func TestReplayRunsAhead(t *testing.T) {
	a, b := one(100), one(200)
	f := newFixture(t, func(cfg *Config) { cfg.Replay = true })
	f.apply(0)
	f.apply(2, a.all())
	f.replayed(1)
	f.replayed(2, a.all())
	f.replayed(3, b.all())
	f.ReplayDone(1)
	f.mustBe(Whole)
	f.mustAsk(f.apply(3, b.all()), Outcome{Duplicate: true})
	f.mustAsk(f.apply(4, a.gone(), b.gone()), Outcome{})
	f.mustMatch(a, 0)
	f.mustMatch(b, 0)
	f.mustAsk(f.apply(0), Outcome{Restarted: true})
}

func TestReplayWithHoles(t *testing.T) {
	a, b := one(100), one(200)
	for _, onGap := range []OnGap{Keep, Clear} {
		f := newFixture(t, func(cfg *Config) { cfg.Replay, cfg.OnGap = true, onGap })
		f.apply(0, a.all())
		from := uint64(1)
		if onGap == Clear {
			from = 0 // all has to be learnt anew
		}
		f.mustAsk(f.apply(9, b.all()), Outcome{Missed: 8, Replay: true, From: from, To: 8})
		f.replayed(5)
		f.ReplayDone(from)
		f.mustMatch(b, 1)
		f.mustBe(Gapped)
		if onGap == Keep {
			f.mustMatch(a, 1)
		} else {
			f.mustMatch(a, 0)
		}
		f.apply(10, cleared())
		f.mustBe(Whole)
	}
}

func TestClearedGapIsFilledFromTheStart(t *testing.T) {
	a, b := one(100), one(200)
	f := newFixture(t, func(cfg *Config) { cfg.Replay, cfg.OnGap = true, Clear })
	f.apply(1, a.all())
	f.apply(3, b.all())
	f.mustMatch(a, 0)
	f.replayed(1, a.all())
	f.replayed(2)
	f.ReplayDone(0)
	f.mustBe(Whole)
	f.mustMatch(a, 1)
	f.mustMatch(b, 1)
}

func TestRestartDuringReplay(t *testing.T) {
	a := one(100)
	f := newFixture(t, func(cfg *Config) { cfg.Replay = true })
	f.apply(0)
	f.apply(5, a.all())
	f.mustAsk(f.apply(0), Outcome{Restarted: true})
	f.replayed(1, a.all())
	f.ReplayDone(1)
	f.mustMatch(a, 0)
	f.mustBe(Whole)
}

func TestWaitIsBounded(t *testing.T) {
	a, b := one(100), one(200)
	f := newFixture(t, func(cfg *Config) { cfg.Replay, cfg.Limits.HeldBytes = true, 2000 })
	f.apply(0)
	f.apply(2, a.all())
	f.mustMatch(a, 0)
	f.apply(3, b.all())
	f.apply(4, b.all())
	f.mustMatch(a, 1)
	f.mustMatch(b, 1)
	f.mustBe(Gapped)
	f.replayed(1, b.all())
	if s := f.Stats(); s.GivenUp != 1 || s.Waiting || s.Recovered != 0 {
		t.Errorf("GivenUp, Waiting, Recovered = %d, %v, %d, want 1, false, 0", s.GivenUp, s.Waiting, s.Recovered)
	}
}

func TestFirstNumber(t *testing.T) {
	start := uint64(time.Unix(1_800_000_000, 0).UnixNano())
	cases := []struct {
		name string
		seq  uint64
		at   time.Duration // from the engine's start
		want Degraded
	}{
		{"vLLM", 0, time.Second, Whole},
		{"simulator", 1, time.Second, Whole},
		{"joined late", 2, time.Second, JoinedLate},
		{"by the clock", start, 5 * time.Second, Whole},
		{"by the clock, late", start + 700, time.Hour, JoinedLate},
		{"nonsense", 1<<64 - 2, time.Second, JoinedLate},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nil)
			out := f.Apply(c.seq, &kvevent.Batch{At: time.Unix(1_800_000_000, 0).Add(c.at)})
			f.mustAsk(out, Outcome{})
			f.mustBe(c.want)
			if s := f.Stats(); s.Gaps != 0 || s.Missed != 0 {
				t.Errorf("Gaps, Missed = %d, %d, want none", s.Gaps, s.Missed)
			}
		})
	}
	t.Run("restart by the clock", func(t *testing.T) {
		f := newFixture(t, nil)
		f.apply(start, one(1).all())
		f.mustAsk(f.apply(start+uint64(time.Minute)), Outcome{Restarted: true})
		f.mustMatch(one(1), 0)
	})
}

// The same number again is the same batch, or the first of an engine that began
// anew: their times tell.
func TestSameNumber(t *testing.T) {
	a := one(100)
	f := newFixture(t, nil)
	f.apply(0, a.all())
	f.mustAsk(f.Apply(0, &kvevent.Batch{At: f.now, Events: []kvevent.Event{a.all()}}), Outcome{Duplicate: true})
	f.apply(1, a.gone())
	f.mustMatch(a, 0)
	f.mustAsk(f.apply(1), Outcome{Restarted: true})
}
