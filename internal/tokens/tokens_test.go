package tokens

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
