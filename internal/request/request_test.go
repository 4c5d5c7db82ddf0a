package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/heaptest"
)

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

func mustParse(t *testing.T, path, body string) *Request {
	t.Helper()
	r, err := Parse(path, []byte(body), Limits{})
	if err != nil {
		t.Fatalf("Parse(%s, %.200s): %v", path, body, err)
	}
	return r
}

// case B1
func TestPromptForms(t *testing.T) {
	for _, tt := range []struct {
		name, prompt string
		prompts      [][]uint32
		routed       []uint32
		total        int
		from         string
	}{
		{"a string", `"Hi you"`, [][]uint32{{0x79206948, 0xFA00756F}}, []uint32{0x79206948, 0xFA00756F}, 2, FromText},
		{"an empty string", `""`, [][]uint32{{}}, []uint32{}, 0, FromText},
		{"strings", ` [ "abcd" , "abcdefgh"]`, [][]uint32{{0x64636261}, {0x64636261, 0x68676665}}, []uint32{0x64636261, 0x68676665}, 3, FromText},
		{"ids", `[1,2,3]`, [][]uint32{{1, 2, 3}}, []uint32{1, 2, 3}, 3, FromIDs},
		{"ids with white space", "[ 1 ,\n2\t, 4294967295 ]", [][]uint32{{1, 2, 4294967295}}, []uint32{1, 2, 4294967295}, 3, FromIDs},
		{"lists of ids", `[[1,2],[3]]`, [][]uint32{{1, 2}, {3}}, []uint32{1, 2}, 3, FromIDs},
		{"the longest list decides", `[[9],[1,2],[7,8]]`, [][]uint32{{9}, {1, 2}, {7, 8}}, []uint32{1, 2}, 5, FromIDs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustParse(t, completionsPath, `{"model":"m","prompt":`+tt.prompt+`}`)
			if diff := cmp.Diff(tt.prompts, r.PromptTokens); diff != "" {
				t.Errorf("prompts (-want +got):\n%s", diff)
			}
			if !slices.Equal(r.Tokens, tt.routed) || r.TotalTokens != tt.total || r.TokensFrom != tt.from {
				t.Errorf("routed %v of %d tokens from %q, want %v of %d from %q",
					r.Tokens, r.TotalTokens, r.TokensFrom, tt.routed, tt.total, tt.from)
			}
			if r.NoPrefix != "" {
				t.Errorf("NoPrefix = %q for a prompt", r.NoPrefix)
			}
		})
	}
}

