package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

// tokenised asks a pod for ids.
func tokenised(t *testing.T, f *Fleet, body string) []uint32 {
	t.Helper()
	r, err := call(t, http.MethodPost, f.Pods()[0].URL+"/tokenize", body)
	if err != nil || r.status != http.StatusOK {
		t.Fatalf("%s: status %d, error %v: %s", body, r.status, err, r.body)
	}
	ids, err := request.Tokenized([]byte(r.body))
	if err != nil {
		t.Fatalf("%s: %v in %s", body, err, r.body)
	}
	return ids
}

func TestTokenise(t *testing.T) {
	f := start(t, Config{})
	for body, want := range map[string]int{
		`{"prompt":"abcdefg"}`: 2,
		`{"prompt":""}`:        0,
		`{"prompt":"x","messages":[{"role":"user","content":"abcdefg"}]}`:                  5, // the chat comes first, as with vLLM
		`{"messages":[{"role":"user","content":"abcdefg"}],"add_generation_prompt":false}`: 4,
	} {
		if ids := tokenised(t, f, body); len(ids) != want {
			t.Errorf("%s: %d ids, want %d", body, len(ids), want)
		}
	}
	for _, body := range []string{`{}`, `{"prompt":["a"]}`, `{"prompt":[1,2]}`, `{"messages":7}`} {
		r, err := call(t, http.MethodPost, f.Pods()[0].URL+"/tokenize", body)
		if err != nil || r.status != http.StatusBadRequest {
			t.Errorf("%s: status %d, error %v", body, r.status, err)
		}
	}
}

// With a tokeniser of their own the engines serve by the ids that they say, and
// what they write is found again when it comes back.
func TestOwnTokens(t *testing.T) {
	f := start(t, Config{OwnTokens: true})
	const text = "abcdefgh"
	own := tokenised(t, f, fmt.Sprintf(`{"prompt":%q}`, text))
	if theirs := request.AppendPieces(nil, text); len(own) != 3 || own[0] != ownMark || slices.Contains(theirs, own[1]) {
		t.Errorf("%q is %v, approximately %v", text, own, theirs)
	}
	if ids := tokenised(t, f, fmt.Sprintf(`{"prompt":%q,"add_special_tokens":false}`, text)); !slices.Equal(ids, own[1:]) {
		t.Errorf("without the mark: %v", ids)
	}
	if got := string(f.appendText(nil, own[1:])); got != text {
		t.Errorf("back to text: %q", got)
	}
	messages := `{"role":"user","content":"hello there"}`
	var cached int
	for turn := range 3 {
		body := fmt.Sprintf(`{"model":%q,"messages":[%s],"max_tokens":64}`, f.Model(), messages)
		r, err := call(t, http.MethodPost, f.Pods()[0].URL+"/v1/chat/completions", body)
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("turn %d: status %d, error %v: %s", turn, r.status, err, r.body)
		}
		var doc completion
		if err := json.Unmarshal([]byte(r.body), &doc); err != nil {
			t.Fatal(err)
		}
		if n := len(tokenised(t, f, fmt.Sprintf(`{"messages":[%s]}`, messages))); n != doc.Usage.Prompt {
			t.Errorf("turn %d: %d ids, %d counted", turn, n, doc.Usage.Prompt)
		}
		if turn > 0 && doc.Usage.Details.Cached <= cached+32 {
			t.Errorf("turn %d: %d tokens cached, before it %d: the answer's are not", turn, doc.Usage.Details.Cached, cached)
		}
		cached = doc.Usage.Details.Cached
		answer, err := json.Marshal(doc.Choices[0].Message.Content)
		if err != nil {
			t.Fatal(err)
		}
		messages += fmt.Sprintf(`,{"role":"assistant","content":%s},{"role":"user","content":"and then?"}`, answer)
	}
}

func TestSlowTokenise(t *testing.T) {
	f := start(t, Config{})
	control := f.Handler()
	command := func(action, body string) int {
		w := httptest.NewRecorder()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/sim/pods/*/"+action, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		control.ServeHTTP(w, r)
		return w.Code
	}
	if code := command("slow-tokenise", fmt.Sprintf(`{"ms":%d}`, maxMs)); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Pods()[0].URL+"/tokenize", bytes.NewReader([]byte(`{"prompt":"a"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Errorf("an answer at once, with status %d", res.StatusCode)
	}
	for _, bad := range []string{`{"ms":-1}`, `{"ms":1e9}`} {
		if code := command("slow-tokenise", bad); code != http.StatusBadRequest {
			t.Errorf("%s: status %d", bad, code)
		}
	}
	if code := command("recover", ""); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if ids := tokenised(t, f, `{"prompt":"a"}`); len(ids) != 1 {
		t.Errorf("after the recovery: %v", ids)
	}
}
