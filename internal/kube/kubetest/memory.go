package kubetest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// InMemory starts a server that ends with the test and is reached by its Transport
// alone, so that a test with it can be in a bubble of fake time.
func InMemory(t interface{ Cleanup(end func()) }) *Server {
	f := newServer()
	line := &listener{calls: make(chan net.Conn), closed: make(chan struct{})}
	transport := &http.Transport{DialContext: line.dial}
	f.URL, f.Transport = "http://api.test", transport
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(line) })
	t.Cleanup(func() {
		f.Cut()
		_ = server.Close()
		serving.Wait()
		transport.CloseIdleConnections()
	})
	return f
}

// listener accepts connections in memory.
type listener struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.calls <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.calls:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*listener) Addr() net.Addr { return address{} }

type address struct{}

// Network implements [net.Addr].
func (address) Network() string { return "memory" }

// String implements [net.Addr].
func (address) String() string { return "api.test" }
