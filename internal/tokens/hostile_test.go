package tokens

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/request"
)

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
