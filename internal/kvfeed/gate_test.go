package kvfeed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// A gate is a listener to which connections come by pipes, from any address.
type gate struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func newGate() *gate {
	return &gate{conns: make(chan net.Conn), shut: make(chan struct{})}
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case nc := <-g.conns:
		return nc, nil
	case <-g.shut:
		return nil, net.ErrClosed
	}
}

func (g *gate) Close() error {
	g.once.Do(func() { close(g.shut) })
	return nil
}

func (g *gate) Addr() net.Addr { return &net.TCPAddr{} }

// A pipe is one end of a connection, whose other end has an address. What is
// written waits until the other end takes it, as in a kernel.
type pipe struct {
	net.Conn
	remote net.Addr
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func (p *pipe) RemoteAddr() net.Addr { return p.remote }

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case p.out <- bytes.Clone(b):
		return len(b), nil
	case <-p.closed:
		return 0, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Conn.Close()
}

// pump hands on what is written until the end.
func (p *pipe) pump() {
	for {
		select {
		case b := <-p.out:
			if _, err := p.Conn.Write(b); err != nil {
				return
			}
		case <-p.closed:
			return
		}
	}
}

// dial connects from an address.
func (g *gate) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close() })
	end := &pipe{Conn: there, remote: addr, out: make(chan []byte, 16), closed: make(chan struct{})}
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		end.pump()
	}()
	t.Cleanup(func() {
		end.Close()
		<-pumped
	})
	select {
	case g.conns <- end:
	case <-g.shut:
		t.Error("nobody listens")
	}
	return here
}

// from is an engine's publisher that connects from an address, once: its stop cuts
// the connection, and another one goes on with its numbers when it is told.
func (g *gate) from(t *testing.T, address string) *publisher {
	t.Helper()
	return g.again(t, &publisher{t: t}, address)
}

// again connects a publisher anew, with the numbers that it has.
func (g *gate) again(t *testing.T, p *publisher, address string) *publisher {
	t.Helper()
	g.connect(t, p, address)
	return p.heard()
}

// refused is a publisher whose connection may be ended at once.
func (g *gate) refused(t *testing.T, address string) *publisher {
	t.Helper()
	p := &publisher{t: t}
	g.connect(t, p, address)
	return p
}

func (g *gate) connect(t *testing.T, p *publisher, address string) {
	t.Helper()
	p.pub = zmtp.NewPublisher(100, zmtp.Options{})
	end := newGate()
	p.stop = start(t, func(ctx context.Context) error { return p.pub.Serve(ctx, end) })
	end.conns <- g.dial(t, address)
}

// newListening is a rig whose engines connect to the picker.
func newListening(t *testing.T, cfg kvfeed.Config, members ...pool.Member) (*rig, *gate) {
	t.Helper()
	g := newGate()
	cfg.Listener = g
	return newRig(t, cfg, members...), g
}

// connecting is a pod whose engine connects to the picker.
func connecting(name, address string) pool.Member {
	return pool.Member{Name: name, Address: address, URL: "http://" + address, Events: pool.EventsListen}
}

// ended reports whether a connection was closed from the other side.
func ended(nc net.Conn) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, nc)
		if errors.Is(err, io.ErrClosedPipe) {
			err = nil
		}
		done <- err
	}()
	return done
}
