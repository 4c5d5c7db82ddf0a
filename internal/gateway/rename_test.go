package gateway

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/eppctl/eppctl/internal/pool"
)

func renamed(tb testing.TB, src io.Reader, sse bool) string {
	tb.Helper()
	text, err := io.ReadAll(newRenamer(io.NopCloser(src), sse, "org/base", `the "alias"`))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func TestRename(t *testing.T) {
	to := `"the \"alias\""`
	for _, tt := range []struct {
		name, in, want string
		sse            bool
	}{
		{"JSON", `{"id":1,"model":"org/base","x":"org/base"}`, `{"id":1,"model":` + to + `,"x":"org/base"}`, false},
		{"with white space", "{ \"model\" : \"org/base\" }\n", "{ \"model\" : " + to + " }\n", false},
		{"another name", `{"model":"org/basement"}`, `{"model":"org/basement"}`, false},
		{"a shorter name", `{"model":"org"}`, `{"model":"org"}`, false},
		{"not a string", `{"model":{"model":"org/base"},"a":[{"model":"org/base"}]}`, `{"model":{"model":"org/base"},"a":[{"model":"org/base"}]}`, false},
		{"in a text", `{"text":"\"model\":\"org/base\""}`, `{"text":"\"model\":\"org/base\""}`, false},
		{"cut off", `{"model":"org/b`, `{"model":"org/b`, false},
		{"twice", `{"model":"org/base","model":"org/base"}`, `{"model":` + to + `,"model":` + to + `}`, false},
		{
			"stream", "data: {\"model\":\"org/base\"}\n\ndata: {\"model\":\"org/b\n\ndata: {\"a\":1,\"model\":\"org/base\"}\n\ndata: [DONE]\n\n",
			"data: {\"model\":" + to + "}\n\ndata: {\"model\":\"org/b\n\ndata: {\"a\":1,\"model\":" + to + "}\n\ndata: [DONE]\n\n", true,
		},
		{"empty", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
				"halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
			} {
				if got := renamed(t, wrap(strings.NewReader(tt.in)), tt.sse); got != tt.want {
					t.Errorf("%s: %q, want %q", how, got, tt.want)
				}
			}
		})
	}
}

func TestRenameIntoSmallBuffers(t *testing.T) {
	r := newRenamer(io.NopCloser(strings.NewReader(`{"model":"org/base"}`)), false, "org/base", strings.Repeat("long", 10))
	text, err := io.ReadAll(iotest.OneByteReader(r))
	if want := `{"model":"` + strings.Repeat("long", 10) + `"}`; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

func TestRenamePassesErrorsOn(t *testing.T) {
	r := newRenamer(io.NopCloser(io.MultiReader(strings.NewReader(`{"model":"org/b`), iotest.ErrReader(io.ErrUnexpectedEOF))), false, "org/base", "x")
	text, err := io.ReadAll(r)
	if string(text) != `{"model":"org/b` || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v, want all that came and the error", text, err)
	}
}

func FuzzRename(f *testing.F) {
	f.Add(false, `{"model":"org/base"}`)
	f.Add(true, "data: {\"model\":\"org/base\"}\n\ndata: {\"model\":\"or\r\n")
	f.Fuzz(func(t *testing.T, sse bool, in string) {
		whole := renamed(t, strings.NewReader(in), sse)
		if cut := renamed(t, iotest.OneByteReader(strings.NewReader(in)), sse); cut != whole {
			t.Fatalf("byte by byte %q, whole %q", cut, whole)
		}
		if !strings.Contains(in, `"org/base"`) && whole != in {
			t.Fatalf("%q became %q", in, whole)
		}
	})
}

// case B8: a model rewrite changes nothing but the model string
func TestAlias(t *testing.T) {
	got := make(chan string, 1)
	seen := make(chan struct{})
	s := newSite(t, func(set *setup) {
		set.models = []pool.ModelEntry{{Name: "org/base", Aliases: []string{"prod"}, Adapters: []string{"fr"}}}
		set.gateway.Aliases = map[string]string{"prod": "org/base"}
	}, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("Accept-Encoding") + string(body)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set(contentType, "application/json")
			io.WriteString(w, `{"model":"org/base","usage":{"prompt_tokens":3}}`)
			return
		}
		w.Header().Set(contentType, "text/event-stream")
		for _, piece := range []string{"data: {\"model\":\"org", "/base\",\"choices\":[]}\n\n", "data: [DONE]\n\n"} {
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
		}
		<-seen // the client gets it all before the stream ends
	}))
	t.Run("JSON", func(t *testing.T) {
		res, text := s.post(t, textPath, `{"seed":9007199254740993,"model": "prod" ,"prompt":"\u0041","stream":false}`)
		if want := `identity{"seed":9007199254740993,"model": "org/base" ,"prompt":"\u0041","stream":false}`; <-got != want {
			t.Errorf("the pod did not get %s", want)
		}
		if want := `{"model":"prod","usage":{"prompt_tokens":3}}`; text != want || res.StatusCode != http.StatusOK {
			t.Errorf("the client got %s, want %s", text, want)
		}
		if o := s.end(t); o.PromptTokens != 3 {
			t.Errorf("%d prompt tokens, want 3", o.PromptTokens)
		}
		if rec := s.newest(t); rec.Request.Model != "prod" || rec.Request.Base != "org/base" {
			t.Errorf("record of %q, base %q", rec.Request.Model, rec.Request.Base)
		}
	})
	t.Run("stream", func(t *testing.T) {
		res, err := s.client.Do(s.request(t, http.MethodPost, textPath, strings.NewReader(`{"model":"prod","prompt":"a","stream":true}`)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		<-got
		lines := bufio.NewScanner(res.Body)
		for _, want := range []string{`data: {"model":"prod","choices":[]}`, "", "data: [DONE]"} {
			if !lines.Scan() || lines.Text() != want {
				t.Errorf("line %q, want %q", lines.Text(), want)
			}
		}
		close(seen)
		s.end(t)
	})
	t.Run("an adapter keeps its name", func(t *testing.T) {
		body := `{"model":"fr","prompt":"a"}`
		s.post(t, textPath, body)
		if sent := <-got; !strings.HasSuffix(sent, body) {
			t.Errorf("the pod got %s, want %s", sent, body)
		}
		s.end(t)
	})
}
