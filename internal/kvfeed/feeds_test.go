package kvfeed_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
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