// case B2
func TestMalformedBodiesNameTheField(t *testing.T) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, tt := range []struct{ name, path, body, param string }{
		{"empty list of prompts", completionsPath, `{"model":"m","prompt":[]}`, "prompt"},
		{"empty list inside", completionsPath, `{"model":"m","prompt":[[1],[ ]]}`, "prompt[1]"},
		{"a number", completionsPath, `{"model":"m","prompt":7}`, "prompt"},
		{"a list of booleans", completionsPath, `{"model":"m","prompt":[true]}`, "prompt[0]"},
		{"mixed list, ids first", completionsPath, `{"model":"m","prompt":[1,"a"]}`, "prompt[1]"},
		{"mixed list, text first", completionsPath, `{"model":"m","prompt":["a",1]}`, "prompt[1]"},
		{"mixed list, lists first", completionsPath, `{"model":"m","prompt":[[1],2]}`, "prompt[1]"},
		{"a negative id", completionsPath, `{"model":"m","prompt":[1,-2]}`, "prompt[1]"},
		{"an id with a fraction", completionsPath, `{"model":"m","prompt":[[1],[2,2.5]]}`, "prompt[1][1]"},
		{"an id over 32 bits", completionsPath, `{"model":"m","prompt":[4294967296]}`, "prompt[0]"},
		{"an id of 400 digits", completionsPath, `{"model":"m","prompt":[` + strings.Repeat("9", 400) + `]}`, "prompt[0]"},
		{"no prompt", completionsPath, `{"model":"m"}`, "prompt"},
		{"null prompt", completionsPath, `{"model":"m","prompt":null}`, "prompt"},
		{"no model", completionsPath, `{"prompt":"x"}`, "model"},
		{"null model", chatPath, `{"model":null,"messages":[{"role":"user","content":"x"}]}`, "model"},
		{"numeric model", chatPath, `{"model":5,"messages":[{"role":"user","content":"x"}]}`, "model"},
		{"empty model", chatPath, `{"model":"","messages":[{"role":"user","content":"x"}]}`, "model"},
		{"model of 2 KB", chatPath, `{"model":"` + strings.Repeat("m", 2048) + `","messages":[{"role":"user","content":"x"}]}`, "model"},
		{"keys in another case", completionsPath, `{"Model":"m","PROMPT":"x"}`, "model"},
		{"empty body", chatPath, ``, "body"},
		{"white space", chatPath, " \n", "body"},
		{"null", chatPath, `null`, "body"},
		{"an array", chatPath, `[]`, "body"},
		{"cut off", chatPath, `{"model":"m","messages":[{"role":"us`, "body"},
		{"two values", chatPath, `{"model":"m"} {}`, "body"},
		{"trailing comma", completionsPath, `{"model":"m","prompt":"x",}`, "body"},
		{"not UTF-8", completionsPath, "{\"model\":\"m\",\"prompt\":\"\xff\"}", "body"},
		{"gzip", completionsPath, "\x1f\x8b\x08\x00", "body"},
		{"deep array as body", chatPath, deep, "body"},
		{"deep array as prompt", completionsPath, `{"model":"m","prompt":` + deep + `}`, "body"},
		{"deep and never closed", completionsPath, `{"model":"m","prompt":` + strings.Repeat(`{"a":[`, 5_000), "body"},
		{"no messages", chatPath, `{"model":"m"}`, "messages"},
		{"messages of the wrong type", chatPath, `{"model":"m","messages":"hi"}`, "messages"},
		{"empty messages", chatPath, `{"model":"m","messages":[]}`, "messages"},
		{"a message that is text", chatPath, `{"model":"m","messages":["hi"]}`, "messages[0]"},
		{"no role", chatPath, `{"model":"m","messages":[{"content":"hi"}]}`, "messages[0].role"},
		{"numeric content", chatPath, `{"model":"m","messages":[{"role":"user","content":1}]}`, "messages[0].content"},
		{"numeric part", chatPath, `{"model":"m","messages":[{"role":"user","content":["a",2]}]}`, "messages[0].content[1]"},
		{"text part without text", chatPath, `{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text"},
		{"tool_calls of the wrong type", chatPath, `{"model":"m","messages":[{"role":"assistant","tool_calls":{}}]}`, "messages[0].tool_calls"},
		{"stream as text", completionsPath, `{"model":"m","prompt":"x","stream":"yes"}`, "stream"},
		{"stream_options as a list", completionsPath, `{"model":"m","prompt":"x","stream_options":[]}`, "stream_options"},
		{"include_usage as text", completionsPath, `{"model":"m","prompt":"x","stream_options":{"include_usage":"x"}}`, "stream_options.include_usage"},
		{"max_tokens zero", completionsPath, `{"model":"m","prompt":"x","max_tokens":0}`, "max_tokens"},
		{"max_tokens huge", completionsPath, `{"model":"m","prompt":"x","max_tokens":1e400}`, "max_tokens"},
		{"max_completion_tokens wrong", chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_completion_tokens":"5"}`, "max_completion_tokens"},
		{"n too large", completionsPath, `{"model":"m","prompt":"x","n":1000000000}`, "n"},
		{"empty salt", completionsPath, `{"model":"m","prompt":"x","cache_salt":""}`, "cache_salt"},
		{"salt of the wrong type", completionsPath, `{"model":"m","prompt":"x","cache_salt":7}`, "cache_salt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Parse(tt.path, []byte(tt.body), Limits{})
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("Parse = %v, %v; want an *Error", r, err)
			}
			if e.Status != http.StatusBadRequest || e.Param != tt.param || e.Message == "" {
				t.Errorf("error = %d, param %q, %q; want 400 for param %q", e.Status, e.Param, e.Message, tt.param)
			}
		})
	}
}

