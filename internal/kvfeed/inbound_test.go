package kvfeed_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/score"
)

// case K5: blocks go to the pod whose socket sent them, whatever the topic says.
func TestInboundByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"), connecting("b", "[fd00::2]:8000"))
		a, b := g.from(t, "10.0.0.1:4001"), g.from(t, "[fd00::2]:4002")
		a.topic, b.topic = "kv@10.0.0.1@m", "kv@10.0.0.1@m"
		prompt := tokens(1, 64)
		if c := r.cache("a"); c.State != score.Unknown {
			t.Errorf("before its first batch the cache is %+v", c)
		}
		a.send(stored(1, prompt, 16, 0, 4))
		b.send(stored(1, prompt, 16, 0, 2))
		r.untilMatched("a", root, prompt, 4)
		r.untilMatched("b", root, prompt, 2)
		if c := r.cache("a"); c.State != score.Known || c.Source != score.SourceEvents || r.note("a") != "" {
			t.Errorf("cache %+v, note %q", c, r.note("a"))
		}
		a.send(cleared()) // case K3
		r.untilMatched("a", root, prompt, 0)
		s := r.stream("a", 0)
		if !s.Inbound || s.Events != "tcp://10.0.0.1:4001" || !s.Connected || s.Connections != 1 || s.Batches != 2 || s.Strangers != 0 {
			t.Errorf("the stream's figures are %+v", s)
		}
		if in := r.feeds.Inbound(); in != (kvfeed.Inbound{Connections: 2, Accepted: 2}) {
			t.Errorf("the listener's figures are %+v", in)
		}
	})
}

// Pods that share an address are told apart by the topics.
func TestInboundByTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"), connecting("b", "10.0.0.1:8001"))
		prompt := tokens(1, 64)
		for i, topic := range []string{"kv@10.0.0.1:8000@m", "kv@b@m"} {
			p := g.from(t, fmt.Sprint("10.0.0.1:400", i))
			p.topic = topic
			p.send(stored(1, prompt, 16, 0, 1+i))
		}
		r.untilMatched("a", root, prompt, 1)
		r.untilMatched("b", root, prompt, 2)
	})
}

// Of whom nobody knows whose events they are, nothing is taken until it is known.
func TestInboundStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"), connecting("b", "10.0.0.1:8001"))
		prompt := tokens(1, 16*8)
		var strangers []*publisher
		for i, topic := range []string{"kv@10.0.0.1@m", "plain", "", "kv@10.0.0.9@m", "kv@10.0.0.1:9999@m"} {
			p := g.from(t, fmt.Sprint("10.0.0.1:400", i))
			p.topic = topic
			p.send(stored(1, prompt, 16, 0, 1))
			p.send(stored(1, prompt, 16, 1, 2))
			strangers = append(strangers, p)
		}
		until(t, "they are counted", func() bool { return r.feeds.Inbound().Strangers == 10 })
		if n := r.log.count("KV events of nobody"); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		if in := r.feeds.Inbound(); in.Unassigned != 5 || r.view("a").Streams != nil || r.view("b").Streams != nil || r.tree.Stats().Blocks != 0 {
			t.Errorf("the listener's figures are %+v, the tree has %d blocks", in, r.tree.Stats().Blocks)
		}
		r.set(connecting("a", "10.0.0.1:8000"))
		strangers[0].send(stored(1, prompt, 16, 0, 4))
		r.untilMatched("a", root, prompt, 4)
		if s := r.stream("a", 0); s.Degraded != kvindex.JoinedLate || s.Messages != 1 {
			t.Errorf("the stream's figures are %+v", s)
		}
	})
}

