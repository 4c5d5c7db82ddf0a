package scrape

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/metricview"
)

// DefaultTimeout is how long one page may take.
const DefaultTimeout = 5 * time.Second

// maxHops bounds the redirects that are followed, all on the same server: some
// engines answer /metrics with one to /metrics/.
const maxHops = 2

// Options change how a client reads.
type Options struct {
	Clock   clock.Clock   // tells when a page was read
	Timeout time.Duration // for one page; 0 = [DefaultTimeout]
	Token   string        // sent as a bearer token; "" = none
	// Excerpt reads of each page what [metricview.Excerpt] does, for pages that are read
	// again and again.
	Excerpt bool
	// Transport is used in place of one of the client's own.
	Transport http.RoundTripper
}

// Client reads pages. It is safe for concurrent use.
type Client struct {
	opts Options
	http *http.Client
}

// NewClient makes a client. It does not connect.
func NewClient(opts Options) *Client {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	transport := opts.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: opts.Timeout}).DialContext,
		}
	}
	return &Client{opts: opts, http: &http.Client{Transport: transport, CheckRedirect: sameServer}}
}

// sameServer follows a redirect on the same server alone: a token must not leave it.
func sameServer(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	if len(via) > maxHops || req.URL.Host != from.Host || req.URL.Scheme != from.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// URL makes the address of a page of what a person types: a URL or host:port. The
// path is /metrics unless there is one.
func URL(text string) (string, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	switch {
	case err != nil || u.Hostname() == "":
		return "", fmt.Errorf("%q is no address of a metrics page, as http://10.0.0.7:9090/metrics is", text)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q: the scheme must be http or https", text)
	case u.User != nil:
		return "", fmt.Errorf("the address at %s: a user or password in it is not taken", u.Host)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	u.Fragment = ""
	return u.String(), nil
}

// Read reads the page at an address that [URL] made. The error is an [*Error], or
// the context's when the caller gave up.
func (c *Client) Read(ctx context.Context, address string) (*metricview.Page, error) {
	inTime, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(inTime, http.MethodGet, address, nil)
	if err != nil {
		return nil, &Error{Source: address, Kind: Unreachable, Err: err}
	}
	req.Header.Set("Accept", metricview.Accept)
	req.Header.Set("User-Agent", "eppctl")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, address, err)
	}
	defer resp.Body.Close()
	at := c.opts.Clock.Now()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(address, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, metricview.MaxBody+1))
	if err != nil {
		return nil, c.failed(ctx, address, fmt.Errorf("the page broke off: %w", err))
	}
	read := metricview.Parse
	if c.opts.Excerpt {
		read = metricview.Excerpt
	}
	return parse(read, address, body, resp.Header.Get("Content-Type"), at)
}

func parse(read func([]byte, string) (*metricview.Page, error), source string, body []byte, contentType string, at time.Time) (*metricview.Page, error) {
	page, err := read(body, contentType)
	if err != nil {
		return nil, &Error{Source: source, Kind: NotMetrics, Err: err}
	}
	page.Source, page.At = source, at
	return page, nil
}

// ReadFrom reads a page that was saved as text, packed by gzip or not.
func ReadFrom(in io.Reader, name string) (*metricview.Page, error) {
	buffered := bufio.NewReader(in)
	in = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // a shorter text is not packed
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
		in = unpacked
	}
	body, err := io.ReadAll(io.LimitReader(in, metricview.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	contentType := ""
	if strings.HasSuffix(strings.TrimSpace(tail(body)), "# EOF") {
		contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	return parse(metricview.Parse, name, body, contentType, time.Time{})
}

func tail(body []byte) string { return string(body[max(0, len(body)-16):]) }

// failed makes an [*Error] of one of the transport.
func (c *Client) failed(ctx context.Context, address string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	e := &Error{Source: address, Kind: Unreachable, Err: err}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		e.Kind, e.Err = Slow, fmt.Errorf("no page within %v", c.opts.Timeout)
	}
	return e
}
