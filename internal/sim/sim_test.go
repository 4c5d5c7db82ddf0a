package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a condition may take to come true on a busy machine.
const patience = 2 * time.Minute

// start runs a fleet until the test ends.
func start(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	if cfg.Pods == 0 {
		cfg.Pods = 1
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.NewScaled(50)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	until(t, "the pods are up", func() bool {
		for _, p := range f.Pods() {
			if p.State != "up" {
				return false
			}
		}
		return true
	})
	return f
}

// until polls a condition that other goroutines make true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !holds() {
		if err := (clock.Wall{}).Sleep(ctx, time.Millisecond); err != nil {
			t.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func call(t *testing.T, method, url, body string, header ...string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(text)}, err
}

func mustCall(t *testing.T, method, url, body string, header ...string) reply {
	t.Helper()
	r, err := call(t, method, url, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return r
}

// complete sends a completion and returns its answer.
func complete(t *testing.T, pod PodInfo, path, body string) completion {
	t.Helper()
	r := mustCall(t, http.MethodPost, pod.URL+path, body)
	if r.status != http.StatusOK {
		t.Fatalf("POST %s: %d %s", path, r.status, r.body)
	}
	var c completion
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

// idsPrompt is a completion of n token ids.
func idsPrompt(family, n int, more string) string {
	var ids strings.Builder
	for i := range n {
		fmt.Fprintf(&ids, ",%d", family*100_000+i)
	}
	return fmt.Sprintf(`{"model":%q,"prompt":[%s]%s}`, DefaultModel, ids.String()[1:], more)
}

// A receiver applies status reports as a picker would.
type receiver struct {
	t *testing.T

	mu      sync.Mutex
	reports []*report.Report
	blocks  map[string]map[uint64]bool // by pod
	next    map[string]uint64          // sequence number expected
	answer  func(*report.Report) (int, string)
	tokens  map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	return &receiver{t: t, blocks: map[string]map[uint64]bool{}, next: map[string]uint64{}, tokens: map[string]bool{}}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rep, err := report.Decode(req.Body, report.Limits{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.t.Errorf("malformed report: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.tokens[req.Header.Get("Authorization")] = true
	r.reports = append(r.reports, rep)
	if r.answer != nil {
		if status, body := r.answer(rep); status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return
		}
	}
	r.apply(rep)
	_, _ = io.WriteString(w, `{"resync":false}`)
}

func (r *receiver) apply(rep *report.Report) {
	if rep.Full {
		r.blocks[rep.Pod] = map[uint64]bool{}
	} else if rep.Seq != r.next[rep.Pod] {
		r.t.Errorf("%s: report %d is an increment, %d was expected", rep.Pod, rep.Seq, r.next[rep.Pod])
	}
	r.next[rep.Pod] = rep.Seq + 1
	known := r.blocks[rep.Pod]
	for _, h := range rep.Removed {
		if !known[h] {
			r.t.Errorf("%s: %x removed and never reported", rep.Pod, h)
		}
		delete(known, h)
	}
	for _, c := range rep.Chains {
		if !c.Root && !known[c.Parent] {
			r.t.Errorf("%s: a chain comes before its parent %x", rep.Pod, c.Parent)
		}
		for _, h := range c.Blocks {
			known[h] = true
		}
	}
}

// known is how many blocks the receiver believes a pod to have.
func (r *receiver) known(pod string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.blocks[pod])
}

func (r *receiver) last() *report.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reports) == 0 {
		return nil
	}
	return r.reports[len(r.reports)-1]
}

func (r *receiver) setAnswer(answer func(*report.Report) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func TestNewRefusesNonsense(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no pods":  {Config{}, "simulate 0 pods: at least 1 is needed"},
		"profile":  {Config{Pods: 1, Profile: "gpt"}, `no profile "gpt"; there are llama-8b, llama-70b`},
		"blocks":   {Config{Pods: 1, Blocks: -5}, "simulated engine: blocks: must be at least 1, got -5"},
		"adapters": {Config{Pods: 1, Adapters: adapters("a", "a")}, `adapters[1]: the name "a" is empty or taken`},
	} {
		if _, err := New(tt.cfg); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

func TestFleetThatNeverRuns(t *testing.T) {
	f, err := New(Config{Pods: 2})
	if err != nil {
		t.Fatal(err)
	}
	pods := f.Pods()
	if len(pods) != 2 || pods[0].Name != "sim-0" || pods[0].Address == pods[1].Address || pods[1].State != "down" {
		t.Errorf("pods: %+v", pods)
	}
	if err := f.Restart("sim-0"); err == nil {
		t.Error("a pod was restarted in a fleet that does not run")
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestPagesOfAPod(t *testing.T) {
	f := start(t, Config{Adapters: adapters("fr")})
	url := f.Pods()[0].URL
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     string // somewhere in the body
	}{
		{"health", http.MethodGet, "/health", "", 200, ""},
		{"version", http.MethodGet, "/version", "", 200, `{"version":"0.32.0"}`},
		{"base model", http.MethodGet, "/v1/models", "", 200, `"id":"meta-llama/Llama-3.1-8B-Instruct","object":"model"`},
		{"adapter", http.MethodGet, "/v1/models", "", 200, `"root":"/adapters/fr","parent":"meta-llama/Llama-3.1-8B-Instruct"`},
		{"tokenize", http.MethodPost, "/tokenize", `{"model":"fr","prompt":"abcdefg"}`, 200, `{"count":2,"max_model_len":131072,"tokens":[1684234849,4217857637],"token_strs":null}`},
		{"tokenize, other model", http.MethodPost, "/tokenize", `{"model":"x","prompt":"a"}`, 404, `"code":404`},
		{"unknown path", http.MethodGet, "/v1/files", "", 404, `{"detail":"Not Found"}`},
		{"wrong method", http.MethodGet, chatPath, "", 405, `{"detail":"Method Not Allowed"}`},
		{"unknown model", http.MethodPost, completionsPath, `{"model":"nope","prompt":"x"}`, 404, "The model `nope` does not exist. Valid aliases: meta-llama/Llama-3.1-8B-Instruct, fr."},
		{"bad JSON", http.MethodPost, completionsPath, `{`, 400, `"type":"BadRequestError","param":"body","code":400`},
		{"no messages", http.MethodPost, chatPath, `{"model":"fr"}`, 400, `"param":"messages"`},
		{"empty prompt", http.MethodPost, completionsPath, `{"model":"fr","prompt":""}`, 400, "the prompt has no tokens"},
		{"embeddings as prompt", http.MethodPost, completionsPath, `{"model":"fr","prompt_embeds":"AA"}`, 400, "not supported"},
		{"too much output", http.MethodPost, completionsPath, `{"model":"fr","prompt":"x","max_tokens":200000}`, 400, "max_tokens=200000 cannot be greater than max_model_len=131072"},
		{"too long together", http.MethodPost, completionsPath, `{"model":"fr","prompt":"abcdefgh","max_tokens":131071}`, 400, "for a total of 131073 tokens"},
		{"too long", http.MethodPost, completionsPath, `{"model":"fr","prompt":"` + strings.Repeat("a", 4*131_072) + `"}`, 400, "your prompt contains 131072 input tokens"},
		{"too many answers", http.MethodPost, completionsPath, `{"model":"fr","n":128,"prompt":["a","b","c","d","e","f","g","h","i"]}`, 400, "at most 1024"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustCall(t, tt.method, url+tt.path, tt.body, requestIDHeader, "my-req-1")
			if r.status != tt.status || !strings.Contains(r.body, tt.want) {
				t.Errorf("%d %s\nwant %d with %s", r.status, r.body, tt.status, tt.want)
			}
			if id := r.header.Get(requestIDHeader); id != "my-req-1" {
				t.Errorf("request id %q came back", id)
			}
		})
	}
}

func TestNoEchoOfAnUnfitRequestID(t *testing.T) {
	url := start(t, Config{}).Pods()[0].URL
	for _, id := range []string{strings.Repeat("x", 129), "tab\there"} {
		if r := mustCall(t, http.MethodGet, url+"/health", "", requestIDHeader, id); r.header.Get(requestIDHeader) != "" {
			t.Errorf("request id %q was repeated", id)
		}
	}
}

func bodyOf(v any) string {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}
