package tokens

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/request"
)

// Case P5: nothing of a prompt stands anywhere but in the question.
func TestNoSecrets(t *testing.T) {
	const secret = "xyzzy-plugh"
	var log bytes.Buffer
	e := &engine{answer: func(req *http.Request, body []byte) (*http.Response, error) {
		if bytes.Contains(body, []byte("echo")) {
			return nil, fmt.Errorf("this is what you sent: %s", body)
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}}
	tk := newTokeniser(t, Config{Transport: e, Servers: one, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	tk.mustFind(t, text(t, secret))
	tk.mustFind(t, chat(t, nil, secret, secret))
	for range mostFailuresAll + 1 {
		tk.mustFind(t, text(t, "echo "+secret))
	}
	_, err := tk.Ask(context.Background(), "http://pod-0", false, text(t, "echo "+secret))
	if err == nil {
		t.Fatal("no error")
	}
	kept := new(bytes.Buffer)
	for e := tk.cache.order.Front(); e != nil; e = e.Next() {
		fmt.Fprintf(kept, "%+v %q\n", e.Value, e.Value)
	}
	for where, what := range map[string]string{
		"log": log.String(), "error": err.Error(), "stats": fmt.Sprintf("%+v", tk.Stats()), "cache": kept.String(),
		"flights": fmt.Sprintf("%+v", tk.flights), "servers": fmt.Sprintf("%+v", tk.asker.servers),
	} {
		if strings.Contains(what, "xyzzy") {
			t.Errorf("%s: %s", where, what)
		}
	}
	if e.calls()[0].body != `{"model":"m","prompt":"xyzzy-plugh"}` {
		t.Errorf("asked %s", e.calls()[0].body)
	}
}

// Two processes have other keys for the same prompt, so that nothing can be tested
// against what one of them has.
func TestKeysAreSecret(t *testing.T) {
	q := text(t, "guess me")
	keys := map[key]bool{}
	for range 2 {
		tk := newTokeniser(t, Config{Transport: &engine{}, Servers: one})
		a := tk.asking(q, request.ReadWording(q.Request.Kind, q.Body))
		keys[tk.hasher.text(a, a.wording.Texts[0])] = true
		keys[tk.hasher.text(a, a.wording.Texts[0])] = true
	}
	if len(keys) != 2 {
		t.Errorf("%d keys", len(keys))
	}
}

// Fields can't be shifted into each other.
func TestKeysTellWordingsApart(t *testing.T) {
	tk := newTokeniser(t, Config{Transport: &engine{}, Servers: one})
	seen := map[key]string{}
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"a"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"a"}]}`,
		`{"model":"n","messages":[{"role":"user","content":"a"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"documents":[]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"chat_template":""}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"add_generation_prompt":false}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"continue_final_message":false}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"add_special_tokens":true}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{}}`,
	} {
		r := parsed(t, "/v1/chat/completions", []byte(body))
		q := &Query{Base: "m", Model: r.Model, Body: []byte(body), Request: r}
		k, _ := tk.hasher.chat(tk.asking(q, request.ReadWording(q.Request.Kind, q.Body)))
		if other := seen[k]; other != "" {
			t.Errorf("one key for %s and %s", other, body)
		}
		seen[k] = body
	}
}
