package zmtp

import (
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The bytes that RFC 37 gives, written out.
func TestWireBytes(t *testing.T) {
	cases := []struct{ name, got, want string }{
		{
			"greeting", greeting,
			"ff00000000000000007f" + "0301" + "4e554c4c" + strings.Repeat("00", 16) + "00" + strings.Repeat("00", 31),
		},
		{
			"READY of a SUB", string(appendCommand(nil, "READY", readyData(sub))),
			"0419" + "05" + "5245414459" + "0b" + "536f636b65742d54797065" + "00000003" + "535542",
		},
		{
			"READY of a DEALER", string(appendCommand(nil, "READY", readyData(dealer))),
			"0429" + "05" + "5245414459" + "0b" + "536f636b65742d54797065" + "00000006" + "4445414c4552" + "08" + "4964656e74697479" + "00000000",
		},
		{"SUBSCRIBE", string((&conn{minor: 1}).subscription("kv")), "040c" + "09" + "535542534352494245" + "6b76"},
		{"subscription before 3.1", string((&conn{minor: 0}).subscription("kv")), "0003" + "01" + "6b76"},
		{"a message", string(message("t||p")), "010174" + "0100" + "000170"},
	}
	for _, c := range cases {
		if got := hex.EncodeToString([]byte(c.got)); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// What a peer says before it is one; whatever it is, the end comes in time.
func TestHandshakeRefuses(t *testing.T) {
	curve := hello(1)
	copy(curve[minorEnd:], "CURVE")
	cases := []struct {
		name   string
		say    []byte
		hangUp bool
		err    error
		says   string
	}{
		{"silence", nil, false, os.ErrDeadlineExceeded, "not done after 5s"},
		{"hangs up", nil, true, io.EOF, "closed"},
		{"half a greeting", hello(1)[:20], false, os.ErrDeadlineExceeded, ""},
		{"half a greeting, hangs up", hello(1)[:20], true, io.ErrUnexpectedEOF, "closed"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), false, ErrProtocol, `begins with "GET / HTTP"`},
		{"ZMTP 2", []byte("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01"), false, ErrProtocol, "revision 1"},
		{"CURVE", curve, false, ErrProtocol, `"CURVE`},
		{"no READY", hello(1), false, os.ErrDeadlineExceeded, ""},
		{"half a READY", cat(hello(1), ready("PUB")[:8]), false, os.ErrDeadlineExceeded, ""},
		{"a message first", cat(hello(1), message("a")), false, ErrProtocol, "before READY"},
		{"a large message first", cat(hello(1), []byte("\x02\x00\x00\x00\x00\x02\x00\x00\x00")), false, ErrLimit, "33554432"},
		{"a PING first", cat(hello(1), appendCommand(nil, "PING", []byte("\x00\x00"))), false, ErrProtocol, `"PING"`},
		{"a command without a name", cat(hello(1), []byte("\x04\x00")), false, ErrProtocol, "without a name"},
		{"a command whose name is cut", cat(hello(1), []byte("\x04\x03\x05RE")), false, ErrProtocol, "without a name"},
		{"ERROR", cat(hello(1), appendCommand(nil, "ERROR", []byte("\x07no \"you"))), false, ErrProtocol, `"no \"you"`},
		{"malformed properties", cat(hello(1), appendCommand(nil, "READY", []byte("\x0bSocket"))), false, ErrProtocol, "malformed"},
		{"a property of 4 GiB", cat(hello(1), appendCommand(nil, "READY", []byte("\x01a\xff\xff\xff\xff"))), false, ErrProtocol, "malformed"},
		{"the wrong socket", cat(hello(1), ready("PULL")), false, ErrProtocol, `"PULL"; a SUB speaks to PUB, XPUB`},
		{"no socket type", cat(hello(1), appendCommand(nil, "READY", nil)), false, ErrProtocol, `""`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer here.Close()
				r := newRemote(t, there)
				go r.say(c.say)
				if c.hangUp {
					time.AfterFunc(time.Millisecond, func() { there.Close() })
				}
				began := time.Now()
				err := use(t.Context(), here, sub, Options{}.orDefaults(), func(*conn) error { return nil })
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want a %v that says %q", err, c.err, c.says)
				}
				if took := time.Since(began); took > handshakeTime || (took == handshakeTime) != errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// One byte a second is progress, and no reason to wait longer.
func TestHandshakeHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		r := newRemote(t, there)
		go func() {
			for _, b := range cat(hello(1), ready("PUB")) {
				r.say([]byte{b})
				time.Sleep(time.Second)
			}
		}()
		began := time.Now()
		if _, err := open(here, sub, Options{}.orDefaults()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took != handshakeTime {
			t.Errorf("took %v, want %v", took, handshakeTime)
		}
		here.Close()
		<-r.done
		time.Sleep(3 * time.Minute) // the remote comes to its last byte
	})
}

func TestHandshakeAccepts(t *testing.T) {
	extra := appendProperty(appendProperty(appendProperty(nil, "X-Thing", "1"), "socket-TYPE", "XPUB"), "Resource", "")
	v4 := hello(0)
	v4[signatureEnd] = 4
	cases := []struct {
		name  string
		say   []byte
		minor byte
	}{
		{"3.0", cat(hello(0), ready("PUB")), 0},
		{"3.1", cat(hello(1), ready("PUB")), 1},
		{"3.7", cat(hello(7), ready("PUB")), 7},
		{"4.0, which comes down", cat(v4, ready("PUB")), 1},
		{"other properties", cat(hello(1), appendCommand(nil, "READY", extra)), 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer here.Close()
				r := newRemote(t, there)
				go r.say(c.say)
				got, err := open(here, sub, Options{}.orDefaults())
				if err != nil {
					t.Fatal(err)
				}
				if got.minor != c.minor {
					t.Errorf("minor version %d, want %d", got.minor, c.minor)
				}
			})
		})
	}
}
