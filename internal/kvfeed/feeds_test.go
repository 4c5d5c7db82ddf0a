package kvfeed_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/heaptest"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

func TestStoredAndRemoved(t *testing.T) {
	a, b := newPublisher(t, ""), newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a), member("b", b))
	a.heard()
	b.heard()
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 0, 4))
	b.send(stored(1, prompt, 16, 0, 2))
	r.untilMatched("a", root, prompt, 4)
	r.untilMatched("b", root, prompt, 2)
	if c := r.cache("a"); c.State != score.Known || c.Source != score.SourceEvents || c.Age != 0 || r.note("a") != "" {
		t.Errorf("cache %+v, note %q; want a known reading of events without age or note", c, r.note("a"))
	}
	a.send(removed(1, 3, 4))
	r.untilMatched("a", root, prompt, 3)
	a.send(cleared()) // case K3
	r.untilMatched("a", root, prompt, 0)
	s := r.stream("a", 0)
	if s.Events != a.events || s.Batches != 3 || s.Stats.Events != [3]uint64{1, 1, 1} || s.PerSecond <= 0 || s.LastMessage.IsZero() {
		t.Errorf("the stream's figures are %+v", s)
	}
}

// case K1
func TestOrphanWaitsForItsParent(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 1, 4))
	until(t, "the orphan is counted", func() bool { return r.stream("a", 0).Orphans == 3 })
	if n := r.matched("a", root, prompt); n != 0 {
		t.Errorf("%d blocks match without the first one", n)
	}
	a.send(stored(1, prompt, 16, 0, 1))
	r.untilMatched("a", root, prompt, 4)
}

// case K4
func TestAdaptersAndSalts(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt, salted := tokens(1, 32), tokens(2, 48)
	lora := stored(1, prompt, 16, 0, 2)
	lora.LoRA = "adapter"
	salt := stored(2, salted, 16, 0, 3)
	salt.Salt = "tenant"
	a.send(lora, salt)
	r.untilMatched("a", prefix.Root("m", "adapter", ""), prompt, 2)
	r.untilMatched("a", prefix.Root("m", "", prefix.SaltHash("tenant")), salted, 3)
	for name, n := range map[string]int{
		"the base model": r.matched("a", root, prompt), "no salt": r.matched("a", root, salted),
		"another salt": r.matched("a", prefix.Root("m", "", prefix.SaltHash("other")), salted),
	} {
		if n != 0 {
			t.Errorf("%d blocks match with %s", n, name)
		}
	}
}

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

// Late removals are stale routing, those that were later than the pick are not.
func TestLateRemoval(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	a.at = r.clock.Now()
	a.send(stored(1, prompt, 16, 0, 4))
	r.untilMatched("a", root, prompt, 4)
	early := r.pick("a", root, prompt)
	r.clock.pass(2 * time.Second)
	a.at = r.clock.Now()
	r.clock.pass(time.Second)
	late, part := r.pick("a", root, prompt), r.pick("a", root, prompt[:32])
	r.clock.pass(time.Second)
	a.send(removed(1, 2, 4))
	r.untilMatched("a", root, prompt, 2)
	for name, want := range map[string]struct {
		booked  *pool.Reservation
		evicted bool
	}{"picked before": {early, false}, "picked after": {late, true}, "counted on less": {part, false}} {
		if got := want.booked.Release(); got != want.evicted {
			t.Errorf("%s: evicted is %v", name, got)
		}
	}
	// By an engine whose clock is off nothing is late.
	again := r.pick("a", root, prompt)
	a.at = r.clock.Now().Add(-time.Hour)
	a.send(removed(1, 0, 2))
	r.untilMatched("a", root, prompt, 0)
	if again.Release() {
		t.Error("a removal of an hour ago is believed")
	}
}

