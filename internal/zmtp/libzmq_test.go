package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLibzmqPublishes(t *testing.T) {
	cases := []struct {
		name, topics, topic string
		step                uint64
	}{
		{"empty topic", "", "", 1},
		{"every topic", "kv@a,kv@b,other", "", 1},
		{"one of two topics", "kv@a,other", "kv@", 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			z := libzmqPeer(t, "pub", "--topics", c.topics)
			h := &numbers{size: 300}
			stop := subscribeTo(t, z.port, c.topic, h)
			until(t, "100 messages came", func() bool { return len(h.of(0)) >= 100 })
			stop()
			consecutive(t, h.of(0), c.step)
			if h.bad != nil {
				t.Errorf("messages %q", h.bad)
			}
		})
	}
}

// Killed and back: the handler is told of the end, and of another peer whose
// numbers begin anew.
func TestLibzmqPublisherIsKilled(t *testing.T) {
	z := libzmqPeer(t, "pub")
	h := &numbers{size: 300}
	subscribeTo(t, z.port, "", h)
	until(t, "messages came", func() bool { return len(h.of(0)) >= 10 })
	z.kill()
	until(t, "the end was told", func() bool { return h.count("disconnected") == 1 })
	libzmqPeer(t, "pub", "--port", z.port)
	until(t, "messages came of the new publisher", func() bool { return len(h.of(1)) >= 10 })
	consecutive(t, h.of(0), 1)
	consecutive(t, h.of(1), 1)
	if h.peers[0].ID == h.peers[1].ID {
		t.Errorf("the same peer came back: %v", h.peers)
	}
}

// An idle publisher whose heartbeats nobody answers gives up within 2 s. It says
// something every 3 s.
func TestLibzmqPublisherWithHeartbeats(t *testing.T) {
	t.Parallel() // it mostly waits
	z := libzmqPeer(t, "pub", "--heartbeat", "1000", "--pause", "3")
	h := &numbers{size: 300}
	subscribeTo(t, z.port, "", h)
	until(t, "3 messages came", func() bool { return len(h.of(0)) >= 3 })
	if h.count("disconnected") > 0 {
		t.Errorf("lost the connection: %v", h.lastErr())
	}
}

// Our heartbeats are answered by libzmq, else it would be dead after 3 s.
func TestLibzmqAnswersHeartbeats(t *testing.T) {
	t.Parallel() // it mostly waits
	z := libzmqPeer(t, "pub", "--pause", "2")
	nc, err := net.Dial("tcp", "127.0.0.1:"+z.port)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if c, err := open(nc, sub, Options{}.orDefaults()); err != nil || c.minor != 1 {
		t.Fatalf("this libzmq knows no heartbeats: %+v, %v", c, err)
	}
	h := &numbers{size: 300}
	start(t, func(ctx context.Context) error {
		return Subscribe(ctx, "127.0.0.1:"+z.port, Options{Heartbeat: time.Second}, h)
	})
	until(t, "3 messages came", func() bool { return len(h.of(0)) >= 3 })
	if h.count("disconnected") > 0 {
		t.Errorf("lost the connection: %v", h.lastErr())
	}
}

// The publisher drops what a slow subscriber does not take. All that is missing
// shows as gaps in the numbers, and the connection stays.
func TestLibzmqDropsForASlowSubscriber(t *testing.T) {
	const count = 20_000
	z := libzmqPeer(t, "pub", "--hwm", "100", "--count", strconv.Itoa(count), "--size", "20000", "--pause", "0.0005", "--burst", "10")
	h := &numbers{size: 20_000, slow: 2 * time.Millisecond}
	subscribeTo(t, z.port, "", h)
	until(t, "a gap shows", func() bool {
		seqs := h.of(0)
		return len(seqs) > 0 && seqs[len(seqs)-1]-seqs[0] > uint64(len(seqs))
	})
	if h.count("disconnected") > 0 || h.bad != nil || !slices.IsSorted(h.of(0)) {
		t.Errorf("events %q, messages %q", h.seen(), h.bad)
	}
}

// Publishers that connect to us: as many streams.
func TestLibzmqPublishersConnect(t *testing.T) {
	l := listen(t)
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var mu sync.Mutex
	from := map[uint64][]uint64{}
	h := &recorder{onMessage: func(p Peer, parts [][]byte) {
		mu.Lock()
		defer mu.Unlock()
		from[p.ID] = append(from[p.ID], binary.BigEndian.Uint64(parts[1]))
	}}
	start(t, func(ctx context.Context) error { return ServeSubscriber(ctx, l, Options{Topic: "kv"}, h) })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	libzmqPeer(t, "pub", "--connect", port, "--topics", "kv")
	libzmqPeer(t, "pub", "--connect", port, "--topics", "kv")
	until(t, "messages came from two", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, seqs := range from {
			if len(seqs) >= 50 {
				n++
			}
		}
		return n == 2
	})
	mu.Lock()
	defer mu.Unlock()
	for _, seqs := range from {
		consecutive(t, seqs, 1)
	}
}