// case K5: ranks that share one topic. A rank is what its batches say when nobody
// has the number, and else the next one.
func TestInboundRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		prompt := tokens(1, 16*8)
		said := []int{0, 2, 2, 0, 7, 1 << 30, -1, 3}
		for i, want := range []int{0, 2, 1, 3, 7, 4, 5, 6} {
			p := g.from(t, fmt.Sprint("10.0.0.1:", 4000+i))
			p.topic, p.rank = "kv@10.0.0.1@m", said[i]
			p.send(stored(1, prompt, 16, 0, 1+want))
			until(t, "it has a rank", func() bool { return r.stream("a", want).Blocks == 1+want })
			if s := r.stream("a", want); s.Events != fmt.Sprint("tcp://10.0.0.1:", 4000+i) {
				t.Errorf("rank %d is at %s", want, s.Events)
			}
		}
		r.untilMatched("a", root, prompt, 8)
	})
}

// case K2
func TestInboundGapAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		a.seq = 5
		prompt, after := tokens(1, 64), tokens(2, 16)
		a.send(stored(1, prompt, 16, 0, 1))
		a.send(stored(1, prompt, 16, 1, 2))
		r.untilMatched("a", root, prompt, 2)
		a.lose(stored(1, prompt, 16, 2, 3))
		a.lose(stored(2, prompt, 16, 3, 4))
		a.send(stored(3, after, 16, 0, 1))
		r.untilMatched("a", root, after, 1)
		until(t, "the gap is noted", func() bool { return r.note("a") == "degraded: gap" })
		if s := r.stream("a", 0); s.Gaps != 1 || s.Missed != 2 || s.Replays != 0 {
			t.Errorf("%d gaps of %d batches, %d replays", s.Gaps, s.Missed, s.Replays)
		}
		a.stop()
		until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
		r.clock.pass(time.Second)
		late := r.pick("a", root, prompt[:32])
		r.clock.pass(time.Second)
		again := g.from(t, "10.0.0.1:4002")
		again.send(stored(4, tokens(3, 16), 16, 0, 1))
		r.untilMatched("a", root, tokens(3, 16), 1)
		if n := r.matched("a", root, prompt) + r.matched("a", root, after); n != 0 {
			t.Errorf("%d blocks of before the restart match", n)
		}
		if s := r.stream("a", 0); s.Restarts != 1 || s.Connections != 2 || s.Degraded != kvindex.Whole || s.Events != "tcp://10.0.0.1:4002" {
			t.Errorf("the stream's figures are %+v", s)
		}
		if !late.Release() {
			t.Error("a pick that counted on the cache of before the restart is not counted")
		}
	})
}

// case K2: what was missed between two connections comes by replay.
func TestInboundReplay(t *testing.T) {
	a := (&publisher{t: t}).withReplay()
	m := connecting("a", "10.0.0.1:8000")
	m.Replay = a.replay
	r, g := newListening(t, kvfeed.Config{}, m)
	g.again(t, a, "10.0.0.1:4001")
	prompt := tokens(1, 64)
	a.send(stored(1, prompt, 16, 0, 1))
	r.untilMatched("a", root, prompt, 1)
	a.stop()
	until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
	a.lose(stored(1, prompt, 16, 1, 2))
	a.lose(stored(1, prompt, 16, 2, 3))
	g.again(t, a, "10.0.0.1:4002")
	a.send(stored(1, prompt, 16, 3, 4))
	r.untilMatched("a", root, prompt, 4)
	until(t, "the picture is whole", func() bool { return r.note("a") == "" })
	if s := r.stream("a", 0); s.Missed != 2 || s.Replays != 1 || s.Recovered < 2 || s.Duplicates > 2 || s.Blocks != 4 {
		t.Errorf("the stream's figures are %+v", s)
	}
}

// What a lost connection told ages, and the next one of the rank goes on with it.
func TestInboundDisconnectAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		prompt := tokens(1, 64)
		a.send(stored(1, prompt, 16, 0, 3))
		r.untilMatched("a", root, prompt, 3)
		a.stop()
		until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
		for _, step := range []struct {
			pass  time.Duration
			state score.State
		}{{30 * time.Second, score.Known}, {time.Second, score.Stale}} {
			r.clock.pass(step.pass)
			if c := r.cache("a"); c.State != step.state || c.Source != score.SourceEvents {
				t.Errorf("the cache is %+v, want %v", c, step.state)
			}
		}
		g.again(t, a, "10.0.0.1:4002")
		a.send(stored(1, prompt, 16, 3, 4))
		r.untilMatched("a", root, prompt, 4)
		if c := r.cache("a"); c.State != score.Known || r.note("a") != "" {
			t.Errorf("after the reconnect the cache is %+v, note %q", c, r.note("a"))
		}
	})
}

