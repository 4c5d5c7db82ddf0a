package serve

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/logtest"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/score"
)

// What must stand nowhere. The prompt's is whole pieces of the tokeniser, so
// that its token ids are known.
const (
	secretPrompt = "PromptSecret4711"
	secretKey    = "sk-KeySecret4712"
	secretCookie = "CookieSecret4713"
	secretSalt   = "SaltSecret4714"
	secretHeader = "HeaderSecret4715"
	secretQuery  = "QuerySecret4716"
	secretToken  = "ReportTokenSecret4717"
	secretRecord = "RecordKeySecret4718-32-bytes-long"
)

var secrets = []string{secretPrompt, secretKey, secretCookie, secretSalt, secretHeader, secretQuery, secretToken, secretRecord}

// tattler is a custom scorer that panics with all that it was told.
type tattler struct{}

func (tattler) Score(_ context.Context, req *score.InferenceRequest, _ *score.PodState, _ *score.Summary) score.Result {
	text := request.AppendText(nil, req.Tokens...)
	panic(fmt.Sprintf("%s %v %v", text, req.Headers, req.Tokens))
}

// leaky is a pod that repeats what it is sent, in as many ways as there are
// names below; the path's last element chooses.
func leaky(t *testing.T) pool.Member {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		echo := fmt.Sprintf("%q %s %s", body, r.URL.RawQuery, r.Header)
		switch r.Header.Get("X-Leak") {
		case "": // what the watcher asks for
			switch r.URL.Path {
			case "/v1/models":
				fmt.Fprint(w, `{"object":"list","data":[{"id":"leaky","root":"leaky","parent":null}]}`)
			case "/metrics":
				fmt.Fprint(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
			}
		case "status":
			w.Header().Set("X-Echo", strings.ReplaceAll(echo, "\n", " "))
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, echo)
		case "usage":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"usage":{"prompt_tokens":%q,"prompt_tokens_details":{"cached_tokens":%q}}}`, echo, echo)
		case "malformed":
			raw(w, "HTTP/1.1 "+echo+"\r\n\r\n")
		case "header":
			raw(w, "HTTP/1.1 200 OK\r\n"+echo+"\r\n\r\n")
		case "chunk":
			raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"+echo+"\r\n")
		case "upgrade":
			raw(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\nX-Echo: "+echo+"\r\n\r\n")
		case "cut":
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, echo)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	return pool.Member{Name: "leaky", Address: address, URL: server.URL}
}

// raw answers with bytes that no HTTP library would write.
func raw(w http.ResponseWriter, text string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(c, text)
	c.Close()
}

// A tainted request carries secrets wherever a client could put them.
type tainted struct {
	name, method, path, body string
	header                   http.Header
	status                   int // want; 0 = none, the connection breaks
}

// anyStatus is for what has no model that can be read, and may go to any pod.
const anyStatus = -1

func (r *rig) taint(q tainted) *answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, q.method, "http://"+r.at.Gateway+q.path+"?key="+secretQuery, strings.NewReader(q.body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + secretKey}, "Cookie": {"session=" + secretCookie},
		"X-Api-Key": {secretKey}, "X-Other": {secretHeader}, "X-Gateway-Destination-Endpoint": {secretHeader}, "X-Request-Id": {q.name},
	}
	maps.Copy(req.Header, q.header)
	res, err := r.client.Do(req)
	if err != nil {
		return &answer{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return &answer{status: res.StatusCode, header: res.Header, body: string(text), err: err}
}

// case P5
func TestSecretsStandNowhere(t *testing.T) {
	var log logtest.Log
	opts := serveOptions(2)
	opts.Level = new(slog.LevelVar)
	opts.Level.Set(telemetry.LevelTrace)
	opts.Logger = telemetry.Logger(&log, opts.Level)
	opts.RecordDir, opts.RecordKey, opts.ReportToken = t.TempDir(), []byte(secretRecord), secretToken
	opts.Config.AllowHeaders = []string{"Authorization", "Cookie"}
	opts.Config.Tokens.Source = "engine" // prompts go to the pods also for their ids
	opts.Config.Weights = map[string]float64{"cache": .55}
	opts.Config.ScorerDeadlineMs = 5000
	opts.Custom = []score.CustomWeight{{Name: "tattler", Weight: .05}}
	opts.Scorers = []picker.Custom{{Name: "tattler", Scorer: tattler{}}}
	opts.Endpoints = []pool.Member{leaky(t)}
	r := start(t, opts)

	prompt := strings.Repeat(secretPrompt, 40)
	body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":2,"cache_salt":%q,"user":%q}`, r.model, prompt, secretSalt, secretKey)
	var said strings.Builder // what the gateway itself says to clients
	for _, q := range r.taintedRequests(prompt, body) {
		a := r.taint(q)
		if a.status != q.status && (q.status != 0 || a.err == nil) && (q.status != anyStatus || a.err != nil) {
			t.Errorf("%s: status %d, error %v; want %d", q.name, a.status, a.err, q.status)
		}
		if a.status >= 400 && a.pod() == "" {
			fmt.Fprintln(&said, q.name, a.header, a.body)
		}
	}
	r.inFlight(0)
	r.reported()
	places := r.everything()
	places["errors to clients"] = said.String()
	r.stop()
	r.over()
	places["log"] = log.String()
	files, err := filepath.Glob(filepath.Join(opts.RecordDir, "*"))
	r.must(err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		r.must(err)
		places["record file"] += string(text)
	}
	mustHold(t, places)
	for name, needle := range needles(t, r.model, body) {
		for place, text := range places {
			if i := strings.Index(text, needle); i >= 0 {
				t.Errorf("%s (%q) stands in %s: …%s…", name, needle, place, text[max(0, i-200):min(len(text), i+200)])
			}
		}
	}
}

