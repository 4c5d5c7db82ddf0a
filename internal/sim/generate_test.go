package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

func adapters(names ...string) (list []vllm.Adapter) {
	for _, n := range names {
		list = append(list, vllm.Adapter{Name: n, Rank: 16})
	}
	return list
}

func TestCompletionOfIDs(t *testing.T) {
	pod := start(t, Config{}).Pods()[0]
	body := idsPrompt(1, 100, `,"max_tokens":12`)
	first, second := complete(t, pod, completionsPath, body), complete(t, pod, completionsPath, body)

	want := usage{Prompt: 100, Total: 112, Completion: 12}
	if diff := cmp.Diff(want, *first.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	want.Details.Cached = 96 // ⌊99/16⌋ blocks
	if diff := cmp.Diff(want, *second.Usage); diff != "" {
		t.Errorf("usage of the second (-want +got):\n%s", diff)
	}
	if first.Object != "text_completion" || len(first.Choices) != 1 || first.Choices[0].FinishReason != "length" {
		t.Errorf("answer: %+v", first)
	}
	if text := *first.Choices[0].Text; len(text) != 4*12 || text != *second.Choices[0].Text {
		t.Errorf("texts %q and %q, want 12 words, the same twice", text, *second.Choices[0].Text)
	}
}

func TestSeveralPromptsAndChoices(t *testing.T) {
	pod := start(t, Config{}).Pods()[0]
	c := complete(t, pod, completionsPath, `{"model":"`+DefaultModel+`","prompt":[[1,2,3],[4,5]],"n":2,"max_tokens":6}`)
	texts := map[string]bool{}
	for i, ch := range c.Choices {
		if ch.Index != i {
			t.Errorf("choice %d has index %d", i, ch.Index)
		}
		texts[*ch.Text] = true
	}
	if len(c.Choices) != 4 || len(texts) != 4 || c.Usage.Prompt != 5 || c.Usage.Completion != 24 {
		t.Errorf("%d choices, %d different, usage %+v; want 4, 4, and 5 + 24 tokens", len(c.Choices), len(texts), c.Usage)
	}
}

// A conversation: what the engine keeps of a turn and its answer is what the
// next turn begins with.
func TestAnswerIsReusedInTheNextTurn(t *testing.T) {
	pod := start(t, Config{Adapters: adapters("fr")}).Pods()[0]
	type m map[string]string
	messages := []m{{"role": "system", "content": strings.Repeat("be kind ", 20)}}
	held := 0
	for turn := range 4 {
		messages = append(messages, m{"role": "user", "content": "tell me more about whales"})
		c := complete(t, pod, chatPath, bodyOf(map[string]any{"model": "fr", "messages": messages}))
		if want := held / 16 * 16; c.Usage.Details.Cached != want {
			t.Errorf("turn %d: %d tokens cached, want %d of the %d that were served before", turn, c.Usage.Details.Cached, want, held)
		}
		if c.Object != "chat.completion" || c.Model != "fr" || c.Choices[0].FinishReason != "stop" {
			t.Errorf("turn %d: %+v", turn, c)
		}
		held = c.Usage.Total - 1 // the last token, the end, has not been computed
		messages = append(messages, m{"role": "assistant", "content": c.Choices[0].Message.Content})
	}
}

// events reads a stream to its end.
func events(t *testing.T, pod PodInfo, path, body string) (chunks []map[string]any, raw string) {
	t.Helper()
	r := mustCall(t, http.MethodPost, pod.URL+path, body)
	if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("no stream: %d %v %s", r.status, r.header, r.body)
	}
	lines := bufio.NewScanner(strings.NewReader(r.body))
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		chunks = append(chunks, chunk)
	}
	if !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %q", r.body[max(0, len(r.body)-60):])
	}
	return chunks, r.body
}

func TestStreams(t *testing.T) {
	pod := start(t, Config{}).Pods()[0]
	chat := `{"model":"` + DefaultModel + `","messages":[{"role":"user","content":"hello there"}]`
	for _, tt := range []struct{ name, path, body string }{
		{"chat", chatPath, chat},
		{"chat with a limit", chatPath, chat + `,"max_tokens":5`},
		{"completion", completionsPath, strings.TrimSuffix(idsPrompt(1, 40, ""), "}")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := complete(t, pod, tt.path, tt.body+"}")
			chunks, raw := events(t, pod, tt.path, tt.body+`,"stream":true,"stream_options":{"include_usage":true}}`)
			var text strings.Builder
			var reason any
			for _, c := range chunks {
				for _, ch := range c["choices"].([]any) {
					ch := ch.(map[string]any)
					if delta, ok := ch["delta"].(map[string]any); ok {
						text.WriteString(delta["content"].(string))
					} else {
						text.WriteString(ch["text"].(string))
					}
					if ch["finish_reason"] != nil {
						reason = ch["finish_reason"]
					}
				}
			}
			ch := whole.Choices[0]
			var want string
			if ch.Text != nil {
				want = *ch.Text
			} else {
				want = ch.Message.Content
				if !strings.Contains(raw, `"delta":{"role":"assistant","content":""}`) {
					t.Error("no chunk opens the message")
				}
			}
			if text.String() != want || reason != string(ch.FinishReason) {
				t.Errorf("streamed %q, %v; the whole answer is %q, %v", text.String(), reason, want, ch.FinishReason)
			}
			last := chunks[len(chunks)-1]
			u, ok := last["usage"].(map[string]any)
			if !ok || u["completion_tokens"] != float64(whole.Usage.Completion) || len(last["choices"].([]any)) != 0 {
				t.Errorf("the last chunk is %v, want the usage alone", last)
			}
		})
	}
	t.Run("without usage", func(t *testing.T) {
		if _, raw := events(t, pod, chatPath, chat+`,"stream":true}`); strings.Contains(raw, "usage") {
			t.Error("usage was sent that nobody asked for")
		}
	})
	t.Run("two choices", func(t *testing.T) {
		_, raw := events(t, pod, chatPath, chat+`,"stream":true,"n":2,"max_tokens":3}`)
		if !strings.Contains(raw, `"index":1,"delta"`) || strings.Count(raw, `"finish_reason":"length"`) != 2 {
			t.Errorf("two choices: %s", raw)
		}
	})
}

// 64 sequences run; the 65th waits, and the page says so.
func TestSixtyFifthRequestWaits(t *testing.T) {
	f := start(t, Config{})
	pod := f.Pods()[0]
	if err := f.Slow("sim-0", 20); err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 65 {
		clients.Go(func() {
			body := strings.NewReader(idsPrompt(i, 20, `,"max_tokens":5000`))
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, pod.URL+completionsPath, body)
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				t.Errorf("an answer of 5000 tokens at once: %s", res.Status)
				_ = res.Body.Close()
			}
		})
	}
	until(t, "64 run and 1 waits", func() bool {
		p := f.Pods()[0]
		return p.Running == 64 && p.Waiting == 1
	})
	page := mustCall(t, http.MethodGet, pod.URL+"/metrics", "").body
	for _, want := range []string{"vllm:num_requests_waiting{engine=\"0\",model_name=\"" + DefaultModel + "\"} 1\n", "vllm:num_requests_running{engine=\"0\",model_name=\"" + DefaultModel + "\"} 64\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	hangUp()
	clients.Wait()
	until(t, "clients that hung up have freed all", func() bool {
		p := f.Pods()[0]
		return p.Running+p.Waiting+p.BlocksHeld == 0
	})
}
