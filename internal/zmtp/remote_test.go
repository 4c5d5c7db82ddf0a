package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A remote is the other end of a connection: it says what the test wants, valid or
// not, and writes down what it hears.
type remote struct {
	net.Conn
	done chan struct{}

	mu    sync.Mutex
	heard []string // commands as NAME:data, messages as their parts
}

// newRemote begins to listen. The test ends it.
func newRemote(t *testing.T, nc net.Conn) *remote {
	r := &remote{Conn: nc, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.listen()
	}()
	t.Cleanup(func() {
		nc.Close()
		<-r.done
	})
	return r
}

// listen is a parser of its own, so that it does not share mistakes.
func (r *remote) listen() {
	var begin [64]byte
	if _, err := io.ReadFull(r, begin[:]); err != nil {
		return
	}
	r.note("greeting")
	var parts [][]byte
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return
		}
		size := uint64(head[1])
		if head[0]&2 != 0 {
			if _, err := io.ReadFull(r, head[2:]); err != nil {
				return
			}
			size = binary.BigEndian.Uint64(head[1:])
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		if head[0]&4 != 0 {
			n := body[0]
			r.note(string(body[1:1+n]) + ":" + string(body[1+n:]))
			continue
		}
		parts = append(parts, body)
		if head[0]&1 == 0 {
			r.note(joined(parts))
			parts = nil
		}
	}
}

func (r *remote) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, what)
}

func (r *remote) hears() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

func (r *remote) count(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.heard {
		if h == what {
			n++
		}
	}
	return n
}

// say sends bytes, and an error is the other side's right.
func (r *remote) say(b []byte) {
	if len(b) > 0 { // a pipe hands on even nothing
		_, _ = r.Write(b)
	}
}

// The pieces of what a remote says.
func hello(minor byte) []byte {
	b := []byte(greeting)
	b[majorEnd] = minor
	return b
}

func ready(kind string) []byte {
	return appendCommand(nil, "READY", appendProperty(nil, "Socket-Type", kind))
}

func message(parts string) []byte { return appendMessage(nil, split(parts)) }

func cat(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

// pipes is a network: what is dialled arrives at accept, and the other way round.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	shut  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), shut: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return newBuffered(here), nil
	case <-p.shut:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A buffered connection takes some writes before the other side reads them, as a
// kernel does: else two peers that greet each other wait for ever.
type buffered struct {
	net.Conn
	out  chan []byte
	once sync.Once
	shut chan struct{}
}

func newBuffered(nc net.Conn) *buffered {
	b := &buffered{Conn: nc, out: make(chan []byte, 16), shut: make(chan struct{})}
	go func() {
		for {
			select {
			case piece := <-b.out:
				_, _ = nc.Write(piece)
			case <-b.shut:
				return
			}
		}
	}()
	return b
}

func (b *buffered) Write(p []byte) (int, error) {
	select {
	case b.out <- bytes.Clone(p):
		return len(p), nil
	case <-b.shut:
		return 0, net.ErrClosed
	}
}

func (b *buffered) SetWriteDeadline(time.Time) error { return nil }

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.shut) })
	return b.Conn.Close()
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.shut) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