func (r *rig) taintedRequests(prompt, body string) []tainted {
	message := fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":[{"type":"text","text":%q},`+
		`{"type":"image_url","image_url":{"url":"https://x/%s"}}]}],"tools":[{"type":"function","function":{"name":%q}}],`+
		`"cache_salt":%q,"max_tokens":2,"stream":true}`, r.model, prompt, prompt, secretPrompt, secretPrompt, secretSalt)
	const post = http.MethodPost
	list := []tainted{
		{"plain", post, completionsPath, body, nil, 200},
		{"again", post, completionsPath, body, nil, 200},
		{"chat", post, chatPath, message, nil, 200},
		{strings.Repeat(secretHeader, 20), post, completionsPath, body, nil, 200}, // an ID that can't be kept
		{"cut-json", post, completionsPath, body[:len(body)-40], nil, 400},
		{"bad-prompt", post, completionsPath, fmt.Sprintf(`{"model":%q,"prompt":{%q:1}}`, r.model, secretPrompt), nil, 400},
		{"bad-stream", post, completionsPath, fmt.Sprintf(`{"model":%q,"prompt":"x","stream":%q}`, r.model, secretPrompt), nil, 400},
		{"bad-role", post, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":{"a":%q}}]}`, r.model, secretPrompt), nil, 400},
		{"bad-salt", post, completionsPath, fmt.Sprintf(`{"model":%q,"prompt":"x","cache_salt":[%q]}`, r.model, secretSalt), nil, 400},
		{"no-json", post, completionsPath, prompt, nil, 400},
		{"no-model", post, completionsPath, fmt.Sprintf(`{"prompt":%q}`, prompt), nil, 400},
		{"other-model", post, completionsPath, fmt.Sprintf(`{"model":"nobody","prompt":%q}`, prompt), nil, 404},
		{"gzip", post, completionsPath, "\x1f\x8b" + prompt, http.Header{"Content-Encoding": {"gzip"}}, anyStatus},
		{"coding", post, completionsPath, body, http.Header{"Content-Encoding": {secretHeader}}, anyStatus},
		{"elsewhere", post, "/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":%q}`, r.model, prompt), nil, 404},
		{"models", http.MethodGet, "/v1/models", "", nil, anyStatus},
	}
	leak := strings.Replace(body, fmt.Sprintf("%q", r.model), `"leaky"`, 1)
	for how, status := range map[string]int{"status": 500, "usage": 200, "malformed": 502, "header": 502, "chunk": 200, "upgrade": 502, "cut": 0} {
		list = append(list, tainted{"leak-" + how, post, completionsPath, leak, http.Header{"X-Leak": {how}}, status})
	}
	return list
}

// everything is what the picker shows to whoever asks.
func (r *rig) everything() map[string]string {
	r.t.Helper()
	places := map[string]string{}
	for name, url := range map[string]string{
		"records": r.at.Admin + "/v1/decisions?format=jsonl", "list": r.at.Admin + "/v1/decisions", "latest": r.at.Admin + "/v1/decisions/latest",
		"pods": r.at.Admin + "/v1/pods", "tree": r.at.Admin + "/v1/tree", "ledger": r.at.Admin + "/v1/ledger",
		"config": r.at.Admin + "/v1/config", "weights": r.at.Admin + "/v1/config/weights", "version": r.at.Admin + "/v1/version",
		"log level": r.at.Admin + "/v1/log-level", "fleet": r.at.Admin + "/v1/sim/pods", "metrics": r.at.Metrics + "/metrics",
		"ready": r.at.Health + "/readyz",
	} {
		status, body := r.fetch("http://" + url)
		if status != http.StatusOK {
			r.t.Errorf("%s: status %d: %s", name, status, body)
		}
		places[name] = body
	}
	var text strings.Builder
	for _, rec := range r.decisions() {
		replayed(r.t, rec)
		r.must(explain.Explain(rec, explain.Options{Flips: 4}).Text(&text, explain.TextOptions{Width: 120, Wide: true}))
	}
	places["explanations"] = text.String()
	return places
}

// mustHold fails when a place is not what it should be: a search in the wrong
// place finds nothing.
func mustHold(t *testing.T, places map[string]string) {
	t.Helper()
	for place, want := range map[string]string{
		"log": `"level":"TRACE"`, "records": "the scorer panicked", "record file": "the scorer panicked", "explanations": "the scorer panicked",
		"metrics": `epp_scorer_failures_total{how="panic",scorer="tattler"}`, "errors to clients": "bad-prompt", "pods": "leaky",
	} {
		if !strings.Contains(places[place], want) {
			t.Errorf("%s: %d bytes without %q", place, len(places[place]), want)
		}
	}
	for _, id := range []string{"plain", "chat", "leak-malformed", "leak-cut", "coding"} {
		if want := fmt.Sprintf(`"requestID":%q`, id); !strings.Contains(places["records"], want) || !strings.Contains(places["log"], want) {
			t.Errorf("%s is not in the records and in the log", id)
		}
	}
}

// needles are the secrets in every form in which they could be betrayed: as they
// are, encoded, as token ids, as the salt's hash, as fingerprints that guesses
// could be compared with.
func needles(t *testing.T, model, body string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, s := range secrets {
		found["secret"+s] = s
		found["base64 of "+s] = base64.RawStdEncoding.EncodeToString([]byte(s))[:len(s)]
		found["hex of "+s] = hex.EncodeToString([]byte(s))
	}
	req, err := request.Parse(completionsPath, []byte(body), request.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	found["the salt's hash"] = req.SaltHash
	for i, id := range req.Tokens[:4] {
		found[fmt.Sprint("token ", i)] = fmt.Sprint(id)
	}
	for i, fp := range prefix.Fingerprints(nil, prefix.Root(model, "", req.SaltHash), req.Tokens, 16) {
		found[fmt.Sprint("fingerprint ", i)] = fmt.Sprintf("%016x", fp)
		found[fmt.Sprint("decimal fingerprint ", i)] = fmt.Sprint(fp)
	}
	return found
}
