package tokens

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/request"
)

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
