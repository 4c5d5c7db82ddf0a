package serve

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// quiet is how long no request must have come to the gateway until nobody is
// taken to use it any more.
const quiet = 2 * time.Second

// clients are those who may not have heard yet that the end has come.
type clients struct {
	quiet            time.Duration
	extproc, gateway func() int    // open connections
	requests         func() uint64 // that have come to the gateway
}

// gone waits until there is nobody left, or ctx ends. Envoy keeps its connection
// for as long as it means to use it, so one to ext_proc is a client; those to the
// gateway are often left open by clients that have what they wanted.
func (c *clients) gone(ctx context.Context) {
	wall := clock.Wall{}
	last, since := c.requests(), wall.Now()
	for {
		if n := c.requests(); n != last {
			last, since = n, wall.Now()
		}
		if c.extproc() == 0 && (c.gateway() == 0 || wall.Now().Sub(since) >= c.quiet) {
			return
		}
		if wall.Sleep(ctx, 10*time.Millisecond) != nil {
			return
		}
	}
}

// counted is a listener that knows its open connections.
type counted struct {
	net.Listener
	mu   sync.Mutex
	open map[*countedConn]struct{}
}

type countedConn struct {
	net.Conn
	of *counted
}

func count(ln net.Listener) *counted {
	return &counted{Listener: ln, open: map[*countedConn]struct{}{}}
}

// Accept implements [net.Listener].
func (l *counted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &countedConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c, nil
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// connections is how many are open.
func (l *counted) connections() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// cut ends all connections under the hands of those who use them.
func (l *counted) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Conn.Close()
	}
}
