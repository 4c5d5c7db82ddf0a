package kvfeed_test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/zmtp"
	"github.com/eppctl/eppctl/internal/zmtp/zmqtest"
)

// A relay is a publisher of libzmq that connects to the picker.
type relay struct {
	t          *testing.T
	generation kvevent.Generation
	stdin      io.WriteCloser
	kill       func()
	seq        uint64 // of the next batch
}

// newRelay starts package zmtp's peer. It ends with the test.
func newRelay(t *testing.T, l net.Listener, g kvevent.Generation) *relay {
	t.Helper()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	peer := zmqtest.Start(t, "../zmtp/testdata/peer.py", "relay", "--connect", port)
	r := &relay{t: t, generation: g, stdin: peer.In, kill: peer.Kill}
	if line, err := bufio.NewReader(peer.Out).ReadString('\n'); err != nil {
		t.Fatalf("the peer says %q: %v", line, err)
	}
	return r
}

// send publishes a batch. While nobody has subscribed, libzmq drops it.
func (r *relay) send(events ...kvevent.Event) {
	r.t.Helper()
	payload, err := kvevent.Append(nil, r.generation, &kvevent.Batch{At: time.Now(), Events: events})
	if err != nil {
		r.t.Fatal(err)
	}
	var frames []string
	for _, frame := range [][]byte{[]byte("kv@127.0.0.1:8000@m"), binary.BigEndian.AppendUint64(nil, r.seq), payload} {
		frames = append(frames, hex.EncodeToString(frame))
	}
	r.seq++
	if _, err := io.WriteString(r.stdin, strings.Join(frames, "|")+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// heard sends until something comes of it.
func (r *relay) heard(condition func() bool) {
	r.t.Helper()
	until(r.t, "libzmq is heard", func() bool {
		r.send(cleared())
		return condition()
	})
}

// Publishers of libzmq connect, are killed and come back, beside one who keeps
// silent.
func TestLibzmqConnects(t *testing.T) {
	for g := kvevent.ArrayV08; g <= kvevent.SGLangMap; g++ {
		t.Run(g.String(), func(t *testing.T) {
			l, err := zmtp.Listen(t.Context(), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, kvfeed.Config{Listener: l}, connecting("a", "127.0.0.1:8000"))
			silent, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()

			first := newRelay(t, l, g)
			first.seq = 100_000 // more than the second one needs until it is heard
			first.heard(func() bool { return r.stream("a", 0).Messages > 0 })
			prompt, after := tokens(1, 64), tokens(2, 32)
			first.send(stored(1, prompt, 16, 0, 4))
			first.send(removed(1, 3, 4))
			r.untilMatched("a", root, prompt, 3)
			first.kill()
			until(t, "its end is noticed", func() bool { return !r.connected("a", 0) })
			if n := r.matched("a", root, prompt); n != 3 {
				t.Errorf("%d blocks match after the end, want 3", n)
			}

			second := newRelay(t, l, g)
			second.heard(func() bool { return r.stream("a", 0).Connections == 2 })
			r.untilMatched("a", root, prompt, 0)
			second.send(stored(2, after, 16, 0, 2))
			r.untilMatched("a", root, after, 2)
			s := r.stream("a", 0)
			if s.Degraded == kvindex.Gapped || s.DecodeErrors+s.Unreadable+s.Gaps+s.Strangers > 0 || !s.Connected {
				t.Errorf("the stream's figures are %+v", s)
			}
			if n := len(r.view("a").Streams); n != 1 {
				t.Errorf("%d streams, want 1", n)
			}
		})
	}
}
