package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// failureKind is how a request failed, as far as health depends on it.
type failureKind int

const (
	// failedOther covers what may pass by itself (a timeout, a reset) and
	// answers that make no sense.
	failedOther failureKind = iota
	failedRefused
	// failedHere is a shortage of this process, such as of file descriptors, and
	// says nothing of the server.
	failedHere
	failedStatus
)

// failure is an error whose text is a reason fit for a person and a record.
type failure struct {
	kind   failureKind
	slow   bool // there was no answer in time
	status int  // of the answer, when it is that
	reason string
	cause  error
}

func (f *failure) Error() string { return f.reason }
func (f *failure) Unwrap() error { return f.cause }

// asker sends requests to one server and keeps its connections.
type asker interface {
	http.RoundTripper
	CloseIdleConnections()
}

// newAsker returns what goes to a server without a proxy: it is a neighbour.
func newAsker(base string) asker {
	if strings.HasPrefix(base, "https:") {
		return &http.Transport{
			DialContext:            (&net.Dialer{}).DialContext,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeaderBytes,
		}
	}
	return new(transport)
}

// query is one path of a target, prepared once and asked often.
type query struct {
	transport http.RoundTripper
	timeout   time.Duration
	req       *http.Request
	body      []byte // of the request; nil = none
	port      string
	invalid   error
}

func newQuery(transport http.RoundTripper, base, path string, timeout time.Duration) *query {
	q := &query{transport: transport, timeout: timeout}
	u, err := url.Parse(strings.TrimRight(base, "/") + path)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		q.invalid = &failure{kind: failedOther, reason: "endpoint's URL is not http://host:port", cause: err}
		return q
	}
	q.port = u.Port()
	if q.port == "" {
		q.port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	q.req = &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{
		// Text is what the reader is made for. Compression would cost the
		// engine's front end more than the bytes cost a cluster's network.
		"Accept":          {"text/plain;version=0.0.4;q=1,*/*;q=0.1"},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"eppctl"},
	}}
	return q
}

// do asks and hands a 200 answer to read. Every error is a [failure].
func (q *query) do(ctx context.Context, read func(*http.Response) error) error {
	if q.invalid != nil {
		return q.invalid
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	resp, err := q.ask(ctx)
	if err != nil {
		return q.failed(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		discard(resp.Body)
		return &failure{kind: failedStatus, status: resp.StatusCode, reason: fmt.Sprintf("HTTP %d on port %s", resp.StatusCode, q.port)}
	}
	if err := read(resp); err != nil {
		return q.failed(ctx, err)
	}
	return nil
}

// ask sends the request, and again to where the server says that it has moved:
// some answer /metrics with a redirect to /metrics/. Never to another host.
func (q *query) ask(ctx context.Context) (*http.Response, error) {
	req := q.req.WithContext(ctx)
	for hops := 0; ; hops++ {
		if q.body != nil {
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
		}
		resp, err := q.transport.RoundTrip(req)
		if err != nil || hops == maxHops {
			return resp, err
		}
		to := moved(resp, req.URL)
		if to == nil {
			return resp, nil
		}
		discard(resp.Body)
		_ = resp.Body.Close() // it was read for nothing but its connection
		req = req.WithContext(ctx)
		req.URL = to
	}
}

// moved is where on its own server an answer redirects to; nil for nowhere.
func moved(resp *http.Response, from *url.URL) *url.URL {
	if resp.StatusCode/100 != 3 {
		return nil
	}
	to, err := resp.Location()
	if err != nil || to.Host != from.Host || to.Scheme != from.Scheme {
		return nil
	}
	return to
}

// maxHops bounds the redirects that are followed.
const maxHops = 2

// unencoded refuses an answer in an encoding that was not accepted.
func unencoded(resp *http.Response) error {
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("answer is encoded (%.20q) though that was not accepted", enc)
	}
	return nil
}

// maxDiscard is how much of an unwanted body is read to keep its connection.
const maxDiscard = 4 << 10

// discard reads a short body to its end; the error says no more than that the
// connection will not be used again.
func discard(body io.Reader) { _, _ = io.CopyN(io.Discard, body, maxDiscard) }

// failed turns an error of the transport or of reading the answer into a reason.
func (q *query) failed(ctx context.Context, err error) error {
	f := &failure{kind: failedOther, cause: err}
	netErr, isNet := errors.AsType[net.Error](err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case ctx.Err() != nil, isNet && netErr.Timeout():
		f.slow, f.reason = true, fmt.Sprintf("timeout after %v", q.timeout)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		f.kind, f.reason = failedHere, "this picker has too many open files (see ulimit -n)"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.kind, f.reason = failedRefused, "connection refused on port "+q.port
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		f.reason = "connection closed by the server on port " + q.port
	case isDNS:
		f.reason = "host name not found"
	default:
		f.reason = clean(err.Error())
	}
	return f
}

// maxReason bounds a reason that may quote what came over the wire.
const maxReason = 160

// clean makes a text fit for one line of a terminal.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if r := []rune(text); len(r) > maxReason {
		return string(r[:maxReason]) + "…"
	}
	return text
}
