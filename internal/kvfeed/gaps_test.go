package kvfeed_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/score"
)

// case K2
func TestGapWithReplay(t *testing.T) {
	a := newPublisher(t, "").withReplay()
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 16*9)
	a.send(stored(1, prompt, 16, 0, 1))
	r.untilMatched("a", root, prompt, 1)
	a.lose(stored(1, prompt, 16, 1, 2))
	a.lose(stored(1, prompt, 16, 2, 3))
	a.send(stored(1, prompt, 16, 3, 4))
	r.untilMatched("a", root, prompt, 4)
	until(t, "the picture is whole", func() bool { return r.stream("a", 0).Degraded == kvindex.Whole && r.note("a") == "" })
	s := r.stream("a", 0)
	if s.Gaps != 1 || s.Missed != 2 || s.Replays != 1 || s.Recovered < 2 || s.ReplaysFailed != 0 {
		t.Errorf("gaps %d, missed %d, replays %d, recovered %d, failed %d", s.Gaps, s.Missed, s.Replays, s.Recovered, s.ReplaysFailed)
	}
	// So soon after that another gap waits for its turn.
	a.lose(stored(2, tokens(2, 16), 16, 0, 1))
	a.send(stored(1, prompt, 16, 4, 5))
	r.untilMatched("a", root, prompt, 5)
	until(t, "the picture is whole again", func() bool { return r.stream("a", 0).Replays == 2 && r.note("a") == "" })
	if s := r.stream("a", 0); s.ReplaysSpared != 0 || a.replays() != 2 {
		t.Errorf("%d replays were spared, %d asked for", s.ReplaysSpared, a.replays())
	}
}

// A replay that breaks off goes on where it was.
func TestReplayIsResumed(t *testing.T) {
	a := newPublisher(t, "").withReplay()
	prompt := tokens(1, 16*9)
	for i := range 8 {
		a.lose(stored(1, prompt, 16, i, i+1))
	}
	a.stopAt = 5
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	a.send(stored(1, prompt, 16, 8, 9))
	r.untilMatched("a", root, prompt, 9)
	until(t, "the picture is whole", func() bool { return r.note("a") == "" })
	if s := r.stream("a", 0); s.Replays != 1 || s.Recovered != 8 || a.replays() != 2 || s.ReplaysFailed != 0 {
		t.Errorf("%d replays of %d batches, asked for %d times, %d failed", s.Replays, s.Recovered, a.replays(), s.ReplaysFailed)
	}
}

func TestReplayFails(t *testing.T) {
	a := newPublisher(t, "")
	a.replay = "tcp://127.0.0.1:1" // nobody is there
	prompt := tokens(1, 64)
	a.lose(stored(1, prompt, 16, 0, 1))
	a.lose(stored(1, prompt, 16, 1, 2))
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	other := tokens(2, 32)
	a.send(stored(2, other, 16, 0, 2))
	r.untilMatched("a", root, other, 2)
	until(t, "it is said", func() bool { return r.note("a") == "joined late" })
	if s := r.stream("a", 0); s.ReplaysFailed != 1 || s.Waiting {
		t.Errorf("%d replays failed, waiting: %v", s.ReplaysFailed, s.Waiting)
	}
	// So soon after that the engine is spared, and the next gap stands.
	a.lose(stored(3, tokens(3, 16), 16, 0, 1))
	a.send(stored(4, tokens(4, 32), 16, 0, 2))
	r.untilMatched("a", root, tokens(4, 32), 2)
	until(t, "the gap is noted", func() bool { return r.note("a") == "degraded: gap" })
	if s := r.stream("a", 0); s.ReplaysSpared != 1 || s.ReplaysFailed != 1 || s.Degraded != kvindex.Gapped {
		t.Errorf("%d replays were spared, %d failed, degraded: %v", s.ReplaysSpared, s.ReplaysFailed, s.Degraded)
	}
	if c := r.cache("a"); c.State != score.Known {
		t.Errorf("behind a gap the cache is %v", c.State)
	}
}

func TestGapWithoutReplay(t *testing.T) {
	for _, tc := range []struct {
		name  string
		onGap kvindex.OnGap
		left  int
	}{{"kept", kvindex.Keep, 2}, {"cleared", kvindex.Clear, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			a := newPublisher(t, "")
			r := newRig(t, kvfeed.Config{OnGap: tc.onGap}, member("a", a))
			a.heard()
			before, after := tokens(1, 32), tokens(2, 32)
			a.send(stored(1, before, 16, 0, 2))
			r.untilMatched("a", root, before, 2)
			booked := r.pick("a", root, before)
			a.lose(removed(1, 1, 2))
			a.send(stored(2, after, 16, 0, 2))
			r.untilMatched("a", root, after, 2)
			if n := r.matched("a", root, before); n != tc.left {
				t.Errorf("%d blocks of before the gap match, want %d", n, tc.left)
			}
			until(t, "the gap is noted", func() bool { return r.note("a") == "degraded: gap" })
			if s := r.stream("a", 0); s.Gaps != 1 || s.Missed != 1 {
				t.Errorf("%d gaps of %d batches, want 1 of 1", s.Gaps, s.Missed)
			}
			if booked.Release() {
				t.Error("that something was missed counts as evicted")
			}
		})
	}
}

// case K2: also without replay.
func TestRestart(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	before, after := tokens(1, 64), tokens(2, 16)
	a.send(stored(1, before, 16, 0, 4))
	r.untilMatched("a", root, before, 4)
	early := r.pick("a", root, before)
	r.clock.pass(time.Second)
	a.stop()
	until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
	r.clock.pass(time.Minute)
	second := newPublisher(t, a.events).heard()
	until(t, "it is connected again", func() bool { return strings.Contains(r.note("a"), "nothing heard") })
	late := r.pick("a", root, before)
	r.clock.pass(time.Second)
	second.send(stored(2, after, 16, 0, 1))
	r.untilMatched("a", root, after, 1)
	r.untilMatched("a", root, before, 0)
	if s := r.stream("a", 0); s.Restarts != 1 || s.Connections != 2 || s.Degraded != kvindex.Whole || r.note("a") != "" {
		t.Errorf("%d restarts, %d connections, degraded: %v, note %q", s.Restarts, s.Connections, s.Degraded, r.note("a"))
	}
	if early.Release() {
		t.Error("a pick of before the restart counts as stale routing")
	}
	if !late.Release() {
		t.Error("a pick that counted on the cache of before the restart is not counted")
	}
}

func TestDisconnectAges(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 0, 4))
	r.untilMatched("a", root, prompt, 4)
	r.clock.pass(time.Hour)
	if c := r.cache("a"); c.State != score.Known || c.Age != 0 {
		t.Errorf("an hour without events on a connection that stands: %+v", c)
	}
	a.stop()
	until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
	for _, step := range []struct {
		pass, age time.Duration
		state     score.State
	}{
		{20 * time.Second, 20 * time.Second, score.Known},
		{10 * time.Second, 30 * time.Second, score.Known},
		{time.Millisecond, 30*time.Second + time.Millisecond, score.Stale},
	} {
		r.clock.pass(step.pass)
		if c := r.cache("a"); c.State != step.state || c.Age != step.age || c.Source != score.SourceEvents {
			t.Errorf("%v after the disconnect: %+v, want %v", step.age, c, step.state)
		}
	}
	if n := r.matched("a", root, prompt); n != 4 {
		t.Errorf("the last value is %d blocks, want 4", n)
	}
	newPublisher(t, a.events)
	until(t, "it is fresh again", func() bool { return r.cache("a").State == score.Known })
}
