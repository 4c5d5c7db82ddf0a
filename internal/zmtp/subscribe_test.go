package zmtp

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dialled subscribes over pipes, and gives the test each connection that is made.
func dialled(t *testing.T, o Options, h Handler) *pipes {
	t.Helper()
	p := newPipes()
	o.dial = p.dial
	start(t, func(ctx context.Context) error { return Subscribe(ctx, "tcp://pod:5557", o, h) })
	return p
}

func TestSubscribe(t *testing.T) {
	for minor, asked := range map[byte]string{0: "\x01kv@", 1: "SUBSCRIBE:kv@"} {
		synctest.Test(t, func(t *testing.T) {
			rec := &recorder{}
			p := dialled(t, Options{Topic: "kv@"}, rec)
			r := newRemote(t, <-p.conns)
			r.say(cat(hello(minor), ready("PUB"), message("kv@a|1|x"), message("other|2|x"), message("kv@b|3|")))
			synctest.Wait()
			if r.count(asked) != 1 {
				t.Errorf("a 3.%d peer heard %q, want %q", minor, r.hears(), asked)
			}
			r.Close()
			synctest.Wait()
			want := []string{"connected", "message kv@a|1|x", "message kv@b|3|", "disconnected"}
			if got := rec.seen(); !slices.Equal(got, want) {
				t.Errorf("events %q, want %q", got, want)
			}
			if err := rec.lastErr(); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "the peer closed") {
				t.Errorf("disconnected with %v", err)
			}
			// It comes back, as another.
			r = newRemote(t, <-p.conns)
			r.say(cat(hello(minor), ready("PUB")))
			synctest.Wait()
			if len(rec.peers) != 2 || rec.peers[0].ID == rec.peers[1].ID || rec.peers[1].Address != "tcp://pod:5557" {
				t.Errorf("peers %v, want two of the same address", rec.peers)
			}
		})
	}
}

func TestSubscribeTellsOfTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, p := &recorder{}, newPipes()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { done <- Subscribe(ctx, "pod:5557", Options{dial: p.dial}, rec) }()
		newRemote(t, <-p.conns).say(cat(hello(1), ready("PUB")))
		synctest.Wait()
		cause := errors.New("pod removed")
		cancel(cause)
		if err := <-done; err != nil {
			t.Errorf("Subscribe = %v", err)
		}
		if !slices.Equal(rec.seen(), []string{"connected", "disconnected"}) || !errors.Is(rec.lastErr(), cause) {
			t.Errorf("events %q, %v", rec.seen(), rec.lastErr())
		}
	})
}

// What a peer sends after the handshake and must not.
func TestSubscribeEndsBadStreams(t *testing.T) {
	cases := []struct {
		name string
		say  []byte
		err  error
		says string
	}{
		{"2^62 bytes", []byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00"), ErrLimit, "4611686018427387904"},
		{"endless parts", slices.Repeat([]byte("\x01\x00"), 1000), ErrLimit, "parts"},
		{"a second READY", ready("PUB"), ErrProtocol, "second READY"},
		{"ERROR", appendCommand(nil, "ERROR", []byte("\x04gone")), ErrProtocol, `"gone"`},
		{"a short PING", appendCommand(nil, "PING", []byte("\x00")), ErrProtocol, "PING with 1 byte"},
		{"a long PING", appendCommand(nil, "PING", make([]byte, 19)), ErrProtocol, "PING with 19 byte"},
		{"a nameless command", []byte("\x04\x01\x00"), ErrProtocol, "without a name"},
		{"an unknown flag", []byte("\x80\x00"), ErrProtocol, "0x80"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &recorder{}
				p := dialled(t, Options{}, rec)
				r := newRemote(t, <-p.conns)
				r.say(cat(hello(1), ready("PUB"), message("good"), c.say))
				synctest.Wait()
				if want := []string{"connected", "message good", "disconnected"}; !slices.Equal(rec.seen(), want) {
					t.Errorf("events %q, want %q", rec.seen(), want)
				}
				if err := rec.lastErr(); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want a %v that says %q", err, c.err, c.says)
				}
			})
		})
	}
}

func TestSubscribeIgnoresUnknownCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		p := dialled(t, Options{}, rec)
		odd := cat(appendCommand(nil, "LATER", []byte("x")), appendCommand(nil, "SUBSCRIBE", nil), appendCommand(nil, "PONG", []byte("who asked")))
		newRemote(t, <-p.conns).say(cat(hello(1), ready("PUB"), odd, message("a"), odd, message("b")))
		synctest.Wait()
		if want := []string{"connected", "message a", "message b"}; !slices.Equal(rec.seen(), want) {
			t.Errorf("events %q, want %q", rec.seen(), want)
		}
	})
}

func TestHeartbeatsAreAnswered(t *testing.T) {
	for _, minor := range []byte{0, 1} { // libzmq had them before the number said so
		synctest.Test(t, func(t *testing.T) {
			p := dialled(t, Options{}, &recorder{})
			r := newRemote(t, <-p.conns)
			r.say(cat(hello(minor), ready("PUB")))
			for range 10 {
				r.say(appendCommand(nil, "PING", []byte("\x00\x64context")))
				time.Sleep(500 * time.Millisecond)
			}
			r.say(cat([]byte("\x01\x01a"), appendCommand(nil, "PING", []byte("\x00\x64inside")), []byte("\x00\x01b")))
			synctest.Wait()
			if n := r.count("PONG:context"); n != 10 {
				t.Errorf("%d of 10 PINGs of a 3.%d peer were answered", n, minor)
			}
			if r.count("PONG:inside") != 1 {
				t.Errorf("a PING inside of a message was not answered: %q", r.hears())
			}
		})
	}
}

func TestASilentPeerIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		p := dialled(t, Options{}, rec)
		r := newRemote(t, <-p.conns)
		r.say(cat(hello(1), ready("PUB")))
		for range 20 { // alive: any byte will do
			time.Sleep(14 * time.Second)
			r.say(appendCommand(nil, "PONG", nil))
		}
		if rec.count("disconnected") != 0 {
			t.Fatalf("a living peer was given up: %v", rec.lastErr())
		}
		// 280 s, a PING every 5 s and one at once, with a life of 60 s.
		if n := r.count("PING:\x02\x58"); n < 56 || n > 76 {
			t.Errorf("%d PINGs in 280 s", n)
		}
		time.Sleep(14 * time.Second)
		if rec.count("disconnected") != 0 {
			t.Error("given up after 14 s")
		}
		time.Sleep(2 * time.Second)
		if rec.count("disconnected") != 1 || !errors.Is(rec.lastErr(), errSilent) {
			t.Errorf("after 16 s of silence: %q, %v", rec.seen(), rec.lastErr())
		}
	})
}

// A peer of 3.0 may not know PINGs. It gets none, and may be silent.
func TestNoHeartbeatsTo30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		p := dialled(t, Options{}, rec)
		r := newRemote(t, <-p.conns)
		r.say(cat(hello(0), ready("PUB")))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(r.hears()) != 3 || rec.count("disconnected") != 0 {
			t.Errorf("the peer heard %q, the handler %q", r.hears(), rec.seen())
		}
	})
}

// A peer that promised a sign of life is held to it.
func TestTTLOfThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		p := dialled(t, Options{}, rec)
		r := newRemote(t, <-p.conns)
		r.say(cat(hello(0), ready("PUB"), appendCommand(nil, "PING", []byte("\x00\x14")))) // 2 s
		time.Sleep(1900 * time.Millisecond)
		if rec.count("disconnected") != 0 {
			t.Error("given up too early")
		}
		time.Sleep(200 * time.Millisecond)
		if rec.count("disconnected") != 1 || !errors.Is(rec.lastErr(), os.ErrDeadlineExceeded) {
			t.Errorf("%q, %v", rec.seen(), rec.lastErr())
		}
	})
}

// One byte a second never ends a message; the message has a time.
func TestSlowBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		p := dialled(t, Options{}, rec)
		r := newRemote(t, <-p.conns)
		r.say(cat(hello(1), ready("PUB"), message("a")))
		time.Sleep(10 * time.Second) // idle is not slow
		r.say([]byte("\x00\xff"))
		began := time.Now()
		for time.Since(began) < time.Minute && rec.count("disconnected") == 0 {
			r.say([]byte("x"))
			time.Sleep(time.Second)
		}
		if took := time.Since(began); !errors.Is(rec.lastErr(), ErrLimit) || took > messageTime+2*time.Second {
			t.Errorf("after %v: %v", took, rec.lastErr())
		}
	})
}

