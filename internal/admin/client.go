package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
)

const (
	// dialTimeout is how long a connection may take to stand.
	dialTimeout = 5 * time.Second
	// maxDocument bounds a document that is read into memory: that of a list of
	// 100 decisions over 2,048 pods is about half as long.
	maxDocument = 256 << 20
	// maxFailure bounds the document of an error.
	maxFailure = 1 << 20
)

// ClientOptions change how a client talks. The zero value is the usual.
type ClientOptions struct {
	// Transport is used in place of one of the client's own.
	Transport http.RoundTripper
	// Token is shown as a bearer, for a picker that asks who may use its API. Without a
	// Transport it goes only over https, or to this host.
	Token string
	// TLS is how https is spoken; nil = with the system's authorities. It is for a client
	// without a Transport.
	TLS *tls.Config
	// Hint says what to try when the picker can't be reached; "" = the usual.
	Hint string
}

// Client asks one picker. It is safe for concurrent use. Calls last as long as
// their context allows.
//
// Errors: [*NotFoundError], [*AmbiguousError], [*GenerationError],
// [*RequestError] for anything else that the picker refused, and
// [*UnreachableError] when no picker answered.
type Client struct {
	base  *url.URL
	http  *http.Client
	token string
	hint  string // of an [UnreachableError]
}

