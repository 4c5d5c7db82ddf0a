package tokens

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/request"
)

// lines is a text of n lines.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Line %d of the document, with some words in it.\n", i)
	}
	return b.String()
}

// settled waits for what is learned after an answer.
func (t *Tokeniser) settled() { t.work.Wait() }

// Of texts that begin alike the beginning is asked for twice; then only the rest is.
func TestLongTextsAreJoined(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	shared := lines(1000)
	asked := 0
	for i := range 10 {
		q := text(t, shared+fmt.Sprintf("Question %d: what is the %dth word?", i, i*i))
		got := tk.mustFind(t, q)
		tk.settled()
		if want := words(q.Body, false); !slices.Equal(got.IDs[0], want) {
			t.Fatalf("prompt %d: %d ids, want %d, or others", i, len(got.IDs[0]), len(want))
		}
		want := FromEngine
		if i >= 2 {
			want = Joined
		}
		if got.From != want {
			t.Errorf("prompt %d: ids from %s, want %s", i, got.From, want)
		}
		calls := e.calls()
		bytes := 0
		for _, c := range calls[asked:] {
			bytes += len(c.body)
		}
		if asked = len(calls); i >= 3 && bytes > len(shared)/4 {
			t.Errorf("prompt %d of %d bytes: asked for %d", i, len(q.Body), bytes)
		}
	}
	if got := tk.mustFind(t, text(t, shared+"Question 5: what is the 25th word?")); got.From != Joined {
		t.Errorf("from the cache they come from %s", got.From)
	}
}

// A text that grows is joined further and further in.
func TestGrowingTexts(t *testing.T) {
	e := &engine{}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	all := lines(4000)
	total, asked := 0, 0
	for n := 20_000; n < len(all); n += 5_000 {
		q := text(t, all[:n])
		if got := tk.mustFind(t, q); !slices.Equal(got.IDs[0], words(q.Body, false)) {
			t.Fatalf("%d bytes: other ids, from %s", n, got.From)
		}
		tk.settled()
		total += len(q.Body)
	}
	for _, c := range e.calls() {
		asked += len(c.body)
	}
	if asked > total/2 {
		t.Errorf("asked for %d bytes of %d", asked, total)
	}
}

// A tokeniser that puts a mark before every text can't be joined, and is not.
func TestTextsWithAMarkAreNeverJoined(t *testing.T) {
	e := &engine{marks: true}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	shared := lines(1000)
	for i := range 10 {
		q := text(t, shared+fmt.Sprintf("Question %d", i))
		got := tk.mustFind(t, q)
		tk.settled()
		if got.From != FromEngine || !slices.Equal(got.IDs[0], words(q.Body, true)) {
			t.Errorf("prompt %d: ids from %s", i, got.From)
		}
	}
	if n := len(e.calls()); n != 10+mostWrong {
		t.Errorf("%d calls: lessons go on in vain", n)
	}
}

// One whose ids before the cut depend on what is behind it is found out too.
func TestTextsThatDependOnTheirEndAreNotJoined(t *testing.T) {
	e := &engine{answer: func(req *http.Request, body []byte) (*http.Response, error) {
		ids := words(body, false)
		if len(ids) > 100 {
			ids[50] = ids[len(ids)-1]
		}
		return respond(req, http.StatusOK, tokenized(ids)), nil
	}}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	shared := lines(1000)
	for i := range 6 {
		got := tk.mustFind(t, text(t, shared+fmt.Sprintf("Question%d", i)))
		tk.settled()
		if got.From != FromEngine {
			t.Errorf("prompt %d: ids from %s", i, got.From)
		}
	}
}

// When nobody answers, a conversation keeps the ids of its earlier turns, and a
// text those of a beginning that is known; they are not called exact.
func TestWhatIsKnownWhenNobodyAnswers(t *testing.T) {
	broken := false
	e := &engine{}
	e.answer = func(req *http.Request, body []byte) (*http.Response, error) {
		if broken {
			return respond(req, http.StatusInternalServerError, `{}`), nil
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}
	tk := newTokeniser(t, Config{Transport: e, Servers: one})
	turns := []string{strings.Repeat("hello there ", 100), "good day", "and now?"}
	first := tk.mustFind(t, chat(t, nil, turns[:1]...)).IDs[0]
	shared := lines(500)
	var whole []uint32
	for i := range 2 {
		whole = tk.mustFind(t, text(t, shared+fmt.Sprint("Question ", i))).IDs[0]
		tk.settled()
	}
	broken = true

	next := chat(t, nil, turns...)
	got := tk.mustFind(t, next)
	known := first[:len(first)-generationPrompt]
	if got.From != request.FromText || !slices.Equal(got.IDs[0][:len(known)], known) {
		t.Errorf("the next turn: %d ids from %s", len(got.IDs[0]), got.From)
	}
	if n := len(next.Request.Tokens); len(got.IDs[0]) != n || !slices.Equal(got.IDs[0][len(known):], next.Request.Tokens[len(known):]) {
		t.Errorf("the next turn: %d ids, approximately %d", len(got.IDs[0]), n)
	}
	got = tk.mustFind(t, text(t, shared+"Another one"))
	if n := len(whole) * 3 / 4; got.From != request.FromText || !slices.Equal(got.IDs[0][:n], whole[:n]) {
		t.Errorf("the text: %d ids from %s", len(got.IDs[0]), got.From)
	}
	for name, other := range map[string]*Query{
		"another beginning": chat(t, nil, "hullo", turns[1], turns[2]),
		"other tools":       chat(t, object{"tools": []object{{"a": "b"}}}, turns...),
	} {
		if got := tk.mustFind(t, other); !slices.Equal(got.IDs[0], other.Request.Tokens) {
			t.Errorf("%s: not the approximate ids", name)
		}
	}
}

func TestFollow(t *testing.T) {
	for _, tc := range []struct{ known, approximate, want []uint32 }{
		{nil, []uint32{1, 2}, []uint32{1, 2}},
		{[]uint32{9}, []uint32{1, 2}, []uint32{9, 2}},
		{[]uint32{9, 8, 7}, []uint32{1, 2}, []uint32{9, 8, 7}},
		{[]uint32{9}, nil, []uint32{9}},
	} {
		if got := follow(tc.known, tc.approximate); !slices.Equal(got, tc.want) {
			t.Errorf("%v and %v: %v, want %v", tc.known, tc.approximate, got, tc.want)
		}
	}
}