// A connection's context ends with it: an engine may come back any number of times.
func TestInboundContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		a.send(cleared())
		until(t, "it has a rank", func() bool { return r.connected("a", 0) })
		a.stop()
		until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
		synctest.Wait() // all that follows is done
		if ctx := r.log.context("connection for KV events lost"); ctx == nil || ctx.Err() == nil {
			t.Errorf("its context %v has not ended", ctx)
		}
	})
}

// When several say they are one rank, nothing of a lost one is another's.
func TestInboundRanksAreNotMixedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a, b := g.from(t, "10.0.0.1:4001"), g.from(t, "10.0.0.1:4002")
		one, two := tokens(1, 64), tokens(2, 64)
		a.send(stored(1, one, 16, 0, 4))
		r.untilMatched("a", root, one, 4)
		b.send(stored(2, two, 16, 0, 4))
		r.untilMatched("a", root, two, 4)
		b.stop() // what it told goes with it: nobody could go on with it
		until(t, "the second is gone", func() bool { return len(r.view("a").Streams) == 1 })
		if n := r.matched("a", root, two); n != 0 {
			t.Errorf("%d blocks of it match", n)
		}
		b = g.from(t, "10.0.0.1:4003")
		b.send(stored(2, two, 16, 0, 2))
		r.untilMatched("a", root, two, 2)
		a.stop()
		until(t, "the first is gone", func() bool { return len(r.view("a").Streams) == 1 })
		b.stop()
		until(t, "none is connected", func() bool { return !r.connected("a", 1) })
		// The only one that is left: it may be another's, and begins anew.
		b.seq = 7
		g.again(t, a, "10.0.0.1:4004")
		a.send(stored(1, one, 16, 0, 1))
		r.untilMatched("a", root, one, 1)
		if n := len(r.view("a").Streams); n != 2 {
			t.Errorf("%d streams, want the new one and the lost one", n)
		}
	})
}

// What was lost long ago is forgotten.
func TestInboundIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		a.send(stored(1, tokens(1, 64), 16, 0, 4))
		r.untilMatched("a", root, tokens(1, 64), 4)
		a.stop()
		until(t, "the connection is lost", func() bool { return !r.connected("a", 0) })
		r.clock.pass(5 * time.Minute)
		time.Sleep(10 * time.Minute)
		if n := len(r.view("a").Streams); n != 1 {
			t.Fatalf("%d streams after five minutes, want 1", n)
		}
		r.clock.pass(time.Second)
		time.Sleep(10 * time.Minute)
		if n := len(r.view("a").Streams); n != 0 || r.tree.Stats().Blocks != 0 {
			t.Errorf("%d streams and %d blocks are left", n, r.tree.Stats().Blocks)
		}
	})
}

// case K3: a pod that leaves takes its connections along, and one that is back
// under its name begins anew.
func TestInboundRemovedAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		prompt := tokens(1, 64)
		a.send(stored(1, prompt, 16, 0, 4))
		r.untilMatched("a", root, prompt, 4)
		// The pool lets go of the pod, and its connection does not know it yet.
		if err := r.pool.Set(nil); err != nil {
			t.Fatal(err)
		}
		a.send(stored(2, tokens(2, 64), 16, 0, 4))
		until(t, "its connection was ended", func() bool { return a.pub.Stats().Subscribers == 0 })
		r.set(connecting("a", "10.0.0.1:8000"))
		g.again(t, a, "10.0.0.1:4002")
		if n := r.matched("a", root, prompt) + r.matched("a", root, tokens(2, 64)); n > 0 || r.tree.Stats().Blocks != 0 {
			t.Errorf("the pod that is back matches %d blocks, the tree has %d", n, r.tree.Stats().Blocks)
		}
		a.send(stored(1, prompt, 16, 0, 3))
		r.untilMatched("a", root, prompt, 3)
		r.set() // now the feeds are told at once
		until(t, "its idle connection was ended", func() bool { return a.pub.Stats().Subscribers == 0 && r.feeds.Inbound().Connections == 0 })
		if n := r.tree.Stats().Blocks; n != 0 {
			t.Errorf("%d blocks are left in the tree", n)
		}
	})
}

