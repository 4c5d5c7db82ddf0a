package extproc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/steering"
)

// aliased serves org/base, which clients may call prod.
func aliased(set *setup) {
	set.models = []pool.ModelEntry{{Name: "org/base", Aliases: []string{"prod"}}}
}

// oddBody is a body of which a rewrite must change nothing but the name, %q.
const oddBody = ` {"seed":9007199254740993, "x":1e400, "model":"twice", "model" : %q ,"messages":[{"content":"\u0000 \ud800 ö","role":"user"}]} ` + "\n"

// cases B8, X5: the pod gets its own name for the model, the client gets its own
// back, and the usage is read, wherever both are cut.
func TestAliasedModel(t *testing.T) {
	in, want := fmt.Sprintf(oddBody, "prod"), fmt.Sprintf(oddBody, "org/base")
	answers := []struct {
		head         *message
		body, client string
	}{
		{jsonHead(), strings.ReplaceAll(jsonAnswer, `"m"`, `"org/base"`), strings.ReplaceAll(jsonAnswer, `"m"`, `"prod"`)},
		{jsonHead("content-length", strconv.Itoa(len(jsonAnswer)+7)), strings.ReplaceAll(jsonAnswer, `"m"`, `"org/base"`), strings.ReplaceAll(jsonAnswer, `"m"`, `"prod"`)},
		{sseHead(), strings.ReplaceAll(sseAnswer, `"m"`, `"org/base"`), strings.ReplaceAll(sseAnswer, `"m"`, `"prod"`)},
	}
	ask := func(t *testing.T, s *site, request, response mode, size int) *front {
		f := s.open(t, request, response)
		if request == buffered {
			return f.send(post("content-length", strconv.Itoa(len(in)))).send(requestBody(in, true))
		}
		head := post()
		if size%2 == 0 { // allow_content_length_header
			head = post("content-length", strconv.Itoa(len(in)))
		}
		return f.send(slices.Concat([]*message{head}, pieces(requestBody, true, cut(in, size)...))...)
	}
	bubble(t, aliased, func(t *testing.T, s *site) {
		for _, modes := range [][2]mode{{fullDuplex, fullDuplex}, {fullDuplex, streamed}, {buffered, buffered}, {buffered, streamed}} {
			for i, a := range answers {
				for size := 1; size <= len(a.body); size += 1 + size/8 {
					if modes[1] == buffered {
						size = len(a.body)
					}
					f := ask(t, s, modes[0], modes[1], size)
					f.send(a.head).send(pieces(responseBody, size%3 > 0, cut(a.body, size)...)...)
					if size%3 == 0 {
						f.send(responseTrailers("x-sum", "1"))
					}
					f.done()
					if string(f.request.body) != want || f.request.fields.get("accept-encoding") != "identity" {
						t.Fatalf("the pod gets %q with %v, want %q", f.request.body, f.request.fields, want)
					}
					if string(f.response.body) != a.client {
						t.Fatalf("%v, answer %d in pieces of %d: the client gets %q, want %q", modes, i, size, f.response.body, a.client)
					}
					if r := s.records(t)[0]; r.Request.Model != "prod" || r.Request.Base != "org/base" || !counted(r, 9, 8, 4) {
						t.Fatalf("%v, answer %d in pieces of %d: record of %+v with %+v", modes, i, size, r.Request, r.Outcome)
					}
				}
			}
		}
		s.settled(t)
	})
}

// Of an answer whose rest passes unseen nothing is held back, and a request of
// which more may follow keeps its name: nobody knows how long it is.
func TestAliasedModelCut(t *testing.T) {
	text := `{"id":1,"model":"org/base","x":1}`
	bubble(t, aliased, func(t *testing.T, s *site) {
		for n := 1; n <= len(text); n++ {
			in := fmt.Sprintf(oddBody, "prod")
			f := s.open(t, bufferedPartial, bufferedPartial)
			f.send(post()).send(requestBody(in, n%2 == 0)).send(jsonHead("content-length", strconv.Itoa(len(text)))).send(responseBody(text[:n], false)).done()
			if want := fmt.Sprintf(oddBody, map[bool]string{true: "org/base", false: "prod"}[n%2 == 0]); string(f.request.body) != want {
				t.Fatalf("the pod gets %s, want %s", f.request.body, want)
			}
			want := text[:n]
			if n%2 == 0 {
				want = strings.Replace(want, `"org/base"`, `"prod"`, 1)
			}
			if string(f.response.body) != want {
				t.Fatalf("the client gets %s, want %s", f.response.body, want)
			}
		}
		s.abandon(t)
	})
}

// The name that a route asks for counts like one of the body; the newer spelling
// of the header wins.
func TestModelOfTheRoute(t *testing.T) {
	for _, headers := range [][]string{
		{steering.Model, "prod", steering.OldModel, "other"},
		{steering.OldModel, "other", steering.Model, "prod"},
		{steering.OldModel, "prod"},
	} {
		bubble(t, aliased, func(t *testing.T, s *site) {
			f := s.open(t, fullDuplex, fullDuplex)
			f.send(post(headers...), requestBody(chatBody, true)).send(jsonHead(), responseBody(`{"model":"org/base"}`, true)).done()
			if want := strings.ReplaceAll(chatBody, `"m"`, `"org/base"`); string(f.request.body) != want {
				t.Errorf("the pod gets %s, want %s", f.request.body, want)
			}
			if want := `{"model":"m"}`; string(f.response.body) != want {
				t.Errorf("the client gets %s, want %s", f.response.body, want)
			}
			for _, name := range headers {
				if v := f.request.fields.get(name); strings.HasPrefix(name, "x-") && v != "" {
					t.Errorf("%s: %s goes on to the pod", name, v)
				}
			}
			s.settled(t)
		})
	}
}

// An answer in which the name is not to be found passes as it is.
func TestAliasedModelNotNamed(t *testing.T) {
	for name, head := range map[string]*message{
		"another name": jsonHead(),
		"compressed":   jsonHead("content-encoding", "gzip"),
		"not JSON":     responseHeaders(false, ":status", "200", "content-type", "text/plain"),
		"local":        told(responseHeaders(false, ":status", "503"), map[string]any{"response.code": 503}),
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"model":"org/base"}`
			if name == "another name" {
				text = `{"model":"org/basement","choices":[{"model":"org/base"}]}`
			}
			bubble(t, aliased, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				f.send(post(), requestBody(fmt.Sprintf(oddBody, "prod"), true)).send(head, responseBody(text, true)).done()
				f.request.pieces = [][]byte{f.request.body}
				f.passed()
				s.settled(t)
			})
		})
	}
}
