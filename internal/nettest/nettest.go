// Package nettest has networks for tests that depend on nobody else.
//
// The one idea: a port that was free a moment ago may be another program's now, so
// that an address that must refuse is held as long as the test, and one that must be
// free is where nobody else looks for one. Where no address is needed, connections are
// in memory: they work in a bubble of fake time, too.
//
// It does not lose, delay or change what goes over a connection. Only tests import it.
package nettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Refusing is an address that refuses connections until the test ends: its port is that
// of a connection, and no listener can have it.
func Refusing(t testing.TB) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		l.Close()
	})
	return conn.LocalAddr().String()
}

// Free is an address for a listener that a test can't open itself. It is one of
// loopback that programs do not use by themselves, where there is more than one.
func Free(t testing.TB) string {
	t.Helper()
	own := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254))
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", own)
	if err != nil {
		l = listen(t, "127.0.0.1:0")
	}
	defer l.Close()
	return l.Addr().String()
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Memory is a listener whose connections are in memory, without buffers: what is
// written waits to be read.
type Memory struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen makes one.
func Listen() *Memory { return &Memory{calls: make(chan net.Conn), closed: make(chan struct{})} }

// Dial connects to it, whatever the address. It can be the DialContext of a transport.
func (m *Memory) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case m.calls <- there:
		return here, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (m *Memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.calls:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (m *Memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*Memory) Addr() net.Addr { return address{} }

type address struct{}

// Network implements [net.Addr].
func (address) Network() string { return "memory" }

// String implements [net.Addr].
func (address) String() string { return "memory.test:80" }