// case K7
func TestInboundHostileMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		prompt := tokens(1, 64)
		hostile := func(seq uint64) {
			number := binary.BigEndian.AppendUint64(nil, seq)
			for _, frame := range [][]byte{nil, make([]byte, 7), make([]byte, 9)} {
				a.raw(nil, frame, []byte{0x93})
			}
			a.raw([]byte("alone"))
			a.raw(nil, number, []byte{0x93, 0xcb, 0, 0})                                        // truncated
			a.raw(nil, number, []byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0x40, 0, 0, 0}) // 1 G events
		}
		hostile(0)
		until(t, "they are counted", func() bool { return r.feeds.Inbound().Unreadable == 6 })
		a.send(stored(1, prompt, 16, 0, 2))
		r.untilMatched("a", root, prompt, 2)
		hostile(1)
		a.send(stored(1, prompt, 16, 2, 4))
		r.untilMatched("a", root, prompt, 4)
		if s := r.stream("a", 0); s.Unreadable != 4 || s.DecodeErrors != 2 || s.Connections != 1 {
			t.Errorf("%d unreadable, %d decode errors, %d connections; want 4, 2, 1", s.Unreadable, s.DecodeErrors, s.Connections)
		}
	})
}

// A rank that comes by a connection of the engine is not dialled, and one that is
// dialled and connected stays.
func TestInboundAndDialled(t *testing.T) {
	dialled := newPublisher(t, "")
	gone := newPublisher(t, "")
	gone.stop()
	a, b := connecting("a", "127.0.0.1:8000"), connecting("b", "10.0.0.2:8000")
	a.Events, b.Events = dialled.events, gone.events
	r, g := newListening(t, kvfeed.Config{}, a, b)
	dialled.heard()
	until(t, "it was tried", func() bool { return r.stream("b", 0).LastError != "" })

	prompt := tokens(1, 64)
	toB := g.from(t, "10.0.0.2:4001")
	toB.send(stored(1, prompt, 16, 0, 2))
	r.untilMatched("b", root, prompt, 2)
	until(t, "it is dialled no more", func() bool { return len(r.view("b").Streams) == 1 })
	if s := r.stream("b", 0); !s.Inbound || r.note("b") != "" {
		t.Errorf("the stream's figures are %+v, note %q", s, r.note("b"))
	}

	dialled.send(stored(1, prompt, 16, 0, 1))
	toA := g.from(t, "127.0.0.1:4001")
	toA.send(stored(1, prompt, 16, 0, 3))
	r.untilMatched("a", root, prompt, 3)
	if zero, one := r.stream("a", 0), r.stream("a", 1); zero.Inbound || !zero.Connected || !one.Inbound {
		t.Errorf("rank 0 is %+v, rank 1 %+v", zero, one)
	}
}

// Engines that are gone are waited for: an end does not leave anything behind.
func TestInboundEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := newRig(t, kvfeed.Config{Listener: g}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		a.send(kvevent.Event{Kind: kvevent.Cleared, LoRAID: -1, Group: -1})
		until(t, "it has a rank", func() bool { return r.connected("a", 0) })
		r.stop()
		if n := len(r.view("a").Streams); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		select {
		case <-g.shut:
		default:
			t.Error("the listener is open")
		}
	})
}
