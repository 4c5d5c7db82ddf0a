package tokens

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/request"
)

// exchange is one captured request with its answer.
type exchange struct {
	Name     string          `json:"name"`
	Path     string          `json:"path"`
	Request  json.RawMessage `json:"request"`
	Status   int             `json:"status"`
	Response string          `json:"response"`
}

func captured(t *testing.T) map[string]exchange {
	t.Helper()
	f, err := os.Open("testdata/vllm.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]exchange{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all[e.Name] = e
	}
	return all
}

// served is the inference request for whose ids a captured /tokenize asked.
func served(t *testing.T, e exchange) (path string, body []byte) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(e.Request, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "return_token_strs")
	path = "/v1/completions"
	if doc["messages"] != nil {
		path = "/v1/chat/completions"
	}
	doc["model"] = "tiny"
	doc["max_tokens"], doc["stream"], doc["temperature"] = 12, true, 0 // take no part
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return path, body
}

// replay answers as the captured server did, to the questions that it was asked.
type replay struct {
	t    *testing.T
	all  map[string]exchange
	seen []string
}

func (r *replay) RoundTrip(req *http.Request) (*http.Response, error) {
	asked, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		if e := r.all[name]; e.Path == req.URL.Path && same(r.t, e.Request, asked) {
			r.seen = append(r.seen, name)
			return &http.Response{
				StatusCode: e.Status, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(e.Response)), Request: req,
			}, nil
		}
	}
	r.t.Errorf("the engine was asked at %s, as never before: %s", req.URL.Path, asked)
	return nil, io.ErrUnexpectedEOF
}

// same compares two questions but for what has no influence on ids.
func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	for _, doc := range []map[string]any{x, y} {
		delete(doc, "return_token_strs")
		delete(doc, "max_tokens")
		delete(doc, "cache_salt")
	}
	return cmp.Equal(x, y)
}

// The questions are those that a real server was asked, and its answers are taken.
func TestRealServer(t *testing.T) {
	all := captured(t)
	for _, name := range []string{
		"tokenize-prompt", "tokenize-prompt-nospecial", "tokenize-prompt-strs", "tokenize-prompt-empty",
		"tokenize-messages", "tokenize-messages-gen", "tokenize-messages-nogen", "tokenize-messages-continue",
		"tokenize-messages-parts", "tokenize-messages-special", "tokenize-messages-tools", "tokenize-messages-template",
	} {
		t.Run(name, func(t *testing.T) {
			e := all[name]
			server := &replay{t: t, all: all}
			tk := newTokeniser(t, Config{Transport: server, Servers: one})
			path, body := served(t, e)
			r := parsed(t, path, body)
			got := tk.Tokens(context.Background(), &Query{Base: "tiny", Model: r.Model, Body: body, Request: r})
			if e.Status != http.StatusOK {
				if got.From != request.FromText || !cmp.Equal(got.IDs, r.PromptTokens) {
					t.Errorf("a refused request got ids from %s", got.From)
				}
				return
			}
			var answer struct{ Tokens []uint32 }
			if err := json.Unmarshal([]byte(e.Response), &answer); err != nil {
				t.Fatal(err)
			}
			if got.From != FromEngine || len(got.IDs) != 1 || !slices.Equal(got.IDs[0], answer.Tokens) {
				t.Errorf("got %v from %s, want %v", got.IDs, got.From, answer.Tokens)
			}
			if len(server.seen) != 1 {
				t.Errorf("asked %v", server.seen)
			}
		})
	}
}

func TestRealRender(t *testing.T) {
	all := captured(t)
	server := &replay{t: t, all: all}
	tk := newTokeniser(t, Config{Transport: server, RenderURL: "http://render", Source: SourceRender})
	for _, name := range []string{"render-chat", "render-completions"} {
		e := all[name]
		body := e.Request
		r := parsed(t, strings.TrimSuffix(e.Path, "/render"), body)
		got := tk.Tokens(context.Background(), &Query{Base: "tiny", Model: r.Model, Body: body, Request: r})
		want, err := request.Rendered([]byte(e.Response))
		if err != nil {
			t.Fatal(err)
		}
		if got.From != FromRender || !cmp.Equal(got.IDs, want) {
			t.Errorf("%s: got %v from %s, want %v", name, got.IDs, got.From, want)
		}
	}
}

// What the engine counted when it served the prompts is what it gave as ids.
func TestRealCounts(t *testing.T) {
	all := captured(t)
	for tokenized, served := range map[string]string{
		"tokenize-messages": "served-chat-1st", "tokenize-prompt": "served-completions-text",
	} {
		ids, err := request.Tokenized([]byte(all[tokenized].Response))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(all[served].Response), &doc); err != nil {
			t.Fatal(err)
		}
		if p := Compare(ids, ids, doc.Usage.Prompt, 16); !p.Exact() {
			t.Errorf("%s and %s: %+v", tokenized, served, p)
		}
	}
}

// Every captured refusal is one, with nothing that fits into ids.
func TestRealRefusals(t *testing.T) {
	for name, e := range captured(t) {
		if e.Status == http.StatusOK {
			continue
		}
		if out := refusal(e.Status); out != outcomeRefused && out != outcomeLacking {
			t.Errorf("%s: status %d is taken for %v", name, e.Status, out)
		}
		if _, err := request.Tokenized([]byte(e.Response)); err == nil {
			t.Errorf("%s: read as ids", name)
		}
		if !bytes.Contains([]byte(e.Response), []byte(`"error"`)) {
			t.Errorf("%s is no error", name)
		}
	}
}