// NewClient makes a client of the picker at server: a URL or host:port. It does
// not connect.
func NewClient(server string, opts ClientOptions) (*Client, error) {
	base, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	if opts.Token != "" && opts.Transport == nil && base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, fmt.Errorf("server %s: a token is not sent over http: give https://%s", base.Host, base.Host)
	}
	transport := opts.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout:   dialTimeout,
			TLSClientConfig:       opts.TLS,
			ResponseHeaderTimeout: searchTimeout + dialTimeout,
			IdleConnTimeout:       writeTimeout,
		}
	}
	return &Client{base: base, token: opts.Token, hint: opts.Hint, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func parseServer(server string) (*url.URL, error) {
	const form = "give a URL or host:port, for example 127.0.0.1:9091"
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, fmt.Errorf("server %q: %s", server, form)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("server %q: the scheme must be http or https: %s", server, form)
	case u.User != nil:
		return nil, fmt.Errorf("server at %s: a URL with a user or password is not taken", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("server %q: a query or fragment has no meaning: %s", server, form)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// Server is the URL that the client talks to.
func (c *Client) Server() string { return c.base.String() }

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request of a client.
type call struct {
	method, path string // path is escaped
	query        url.Values
	accept       string
	ifMatch      string
	body         any
}

// do sends a request. The answer has a status of 200 and comes from a picker; its
// body must be closed.
func (c *Client) do(ctx context.Context, q call) (*http.Response, error) {
	var body io.Reader
	if q.body != nil {
		raw, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", q.body, err)
		}
		body = bytes.NewReader(raw)
	}
	address := c.base.String() + q.path
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", q.accept)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if q.ifMatch != "" {
		req.Header.Set("If-Match", q.ifMatch)
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, context.Cause(ctx) // the caller gave up, not the picker
		}
		return nil, c.unreachable(plain(err))
	}
	if err := c.check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// check makes an error of an answer that is not a picker's, or not a success.
func (c *Client) check(resp *http.Response) error {
	version := resp.Header.Get(apiHeader)
	if version == "" && speaksTLS(resp) {
		return c.unreachable(errSpeaksTLS)
	}
	if version == "" {
		return c.unreachable(fmt.Errorf("something else answers there: %s, %s", resp.Status, contentType(resp)))
	}
	if version != APIVersion {
		return &VersionError{Server: c.Server(), Theirs: version}
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var f Failure
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	if err != nil || json.Unmarshal(raw, &f) != nil || f.Error.Message == "" {
		return &RequestError{Status: resp.StatusCode, FailureText: FailureText{Message: "the picker answered " + resp.Status}}
	}
	return failureError(resp.StatusCode, &f)
}

// speaksTLS reports whether an answer is that of a server of Go that expects TLS.
func speaksTLS(resp *http.Response) bool {
	if resp.StatusCode != http.StatusBadRequest {
		return false
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	return err == nil && strings.Contains(string(raw), "HTTP request to an HTTPS server")
}

func contentType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return "no content type"
	}
	return kind
}

// get reads the document at path into doc.
func (c *Client) get(ctx context.Context, path string, query url.Values, doc any) error {
	return c.document(ctx, call{method: http.MethodGet, path: path, query: query}, doc)
}

func (c *Client) document(ctx context.Context, q call, doc any) error {
	q.accept = "application/json"
	resp, err := c.do(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return c.garbled(fmt.Errorf("the answer broke off: %w", plain(err)))
	}
	if len(raw) > maxDocument {
		return fmt.Errorf("read %s: the answer is longer than %d bytes", q.path, maxDocument)
	}
	if err := json.Unmarshal(raw, doc); err != nil {
		return c.garbled(fmt.Errorf("the answer to %s can't be read: %w", q.path, err))
	}
	return nil
}

// Pods lists all endpoints.
func (c *Client) Pods(ctx context.Context) (*PodList, error) {
	doc := new(PodList)
	return doc, c.get(ctx, "/v1/pods", nil, doc)
}

// Drain keeps new requests from a pod, or undoes it, and tells of its endpoints.
func (c *Client) Drain(ctx context.Context, pod string, drained bool) (*PodList, error) {
	doc := new(PodList)
	return doc, c.document(ctx, call{
		method: http.MethodPut, path: "/v1/pods/" + segment(pod) + "/drain", body: Drain{document("Drain"), &drained},
	}, doc)
}

// Tree tells the prefix tree's figures.
func (c *Client) Tree(ctx context.Context) (*Tree, error) {
	doc := new(Tree)
	return doc, c.get(ctx, "/v1/tree", nil, doc)
}

// Ledger tells the requests that have not ended.
func (c *Client) Ledger(ctx context.Context) (*Ledger, error) {
	doc := new(Ledger)
	return doc, c.get(ctx, "/v1/ledger", nil, doc)
}

// Config tells the configuration in force.
func (c *Client) Config(ctx context.Context) (*Config, error) {
	doc := new(Config)
	return doc, c.get(ctx, "/v1/config", nil, doc)
}

// Version tells which eppctl the picker is.
func (c *Client) Version(ctx context.Context) (*Version, error) {
	doc := new(Version)
	return doc, c.get(ctx, "/v1/version", nil, doc)
}

// Weights tells the weights in force.
func (c *Client) Weights(ctx context.Context) (*Weights, error) {
	doc := new(Weights)
	return doc, c.get(ctx, "/v1/config/weights", nil, doc)
}

// SetWeights puts w in force in place of the weights of w.Generation, and
// returns them with their new generation. A [*GenerationError] says that others
// were in force.
func (c *Client) SetWeights(ctx context.Context, w explain.Weights) (*Weights, error) {
	doc := new(Weights)
	return doc, c.document(ctx, call{
		method: http.MethodPut, path: "/v1/config/weights", ifMatch: `"` + strconv.FormatUint(w.Generation, 10) + `"`,
		body: Weights{document("Weights"), w},
	}, doc)
}

// LogLevel tells the picker's log level.
func (c *Client) LogLevel(ctx context.Context) (string, error) {
	doc := new(LogLevel)
	err := c.get(ctx, "/v1/log-level", nil, doc)
	return doc.Level, err
}

// SetLogLevel changes the picker's log level.
func (c *Client) SetLogLevel(ctx context.Context, level string) error {
	return c.document(ctx, call{
		method: http.MethodPut, path: "/v1/log-level", body: LogLevel{document("LogLevel"), level},
	}, new(LogLevel))
}
