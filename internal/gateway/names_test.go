package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/request"
)

// A rule's target goes into the body, at its new length, and the client gets the
// name that it asked with.
func TestRuleForAName(t *testing.T) {
	got := make(chan string, 1)
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprint(r.ContentLength, " ", string(body))
		w.Header().Set(contentType, "application/json")
		io.WriteString(w, `{"model":"billing-lora-v3","usage":{"prompt_tokens":3}}`)
	}))
	s.pool.Listed(s.pool.Targets()[0], []engine.Model{{ID: "llama"}}, nil)
	table, _ := naming.NewTable([]naming.Rule{{
		Source: "InferenceModel ns/billing", Model: "support", Targets: []naming.Target{{Model: "billing-lora-v3", Weight: 1}},
	}})
	s.picker.SetNames(table)

	res, text := s.post(t, textPath, `{"seed":9007199254740993,"model": "support" ,"prompt":"\u0041"}`)
	body := `{"seed":9007199254740993,"model": "billing-lora-v3" ,"prompt":"\u0041"}`
	if sent, want := <-got, strconv.Itoa(len(body))+" "+body; sent != want {
		t.Errorf("the pod got %s, want %s", sent, want)
	}
	if want := `{"model":"support","usage":{"prompt_tokens":3}}`; res.StatusCode != http.StatusOK || text != want {
		t.Errorf("the client got %d %s, want %s", res.StatusCode, text, want)
	}
	s.end(t)
	r := s.newest(t).Request
	if r.Model != "support" || r.Base != "llama" || r.Adapter != "billing-lora-v3" || r.Rewrite == nil || r.Rewrite.By != "InferenceModel ns/billing" {
		t.Errorf("recorded %+v, rewrite %+v", r, r.Rewrite)
	}

	res, text = s.post(t, textPath, `{"model":"other","prompt":"a"}`)
	if res.StatusCode != http.StatusNotFound || !strings.Contains(text, `the model \"other\" does not exist`) {
		t.Errorf("a name that nobody knows: %d %s", res.StatusCode, text)
	}
}

// A name may be long and hold anything that JSON can.
func TestRuleForAnOddName(t *testing.T) {
	odd := strings.Repeat("ö\"\\", 250)
	got := make(chan string, 1)
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		parsed, err := request.Parse(textPath, body, request.Limits{})
		if err != nil {
			t.Error(err)
			parsed = &request.Request{}
		}
		got <- parsed.Model
		answerJSON(w, r)
	}))
	table, _ := naming.NewTable([]naming.Rule{{Source: "InferenceModelRewrite ns/all", Targets: []naming.Target{{Model: odd, Weight: 1}}}})
	s.picker.SetNames(table)
	s.post(t, textPath, `{"model":"any","prompt":"a"}`)
	if sent := <-got; sent != odd {
		t.Errorf("the pod got %q, want %q", sent, odd)
	}
	s.end(t)
}