// case B2: what a body makes us allocate is a small multiple of its size.
func TestMemoryIsBoundedByTheBody(t *testing.T) {
	for name, body := range map[string]string{
		"ids":      `{"model":"m","prompt":[` + strings.Repeat("1,", 1<<20) + `1]}`,
		"messages": `{"model":"m","messages":[` + strings.Repeat(`{"role":"u"},`, 1<<18) + `{"role":"u"}]}`,
		"images":   `{"model":"m","messages":[{"role":"u","content":[` + strings.Repeat(`{},`, 1<<18) + `{}]}]}`,
		"commas":   `{"model":"m","prompt":["` + strings.Repeat(",", 1<<20) + `"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := completionsPath
			if strings.Contains(body, "messages") {
				path = chatPath
			}
			var r *Request
			got := heaptest.Allocated(1, func() { r = mustParse(t, path, body) })
			if kept := 4 * cap(r.Tokens); kept > 40*len(body) {
				t.Errorf("kept %d bytes for a body of %d", kept, len(body))
			}
			if got > 200*uint64(len(body)) {
				t.Errorf("allocated %d bytes for a body of %d", got, len(body))
			}
		})
	}
}

func TestTooManyPrompts(t *testing.T) {
	_, err := Parse(completionsPath, []byte(`{"model":"m","prompt":["a","b","c"]}`), Limits{Prompts: 2})
	if e, ok := errors.AsType[*Error](err); !ok || e.Param != "prompt" {
		t.Errorf("3 prompts with a limit of 2: %v, want an error for prompt", err)
	}
}

// case B6
func TestPathsWithoutPrefix(t *testing.T) {
	for _, tt := range []struct{ name, path, body, model, why string }{
		{"embeddings", "/v1/embeddings", `{"model":"e","input":"x"}`, "e", "/v1/embeddings has no prompt prefix"},
		{"messages", "/v1/messages", `{"model":"c","messages":[]}`, "c", "/v1/messages has no prompt prefix"},
		{"unknown path", "/v1/secret-of-client", `{"model":"x"}`, "x", "this path has no prompt prefix"},
		{"models", "/v1/models", ``, "", "/v1/models has no prompt prefix"},
		{"not JSON", "/v1/audio/transcriptions", "--boundary\r\n\x00\xff", "", "/v1/audio/transcriptions has no prompt prefix"},
		{"model of the wrong type", "/v1/embeddings", `{"model":[1]}`, "", "/v1/embeddings has no prompt prefix"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustParse(t, tt.path, tt.body)
			if r.Kind != Other || r.Model != tt.model || r.NoPrefix != tt.why || r.Tokens != nil || r.TokensFrom != "" {
				t.Errorf("Parse = %+v, want model %q without a prefix: %q", r, tt.model, tt.why)
			}
		})
	}
	t.Run("prompt_embeds", func(t *testing.T) {
		r := mustParse(t, completionsPath, `{"model":"m","prompt_embeds":"AAAA"}`)
		if r.Kind != Completions || r.NoPrefix == "" {
			t.Errorf("Parse = %+v, want completions without a prefix", r)
		}
	})
}

// case B7
func TestSaltIsHashed(t *testing.T) {
	parse := func(extra string) *Request {
		return mustParse(t, completionsPath, `{"model":"m","prompt":"x"`+extra+`}`)
	}
	a, b, none := parse(`,"cache_salt":"A"`), parse(`,"cache_salt":"B"`), parse(``)
	if a.SaltHash != "559aead08264d5795d3909718cdd05ab" { // SHA-256("A"), first 16 bytes
		t.Errorf("hash of salt A = %q", a.SaltHash)
	}
	if a.SaltHash == b.SaltHash || none.SaltHash != "" || parse(`,"cache_salt":null`).SaltHash != "" {
		t.Errorf("salts A, B, none = %q, %q, %q; want three roots", a.SaltHash, b.SaltHash, none.SaltHash)
	}
	secret := parse(`,"cache_salt":"tenant-7-secret"`)
	if text := fmt.Sprintf("%#v", *secret); strings.Contains(text, "tenant-7-secret") {
		t.Errorf("the salt stands in the request: %s", text)
	}
}

func TestOptions(t *testing.T) {
	r := mustParse(t, chatPath, `{"model":"a\/b","stream":true,"stream_options":{"include_usage":true},
		"max_tokens":5,"max_completion_tokens":16.0,"n":2,"messages":[{"role":"user","content":"x"}]}`)
	r.Tokens, r.PromptTokens = nil, nil
	want := &Request{
		Kind: ChatCompletions, Model: "a/b", Stream: true, IncludeUsage: true,
		MaxTokens: 16, HasMaxTokens: true, Choices: 2, TotalTokens: 4, TokensFrom: FromText,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := mustParse(t, completionsPath, `{"model":"m","prompt":"x"}`); r.HasMaxTokens || r.Stream || r.Choices != 1 {
		t.Errorf("without options: %+v", r)
	}
}

// case B8
func TestOddButValidBodies(t *testing.T) {
	for name, body := range oddBodies() {
		t.Run(name, func(t *testing.T) {
			if r := mustParse(t, completionsPath, body); r.Model != "m" {
				t.Errorf("model %q, want the last one, m", r.Model)
			}
		})
	}
	parse := func(text string) []uint32 {
		return mustParse(t, completionsPath, `{"model":"m","prompt":"`+text+`"}`).Tokens
	}
	for _, same := range [][2]string{{`\u0041\u00e9\ud83d\ude00`, "Aé😀"}, {`\"\\\/\b\f\n\r\t`, `\u0022\u005c\u002f\u0008\u000c\u000a\u000d\u0009`}} {
		if !slices.Equal(parse(same[0]), parse(same[1])) {
			t.Errorf("%s and %s are one text and have different ids", same[0], same[1])
		}
	}
	if slices.Equal(parse(`\ud800`), parse(`\ud801`)) {
		t.Error("two different lone surrogates have the same ids")
	}
}

