package kvfeed_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/heaptest"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

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
