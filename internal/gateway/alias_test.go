package gateway

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/eppctl/eppctl/internal/answer"
	"github.com/eppctl/eppctl/internal/pool"
)

func TestRenameIntoSmallBuffers(t *testing.T) {
	r := &renamed{
		ReadCloser: io.NopCloser(strings.NewReader(`{"model":"org/base"}`)),
		renamer:    answer.NewRenamer(answer.JSON, "org/base", strings.Repeat("long", 10)),
	}
	text, err := io.ReadAll(iotest.OneByteReader(r))
	if want := `{"model":"` + strings.Repeat("long", 10) + `"}`; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

func TestRenamePassesErrorsOn(t *testing.T) {
	r := &renamed{
		ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader(`{"model":"org/b`), iotest.ErrReader(io.ErrUnexpectedEOF))),
		renamer:    answer.NewRenamer(answer.JSON, "org/base", "x"),
	}
	text, err := io.ReadAll(r)
	if string(text) != `{"model":"org/b` || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v, want all that came and the error", text, err)
	}
}

// case B8: a model rewrite changes nothing but the model string
func TestAlias(t *testing.T) {
	got := make(chan string, 1)
	seen := make(chan struct{})
	s := newSite(t, func(set *setup) {
		set.models = []pool.ModelEntry{{Name: "org/base", Aliases: []string{"prod"}, Adapters: []string{"fr"}}}
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