func oddBodies() map[string]string {
	return map[string]string{
		"number over 2^53":     `{"model":"m","prompt":"x","seed": 9007199254740993}`,
		"1e400 in an ignored":  `{"model":"m","prompt":"x","top_k":1e400}`,
		"duplicate keys":       `{"model":"first","prompt":"x","model":"m","prompt":"y"}`,
		"escaped key":          `{"mod\u0065l":"m","prompt":"x"}`,
		"NUL":                  `{"model":"m","prompt":"a\u0000b"}`,
		"lone surrogates":      `{"model":"m","prompt":"\ud800 \udc00 \udc00\ud800"}`,
		"surrogate then other": `{"model":"m","prompt":"\ud800\u0041\ud800\n"}`,
		"white space":          " {\t\"model\" :\r\n\"m\" , \"prompt\": \"x\" } \n",
		"model in other case":  `{"MODEL":"n","model":"m","prompt":"x","Model":"o"}`,
		"nested model":         `{"metadata":{"model":"n"},"model":"m","prompt":"x","z":[{"model":"o"}]}`,
	}
}

func TestErrorDocument(t *testing.T) {
	w := httptest.NewRecorder()
	WriteError(w, fmt.Errorf("gateway: %w", &Error{Status: 404, Param: "model", Code: "model_not_found", Message: `no "x"`}))
	want := `{"error":{"message":"no \"x\"","type":"invalid_request_error","param":"model","code":"model_not_found"}}` + "\n"
	if w.Code != 404 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("WriteError = %d %v %s, want 404 and %s", w.Code, w.Header(), w.Body, want)
	}
	w = httptest.NewRecorder()
	WriteError(w, errors.New("dial 10.0.0.7: refused"))
	if w.Code != 500 || strings.Contains(w.Body.String(), "10.0.0.7") || !json.Valid(w.Body.Bytes()) {
		t.Errorf("an internal error was told to the client: %d %s", w.Code, w.Body)
	}
	for status, kind := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
		413: "invalid_request_error", 429: "rate_limit_error", 503: "server_error",
	} {
		if body := ErrorBody(&Error{Status: status}); !bytes.Contains(body, []byte(kind)) {
			t.Errorf("status %d has no type %s: %s", status, kind, body)
		}
	}
}

func TestTokenize(t *testing.T) {
	r, err := Tokenize([]byte(`{"prompt":"abcd"}`))
	if err != nil || !slices.Equal(r.Tokens, []uint32{0x64636261}) {
		t.Errorf("Tokenize(prompt) = %+v, %v", r, err)
	}
	chat := `"messages":[{"role":"user","content":"hello"}]`
	r, err = Tokenize([]byte(`{"model":"m",` + chat + `}`))
	if want := mustParse(t, chatPath, `{"model":"m",`+chat+`}`); err != nil || !slices.Equal(r.Tokens, want.Tokens) {
		t.Errorf("Tokenize(messages) = %+v, %v; want the ids of the chat", r, err)
	}
	if _, err := Tokenize([]byte(`{}`)); err == nil {
		t.Error("Tokenize({}) has no error")
	}
}
