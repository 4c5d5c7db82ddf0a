package tokens

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/request"
)

func TestEqualPromptsAreAskedForOnce(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: several(3)})
	first := tk.mustFind(t, text(t, "one two three"))
	again := tk.mustFind(t, query(t, object{"prompt": "one two three", "max_tokens": 7, "temperature": 1, "cache_salt": "s"}))
	other := tk.mustFind(t, query(t, object{"prompt": "one two three", "add_special_tokens": false}))
	if first.From != FromEngine || !cmp.Equal(first, again) || !slices.Equal(first.IDs[0][1:], other.IDs[0]) {
		t.Errorf("got %v, again %v, without a mark %v", first, again, other)
	}
	if n := len(e.calls()); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	if s := tk.Stats(); s.Hits != 1 || s.Misses != 2 || s.Requests[FromEngine] != 3 || s.Calls["ok"] != 2 || s.Latency.Count != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestEveryPromptOfAListIsAskedFor(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	got := tk.mustFind(t, query(t, object{"prompt": []string{"one two", "", "three"}}))
	if got.From != FromEngine || len(got.IDs[0]) != 3 || len(got.IDs[1]) != 1 || len(got.IDs[2]) != 2 {
		t.Errorf("got %v", got)
	}
	many := make([]string, maxTexts+1)
	if got := tk.mustFind(t, query(t, object{"prompt": many})); got.From != request.FromText || len(e.calls()) != 3 {
		t.Errorf("%d prompts got ids from %s, %d calls", len(many), got.From, len(e.calls()))
	}
	e.set(func() {
		e.answer = func(req *http.Request, body []byte) (*http.Response, error) {
			if bytes.Contains(body, []byte("bad")) {
				return respond(req, http.StatusBadRequest, `{}`), nil
			}
			return respond(req, http.StatusOK, tokenized(words(body, false))), nil
		}
	})
	if got := tk.mustFind(t, query(t, object{"prompt": []string{"good one", "bad one"}})); got.From != request.FromText || len(got.IDs[0]) != 3 {
		t.Errorf("with one prompt refused: %v", got)
	}
}

func TestNobodyIsAsked(t *testing.T) {
	image := []object{{"role": "user", "content": []object{
		{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": object{"url": "data:1"}},
	}}}
	for _, tc := range []struct {
		name string
		doc  object
		cfg  Config
	}{
		{"ids", object{"prompt": []int{1, 2, 3}}, Config{}},
		{"an image", object{"messages": image}, Config{}},
		{"a prompt to be truncated", object{"prompt": "a b c", "truncate_prompt_tokens": 2}, Config{}},
		{"embeddings beside the prompt", object{"prompt": "a", "prompt_embeds": "xx"}, Config{}},
		{"a long body", object{"prompt": "a b c", "user": strings.Repeat("x", 2000)}, Config{MaxBody: 1000}},
		{"not configured", object{"prompt": "a b c"}, Config{Source: SourceApproximate}},
		{"an engine without such a route", object{"prompt": "a b c"}, Config{Servers: func(string) []Server {
			return []Server{{ID: "a", URL: "http://a", Engine: "trtllm"}}
		}}},
		{"an engine that takes no chats", object{"messages": []object{{"role": "user", "content": "x"}}}, Config{Servers: func(string) []Server {
			return []Server{{ID: "a", URL: "http://a", Engine: "sglang"}}
		}}},
		{"no servers", object{"prompt": "a b c"}, Config{Servers: func(string) []Server { return nil }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &engine{}
			tc.cfg.Transport = e
			if tc.cfg.Servers == nil {
				tc.cfg.Servers = one
			}
			tk := newTokeniser(t, tc.cfg)
			q := query(t, tc.doc)
			got := tk.mustFind(t, q)
			if got.From != q.Request.TokensFrom || !cmp.Equal(got.IDs, q.Request.PromptTokens) {
				t.Errorf("got %v, want those that were read: %v", got, q.Request.PromptTokens)
			}
			if calls := e.calls(); len(calls) != 0 {
				t.Errorf("asked %v", calls)
			}
		})
	}
}

// What /tokenize may answer otherwise than the engine serves is not called exact.
func TestDoubts(t *testing.T) {
	tool := []object{{"type": "function", "function": object{"name": "f"}}}
	for _, tc := range []struct {
		name  string
		more  object
		exact bool
		sent  string // part of the question
	}{
		{"plain", nil, true, `"messages":[`},
		{"tools", object{"tools": tool}, true, `"tools":[{`},
		{"tools and auto", object{"tools": tool, "tool_choice": "auto"}, true, `"tools":[{`},
		{"tools and none", object{"tools": tool, "tool_choice": "none"}, false, `"tools":[{`},
		{"a choice without tools", object{"tool_choice": "none"}, true, ""},
		{"arguments", object{"chat_template_kwargs": object{"a": 1}}, true, `"chat_template_kwargs":{"a":1}`},
		{
			"an effort",
			object{"reasoning_effort": "low"},
			false,
			`"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"low"}`,
		},
		{
			"an effort and arguments",
			object{"reasoning_effort": "none", "chat_template_kwargs": object{"a": 1}},
			false,
			`"chat_template_kwargs":{"a":1,"enable_thinking":false,"reasoning_effort":"none"}`,
		},
		{
			"an effort and thinking",
			object{"reasoning_effort": "low", "chat_template_kwargs": object{"enable_thinking": false}},
			false,
			`"chat_template_kwargs":{"enable_thinking":false,"reasoning_effort":"low"}`,
		},
		{"documents", object{"documents": []object{{"title": "t"}}}, false, `"documents":[{"title":"t"}]`},
		{"a form of the answer", object{"response_format": object{"type": "json_object"}}, false, ""},
		{"gpt-oss", object{"model": "openai/gpt-oss-20b"}, false, ""},
		{"a null", object{"reasoning_effort": nil, "tools": nil, "response_format": nil}, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &engine{}
			tk := newTokeniser(t, Config{Transport: e, Servers: one})
			got := tk.mustFind(t, chat(t, tc.more, "hello"))
			if len(got.IDs[0]) != 5 || (got.From == FromEngine) != tc.exact {
				t.Errorf("got %v from %s", got.IDs, got.From)
			}
			calls := e.calls()
			if len(calls) != 1 || !strings.Contains(calls[0].body, tc.sent) || !json.Valid([]byte(calls[0].body)) {
				t.Errorf("asked %v, want %s", calls, tc.sent)
			}
			if got.From == request.FromText && tk.mustFind(t, chat(t, tc.more, "hello")).From != request.FromText {
				t.Error("ids from the cache are called exact")
			}
		})
	}
}

