package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

const (
	// maxIdle connections are kept: the metrics, the health and the list of
	// models may overlap.
	maxIdle = 3
	// idleTimeout is how long an unused one is kept when others are used.
	idleTimeout = 30 * time.Second
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 64 << 10
)

var errHeader = fmt.Errorf("answer's header is longer than %d bytes", maxHeaderBytes)

// transport asks one server for small things, often. Each question is written
// and its answer read by the goroutine that asks; [http.Transport] hands both
// through two more, which costs more than all the rest of a scrape. It speaks
// plain HTTP/1.1 and keeps its connections.
type transport struct {
	mu   sync.Mutex
	idle []*conn // the latest last
}

// RoundTrip implements [http.RoundTripper] for requests without a body. The
// answer's body must be closed.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if c := t.take(req.URL.Host); c != nil {
		resp, err := t.ask(c, req)
		if err == nil || c.answered || req.Context().Err() != nil {
			return resp, err
		}
		// The server has closed it since, as it may at any time.
	}
	c, err := dial(req)
	if err != nil {
		return nil, err
	}
	return t.ask(c, req)
}

func (t *transport) take(host string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.idle)
	if n == 0 || t.idle[n-1].host != host {
		return nil
	}
	c := t.idle[n-1]
	t.idle = t.idle[:n-1]
	return c
}

// keep takes back a connection whose answer was read to its end.
func (t *transport) keep(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.since = clock.Wall{}.Now()
	t.idle = append(t.idle, c)
	if len(t.idle) > maxIdle || c.since.Sub(t.idle[0].since) > idleTimeout {
		t.idle[0].close()
		t.idle = append(t.idle[:0], t.idle[1:]...)
	}
}

// CloseIdleConnections closes the connections that nobody uses.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		c.close()
	}
	t.idle = nil
}

// conn is one connection.
type conn struct {
	net.Conn
	host  string
	since time.Time // it is idle
	in    *bufio.Reader
	out   []byte
	// room is how many bytes may still be read; answered: some were.
	room     int64
	answered bool
}

func dial(req *http.Request) (*conn, error) {
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	var d net.Dialer
	inner, err := d.DialContext(req.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, host: req.URL.Host}
	c.in = bufio.NewReaderSize(c, 2<<10)
	return c, nil
}

func (c *conn) close() { _ = c.Close() } // nothing is left to be written

// Read implements [io.Reader] within the room.
func (c *conn) Read(p []byte) (int, error) {
	if c.room <= 0 {
		return 0, errHeader
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.room)])
	c.room -= int64(n)
	c.answered = c.answered || n > 0
	return n, err
}

// interrupt ends what the connection waits for.
func (c *conn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// ask makes one request; the connection is kept, or closed, when the answer's
// body is.
func (t *transport) ask(c *conn, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	deadline, _ := ctx.Deadline() // zero is none
	c.room, c.answered = maxHeaderBytes, false
	b := &body{transport: t, conn: c}
	err := c.SetDeadline(deadline)
	b.stop = context.AfterFunc(ctx, c.interrupt)
	if err == nil {
		err = c.send(req)
	}
	var resp *http.Response
	if err == nil {
		resp, err = c.receive(req)
	}
	if err != nil {
		b.stop()
		c.close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	c.room = math.MaxInt64 // whoever reads the body bounds it
	b.inner, b.last = resp.Body, resp.Close
	resp.Body = b
	return resp, nil
}

func (c *conn) send(req *http.Request) error {
	b := append(c.out[:0], req.Method...)
	b = append(append(append(b, ' '), req.URL.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, req.Host...), "\r\n"...)
	for name, values := range req.Header {
		for _, v := range values {
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	c.out = append(b, "\r\n"...)
	_, err := c.Write(c.out)
	return err
}

// receive reads the header of the answer, past those that only announce it.
func (c *conn) receive(req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.in, req)
		if err != nil && c.room <= 0 {
			err = errHeader // whatever the cut header looks like
		}
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// body is the body of an answer, which gives its connection back.
type body struct {
	transport *transport
	conn      *conn
	inner     io.Reader
	stop      func() bool // no more interruption; false: it is too late
	last      bool        // the connection has had its last answer
	read      bool        // to its end
	closed    bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	b.read = b.read || errors.Is(err, io.EOF)
	return n, err
}

func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.stop() && b.read && !b.last && b.conn.in.Buffered() == 0 {
		b.transport.keep(b.conn)
		return nil
	}
	b.conn.close()
	return nil
}