func TestRanksDoNotAddUp(t *testing.T) {
	a, b := newPublisher(t, ""), newPublisher(t, "")
	b.rank = 1
	a.topic, b.topic = "kv@127.0.0.1@m", "kv@127.0.0.1@m" // case K5: the socket tells whose blocks they are
	url := serveSources(t, map[string]any{"0": source(a), "1": source(b)})
	r := newRig(t, kvfeed.Config{}, pool.Member{Name: "a", Address: strings.TrimPrefix(url, "http://"), URL: url})
	a.heard()
	b.heard()
	prompt := tokens(1, 16*8)
	a.send(stored(1, prompt, 16, 0, 5))
	b.send(stored(1, prompt, 16, 0, 3), stored(1, prompt, 16, 3, 7))
	r.untilMatched("a", root, prompt, 7)
	b.send(removed(1, 2, 3)) // of rank 1 now [0, 2) and [3, 7) are left; with rank 0's it would be 7
	r.untilMatched("a", root, prompt, 5)
	// case K5: what a batch says of its rank counts for nothing.
	a.rank = 1
	a.send(stored(1, prompt, 16, 5, 6))
	r.untilMatched("a", root, prompt, 6)
	if s := r.stream("a", 0); s.OtherRank != 1 {
		t.Errorf("%d batches of another rank, want 1", s.OtherRank)
	}
	// A rank whose connection is long lost does not count.
	a.stop()
	until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
	r.clock.pass(time.Minute)
	r.untilMatched("a", root, prompt, 2)
	if note := r.note("a"); note != "1 of 2 ranks" || r.cache("a").State != score.Known {
		t.Errorf("note %q, cache %+v", note, r.cache("a"))
	}
}

func TestBlockSizes(t *testing.T) {
	for _, tc := range []struct{ size, prompt, blocks, want int }{
		{8, 64, 7, 3},      // n:1, only whole ones count
		{32, 96, 3, 6},     // 1:n
		{16, 64, 4, 4},     //
		{64, 64 * 3, 2, 8}, //
	} {
		t.Run(fmt.Sprint(tc.size), func(t *testing.T) {
			a := newPublisher(t, "")
			r := newRig(t, kvfeed.Config{}, member("a", a))
			a.heard()
			prompt := tokens(1, tc.prompt)
			a.send(stored(1, prompt, tc.size, 0, tc.blocks))
			r.untilMatched("a", root, prompt, tc.want)
			if s := r.stream("a", 0); s.BlockSize != tc.size {
				t.Errorf("the engine's block size is said to be %d", s.BlockSize)
			}
		})
	}
	t.Run("48", func(t *testing.T) {
		a := newPublisher(t, "")
		r := newRig(t, kvfeed.Config{}, member("a", a))
		a.heard()
		for i := range 3 {
			a.send(stored(1+i, tokens(1+i, 96), 40, 0, 2))
		}
		until(t, "it is unknown", func() bool { return r.stream("a", 0).Unfit == 6 && r.note("a") == "unknown: block size 40" })
		if c := r.cache("a"); c.State != score.Unknown {
			t.Errorf("the cache is %+v", c)
		}
		if n := r.log.count("block size mismatch"); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
	})
}

// case K3: a pod that is back under its name, with an event of before queued.
func TestRemovedAndBack(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 0, 4))
	r.untilMatched("a", root, prompt, 4)
	// The pool lets go of the pod, and its stream does not know it yet.
	if err := r.pool.Set(nil); err != nil {
		t.Fatal(err)
	}
	a.send(stored(2, tokens(2, 64), 16, 0, 4))
	until(t, "the old stream's event was dropped", func() bool { return r.tree.Stats().StaleMessages > 0 })
	r.set(member("a", a))
	until(t, "the pod is listened to again", func() bool { return r.cache("a").State == score.Known })
	if n := r.matched("a", root, prompt) + r.matched("a", root, tokens(2, 64)); n != 0 {
		t.Errorf("the pod that is back matches %d blocks", n)
	}
	if n := r.tree.Stats().Blocks; n != 0 {
		t.Errorf("%d blocks are left in the tree", n)
	}
	until(t, "the new stream is heard", func() bool {
		a.send(stored(1, prompt, 16, 0, 3))
		return r.matched("a", root, prompt) == 3
	})
}

