package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// publishing serves a publisher over pipes.
func publishing(t *testing.T, queue int, o Options) (*Publisher, *pipes) {
	t.Helper()
	p, network := NewPublisher(queue, o), newPipes()
	start(t, func(ctx context.Context) error { return p.Serve(ctx, network) })
	return p, network
}

// subscribed connects a remote that says what follows the handshake.
func subscribed(t *testing.T, network *pipes, minor byte, say ...[]byte) *remote {
	t.Helper()
	r := connectTo(t, network)
	r.say(cat(hello(minor), ready("SUB"), cat(say...)))
	return r
}

func TestPublisherFiltersByTopic(t *testing.T) {
	topic := func(name, topic string) []byte { return appendCommand(nil, name, []byte(topic)) }
	cases := []struct {
		name string
		say  [][]byte
		want []string // of the messages a, ab, b, and the empty topic
	}{
		{"nothing", nil, nil},
		{"all", [][]byte{topic("SUBSCRIBE", "")}, []string{"a|1", "ab|2", "b|3", "|4"}},
		{"all, before 3.1", [][]byte{message("\x01")}, []string{"a|1", "ab|2", "b|3", "|4"}},
		{"a prefix", [][]byte{topic("SUBSCRIBE", "a")}, []string{"a|1", "ab|2"}},
		{"a prefix, before 3.1", [][]byte{message("\x01a")}, []string{"a|1", "ab|2"}},
		{"two that overlap", [][]byte{topic("SUBSCRIBE", "a"), topic("SUBSCRIBE", "ab")}, []string{"a|1", "ab|2"}},
		{"cancelled", [][]byte{topic("SUBSCRIBE", "a"), topic("SUBSCRIBE", "b"), topic("CANCEL", "a")}, []string{"b|3"}},
		{"cancelled, before 3.1", [][]byte{message("\x01a"), message("\x01b"), message("\x00a")}, []string{"b|3"}},
		{"cancelled once of two", [][]byte{topic("SUBSCRIBE", "b"), topic("SUBSCRIBE", "b"), topic("CANCEL", "b")}, []string{"b|3"}},
		{"cancelled without", [][]byte{topic("CANCEL", "b"), topic("SUBSCRIBE", "b")}, []string{"b|3"}},
		{"nonsense", [][]byte{message("what"), message("\x01a|b"), message(""), topic("WHAT", "")}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, network := publishing(t, 0, Options{})
				r := subscribed(t, network, 1, c.say...)
				synctest.Wait()
				if got := p.Stats().Subscribers; (got == 1) != (c.want != nil) {
					t.Errorf("%d subscribers", got)
				}
				for _, m := range []string{"a|1", "ab|2", "b|3", "|4"} {
					p.Publish(split(m)...)
				}
				p.Publish() // no message
				synctest.Wait()
				if got := r.hears()[2:]; !slices.Equal(got, c.want) {
					t.Errorf("heard %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A queue takes so many messages. What is beyond is dropped and counted, and is
// what the subscriber misses.
func TestPublisherDropsAboveHighWater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queue, sent = 10, 1000
		p, network := publishing(t, queue, Options{})
		gate := make(chan struct{})
		var got []int
		slow := &recorder{onMessage: func(_ Peer, parts [][]byte) {
			<-gate
			got = append(got, int(binary.BigEndian.Uint64(parts[1])))
		}}
		fast := &recorder{}
		for _, h := range []*recorder{slow, fast} {
			start(t, func(ctx context.Context) error {
				return Subscribe(ctx, "pod:1", Options{dial: network.dial}, h)
			})
		}
		synctest.Wait()
		payload := bytes.Repeat([]byte{'x'}, 2*readBuffer) // too much for any buffer on the way
		for i := range sent {
			p.Publish(nil, binary.BigEndian.AppendUint64(nil, uint64(i)), payload)
			synctest.Wait()
		}
		dropped := p.Stats().Dropped
		close(gate)
		synctest.Wait()
		if n := fast.count("message"); n != sent {
			t.Errorf("the fast subscriber had %d of %d messages", n, sent)
		}
		if len(got)+int(dropped) != sent || dropped < sent-queue-3 {
			t.Errorf("%d messages came and %d were dropped of %d, with a queue of %d", len(got), dropped, sent, queue)
		}
		if !slices.IsSorted(got) {
			t.Errorf("order %v", got)
		}
	})
}

func TestPublisherAnswersHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, network := publishing(t, 0, Options{})
		r := subscribed(t, network, 1, appendCommand(nil, "SUBSCRIBE", nil))
		for range 20 {
			r.say(appendCommand(nil, "PING", []byte("\x00\x14hi")))
			time.Sleep(1900 * time.Millisecond)
		}
		if n := r.count("PONG:hi"); n != 20 {
			t.Errorf("%d of 20 PINGs were answered", n)
		}
		time.Sleep(200 * time.Millisecond) // the 2 s that the PING promised are over
		synctest.Wait()
		if n := p.Stats().Subscribers; n != 0 {
			t.Errorf("%d subscribers after the time to live", n)
		}
	})
}

