package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/eppctl/eppctl/explain"
)

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // the connection broke
}

// pod is the pod that the gateway says it went to.
func (a *answer) pod() string { return a.header.Get("X-Eppctl-Pod") }

// code is the machine-readable reason of an error object.
func (a *answer) code() string {
	var doc struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(a.body), &doc)
	return fmt.Sprint(doc.Error.Code)
}

// text is what the model wrote.
func (a *answer) text() string {
	var doc struct {
		Choices []struct {
			Text    string                   `json:"text"`
			Message struct{ Content string } `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil || len(doc.Choices) == 0 {
		return ""
	}
	return doc.Choices[0].Text + doc.Choices[0].Message.Content
}

// object is a JSON object under construction.
type object map[string]any

// completion is the body of a request with a prompt.
func (r *rig) completion(prompt any, maxTokens int) object {
	return object{"model": r.model, "prompt": prompt, "max_tokens": maxTokens}
}

// send sends a request with that ID and reads the whole answer.
func (r *rig) send(ctx context.Context, id, path string, body object) *answer {
	res, err := r.open(ctx, "http://"+r.at.Gateway+path, id, body)
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return &answer{status: res.StatusCode, header: res.Header, body: string(text), err: err}
}

// open sends a request and leaves the answer's body to be read.
func (r *rig) open(ctx context.Context, url, id string, body object) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	return r.client.Do(req)
}

// ask sends a request that must succeed, and waits until it is on record.
func (r *rig) ask(id, path string, body object) (*answer, *explain.Record) {
	r.t.Helper()
	a := r.send(r.ctx, id, path, body)
	if a.err != nil || a.status != http.StatusOK {
		r.t.Fatalf("request %s: status %d, error %v: %s", id, a.status, a.err, a.body)
	}
	return a, r.completed(id)
}

// direct sends a request to a pod behind the picker's back.
func (r *rig) direct(pod, path string, body object) {
	r.t.Helper()
	res, err := r.open(r.ctx, r.pod(pod).URL+path, "direct", body)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("ask %s itself: status %d, error %v: %s", pod, res.StatusCode, err, text)
	}
}

// A crowd is requests that run at once.
type crowd struct {
	wg      sync.WaitGroup
	answers []*answer
}

// crowd starts n requests; those of one crowd have the IDs name-0, name-1, ….
func (r *rig) crowd(name string, n int, body func(i int) object) *crowd {
	c := &crowd{answers: make([]*answer, n)}
	for i := range n {
		c.wg.Go(func() { c.answers[i] = r.send(r.ctx, fmt.Sprintf("%s-%d", name, i), completionsPath, body(i)) })
	}
	return c
}

// allWell waits for all answers and fails unless each has status 200.
func (c *crowd) allWell(t *testing.T) {
	t.Helper()
	c.wg.Wait()
	for i, a := range c.answers {
		if a.err != nil || a.status != http.StatusOK {
			t.Errorf("request %d of the crowd: status %d, error %v: %s", i, a.status, a.err, a.body)
		}
	}
}

// words is a prompt of exactly n tokens; another mark of at most 3 letters makes
// it other from the first token on.
func words(mark string, n int) string {
	numbers := 1
	for range 4 - len(mark) {
		numbers *= 10
	}
	var b strings.Builder
	for i := range n { // a token is 4 bytes
		fmt.Fprintf(&b, "%s%0*d", mark, 4-len(mark), i%numbers)
	}
	return b.String()
}
