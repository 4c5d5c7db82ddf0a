package tokens

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

// outcome is how a call went.
type outcome uint8

const (
	outcomeOK      outcome = iota
	outcomeRefused         // the server takes the request for wrong; so would its inference route
	outcomeLacking         // it has no such route or model, or does not let us in
	outcomeFailed          // it can't be reached, or answers nonsense
	outcomeTimeout
	outcomes
)

var outcomeNames = [outcomes]string{"ok", "refused", "lacking", "failed", "timeout"}

// String is the outcome's name in metrics.
func (o outcome) String() string { return outcomeNames[o] }

// another: another server may do better, and there may be time.
func (o outcome) another() bool { return o == outcomeLacking || o == outcomeFailed }

const (
	// idleTimeout is less than servers keep unused connections (uvicorn: 5 s), lest
	// a call is written to one that is being closed.
	idleTimeout    = 4 * time.Second
	idlePerServer  = 8
	maxHeaderBytes = 64 << 10
	// templateTokens is how many ids a template may add to those of the words, of
	// which there is at most one a byte.
	templateTokens = 64 << 10
	// idBytes is the longest an id is written, with its comma and a space.
	idBytes = 12
	// otherBytes is what an answer may hold beside ids, such as sampling parameters.
	otherBytes = 64 << 10
)

func newTransport() http.RoundTripper {
	return &http.Transport{
		DialContext:         (&net.Dialer{}).DialContext, // no proxy: engines are neighbours
		MaxIdleConnsPerHost: idlePerServer, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression: true,
	}
}

// post sends a question to a server and reads its answer.
func (k *asker) post(ctx context.Context, s *server, q *question) ([]uint32, outcome) {
	path, body := "/tokenize", q.tokenize
	if s.render {
		path, body = "/v1/completions/render", q.render
		if q.chat {
			path = "/v1/chat/completions/render"
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, outcomeFailed
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"eppctl"},
		"Idempotency-Key": nil, // not sent; it says that a call may be made again over a new connection
	}
	resp, err := k.transport.RoundTrip(req)
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer resp.Body.Close()
	most := int64(len(body)+templateTokens)*idBytes + otherBytes
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, failure(ctx, err)
	case resp.StatusCode != http.StatusOK:
		return nil, refusal(resp.StatusCode)
	case int64(len(text)) > most, !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
		return nil, outcomeFailed
	}
	ids, err := read(text, s.render)
	if err != nil || len(ids) > len(body)+templateTokens || len(ids) == 0 && !q.empty {
		return nil, outcomeFailed
	}
	return ids, outcomeOK
}

func read(text []byte, render bool) ([]uint32, error) {
	if !render {
		return request.Tokenized(text)
	}
	prompts, err := request.Rendered(text)
	if err == nil && len(prompts) != 1 {
		err = errors.New("not one prompt")
	}
	if err != nil {
		return nil, err
	}
	return prompts[0], nil
}

func failure(ctx context.Context, err error) outcome {
	timeout, ok := errors.AsType[net.Error](err)
	if ctx.Err() != nil || ok && timeout.Timeout() {
		return outcomeTimeout
	}
	return outcomeFailed
}

func refusal(status int) outcome {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return outcomeRefused
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return outcomeLacking
	}
	return outcomeFailed
}

// Ask asks one server for the ids of a request's prompts, past the cache and the
// breakers. It is for checks such as [Compare], not for routing.
func (t *Tokeniser) Ask(ctx context.Context, url string, render bool, q *Query) ([][]uint32, error) {
	w := request.ReadWording(q.Request.Kind, q.Body)
	switch {
	case w == nil:
		return nil, errors.New("the request has no prompt in words")
	case w.Mute != "":
		return nil, errors.New(w.Mute)
	}
	a, s := t.asking(q, w), &server{url: url, render: render}
	texts := w.Texts
	if w.Kind == request.ChatCompletions {
		texts = [][]byte{nil}
	}
	var prompts [][]uint32
	for _, text := range texts {
		body := a.body(text, false, render)
		ids, out := t.asker.post(ctx, s, &question{tokenize: body, render: body, chat: text == nil, empty: len(text) == len(`""`)})
		if out != outcomeOK {
			return nil, errors.New("the server's answer: " + out.String())
		}
		prompts = append(prompts, ids)
	}
	return prompts, nil
}
