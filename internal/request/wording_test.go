package request

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestWording(t *testing.T) {
	for _, tc := range []struct {
		name, body  string
		kind        Kind
		texts       []string
		messages    int
		doubt, mute string // parts of them
	}{
		{"a text", `{"model":"m","prompt": "a\nb" }`, Completions, []string{`"a\nb"`}, 0, "", ""},
		{"texts", `{"prompt":["a", "b"]}`, Completions, []string{`"a"`, `"b"`}, 0, "", ""},
		{"the last of two", `{"prompt":"a","pr\u006fmpt":"b"}`, Completions, []string{`"b"`}, 0, "", ""},
		{"a chat", `{"messages":[{"role":"user","content":"a"},{"role":"user","content":["x",{"type":"text","text":"y"}]}]}`, ChatCompletions, nil, 2, "", ""},
		{"an image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`, ChatCompletions, nil, 1, "", "not text"},
		{"truncated", `{"prompt":"a","truncate_prompt_tokens":3}`, Completions, nil, 0, "", "cut"},
		{"not truncated", `{"prompt":"a","truncate_prompt_tokens":null}`, Completions, []string{`"a"`}, 0, "", ""},
		{"reasoning", `{"messages":[{"role":"assistant","reasoning":"r","content":"a"}]}`, ChatCompletions, nil, 1, "reasoning", ""},
		{"no reasoning", `{"messages":[{"role":"assistant","reasoning":null,"content":null}]}`, ChatCompletions, nil, 1, "", ""},
	} {
		w := ReadWording(tc.kind, []byte(tc.body))
		if w == nil {
			t.Errorf("%s: none", tc.name)
			continue
		}
		var texts []string
		for _, text := range w.Texts {
			texts = append(texts, string(text))
		}
		has := func(text, part string) bool { return (text == "") == (part == "") && strings.Contains(text, part) }
		if !slices.Equal(texts, tc.texts) || len(w.Messages) != tc.messages || !has(w.Doubt, tc.doubt) || !has(w.Mute, tc.mute) {
			t.Errorf("%s: %q, %d messages, doubt %q, mute %q", tc.name, texts, len(w.Messages), w.Doubt, w.Mute)
		}
	}
	for _, body := range []string{`{"prompt":[1,2]}`, `{"prompt":[[1],[2]]}`, `{"prompt":7}`, `{"prompt_embeds":"x"}`, `{}`, `nonsense`} {
		if w := ReadWording(Completions, []byte(body)); w != nil {
			t.Errorf("%s has wording %+v", body, w)
		}
	}
}

func TestSafeCuts(t *testing.T) {
	const first = 10
	for text, want := range map[string][]string{ // what stands behind each cut
		`"0123456789abcdefghij\na\nd"`:             {"a"}, // the next is less than a quarter further
		`"01\nab"`:                                 {},    // too early
		`"0123456789\n abc"`:                       {},    // a blank
		`"0123456789\n\nabc"`:                      {"abc"},
		`"0123456789\\nabc"`:                       {}, // a backslash and an n
		`"0123456789\\\nabc"`:                      {"abc"},
		`"0123456789\u000aabc"`:                    {},
		`"0123456789\nä"`:                          {},
		`"0123456789\n"`:                           {},
		`"0123456789abcdef\nfirst one\nsecond"`:    {"first", "second"},
		`"` + strings.Repeat("x", 20) + `\"\nabc"`: {"abc"},
	} {
		cuts := SafeCuts([]byte(text), first)
		right := len(cuts) == len(want)
		for i := range min(len(cuts), len(want)) {
			right = right && strings.HasPrefix(text[cuts[i]:], want[i])
		}
		if !right {
			t.Errorf("%s: cuts at %v, want those before %q", text, cuts, want)
		}
	}
}

// Texts that begin alike have the same cuts there.
func TestSafeCutsDependOnWhatIsBefore(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `line %d\nThen `, i*i)
	}
	long := []byte(`"` + b.String() + `"`)
	all := SafeCuts(long, 100)
	if len(all) < 10 {
		t.Fatalf("%d cuts", len(all))
	}
	for n := 200; n < len(long); n += 777 {
		cuts := SafeCuts(append(slices.Clone(long[:n]), `x"`...), 100)
		for _, c := range cuts {
			if c < n-2 && !slices.Contains(all, c) {
				t.Fatalf("of the first %d bytes: %v, of all: %v", n, cuts, all)
			}
		}
	}
}

func TestRetokenize(t *testing.T) {
	r, err := Parse("/v1/completions", []byte(`{"model":"m","prompt":["abcd","abcdefgh"]}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r.Retokenize([][]uint32{{1, 2, 3}, {4}}, "engine")
	if r.TotalTokens != 4 || !slices.Equal(r.Tokens, []uint32{1, 2, 3}) || r.TokensFrom != "engine" {
		t.Errorf("%+v", r)
	}
}

func FuzzWording(f *testing.F) {
	f.Add([]byte(`{"prompt":"a\nb\\\nc"}`), true)
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"y"}]}],"tools":[]}`), false)
	f.Add([]byte(`{"count":2,"tokens":[1,2]}`), true)
	f.Add([]byte(`[{"token_ids":[1]},{"token_ids":[]}]`), true)
	f.Fuzz(func(t *testing.T, body []byte, texts bool) {
		kind := ChatCompletions
		if texts {
			kind = Completions
		}
		if w := ReadWording(kind, body); w != nil {
			for _, text := range w.Texts {
				for _, c := range SafeCuts(text, 1) {
					if c < 1 || c >= len(text)-1 || !isLetter(text[c]) || text[c-1] != 'n' {
						t.Fatalf("a cut at %d of %q", c, text)
					}
				}
			}
		}
		if ids, err := Tokenized(body); err == nil && len(ids) > len(body) {
			t.Fatalf("%d ids of %d bytes", len(ids), len(body))
		}
		if prompts, err := Rendered(body); err == nil && len(prompts) > len(body) {
			t.Fatalf("%d prompts of %d bytes", len(prompts), len(body))
		}
	})
}
