package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/tokens"
)

type object = map[string]any

// A vllmSession is the requests to an engine, and what became of them.
type vllmSession struct {
	t         *testing.T
	vllm      *vllm
	picker    *picker
	blockSize int
	client    *http.Client
	sent      []vllmRequest
}

type vllmRequest struct {
	kind string
	rec  *explain.Record
}

// ask sends a request through the gateway and waits for its record. It returns the
// answer's text.
func (s *vllmSession) ask(kind, path string, body object) string {
	s.t.Helper()
	id := fmt.Sprintf("%s-%d", kind, len(s.sent))
	text, err := s.post("http://"+s.picker.at.Gateway, id, path, body)
	if err != nil {
		s.t.Fatalf("%s: %v", id, err)
	}
	var rec *explain.Record
	until(s.t, "the record of "+id+" is complete", func() bool {
		rec = s.picker.lookUp(id)
		return rec != nil && rec.Outcome.State != explain.OutcomePending
	})
	if v, _, _ := explain.Replay(rec); !v.Identical {
		s.t.Errorf("%s: the replay differs: %+v", id, v)
	}
	s.sent = append(s.sent, vllmRequest{kind, rec})
	return text
}

// post sends a request and returns the text of its answer.
func (s *vllmSession) post(base, id, path string, body object) (string, error) {
	body = maps.Clone(body)
	maps.Copy(body, object{"model": vllmModel, "temperature": 0, "max_tokens": cmp.Or(body["max_tokens"], any(4)), "ignore_eos": true})
	if body["stream"] == true {
		body["stream_options"] = object{"include_usage": true}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, base+path, bytes.NewReader(raw))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	a := read(s.client.Do(req))
	if a.err != nil || a.status != http.StatusOK {
		return "", fmt.Errorf("status %d, error %w: %s", a.status, a.err, a.body)
	}
	return answerText(a.body), nil
}