func TestAnotherModelBeginsAnew(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 0, 4))
	r.untilMatched("a", root, prompt, 4)
	r.list("n")
	until(t, "the stream begins anew", func() bool { return r.connected("a", 0) && r.stream("a", 0).Messages == 0 })
	if n := r.matched("a", root, prompt); n != 0 {
		t.Errorf("%d blocks of another model match", n)
	}
	until(t, "the new stream is heard", func() bool {
		a.send(stored(2, prompt, 16, 0, 2))
		return r.matched("a", prefix.Root("n", "", ""), prompt) == 2
	})
}

// case K5
func TestStrangers(t *testing.T) {
	a := newPublisher(t, "")
	at := member("a", a)
	at.Address, at.URL = "10.0.0.1:8000", "http://10.0.0.1:8000"
	r := newRig(t, kvfeed.Config{}, at)
	a.heard()
	prompt := tokens(1, 16*8)
	topics := []string{"kv@10.9.9.9:8000@m", "kv@10.9.9.9@m", "kv@a@m", "kv@a:8000@m", "kv@10.0.0.1@m", "", "plain"}
	for i, topic := range topics {
		a.topic = topic
		a.send(stored(1, prompt, 16, i, i+1))
	}
	r.untilMatched("a", root, prompt, len(topics))
	if s := r.stream("a", 0); s.Strangers != 2 {
		t.Errorf("%d messages of strangers, want 2", s.Strangers)
	}
	if n := r.log.count("names a pod that no endpoint is"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}

// case K7
func TestHostileMessages(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	seq := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	for _, frame := range [][]byte{nil, make([]byte, 7), make([]byte, 9)} {
		a.raw(nil, frame, []byte{0x93})
	}
	a.raw([]byte("alone"))
	a.raw(nil, seq(0), []byte{0x93, 0xcb, 0, 0})                                 // truncated
	announced := []byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x40, 0, 0, 0} // 1 G events
	a.raw(nil, seq(0), announced)
	good, err := kvevent.Append(nil, kvevent.MapV24, &kvevent.Batch{At: time.Now(), Events: []kvevent.Event{stored(1, prompt, 16, 0, 2), stored(1, prompt, 16, 2, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	// Between the two good events one of a type that nobody knows.
	second, err := kvevent.Append(nil, kvevent.MapV24, &kvevent.Batch{At: time.Now(), Events: []kvevent.Event{stored(1, prompt, 16, 0, 2)}})
	if err != nil {
		t.Fatal(err)
	}
	cut := len(second) - 1 // the rank is the last byte
	mixed := append([]byte{}, good[:cut]...)
	mixed = append(append(mixed, 0x81, 0xa4, 't', 'y', 'p', 'e', 0xa3, 'n', 'e', 'w'), good[cut:]...)
	mixed[1+9] = 0x93 // three events
	a.raw(nil, seq(0), mixed)
	r.untilMatched("a", root, prompt, 4)
	s := r.stream("a", 0)
	if s.Unreadable != 4 || s.DecodeErrors != 2 || s.Skipped != 1 || s.Connections != 1 {
		t.Errorf("%d unreadable, %d decode errors, %d skipped, %d connections; want 4, 2, 1, 1", s.Unreadable, s.DecodeErrors, s.Skipped, s.Connections)
	}
	// A storm of them costs neither memory nor the connection.
	const storm, keeps = 5000, 1 << 20
	before := heaptest.Live()
	for range storm {
		a.raw(nil, seq(1), announced)
	}
	until(t, "the storm has passed", func() bool { return r.stream("a", 0).DecodeErrors == 2+storm })
	after := heaptest.Live()
	t.Logf("%d headers of 1 G events: %d kB before, %d kB after", storm, before>>10, after>>10)
	if s := r.stream("a", 0); after > before+keeps || s.Connections != 1 {
		t.Errorf("%d bytes more than before, %d connections; want less than %d, 1", after-before, s.Connections, keeps)
	}
}

// What a report says of the cache does not count while events do, and is asked
// for again in full when they end.
func TestEventsBeforeReports(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 0, 2))
	r.untilMatched("a", root, prompt, 2)
	seq := uint64(0)
	send := func(full bool) (resync bool) {
		t.Helper()
		seq++
		r.clock.pass(time.Millisecond)
		depth := int(seq)
		resync, err := r.pool.Report(&report.Report{
			Pod: "a", Epoch: 1, Seq: seq, Full: full, Model: "m", BlockSize: blockSize, TakenAt: r.clock.Now(), QueueDepth: &depth,
			Chains: []report.Chain{{Root: true, Blocks: prefix.Fingerprints(nil, root, prompt, blockSize)}},
		}, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return resync
	}
	if send(true) || send(false) {
		t.Error("a report was to be sent anew while events tell the cache")
	}
	if n := r.matched("a", root, prompt); n != 2 {
		t.Errorf("%d blocks match, want the 2 of events", n)
	}
	if w := r.view("a").State.Waiting; w.Value != 2 {
		t.Errorf("the rest of the report did not count: %+v", w)
	}
	a.stop()
	until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
	r.clock.pass(time.Second)
	if !send(false) {
		t.Error("an increment to what was skipped was taken")
	}
	if c := r.cache("a"); c.Source != score.SourceEvents {
		t.Errorf("the cache is by %v before a whole report is there", c.Source)
	}
	if send(true) {
		t.Error("a full report was not taken")
	}
	if c, n := r.cache("a"), r.matched("a", root, prompt); c.Source != score.SourceReport || n != 4 {
		t.Errorf("after a full report: %d blocks by %v, want 4", n, c.Source)
	}
	newPublisher(t, a.events)
	until(t, "events count again", func() bool { return r.cache("a").Source == score.SourceEvents })
	if n := r.matched("a", root, prompt); n != 2 {
		t.Errorf("%d blocks match, want the 2 of events", n)
	}
}

func TestNobodyPublishes(t *testing.T) {
	gone := newPublisher(t, "")
	gone.stop()
	r := newRig(t, kvfeed.Config{}, member("a", gone), pool.Member{Name: "b", Address: "127.0.0.1:9", Events: pool.EventsOff})
	until(t, "it was tried several times", func() bool { return r.stream("a", 0).LastError != "" })
	until(t, "it was said", func() bool { return r.log.count("no KV events yet") == 1 })
	if c := r.cache("a"); c.State != score.Unknown || r.note("a") != "unknown: no status report from this pod" {
		t.Errorf("cache %+v, note %q", c, r.note("a"))
	}
	if v := r.view("b"); v.Streams != nil {
		t.Errorf("a pod whose events are off has %d streams", len(v.Streams))
	}
	newPublisher(t, gone.events).heard()
	until(t, "its events count", func() bool { return r.cache("a").State == score.Known })
	if n := r.log.count("no KV events yet"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// Nothing is listened to before it is known which model's blocks these are.
func TestModelNotKnown(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{})
	if err := r.pool.Set([]pool.Member{member("a", a)}); err != nil {
		t.Fatal(err)
	}
	if targets := r.pool.Feeds(); len(targets) != 0 {
		t.Fatalf("feeds %+v of a pod that has not said what it serves", targets)
	}
	select {
	case <-r.pool.FeedsChanged():
	default:
		t.Error("nobody was told of the membership")
	}
	r.pool.Listed(r.pool.Targets()[0], []engine.Model{{ID: "m"}}, nil)
	select {
	case <-r.pool.FeedsChanged():
	default:
		t.Error("nobody was told of the model")
	}
	if targets := r.pool.Feeds(); len(targets) != 1 || targets[0].Model != "m" {
		t.Errorf("feeds %+v", targets)
	}
}

func TestHybridIsAnUpperBound(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt := tokens(1, 64)
	window := stored(1, prompt, 16, 0, 4)
	window.Attention, window.Group, window.Window = kvevent.Sparse, 1, 64
	a.send(stored(1, prompt, 16, 0, 4), window)
	r.untilMatched("a", root, prompt, 4)
	until(t, "it is said", func() bool { return r.note("a") == "upper bound: hybrid attention" })
}
