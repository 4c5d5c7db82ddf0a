package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/nettest"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a gateway on a real listener, with the real picker and pool, before
// pods that are plain HTTP servers.
type site struct {
	*Gateway
	server *httptest.Server
	client *http.Client
	picker *picker.Picker
	pool   *pool.Pool
	ring   *record.Ring
	ended  chan record.Outcome
}

// setup is what a test changes of a site before it stands.
type setup struct {
	gateway Config
	picker  picker.Config
	models  []pool.ModelEntry
	line    *nettest.Memory // in place of a listener of loopback
}

// newSite makes a site with pods named pod-0, pod-1, … at the addresses; the
// first of them has the shortest queue and wins.
func newSite(tb testing.TB, change func(*setup), pods ...string) *site {
	tb.Helper()
	s := &site{ended: make(chan record.Outcome, 64), ring: record.NewRing(record.RingConfig{Bytes: 1 << 20})}
	tree := prefix.New()
	set := setup{
		gateway: Config{Clock: clock.Wall{}},
		picker: picker.Config{
			Tree: tree, Recorder: s.ring, Clock: clock.Wall{}, Weights: score.Default(), BlockSize: 16, Observer: s,
		},
	}
	if change != nil {
		change(&set)
	}
	s.pool = pool.New(pool.Config{
		Clock: clock.Wall{}, Tree: tree, BlockSize: 16, Models: set.models,
		Limits: pool.Limits{Metrics: time.Hour, Reports: time.Hour},
	})
	members := make([]pool.Member, len(pods))
	for i, address := range pods {
		members[i] = pool.Member{Name: podName(i), Address: address}
	}
	if err := s.pool.Set(members); err != nil {
		tb.Fatal(err)
	}
	s.queues(0, 1, 2, 3)
	set.picker.Pool = s.pool
	var err error
	if s.picker, err = picker.New(set.picker); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.picker.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	if set.gateway.Picker == nil {
		set.gateway.Picker = s.picker
	}
	if s.Gateway, err = New(set.gateway); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	s.serve(tb, set.line)
	return s
}

func (s *site) serve(tb testing.TB, line *nettest.Memory) {
	if line == nil {
		s.server = httptest.NewUnstartedServer(nil)
		s.server.Config = s.Server()
	} else {
		s.server = &httptest.Server{Listener: line, Config: s.Server()}
	}
	s.server.Start()
	s.client = s.server.Client()
	if line != nil {
		s.client = &http.Client{Transport: &http.Transport{DialContext: line.Dial}}
	}
	tb.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.server.Close()
	})
}

// inBubble runs a test in fake time, of a site with one pod, all in memory. Its address
// is podAddress.
func inBubble(t *testing.T, change func(*setup), pod http.HandlerFunc, test func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		line, podLine := nettest.Listen(), nettest.Listen()
		podServer := &httptest.Server{Listener: podLine, Config: &http.Server{Handler: pod}}
		podServer.Start()
		t.Cleanup(podServer.Close)
		s := newSite(t, func(set *setup) {
			set.line = line
			change(set)
		}, podAddress)
		s.upstream.transport.DialContext = podLine.Dial
		test(t, s)
	})
}

const podAddress = "10.0.0.1:8000"

func podName(i int) string { return "pod-" + string(rune('0'+i)) }

// queues scrapes and probes all pods, with this many requests waiting at each.
func (s *site) queues(waiting ...float64) {
	now := time.Now()
	for i, t := range s.pool.Targets() {
		known := engine.Value{Known: true}
		page := engine.Page{Waiting: known, Running: known, KVUsage: known}
		page.Waiting.V = waiting[i]
		s.pool.Scraped(t, engine.Scrape{Page: page, Start: now, End: now})
		s.pool.Probed(t, engine.Probe{Healthy: true, At: now})
	}
}

// Picked implements [picker.Observer].
func (s *site) Picked(*record.Entry) {}

// ScorerFailed implements [picker.Observer].
func (s *site) ScorerFailed(string, picker.Failure) {}

// Completed implements [picker.Observer].
func (s *site) Completed(_ *picker.Pick, o *record.Outcome, _ bool) { s.ended <- *o }

// end waits for the end of an exchange, and looks at the ledger.
func (s *site) end(tb testing.TB) record.Outcome {
	tb.Helper()
	select {
	case o := <-s.ended:
		if n := s.pool.InFlight(); n != 0 {
			tb.Errorf("the ledger is at %d after the end, want 0", n)
		}
		if n := s.Stats().BodyBytes; n != 0 {
			tb.Errorf("%d bytes of bodies are still held, want 0", n)
		}
		return o
	case <-time.After(time.Minute):
		tb.Fatal("the exchange did not end")
		return record.Outcome{}
	}
}

// newest is the record of the last decision.
func (s *site) newest(tb testing.TB) *explain.Record {
	tb.Helper()
	found, err := record.NewStore(s.ring, nil).Find(context.Background(), record.Query{Limit: 1})
	if err != nil || len(found.Records) != 1 {
		tb.Fatalf("no record: %v", err)
	}
	return found.Records[0]
}

// newPod starts a pod and returns its address.
func newPod(tb testing.TB, h http.HandlerFunc) string {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

const (
	chatPath    = "/v1/chat/completions"
	textPath    = "/v1/completions"
	chatBody    = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	jsonAnswer  = `{"id":"1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}`
	contentType = "Content-Type"
)

func answerJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(contentType, "application/json")
	io.WriteString(w, jsonAnswer)
}

// post sends a body and reads the whole answer.
func (s *site) post(tb testing.TB, path, body string) (*http.Response, string) {
	tb.Helper()
	return s.do(tb, s.request(tb, http.MethodPost, path, strings.NewReader(body)))
}

func (s *site) request(tb testing.TB, method, path string, body io.Reader) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, s.server.URL+path, body)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (s *site) do(tb testing.TB, r *http.Request) (*http.Response, string) {
	tb.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res, string(text)
}

// openAIError is the error object of an answer.
type openAIError struct {
	Message, Type string
	Param, Code   *string
}

func errorOf(tb testing.TB, body string) openAIError {
	tb.Helper()
	var doc struct{ Error *openAIError }
	if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Error == nil {
		tb.Fatalf("not an OpenAI error object: %q", body)
	}
	return *doc.Error
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
