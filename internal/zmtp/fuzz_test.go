package zmtp

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// A tape is a connection on which the peer says what was fuzzed and hangs up.
type tape struct {
	net.Conn
	data  []byte
	chunk int // bytes a read, at most
	wrote int
}

func (t *tape) Read(p []byte) (int, error) {
	if len(t.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), t.chunk)], t.data)
	t.data = t.data[n:]
	return n, nil
}

func (t *tape) Write(p []byte) (int, error)      { t.wrote += len(p); return len(p), nil }
func (t *tape) SetReadDeadline(time.Time) error  { return nil }
func (t *tape) SetWriteDeadline(time.Time) error { return nil }
func (t *tape) Close() error                     { return nil }

var (
	sockets    = []socket{sub, pub, dealer, router}
	fuzzLimits = Limits{Bytes: 4096, Parts: 8}
)

// play shakes hands as a socket, and takes all that comes after. It returns the
// messages.
func play(t *testing.T, own socket, data []byte, chunk int) (messages []string, shook bool) {
	tp := &tape{data: data, chunk: chunk}
	c, err := open(tp, own, Options{Limits: fuzzLimits}.orDefaults())
	if err != nil {
		return nil, false
	}
	budget := len(data) + 64 + 100 // what we send: our part of the handshake, a PONG is not longer than its PING
	take := func(parts [][]byte) error {
		size := 0
		for _, p := range parts {
			size += len(p)
		}
		if len(parts) == 0 || len(parts) > fuzzLimits.Parts || size > fuzzLimits.Bytes {
			t.Fatalf("a message of %d parts and %d bytes", len(parts), size)
		}
		messages = append(messages, joined(parts))
		return nil
	}
	switch own {
	case pub:
		p, s := NewPublisher(1, Options{}), &subscriber{pongs: make(chan []byte, maxPongs)}
		err = p.listen(c, s)
		if len(s.topics) > maxTopics || len(bytes.Join(s.topics, nil)) > maxTopicBytes || len(s.pongs) > maxPongs {
			t.Fatalf("%d topics", len(s.topics))
		}
	default:
		c.beat(time.Hour)
		budget += 64 // the PING
		err = c.receive(take)
	}
	if err == nil {
		t.Fatal("a connection that hung up did not end")
	}
	if len(c.in.buf) > readBuffer || tp.wrote > budget {
		t.Fatalf("%d bytes made a buffer of %d and %d bytes sent", len(data), len(c.in.buf), tp.wrote)
	}
	return messages, true
}

// FuzzHandshake: no bytes make an open connection panic, spin, or hold much.
func FuzzHandshake(f *testing.F) {
	for i, partner := range []string{"PUB", "SUB", "ROUTER", "DEALER"} {
		f.Add(uint8(i), uint8(0), cat(hello(1), ready(partner), message("a|b")))
	}
	f.Add(uint8(0), uint8(7), cat(hello(0), ready("XPUB")))
	f.Add(uint8(0), uint8(0), hello(1))
	f.Add(uint8(0), uint8(0), cat(hello(1), appendCommand(nil, "ERROR", []byte("\x02no"))))
	f.Add(uint8(1), uint8(0), []byte("GET / HTTP/1.1\r\nHost: pod\r\n\r\n"))
	f.Add(uint8(0), uint8(0), cat(hello(1), []byte("\x06\x40\x00\x00\x00\x00\x00\x00\x00")))
	f.Fuzz(func(t *testing.T, own, chunk uint8, data []byte) {
		_, whole := play(t, sockets[own%4], data, 1<<20)
		if _, pieces := play(t, sockets[own%4], data, 1+int(chunk)); whole != pieces {
			t.Errorf("a handshake in one piece: %v, in pieces of %d: %v", whole, 1+int(chunk), pieces)
		}
	})
}

// FuzzFrames: what follows the handshake is bounded too, and does not depend on
// how it is cut. What was understood is so again when it is written anew.
func FuzzFrames(f *testing.F) {
	ping := appendCommand(nil, "PING", []byte("\x00\x64context"))
	f.Add(uint8(0), uint8(0), cat(message("kv@pod|12345678|payload"), ping, message("|12345678|")))
	f.Add(uint8(0), uint8(3), cat([]byte("\x01\x01a"), ping, []byte("\x00\x01b")))
	f.Add(uint8(0), uint8(0), []byte("\x02\x40\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(uint8(0), uint8(0), slices.Repeat([]byte("\x01\x00"), 20))
	f.Add(uint8(0), uint8(0), ready("PUB"))
	f.Add(uint8(1), uint8(0), cat(message("\x01kv"), message("\x00kv"), appendCommand(nil, "SUBSCRIBE", []byte("a")), appendCommand(nil, "CANCEL", []byte("a"))))
	f.Add(uint8(2), uint8(0), message("|12345678|payload"))
	f.Add(uint8(3), uint8(0), message("|12345678"))
	f.Fuzz(func(t *testing.T, own, chunk uint8, data []byte) {
		s := sockets[own%4]
		stream := func(data []byte) []byte { return cat(hello(1), ready(s.partners()[0]), data) }
		whole, shook := play(t, s, stream(data), 1<<20)
		if !shook {
			t.Fatal("no handshake")
		}
		if pieces, _ := play(t, s, stream(data), 1+int(chunk)); !slices.Equal(whole, pieces) {
			t.Errorf("%d messages in one piece, %d in pieces of %d bytes", len(whole), len(pieces), 1+int(chunk))
		}
		var anew []byte
		for _, m := range whole {
			anew = appendMessage(anew, [][]byte{[]byte(m)})
		}
		if again, _ := play(t, s, stream(anew), 1<<20); len(anew) > 0 && !slices.Equal(whole, again) {
			t.Errorf("%q became %q", whole, again)
		}
	})
}