func TestPublisherEndsBadSubscribers(t *testing.T) {
	var many []byte
	for i := range maxTopics + 1 {
		many = appendCommand(many, "SUBSCRIBE", fmt.Append(nil, i))
	}
	large := slices.Repeat(appendCommand(nil, "SUBSCRIBE", make([]byte, 15_000)), 5)
	pings := slices.Repeat(appendCommand(nil, "PING", make([]byte, 19)), 2)
	for name, say := range map[string][]byte{
		"too many topics": many, "too large topics": large, "long PINGs": pings,
		"2^62 bytes": []byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00"), "the wrong socket": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, network := publishing(t, 0, Options{})
				good := subscribed(t, network, 1, appendCommand(nil, "SUBSCRIBE", nil))
				bad := connectTo(t, network)
				kind := "SUB"
				if say == nil {
					kind = "REQ"
				}
				bad.say(cat(hello(1), ready(kind), say))
				<-bad.done
				synctest.Wait()
				p.Publish([]byte("a"))
				synctest.Wait()
				if good.count("a") != 1 || p.Stats().Subscribers != 1 {
					t.Errorf("the good subscriber heard %q, %+v", good.hears(), p.Stats())
				}
			})
		})
	}
}

// A publisher that connects to a listening subscriber, as an engine does whose
// endpoint has no star, and finds it again.
func TestPublisherConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, rec := newPipes(), &recorder{}
		p := NewPublisher(0, Options{dial: network.dial})
		start(t, func(ctx context.Context) error { return p.Connect(ctx, "tcp://router:5557") })
		for round := range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			l := &borrowed{pipes: network, end: ctx}
			done := make(chan error)
			go func() { done <- ServeSubscriber(ctx, l, Options{Topic: "kv"}, rec) }()
			time.Sleep(time.Minute)
			p.Publish([]byte("kv"), fmt.Append(nil, round))
			p.Publish([]byte("other"))
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		want := strings.Split("connected,message kv|0,disconnected,connected,message kv|1,disconnected", ",")
		if got := rec.seen(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if n := p.Stats().Connections; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// borrowed is a listener whose network goes on after it.
type borrowed struct {
	*pipes
	end context.Context
}

func (b *borrowed) Accept() (net.Conn, error) {
	select {
	case nc := <-b.conns:
		return nc, nil
	case <-b.end.Done():
		return nil, errors.New("closed")
	}
}

func (b *borrowed) Close() error { return nil }

func TestServeEndsWithItsListener(t *testing.T) {
	l := listen(t)
	l.Close()
	if err := NewPublisher(0, Options{}).Serve(t.Context(), l); err == nil {
		t.Error("no error for a closed listener")
	}
}

func TestPublishDoesNotAllocate(t *testing.T) {
	p := NewPublisher(4, Options{})
	s := &subscriber{queue: make(chan *packet, 4), topics: [][]byte{nil}}
	p.add(s)
	parts := [][]byte{nil, make([]byte, 8), make([]byte, 300)}
	n := testing.AllocsPerRun(1000, func() {
		p.Publish(parts...)
		p.done(<-s.queue)
	})
	if n > 1 { // the race detector makes pools forget at times
		t.Errorf("%v allocations a message", n)
	}
}
