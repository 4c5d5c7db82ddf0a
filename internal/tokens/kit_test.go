package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

func newTokeniser(tb testing.TB, cfg Config) *Tokeniser {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute // tests of time are in a bubble
	}
	t, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(t.Close)
	return t
}

// one is a fleet of one server, several one of more.
func one(string) []Server { return several(1)("") }

func several(n int) func(string) []Server {
	return func(string) (list []Server) {
		for i := range n {
			list = append(list, Server{ID: fmt.Sprintf("pod-%d", i), URL: fmt.Sprintf("http://pod-%d", i), Engine: "vllm"})
		}
		return list
	}
}

func parsed(tb testing.TB, path string, body []byte) *request.Request {
	tb.Helper()
	r, err := request.Parse(path, body, request.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

type object map[string]any

// query is a request for the model m.
func query(tb testing.TB, doc object) *Query {
	tb.Helper()
	if doc["model"] == nil {
		doc["model"] = "m"
	}
	body, err := json.Marshal(doc)
	if err != nil {
		tb.Fatal(err)
	}
	path := "/v1/completions"
	if doc["messages"] != nil {
		path = "/v1/chat/completions"
	}
	r := parsed(tb, path, body)
	return &Query{Base: "m", Model: r.Model, Body: body, Request: r}
}

func text(tb testing.TB, prompt string) *Query {
	tb.Helper()
	return query(tb, object{"prompt": prompt})
}

func chat(tb testing.TB, more object, contents ...string) *Query {
	tb.Helper()
	doc := object{}
	maps.Copy(doc, more)
	var messages []object
	for i, c := range contents {
		messages = append(messages, object{"role": []string{"user", "assistant"}[i%2], "content": c})
	}
	doc["messages"] = messages
	return query(tb, doc)
}

// engine is a model server whose ids are one a word, with a mark in front. It is
// asked without a network, so that it can be used where time stands still.
type engine struct {
	mu    sync.Mutex
	asked []ask
	// answer takes the place of the usual one; nil = none.
	answer func(req *http.Request, body []byte) (*http.Response, error)
	delay  time.Duration
	// marks: every text gets the mark, also one that is asked for without it.
	marks bool
}

type ask struct {
	host, path, body string
}

func (e *engine) calls() []ask {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]ask{}, e.asked...)
}

func (e *engine) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// RoundTrip implements [http.RoundTripper].
func (e *engine) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.asked = append(e.asked, ask{req.URL.Host, req.URL.Path, string(body)})
	answer, delay, marks := e.answer, e.delay, e.marks
	e.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if answer != nil {
		return answer(req, body)
	}
	return respond(req, http.StatusOK, tokenized(words(body, marks))), nil
}

func tokenized(ids []uint32) string {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"count":%d,"max_model_len":4096,"tokens":%s,"token_strs":null}`, len(ids), text)
}

func respond(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}
}

// words are the ids of a question.
func words(body []byte, marks bool) []uint32 {
	var doc struct {
		Prompt   string
		Messages []struct{ Role, Content string }
		Special  *bool `json:"add_special_tokens"`
		Generate *bool `json:"add_generation_prompt"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		panic(err)
	}
	ids := []uint32{}
	if marks || doc.Messages != nil || doc.Special == nil || *doc.Special {
		ids = append(ids, 1)
	}
	say := func(text string) {
		for word := range strings.FieldsSeq(strings.ReplaceAll(text, "\n", " \n")) {
			h := uint32(2166136261)
			for _, c := range []byte(word) {
				h = (h ^ uint32(c)) * 16777619
			}
			ids = append(ids, h%100_000+10)
		}
	}
	say(doc.Prompt)
	for _, m := range doc.Messages {
		say("<" + m.Role + "> " + m.Content + " <end>")
	}
	if doc.Messages != nil && (doc.Generate == nil || *doc.Generate) {
		say("<assistant>")
	}
	return ids
}

func (t *Tokeniser) mustFind(tb testing.TB, q *Query) Prompts {
	tb.Helper()
	got := t.Tokens(context.Background(), q)
	if len(got.IDs) != len(q.Request.PromptTokens) {
		tb.Fatalf("%d prompts for %d", len(got.IDs), len(q.Request.PromptTokens))
	}
	return got
}
