package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	completions = "/v1/completions"
	chat        = "/v1/chat/completions"
)

// A call is a request of a client.
type call struct {
	id           string // made by prepare when empty
	method, path string // POST /v1/completions when empty
	header       http.Header
	body         []byte
	pieces       int    // the body goes out chunked, in so many pieces; 0 = with its length
	trailer      string // sent after the body, which is then chunked
	h2           bool
	// renamed: the body asks for the alias, and the pods know nothing of it.
	renamed bool
	script  script
}

var calls atomic.Int64

func (c *call) prepare() {
	if c.id == "" {
		c.id = fmt.Sprintf("e2e-%06d", calls.Add(1))
	}
	if c.path == "" {
		c.path = completions
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.trailer != "" && c.pieces == 0 {
		c.pieces = 1
	}
}

// forwarded is the body that the pods must get.
func (c *call) forwarded() []byte {
	if c.renamed {
		return bytes.Replace(c.body, []byte(alias), []byte(model), 1)
	}
	return c.body
}

// expected is the body that the client must get.
func (c *call) expected() []byte {
	name := model
	if c.renamed {
		name = alias
	}
	return bytes.Join(c.script.pieces(name), nil)
}

// request makes the request; body may replace the call's own.
func (c *call) request(ctx context.Context, base string, body io.Reader) (*http.Request, error) {
	if body == nil && c.body != nil {
		body = bytes.NewReader(c.body)
		if c.pieces > 0 {
			body = &chunks{rest: c.body, size: max(1, (len(c.body)+c.pieces-1)/c.pieces)}
		}
	}
	req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header) // with names as they are spelled
	req.Header.Set("X-Request-Id", c.id)
	req.Header.Set(scriptHeader, c.script.header())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.trailer != "" {
		req.Trailer = http.Header{trailerName: {c.trailer}}
	}
	return req, nil
}

// chunks hands out a body in pieces and hides its length.
type chunks struct {
	rest []byte
	size int
}

// Read implements [io.Reader].
func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

// An answer is what a client got.
type answer struct {
	status  int
	proto   string
	header  http.Header
	trailer http.Header
	body    []byte
	err     error // the connection broke
}

// clients are one for each version of HTTP.
type clients struct{ h1, h2 *http.Client }

func newClients(t *testing.T) *clients {
	t.Helper()
	client := func(h2 bool) *http.Client {
		var protocols http.Protocols
		protocols.SetHTTP1(!h2)
		protocols.SetUnencryptedHTTP2(h2)
		transport := &http.Transport{Protocols: &protocols, DisableCompression: true, MaxIdleConnsPerHost: 300}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	return &clients{h1: client(false), h2: client(true)}
}

func (c *clients) of(h2 bool) *http.Client {
	if h2 {
		return c.h2
	}
	return c.h1
}

// read takes the whole answer in.
func read(res *http.Response, err error) *answer {
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return &answer{status: res.StatusCode, proto: res.Proto, header: res.Header, trailer: res.Trailer, body: body, err: err}
}

// completion is the body of a request with a prompt of n words.
func completion(name string, n int, stream bool) []byte {
	var prompt strings.Builder
	for i := range n {
		fmt.Fprintf(&prompt, "word%d ", i)
	}
	return fmt.Appendf(nil, `{"model":%q,"prompt":%q,"max_tokens":4,"stream":%t,"seed":9007199254740993}`, name, prompt.String(), stream)
}

// completionOf is a body of that many bytes.
func completionOf(size int) []byte {
	const form = `{"model":%q,"prompt":"%s","seed":9007199254740993}`
	empty := len(fmt.Sprintf(form, model, ""))
	text := strings.Repeat("lorem ipsum dolor sit amet ", size/27+1)
	return fmt.Appendf(nil, form, model, text[:size-empty])
}