func TestReasoningInMessagesIsADoubt(t *testing.T) {
	tk := newTokeniser(t, Config{Transport: &engine{}, Servers: one})
	got := tk.mustFind(t, query(t, object{"messages": []object{
		{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "r"}, {"role": "user", "content": "q"},
	}}))
	if got.From != request.FromText {
		t.Errorf("ids from %s", got.From)
	}
}

// The root tells what is behind a name that says nothing.
func TestHarmonyByRoot(t *testing.T) {
	tk := newTokeniser(t, Config{Transport: &engine{}, Servers: func(string) []Server {
		return []Server{{ID: "a", URL: "http://a", Root: "/models/GPT_OSS-120b"}}
	}})
	if got := tk.mustFind(t, chat(t, nil, "hello")); got.From != request.FromText {
		t.Errorf("a chat got ids from %s", got.From)
	}
	if got := tk.mustFind(t, text(t, "hello")); got.From != FromEngine {
		t.Errorf("a text got ids from %s", got.From)
	}
}

func TestEnginesAreAskedByTheirName(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	q := text(t, "hello")
	q.Model = "org/m-8b"
	tk.mustFind(t, q)
	if calls := e.calls(); len(calls) != 1 || !strings.Contains(calls[0].body, `"model":"org/m-8b"`) {
		t.Errorf("asked %v", calls)
	}
}

// A render route is asked first, with all that it knows to render; when it fails,
// an engine is.
func TestRenderAndThenEngines(t *testing.T) {
	e := &engine{}
	e.answer = func(req *http.Request, body []byte) (*http.Response, error) {
		switch {
		case req.URL.Host == "render" && bytes.Contains(body, []byte("fail")):
			return respond(req, http.StatusForbidden, `{}`), nil
		case req.URL.Path == "/v1/chat/completions/render":
			return respond(req, http.StatusOK, `{"token_ids":[7,8],"features":null}`), nil
		case req.URL.Path == "/v1/completions/render":
			return respond(req, http.StatusOK, `[{"token_ids":[9]}]`), nil
		}
		return respond(req, http.StatusOK, tokenized([]uint32{5})), nil
	}
	tk := newTokeniser(t, Config{Transport: e, Servers: one, RenderURL: "http://render/"})
	more := object{"reasoning_effort": "low", "tool_choice": "none", "tools": []object{}}
	if got := tk.mustFind(t, chat(t, more, "hello")); got.From != FromRender || !slices.Equal(got.IDs[0], []uint32{7, 8}) {
		t.Errorf("chat: %v", got)
	}
	if body := e.calls()[0].body; !strings.Contains(body, `"reasoning_effort":"low"`) || !strings.Contains(body, `"tool_choice":"none"`) {
		t.Errorf("the render route was asked %s", body)
	}
	if got := tk.mustFind(t, text(t, "hello")); got.From != FromRender || !slices.Equal(got.IDs[0], []uint32{9}) {
		t.Errorf("text: %v", got)
	}
	if got := tk.mustFind(t, text(t, "fail")); got.From != FromEngine || !slices.Equal(got.IDs[0], []uint32{5}) {
		t.Errorf("after a failure: %v", got)
	}
	before := len(e.calls())
	tk.mustFind(t, text(t, "more"))
	if calls := e.calls()[before:]; len(calls) != 1 || calls[0].host != "pod-0" {
		t.Errorf("a route that does not let us in was asked again: %v", calls)
	}
}