// A peer that accepts and closes at once is not asked more than now and then,
// with or without a handshake and a message; one that was there is asked at once.
func TestAcceptThenClose(t *testing.T) {
	for name, say := range map[string][]byte{"at once": nil, "after a handshake": cat(hello(1), ready("PUB"), message("a"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := dialled(t, Options{}, &recorder{})
				var times []time.Time
				for range 40 {
					nc := <-p.conns
					times = append(times, time.Now())
					r := newRemote(t, nc)
					r.say(say)
					synctest.Wait()
					r.Close()
				}
				first3s := 0
				for _, at := range times {
					if at.Sub(times[0]) < 3*time.Second {
						first3s++
					}
				}
				if first3s > 8 {
					t.Errorf("%d connections in 3 s", first3s)
				}
				for i := 10; i < len(times); i++ {
					if pause := times[i].Sub(times[i-1]); pause < lastPause/2 || pause > lastPause {
						t.Errorf("pause %d is %v", i, pause)
					}
				}
				r := newRemote(t, <-p.conns)
				r.say(cat(hello(1), ready("PUB")))
				time.Sleep(steady)
				last := time.Now()
				r.Close()
				newRemote(t, <-p.conns)
				if pause := time.Since(last); pause < firstPause/2 || pause > firstPause {
					t.Errorf("a peer that had been there was asked again after %v", pause)
				}
			})
		})
	}
}

func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		dialled(t, Options{}, rec).Close()
		time.Sleep(time.Minute)
		if n := rec.count("failed"); n < 12 || n > 40 || len(rec.seen()) != n {
			t.Errorf("in a minute: %q", rec.seen())
		}
	})
}

// A slow handler loses nothing: the connection is not read meanwhile, and it is
// the publisher that waits.
func TestSlowHandlerHoldsThePublisherBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, size = 10_000, 300
		gate := make(chan struct{})
		next := 0
		rec := &recorder{onMessage: func(_ Peer, parts [][]byte) {
			<-gate
			if got := int(parts[0][0])<<8 | int(parts[0][1]); got != next {
				t.Errorf("message %d came as number %d", got, next)
			}
			next++
		}}
		p := dialled(t, Options{}, rec)
		r := newRemote(t, <-p.conns)
		r.say(cat(hello(1), ready("PUB")))
		sent := 0
		go func() {
			for i := range count {
				r.say(appendMessage(nil, [][]byte{{byte(i >> 8), byte(i)}, make([]byte, size)}))
				sent++
			}
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if sent*size > 2*readBuffer {
			t.Errorf("%d bytes were taken of a publisher while the handler was busy", sent*size)
		}
		close(gate)
		synctest.Wait()
		if next != count || rec.count("disconnected") != 0 {
			t.Errorf("%d of %d messages came, %q", next, count, rec.seen())
		}
	})
}

// --- listening -----------------------------------------------------------------

func TestAddresses(t *testing.T) {
	cases := []struct{ address, dial, listen string }{
		{"tcp://pod:5557", "pod:5557", "pod:5557"},
		{"pod:5557", "pod:5557", "pod:5557"},
		{"tcp://[::1]:5557", "[::1]:5557", "[::1]:5557"},
		{"tcp://*:5557", "", ":5557"},
		{"tcp://127.0.0.1:0", "", "127.0.0.1:0"},
		{"ipc:///tmp/x", "", ""},
		{"tcp://pod", "", ""},
		{"tcp://pod:http", "", ""},
		{"tcp://pod:65536", "", ""},
		{"", "", ""},
	}
	for _, c := range cases {
		dial, errDial := dialAddress(c.address)
		listen, errListen := parseAddress(c.address)
		if dial != c.dial || listen != c.listen || (errDial == nil) != (c.dial != "") || (errListen == nil) != (c.listen != "") {
			t.Errorf("%q: dial %q, %v; listen %q, %v", c.address, dial, errDial, listen, errListen)
		}
	}
	if err := CheckAddress("tcp://\u009b2Jpod"); err == nil || strings.Contains(err.Error(), "\u009b") {
		t.Errorf("an error with control characters: %q", err)
	}
	if err := Subscribe(t.Context(), "tcp://*:1", Options{}, &recorder{}); err == nil || !strings.Contains(err.Error(), "tcp://*:1") {
		t.Errorf("Subscribe to everywhere: %v", err)
	}
}