// answerText is the text of an answer, whole or streamed.
func answerText(body []byte) string {
	var text strings.Builder
	for line := range strings.Lines(string(body)) {
		var part struct {
			Choices []struct {
				Text           string
				Message, Delta struct{ Content string }
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &part) != nil {
			continue // [DONE], and what stands between events
		}
		for _, c := range part.Choices {
			text.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	return text.String()
}

// severalPrompts are in one request.
const severalPrompts = "two"

// send sends 50 requests, one after the other.
func (s *vllmSession) send() {
	s.t.Helper()
	for talk := range 5 {
		messages := []object{{"role": "system", "content": prose("You are a careful assistant.", 120)}}
		for turn := range 4 {
			messages = append(messages, object{"role": "user", "content": prose(fmt.Sprintf("Talk %d, turn %d.", talk, turn), 60)})
			said := s.ask("chat", chat, object{"messages": messages, "stream": turn%2 == 1})
			messages = append(messages, object{"role": "assistant", "content": said})
		}
	}
	for i, n := range []int{15, 16, 17, 32, 33, 48, 64, 96} { // also exact multiples of a block
		for range 2 {
			s.ask("ids", completions, object{"prompt": someIDs(i, n), "stream": i%2 == 1})
		}
	}
	for _, n := range []int{40, 80, 80, 160} {
		s.ask("text", completions, object{"prompt": prose("def main(argv):\n    ", n), "stream": n == 80})
	}
	for _, salt := range []string{"one", "one", "two", ""} {
		body := object{"messages": []object{{"role": "user", "content": prose("Salted.", 100)}}}
		if salt != "" {
			body["cache_salt"] = salt
		}
		s.ask("salt", chat, body)
	}
	both := object{"prompt": [][]int{someIDs(20, 64), someIDs(21, 80)}}
	s.ask(severalPrompts, completions, both)
	s.ask(severalPrompts, completions, both)
	again := object{"prompt": someIDs(30, 200), "max_tokens": 40} // the answer fills blocks, too
	for range 4 {
		s.ask("repeat", completions, again)
	}
	if len(s.sent) != 50 {
		s.t.Errorf("%d requests were sent", len(s.sent))
	}
}

// prose is some words, which begin with the given ones.
func prose(begin string, words int) string {
	text := []string{begin}
	for i := range words {
		text = append(text, []string{"value", "of", "the", "parser", "returns", "None,", "if", "self", "raises\n", "a", "list"}[i*i%11])
	}
	return strings.Join(text, " ")
}

// someIDs are token ids, other ones for another seed.
func someIDs(seed, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 300 + (seed*131+i*17)%1500
	}
	return ids
}

// fewDiffer is how many requests may find more than was predicted: when the event
// of a request came after the next one was picked.
const fewDiffer = 3

// A cachedRow sums up what requests found in the engine's cache.
type cachedRow struct{ requests, prompt, predicted, reported, equal, less, more int }

func (r *cachedRow) add(prompt, predicted, reported int) {
	r.requests++
	r.prompt += prompt
	r.predicted += predicted
	r.reported += reported
	switch {
	case predicted == reported:
		r.equal++
	case predicted < reported:
		r.less++
	default:
		r.more++
	}
}

// compare holds what was predicted against what the engine says, in a table.
func (s *vllmSession) compare() {
	s.t.Helper()
	rows, kinds := map[string]*cachedRow{}, []string{}
	all := new(cachedRow)
	for _, q := range s.sent {
		o := &q.rec.Outcome
		if q.kind == severalPrompts { // the engine tells a sum, and nobody predicts one
			if o.PredictedCached != nil || o.CachedTokens == nil {
				s.t.Errorf("%s: predicted %v, reported %v", q.rec.RequestID, o.PredictedCached, o.CachedTokens)
			}
			continue
		}
		if o.PredictedCached == nil || o.CachedTokens == nil || o.PromptTokens == nil {
			s.t.Errorf("%s: predicted %v, reported %v of %v prompt tokens: unknown", q.rec.RequestID, o.PredictedCached, o.CachedTokens, o.PromptTokens)
			continue
		}
		if rows[q.kind] == nil {
			rows[q.kind], kinds = new(cachedRow), append(kinds, q.kind)
		}
		rows[q.kind].add(*o.PromptTokens, *o.PredictedCached, *o.CachedTokens)
		all.add(*o.PromptTokens, *o.PredictedCached, *o.CachedTokens)
		if *o.PredictedCached != *o.CachedTokens {
			s.t.Logf("%s: predicted %d, reported %d of %d prompt tokens", q.rec.RequestID, *o.PredictedCached, *o.CachedTokens, *o.PromptTokens)
		}
	}
	rows["all"] = all
	s.t.Logf("tokens of prompts, predicted and reported as cached:\n%s", cachedTable(append(kinds, "all"), rows))
	if all.more > 0 {
		s.t.Errorf("%d requests were predicted to find more than the engine had", all.more)
	}
	if all.less > fewDiffer {
		s.t.Errorf("%d requests found more than was predicted; %d may", all.less, fewDiffer)
	}
	if all.reported == 0 {
		s.t.Error("the engine had nothing cached, so nothing is shown")
	}
}

func cachedTable(kinds []string, rows map[string]*cachedRow) string {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kind\trequests\tprompt\tpredicted\treported\tequal\tless\tmore\t")
	for _, kind := range kinds {
		r := rows[kind]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", kind, r.requests, r.prompt, r.predicted, r.reported, r.equal, r.less, r.more)
	}
	w.Flush()
	return table.String()
}

// parity compares the ids of the engine's tokeniser with those that it computed.
func (s *vllmSession) parity() {
	s.t.Helper()
	server := tokens.Server{ID: vllmModel, URL: "http://" + s.vllm.address, Engine: "vllm"}
	tokeniser, err := tokens.New(tokens.Config{Timeout: patience, Servers: func(string) []tokens.Server { return []tokens.Server{server} }})
	if err != nil {
		s.t.Fatal(err)
	}
	defer tokeniser.Close()
	for _, tt := range []struct {
		path string
		body object
	}{
		{chat, object{"messages": []object{{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Héllo 世界 🙂?"}}}},
		{chat, object{"messages": []object{{"role": "user", "content": []object{{"type": "text", "text": "one"}, {"type": "text", "text": "two"}}}}, "add_generation_prompt": false}},
		{chat, object{"messages": []object{{"role": "user", "content": "with <|im_end|> in it"}}, "chat_template_kwargs": object{"bos_token": "<|pad|>"}}},
		{completions, object{"prompt": prose("import json\n", 50)}},
		{completions, object{"prompt": "no mark in front", "add_special_tokens": false}},
	} {
		maps.Copy(tt.body, object{"model": vllmModel, "max_tokens": 1, "return_token_ids": true})
		raw, err := json.Marshal(tt.body)
		if err != nil {
			s.t.Fatal(err)
		}
		parsed, err := request.Parse(tt.path, raw, request.Limits{})
		if err != nil {
			s.t.Fatal(err)
		}
		ours := tokeniser.Tokens(s.t.Context(), &tokens.Query{Base: vllmModel, Model: parsed.Model, Body: raw, Request: parsed})
		engines, usage := s.computed(tt.path, raw)
		if len(ours.IDs) != 1 {
			s.t.Errorf("%s: no ids, from %s", raw, ours.From)
			continue
		}
		if p := tokens.Compare(ours.IDs[0], engines, usage, s.blockSize); !p.Exact() || ours.From != tokens.FromEngine {
			s.t.Errorf("%s: ids from %s differ: %+v", raw, ours.From, p)
		}
	}
	for _, q := range s.sent {
		if r, o := &q.rec.Request, &q.rec.Outcome; o.PromptTokens != nil && r.PromptTokens != *o.PromptTokens {
			s.t.Errorf("%s: %d tokens by %s, the engine counted %d", q.rec.RequestID, r.PromptTokens, r.TokensFrom, *o.PromptTokens)
		}
	}
}

// computed are the ids that the engine made of a request, and its count of them.
func (s *vllmSession) computed(path string, body []byte) ([]uint32, int) {
	s.t.Helper()
	a := read(s.client.Post("http://"+s.vllm.address+path, "application/json", bytes.NewReader(body)))
	var told struct {
		Prompt  []uint32 `json:"prompt_token_ids"`
		Choices []struct {
			Prompt []uint32 `json:"prompt_token_ids"`
		} `json:"choices"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if a.err != nil || json.Unmarshal(a.body, &told) != nil || len(told.Choices) != 1 {
		s.t.Fatalf("status %d, error %v: %s", a.status, a.err, a.body)
	}
	return slices.Concat(told.Prompt, told.Choices[0].Prompt), told.Usage.Prompt
}

// explained checks what a person is told about the last of the repeats.
func (s *vllmSession) explained() {
	s.t.Helper()
	last := s.sent[len(s.sent)-1].rec
	out, err := exec.CommandContext(s.t.Context(), program(s.t), "explain", last.RequestID, "--server", s.picker.at.Admin).CombinedOutput()
	if err != nil {
		s.t.Fatalf("eppctl explain: %v\n%s", err, out)
	}
	cached := *last.Outcome.CachedTokens
	for _, words := range []string{
		"prompt: 200 tokens (exact), 12 full blocks of 16", "12 of 12 blocks", "(events)", "by kv-usage", "0 waiting", "(metrics, ", "1.00 (probe,",
		fmt.Sprintf("cached tokens: %d predicted, %d by the engine: as predicted", cached, cached), "replay: identical",
	} {
		if !strings.Contains(string(out), words) {
			s.t.Errorf("the explanation does not say %q:\n%s", words, out)
		}
	}
}

// queued sends more requests at once than the engine computes, and looks on.
func (s *vllmSession) queued() {
	s.t.Helper()
	const more = 4
	var crowd sync.WaitGroup
	for i := range vllmRunning + more {
		crowd.Go(func() {
			if _, err := s.post("http://"+s.picker.at.Gateway, fmt.Sprintf("crowd-%d", i), completions, object{"prompt": someIDs(40+i, 20), "max_tokens": 300}); err != nil {
				s.t.Errorf("crowd-%d: %v", i, err)
			}
		})
	}
	until(s.t, "the picker sees requests run and wait", func() bool {
		p := s.picker.pod()
		return p.Running.Value != nil && *p.Running.Value == vllmRunning && p.Waiting.Value != nil && *p.Waiting.Value == more &&
			p.InFlight == vllmRunning+more && p.Pending == 0 && p.Load.Value != nil && *p.Load.Value > 0
	})
	crowd.Wait()
	until(s.t, "nothing runs or waits", func() bool {
		p := s.picker.pod()
		return *p.Running.Value == 0 && *p.Waiting.Value == 0 && p.InFlight == 0
	})
}

// late starts a picker that missed all events but the next, with which it has the
// others replayed.
func (s *vllmSession) late() {
	s.t.Helper()
	p := startPickerFor(s.t, s.vllm)
	s.ask("late", completions, object{"prompt": someIDs(60, 100)})
	until(s.t, "the late picker knows what the first one does", func() bool {
		late, first := p.pod(), s.picker.pod()
		return late.Streams[0].Counts.Recovered > 0 && late.Streams[0].Degraded == "" &&
			late.Streams[0].Blocks == first.Streams[0].Blocks && *late.Cache.Blocks == *first.Cache.Blocks
	})
}
