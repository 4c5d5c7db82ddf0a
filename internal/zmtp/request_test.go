package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// replies collects what a request yields, up to some.
func replies(ctx context.Context, network *pipes, o Options, most int, parts ...[]byte) (got []string, err error) {
	o.dial = network.dial
	for reply, err := range Request(ctx, "pod:5558", o, parts...) {
		if err != nil {
			return got, err
		}
		if got = append(got, joined(reply)); len(got) == most {
			break
		}
	}
	return got, nil
}

func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		start(t, func(ctx context.Context) error {
			return ServeRouter(ctx, network, Options{}, func(_ context.Context, request [][]byte, reply func(...[]byte) error) error {
				if len(request) != 2 || len(request[0]) != 0 {
					return fmt.Errorf("request %q", request)
				}
				for seq := binary.BigEndian.Uint64(request[1]); seq < 1000; seq++ {
					if err := reply(nil, fmt.Append(nil, seq), []byte("payload")); err != nil {
						return err
					}
				}
				return reply(nil, []byte("end"), nil)
			})
		})
		got, err := replies(t.Context(), network, Options{}, 6, nil, binary.BigEndian.AppendUint64(nil, 995))
		want := []string{"|995|payload", "|996|payload", "|997|payload", "|998|payload", "|999|payload", "|end|"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
		// Enough is enough, whatever the router still has.
		if got, err = replies(t.Context(), network, Options{}, 3, nil, make([]byte, 8)); len(got) != 3 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		// The router hangs up on what it does not understand.
		if got, err = replies(t.Context(), network, Options{}, 3, []byte("what")); err == nil || got != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestRequestFails(t *testing.T) {
	cases := []struct {
		name string
		say  []byte
		err  error
		says string
	}{
		{"no answer", cat(hello(1), ready("ROUTER")), ErrNoReply, "request to pod:5558"},
		{"one answer and PINGs", cat(hello(1), ready("ROUTER"), message("a"), appendCommand(nil, "PING", []byte("\x00\x00"))), ErrNoReply, ""},
		{"a publisher", cat(hello(1), ready("PUB")), ErrProtocol, `"PUB"; a DEALER speaks to ROUTER`},
		{"too large", cat(hello(1), ready("ROUTER"), message("a"), []byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00")), ErrLimit, "4611686018427387904"},
		{"no handshake", nil, os.ErrDeadlineExceeded, "handshake"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { newRemote(t, <-network.conns).say(c.say) }()
				_, err := replies(ctx, network, Options{}, 10, nil, make([]byte, 8))
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want a %v that says %q", err, c.err, c.says)
				}
			})
		})
	}
	network := newPipes()
	network.Close()
	if _, err := replies(t.Context(), network, Options{}, 1); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a request to nobody: %v", err)
	}
}

// What the caller does with a reply is not the router's time; the end of the
// context is the end in any case.
func TestRequestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			r := newRemote(t, <-network.conns)
			r.say(cat(hello(1), ready("ROUTER"), message("a")))
			for {
				time.Sleep(4 * time.Second)
				if _, err := r.Write(message("b")); err != nil {
					return
				}
			}
		}()
		began, last := time.Now(), error(nil)
		n := 0
		for _, err := range Request(ctx, "pod:1", Options{dial: network.dial}, nil) {
			if n++; n == 1 {
				time.Sleep(20 * time.Second)
			}
			last = err
		}
		if !errors.Is(last, context.DeadlineExceeded) || time.Since(began) != time.Minute || n < 10 {
			t.Errorf("%d replies, then %v after %v", n, last, time.Since(began))
		}
		time.Sleep(time.Minute) // the remote notices
	})
}

// The caller may end the context and the loop at once.
func TestRequestEndedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			newRemote(t, <-network.conns).say(cat(hello(1), ready("ROUTER"), message("a"), message("b")))
		}()
		n := 0
		for range Request(ctx, "pod:1", Options{dial: network.dial}, nil) {
			if cancel(); n == 0 {
				n++
				break
			}
		}
		if n != 1 {
			t.Errorf("%d replies", n)
		}
	})
}

// A peer that takes no replies does not keep the router for ever.
func TestRouterGivesUpOnWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, ended := newPipes(), make(chan error, 1)
		start(t, func(ctx context.Context) error {
			return ServeRouter(ctx, network, Options{}, func(_ context.Context, _ [][]byte, reply func(...[]byte) error) (err error) {
				for err == nil {
					err = reply(make([]byte, 1000))
				}
				ended <- err
				return err
			})
		})
		nc, err := network.dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		go func() { _, _ = nc.Write(cat(hello(1), ready("DEALER"), message("|x"))) }()
		var begin [64 + 43]byte // the greeting and READY
		if _, err := nc.Read(begin[:64]); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(begin[64:]); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}