func TestLibzmqSubscribes(t *testing.T) {
	for _, heartbeat := range []string{"0", "1000"} {
		t.Run("heartbeat "+heartbeat, func(t *testing.T) {
			l, p := &tapped{Listener: listen(t)}, NewPublisher(0, Options{})
			start(t, func(ctx context.Context) error { return p.Serve(ctx, l) })
			z := libzmqPeer(t, "sub", "--connect", portOf(l), "--topics", "kv@", "--heartbeat", heartbeat)
			until(t, "it subscribed", func() bool { return p.Stats().Subscribers == 1 })
			large := strings.Repeat("x", 100_000)
			for _, m := range []string{"other|0|no", "kv@a|1|yes", "kv@b||", "kv@" + large + "|3|x"} {
				p.Publish(split(m)...)
			}
			for _, want := range []string{"kv@a|1|yes", "kv@b||", "kv@" + large + "|3|x"} {
				if got := unhex(t, z.line(t)); got != want {
					t.Errorf("got %.40q, want %.40q", got, want)
				}
			}
			if heartbeat != "0" {
				until(t, "three heartbeats were answered", func() bool { return l.pongs.Load() >= 3 })
				p.Publish([]byte("kv@"), []byte("later"))
				if got := unhex(t, z.line(t)); got != "kv@|later" {
					t.Errorf("got %q", got)
				}
			}
			if n := p.Stats().Connections; n != 1 {
				t.Errorf("%d connections", n)
			}
			z.kill()
			until(t, "its end is noticed", func() bool { return p.Stats().Subscribers == 0 })
		})
	}
}

func TestLibzmqSubscribesFlatOut(t *testing.T) {
	const count = 50_000
	l, p := listen(t), NewPublisher(0, Options{})
	start(t, func(ctx context.Context) error { return p.Serve(ctx, l) })
	z := libzmqPeer(t, "sub", "--connect", portOf(l), "--count", strconv.Itoa(count))
	until(t, "it subscribed", func() bool { return p.Stats().Subscribers == 1 })
	payload := make([]byte, 300)
	for i := range uint64(count) {
		p.Publish(nil, binary.BigEndian.AppendUint64(nil, i), payload)
	}
	if got, want := z.line(t), fmt.Sprintf("got %d gaps 0", count); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestLibzmqAsks(t *testing.T) {
	end := "\xff\xff\xff\xff\xff\xff\xff\xff"
	for _, kind := range []string{"DEALER", "REQ"} {
		t.Run(kind, func(t *testing.T) {
			var asked atomic.Uint64
			l := listen(t)
			start(t, func(ctx context.Context) error {
				return ServeRouter(ctx, l, Options{}, func(_ context.Context, request [][]byte, reply func(...[]byte) error) error {
					asked.Store(binary.BigEndian.Uint64(request[1]))
					if err := reply(nil, []byte("topic"), []byte("12345678"), []byte("payload")); err != nil {
						return err
					}
					return reply(nil, nil, []byte(end), nil)
				})
			})
			args := []string{"request", "--connect", portOf(l)}
			want := []string{"|topic|12345678|payload", "||" + end + "|"}
			if kind == "REQ" { // which takes its empty part off, and one reply
				args, want = append(args, "--req"), []string{"topic|12345678|payload"}
			}
			z := libzmqPeer(t, args...)
			for _, w := range want {
				if got := unhex(t, z.line(t)); got != w {
					t.Errorf("got %q, want %q", got, w)
				}
			}
			if asked.Load() != 3 {
				t.Errorf("asked for %d", asked.Load())
			}
		})
	}
}

// A router of libzmq drops silently what is over its high-water mark, of a long
// replay any batch and the end: whoever asks again from the first that is missing
// comes to the end.
func TestLibzmqReplays(t *testing.T) {
	for _, topic := range []string{"", "kv@pod"} { // the replies of both generations
		t.Run("topic "+topic, func(t *testing.T) {
			const count = 10_000
			z := libzmqPeer(t, "router", "--count", strconv.Itoa(count), "--topics", topic, "--size", "2200")
			next, requests := uint64(7), 0
			for ended := false; !ended; requests++ {
				if requests == 100 {
					t.Fatalf("a hundred requests came to batch %d of %d", next, count)
				}
				next, ended = replay(t, z.port, next)
			}
			t.Logf("%d requests for %d batches", requests, count)
			if next != count {
				t.Errorf("the replay ended before batch %d", next)
			}
		})
	}
}

// replay asks for the batches from next on, and returns the first one that did not
// come, and whether none is left.
func replay(t *testing.T, port string, next uint64) (uint64, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for reply, err := range Request(ctx, "127.0.0.1:"+port, Options{Reply: time.Second}, nil, binary.BigEndian.AppendUint64(nil, next)) {
		switch {
		case errors.Is(err, ErrNoReply):
			return next, false
		case err != nil:
			t.Fatal(err)
		}
		switch seq := binary.BigEndian.Uint64(reply[len(reply)-2]); {
		case seq == 1<<64-1:
			return next, true
		case seq < next || len(reply[len(reply)-1]) != 2200:
			t.Fatalf("batch %d came as %d", seq, next)
		case seq > next:
			return next, false
		}
		next++
	}
	return next, false
}
