package request

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// case B8
func TestRewriteChangesNothingElse(t *testing.T) {
	for _, tt := range []struct{ name, body, model, want string }{
		{"plain", `{"model":"m","seed":9007199254740993}`, "n", `{"model":"n","seed":9007199254740993}`},
		{"white space and order", " {\"a\" : 1e400,\n \"model\" :\t\"m\" , \"b\":[] } ", "n", " {\"a\" : 1e400,\n \"model\" :\t\"n\" , \"b\":[] } "},
		{"the last duplicate", `{"model":"a","x":"\ud800","model":"b"}`, "n", `{"model":"a","x":"\ud800","model":"n"}`},
		{"escaped key", `{"mod\u0065l":"m"}`, "n", `{"mod\u0065l":"n"}`},
		{"other case and nesting", `{"Model":"a","x":{"model":"b"},"model":"c"}`, "n", `{"Model":"a","x":{"model":"b"},"model":"n"}`},
		{"any characters", `{"model":"m"}`, "a\"b\\c\n<&>é😀\x00", `{"model":"a\"b\\c\u000a<&>é😀\u0000"}`},
		{"a null model", `{"model":null}`, "n", `{"model":"n"}`},
		{"empty", `{"model":"m"}`, "", `{"model":""}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			got, err := RewriteModel(body, tt.model)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if string(body) != tt.body {
				t.Error("the caller's body was changed")
			}
		})
	}
	for name, body := range map[string]string{
		"no model": `{"x":1}`, "not an object": `[]`, "empty": ``, "cut off": `{"model":"m"`, "more": `{"model":"m"}{}`,
	} {
		if out, err := RewriteModel([]byte(body), "n"); err == nil {
			t.Errorf("%s: rewritten to %s", name, out)
		}
	}
}

func TestRewriteIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.StringN(1, 40, 200).Draw(t, "model")
		body, err := RewriteModel([]byte(`{"prompt":"x","model":"m","n":1}`), model)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(completionsPath, body, Limits{})
		if err != nil || r.Model != model {
			t.Fatalf("%q came back as %+v, %v", model, r, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, body := range oddBodies() {
		f.Add(true, []byte(body))
	}
	f.Add(false, []byte(`{"model":"m","tools":[1],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]}`))
	f.Add(false, []byte(`{"model":"m","messages":[{"role":"x","content":null,"tool_calls":[{}]}],"continue_final_message":true}`))
	f.Add(true, []byte(`{"model":"m","prompt":[[1,2],[3 ]],"cache_salt":"s","stream_options":{"include_usage":true}}`))
	f.Fuzz(func(t *testing.T, completions bool, body []byte) {
		path := chatPath
		if completions {
			path = completionsPath
		}
		r, err := Parse(path, body, Limits{})
		if _, err := Parse("/v1/embeddings", body, Limits{}); err != nil {
			t.Fatalf("a path without a prefix refused its body: %v", err)
		}
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("accepted what is not JSON: %q", body)
		}
		total := 0
		for _, prompt := range r.PromptTokens {
			total += len(prompt)
		}
		if total != r.TotalTokens || len(r.Tokens) > total || total > 8*len(body) {
			t.Fatalf("%d tokens, routed %d, from %d bytes", total, len(r.Tokens), len(body))
		}
	})
}

func FuzzRewriteModel(f *testing.F) {
	for _, body := range oddBodies() {
		f.Add([]byte(body), "other")
	}
	f.Add([]byte(`{"model" : "\u006d\n" }`), "\"\\\xff")
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		out, err := RewriteModel(body, model)
		if err != nil {
			return
		}
		if !json.Valid(body) || !json.Valid(out) {
			t.Fatalf("rewrote %q to %q", body, out)
		}
		quoted := appendQuoted(nil, model)
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil || back != string([]rune(model)) {
			t.Fatalf("model %q became %s: %v", model, quoted, err)
		}
		rest := len(out) - len(quoted)
		for at := 0; at <= rest; at++ {
			if bytes.HasPrefix(out[at:], quoted) && bytes.HasPrefix(body, out[:at]) && bytes.HasSuffix(body, out[at+len(quoted):]) {
				return
			}
		}
		t.Fatalf("more than the model changed: %q to %q", body, out)
	})
}

// Escapes are skipped in linear time: a body of them costs no more than one of letters.
func TestEscapesAreLinear(t *testing.T) {
	for _, escape := range []string{`\\`, `\"`, `\n`, `\u0041`} {
		text := strings.Repeat(escape, 1<<20)
		r := mustParse(t, chatPath, `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`)
		if want := 1<<18 + 3; len(r.Tokens) != want {
			t.Errorf("a million of %s are %d tokens, want %d", escape, len(r.Tokens), want)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	ids := strings.TrimSuffix(strings.Repeat("128000,", 12_000), ",")
	text := strings.Repeat("the quick brown fox jumps over the lazy dog. ", 1_000)
	for name, body := range map[string]string{
		"ids=12000":    `{"model":"m","prompt":[` + ids + `],"max_tokens":64}`,
		"text=45KB":    `{"model":"m","prompt":"` + text + `"}`,
		"chat=45KB":    `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`,
		"chat=escaped": `{"model":"m","messages":[{"role":"user","content":"` + strings.ReplaceAll(text, ". ", `.\n`) + `"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			path := completionsPath
			if strings.HasPrefix(name, "chat") {
				path = chatPath
			}
			in := []byte(body)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(path, in, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
