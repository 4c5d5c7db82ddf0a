package zmtp

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/heaptest"
)

// listening serves a subscriber over pipes.
func listening(t *testing.T, o Options, h Handler) *pipes {
	t.Helper()
	p := newPipes()
	start(t, func(ctx context.Context) error { return ServeSubscriber(ctx, p, o, h) })
	return p
}

func connectTo(t *testing.T, p *pipes) *remote {
	t.Helper()
	nc, err := p.dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return newRemote(t, nc)
}

// Who connects and is silent, or worse, is in nobody's way.
func TestListenWithBadCompany(t *testing.T) {
	bad := map[string][]byte{
		"silent": nil, "half a handshake": hello(1)[:30], "no READY": hello(1), "HTTP": []byte("POST / HTTP/1.1\r\n\r\n"),
		"2^62 bytes": cat(hello(1), ready("PUB"), []byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00")),
	}
	for name, say := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &recorder{}
				p := listening(t, Options{}, rec)
				for range 20 {
					r := connectTo(t, p)
					go r.say(say)
				}
				good := connectTo(t, p)
				began := time.Now()
				good.say(cat(hello(1), ready("PUB"), slices.Repeat(message("|1|x"), 1000)))
				synctest.Wait()
				if n := rec.count("message |1|x"); n != 1000 || time.Since(began) != 0 {
					t.Errorf("%d of 1000 messages after %v", n, time.Since(began))
				}
				time.Sleep(handshakeTime)
				synctest.Wait()
				if n := rec.count("failed") + rec.count("disconnected"); n != 20 {
					t.Errorf("%d of 20 bad connections ended, errors %v", n, rec.errs)
				}
			})
		})
	}
}

func TestListenBoundsItsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		p := listening(t, Options{Peers: 3}, rec)
		for range 10 {
			connectTo(t, p)
		}
		synctest.Wait()
		if n := rec.count("failed"); n != 7 || !errors.Is(rec.lastErr(), ErrLimit) {
			t.Errorf("%d of 10 connections were refused, %v", n, rec.lastErr())
		}
		time.Sleep(handshakeTime) // the silent ones make room
		synctest.Wait()
		connectTo(t, p).say(cat(hello(1), ready("PUB"), message("a")))
		synctest.Wait()
		if rec.count("message a") != 1 {
			t.Errorf("no room for a publisher: %q", rec.seen())
		}
	})
}

// The same topic from two publishers is two streams.
func TestListenTellsPublishersApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := map[string]uint64{}
		var p *pipes
		lock := make(chan struct{}, 1)
		rec := &recorder{onMessage: func(peer Peer, parts [][]byte) {
			lock <- struct{}{}
			defer func() { <-lock }()
			from[string(parts[1])] = peer.ID
		}}
		p = listening(t, Options{}, rec)
		for _, rank := range []string{"rank 0", "rank 1"} {
			connectTo(t, p).say(cat(hello(1), ready("PUB"), message("kv|"+rank)))
		}
		synctest.Wait()
		if a, b := from["rank 0"], from["rank 1"]; a == 0 || b == 0 || a == b {
			t.Errorf("messages came from %v", from)
		}
	})
}

// Many peers that send the first half of large messages have together what the
// budget gives, and no more; a publisher among them goes on.
func TestListenBoundsItsMemory(t *testing.T) {
	const budget, hostile, half = 32 << 20, 40, 4 << 20
	rec, l := &recorder{}, listen(t)
	before := heaptest.Live()
	start(t, func(ctx context.Context) error {
		return ServeSubscriber(ctx, l, Options{Limits: Limits{Budget: NewBudget(budget)}}, rec)
	})
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	good := dial()
	_, _ = good.Write(cat(hello(1), ready("PUB"), message("first")))
	large := cat(hello(1), ready("PUB"), []byte("\x02\x00\x00\x00\x00\x00\x80\x00\x00"), make([]byte, half))
	var writers sync.WaitGroup
	for range hostile {
		nc := dial()
		writers.Go(func() { _, _ = nc.Write(large) })
	}
	writers.Wait()
	until(t, "some are ended", func() bool { return rec.count("disconnected") > 0 })
	_, _ = good.Write(message("second"))
	until(t, "the publisher is heard", func() bool { return rec.count("message second") == 1 })
	if grown := heaptest.Live() - before; grown > 2*budget {
		t.Errorf("%d MiB are held for %d half messages of %d MiB, with a budget of %d MiB", grown>>20, hostile, half>>20, budget>>20)
	} else {
		t.Logf("%d MiB are held, %d connections were ended: %v", grown>>20, rec.count("disconnected"), rec.lastErr())
	}
}

// failing is a listener that cannot accept for a while.
type failing struct {
	net.Listener
	failures int64
	calls    atomic.Int64
}

func (f *failing) Accept() (net.Conn, error) {
	if f.calls.Add(1) <= f.failures {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

func TestListenOutlivesFailuresToAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, p := &recorder{}, newPipes()
		l := &failing{Listener: p, failures: 10}
		start(t, func(ctx context.Context) error { return ServeSubscriber(ctx, l, Options{}, rec) })
		time.Sleep(time.Second)
		if n := l.calls.Load(); n > 10 {
			t.Errorf("%d attempts in a second", n)
		}
		connectTo(t, p).say(cat(hello(1), ready("PUB"), message("a")))
		synctest.Wait()
		if rec.count("message a") != 1 {
			t.Errorf("events %q", rec.seen())
		}
	})
}