// Whatever a server sends, the ids are approximate then, and soon.
func TestHostileAnswers(t *testing.T) {
	ids := strings.Repeat("1,", 3<<20)
	for _, tc := range []struct {
		name, body string
		status     int
		out        string
	}{
		{"HTML", "<html>welcome</html>", 200, "failed"},
		{"nothing", "", 200, "failed"},
		{"null", "null", 200, "failed"},
		{"no ids", `{"count":3}`, 200, "failed"},
		{"ids that are none", `{"count":1,"tokens":["a"]}`, 200, "failed"},
		{"a negative id", `{"count":1,"tokens":[-1]}`, 200, "failed"},
		{"an id out of range", `{"count":1,"tokens":[4294967296]}`, 200, "failed"},
		{"half an id", `{"count":1,"tokens":[1.5]}`, 200, "failed"},
		{"a wrong count", `{"count":4,"tokens":[1,2,3]}`, 200, "failed"},
		{"a count that is none", `{"count":"3","tokens":[1,2,3]}`, 200, "failed"},
		{"no ids for words", `{"count":0,"tokens":[]}`, 200, "failed"},
		{"5 MB", `{"count":1,"tokens":[` + ids + `1]}`, 200, "failed"},
		{"deep nesting", strings.Repeat("[", 100_000), 200, "failed"},
		{"cut off", `{"count":3,"tokens":[1,2`, 200, "failed"},
		{"an error", `{"error":{}}`, 500, "failed"},
		{"too many requests", `{}`, 429, "failed"},
		{"a redirect", ``, 307, "failed"},
		{"a refusal", `{"error":{}}`, 400, "refused"},
		{"no such route", `{"detail":"Not Found"}`, 404, "lacking"},
		{"a key wanted", `{}`, 401, "lacking"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &engine{answer: func(req *http.Request, _ []byte) (*http.Response, error) {
				return respond(req, tc.status, tc.body), nil
			}}
			tk := newTokeniser(t, Config{Transport: e, Servers: one, Timeout: time.Minute})
			q := text(t, "one two three")
			if got := tk.mustFind(t, q); got.From != request.FromText || !cmp.Equal(got.IDs, q.Request.PromptTokens) {
				t.Errorf("got %v", got)
			}
			if s := tk.Stats(); s.Calls[tc.out] != 1 || s.CallsNow != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func TestHTMLWithStatus200IsNoAnswer(t *testing.T) {
	e := &engine{answer: func(req *http.Request, body []byte) (*http.Response, error) {
		res := respond(req, http.StatusOK, tokenized(words(body, false)))
		res.Header.Set("Content-Type", "text/html")
		return res, nil
	}}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	if got := tk.mustFind(t, text(t, "a b")); got.From != request.FromText {
		t.Errorf("ids from %s", got.From)
	}
}

// A server that fails at once leaves time for another one.
func TestASecondServerIsAsked(t *testing.T) {
	e := &engine{answer: func(req *http.Request, body []byte) (*http.Response, error) {
		if req.URL.Host == "pod-0" {
			return nil, errors.New("connection refused")
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}}
	tk := newTokeniser(t, Config{Transport: e, Servers: several(2)})
	for i := range 20 {
		if got := tk.mustFind(t, text(t, fmt.Sprint("prompt ", i))); got.From != FromEngine {
			t.Fatalf("prompt %d: ids from %s", i, got.From)
		}
	}
	failures := 0
	for _, c := range e.calls() {
		if c.host == "pod-0" {
			failures++
		}
	}
	if failures != mostFailures {
		t.Errorf("the broken server was asked %d times, want %d", failures, mostFailures)
	}
}

func TestIdleServersAreAsked(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: func(string) []Server {
		return []Server{{ID: "busy", URL: "http://busy", Load: 9}, {ID: "idle", URL: "http://idle"}, {ID: "idle2", URL: "http://idle2"}}
	}})
	hosts := map[string]int{}
	for i := range 20 {
		tk.mustFind(t, text(t, fmt.Sprint("prompt ", i)))
	}
	for _, c := range e.calls() {
		hosts[c.host]++
	}
	if hosts["busy"] != 0 || hosts["idle"] < 5 || hosts["idle2"] < 5 {
		t.Errorf("asked %v", hosts)
	}
}

// A count that differs makes everything of the model doubtful, and forgotten.
func TestTold(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	q := text(t, "one two")
	tk.mustFind(t, q)
	for _, agree := range []func(){
		func() { tk.Told("m", FromEngine, 3, 3) },
		func() { tk.Told("m", FromEngine, 3, -1) },
		func() { tk.Told("m", request.FromText, 3, 4) },
		func() { tk.Told("other", FromEngine, 3, 4) },
	} {
		agree()
	}
	if got := tk.mustFind(t, q); got.From != FromEngine || len(e.calls()) != 1 {
		t.Errorf("without a difference: %s, %d calls", got.From, len(e.calls()))
	}
	tk.Told("m", FromEngine, 3, 4)
	got := tk.mustFind(t, q)
	if got.From != request.FromText || len(got.IDs[0]) != 3 || len(e.calls()) != 2 || tk.Stats().Mismatches != 2 {
		t.Errorf("after a difference: %v, %d calls, %d mismatches", got, len(e.calls()), tk.Stats().Mismatches)
	}
	for i := range 3 * mostDoubts { // bounded
		tk.Told(fmt.Sprint("model-", i), FromEngine, 1, 2)
	}
	if n := len(tk.doubts); n > mostDoubts {
		t.Errorf("%d doubts", n)
	}
	if tk.mustFind(t, q); len(e.calls()) != 3 {
		t.Error("ids of a forgotten doubt are back")
	}
}

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

func TestCacheIsBounded(t *testing.T) {
	const most = 64 << 10
	c := newCache(most)
	now := time.Now()
	for i := range 2000 {
		k := key{sum: [16]byte{byte(i), byte(i >> 8)}}
		c.put(item{key: k, ids: make([]uint32, i%512)}, now)
		if bytes, items := c.size(); bytes > most || items != c.order.Len() {
			t.Fatalf("after %d: %d bytes, %d items, %d in order", i, bytes, items, c.order.Len())
		}
	}
	last := key{sum: [16]byte{1999 & 0xff, 1999 >> 8}}
	if _, ok := c.get(last, now); !ok {
		t.Error("the last one is gone")
	}
	if _, ok := c.get(last, now.Add(lifetime+1)); ok {
		t.Error("older than its lifetime")
	}
	c.put(item{key: last, ids: make([]uint32, most)}, now)
	if _, ok := c.get(last, now); ok {
		t.Error("one larger than the cache was kept")
	}
	for _, e := range c.items {
		c.drop(e)
	}
	if bytes, items := c.size(); bytes != 0 || items != 0 {
		t.Errorf("%d bytes, %d items when empty", bytes, items)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]Config{
		"unknown source":  {Source: "magic"},
		"needs a render":  {Source: SourceRender},
		"http://host:por": {RenderURL: "ftp://x"},
		"negative":        {MaxCalls: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", cfg, err, want)
		}
	}
}

func TestCompare(t *testing.T) {
	ids := func(n int) []uint32 {
		out := make([]uint32, n)
		for i := range out {
			out[i] = uint32(i)
		}
		return out
	}
	changed := ids(40)
	changed[20] = 99
	for _, tc := range []struct {
		name          string
		ours, engines []uint32
		usage         int
		first, shared int
		exact         bool
	}{
		{"equal", ids(40), ids(40), 40, -1, 2, true},
		{"equal, not told", ids(40), ids(40), -1, -1, 2, true},
		{"equal, counted otherwise", ids(40), ids(40), 41, -1, 2, false},
		{"one id", ids(40), changed, 40, 20, 1, false},
		{"longer", ids(40), ids(41), 41, 40, 2, false},
		{"nothing", nil, nil, 0, -1, 0, true},
		{"nothing for something", nil, ids(3), 3, 0, 0, false},
	} {
		p := Compare(tc.ours, tc.engines, tc.usage, 16)
		if p.First != tc.first || p.SharedBlocks != tc.shared || p.Exact() != tc.exact {
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
}

func TestAskIsForChecks(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	q := query(t, object{"prompt": []string{"one two", "three"}})
	got, err := tk.Ask(context.Background(), "http://elsewhere", false, q)
	if err != nil || !cmp.Equal(got, tk.mustFind(t, q).IDs) {
		t.Errorf("got %v, error %v", got, err)
	}
	if e.calls()[0].host != "elsewhere" {
		t.Errorf("asked %v", e.calls())
	}
	if _, err := tk.Ask(context.Background(), "http://x", false, query(t, object{"prompt": []int{1}})); err == nil {
		t.Error("ids were asked for")
	}
}

var _ io.Reader = (*trickle)(nil)

// trickle never ends.
type trickle struct{ ctx context.Context }

func (r *trickle) Read(p []byte) (int, error) {
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return copy(p, " "), nil
	}
}

func (r *trickle) Close() error { return nil }
