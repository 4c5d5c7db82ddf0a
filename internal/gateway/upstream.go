package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"syscall"

	"github.com/eppctl/eppctl/internal/logkey"
)

// upstream sends exchanges to their pods. It is the reverse proxy's transport.
type upstream struct {
	transport *http.Transport
	counts    *counts
	logger    *slog.Logger
}

func newUpstream(cfg *Config, counts *counts) *upstream {
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout}
	return &upstream{counts: counts, logger: cfg.Logger, transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return &conn{Conn: c}, nil
		},
		DisableCompression:     true, // bodies pass as they are
		MaxIdleConnsPerHost:    cfg.PodIdleConns,
		IdleConnTimeout:        cfg.PodIdleTimeout,
		ResponseHeaderTimeout:  cfg.AnswerTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}}
}

// maxResponseHeader bounds a pod's response header, in bytes.
const maxResponseHeader = 256 << 10

// dialError marks errors from before there was a connection.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// conn counts what was written, to know whether a request can have left.
type conn struct {
	net.Conn
	mu      sync.Mutex // a lock, so that abandon waits for a write under way
	written int64
}

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.Conn.Write(b)
	c.written += int64(n)
	return n, err
}

func (c *conn) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// abandon closes the connection, after which nothing more can leave, and
// returns the final count.
func (c *conn) abandon() int64 {
	_ = c.Close() // it has failed already
	return c.count()
}

// attempt is one sending of a request.
type attempt struct {
	conn   *conn // nil when there was none
	before int64 // bytes written for earlier requests
	reused bool
	repeat bool // net/http itself had sent it before, on another connection
}

// got takes the connection that net/http chose.
func (a *attempt) got(info httptrace.GotConnInfo) {
	c, ok := info.Conn.(*conn)
	if !ok {
		return
	}
	a.repeat = a.repeat || a.conn != nil && a.conn.count() != a.before
	a.conn, a.before, a.reused = c, c.count(), info.Reused
}

// unsent reports whether certainly no byte of the request has left.
func (a *attempt) unsent(err error) bool {
	if a.conn == nil {
		_, ok := errors.AsType[*dialError](err)
		return ok
	}
	return a.conn.abandon() == a.before && !a.repeat
}

// RoundTrip implements [http.RoundTripper].
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	x := of(r.Context())
	reconnected := false
	for {
		var a attempt
		res, err := u.send(r, x, &a)
		if err == nil {
			x.pick.Answered(res.StatusCode)
			return res, nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return nil, err // our own shortage: no other pod would be reached, and none is to blame
		}
		if r.Context().Err() != nil || !a.unsent(err) {
			return nil, err
		}
		if a.reused && !reconnected {
			// The pod closed an unused connection, as servers do; that says
			// nothing of the pod. net/http does the same for what it may repeat.
			reconnected = true
			u.counts.reconnects.Add(1)
			continue
		}
		reconnected = false
		why, pod := reason(err), x.pick.Pod()
		if !x.pick.Second(why) {
			return nil, err
		}
		u.counts.retries.Add(1)
		u.logger.Warn("pod not reached, trying the second best",
			slog.String(logkey.RequestID, x.id), slog.String(logkey.Pod, pod), slog.String(logkey.Reason, why))
	}
}

// send makes one attempt at the pod that is picked now.
func (u *upstream) send(r *http.Request, x *exchange, a *attempt) (*http.Response, error) {
	out := r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: a.got,
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				x.body.release()
			}
		},
	}))
	out.URL = &url.URL{
		Scheme: "http", Host: x.pick.Endpoint(),
		Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery,
	}
	out.Host = ""
	// Without GetBody net/http repeats nothing that has a body. (It does repeat a
	// GET, to the same pod, when that closed a keep-alive connection.)
	out.GetBody, out.TransferEncoding, out.Trailer = nil, nil, nil
	out.ContentLength, out.Body = int64(len(x.body.get())), http.NoBody
	if out.ContentLength > 0 {
		out.Body = &bodyReader{payload: x.body}
	}
	return u.transport.RoundTrip(out)
}
