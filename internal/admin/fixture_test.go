package admin

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/health"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secrets are in the fixture's requests and must stand in no answer.
var secrets = []string{"Bearer-s3cret", "once-upon-a-prompt"}

var start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// stopped is a clock that stands.
type stopped struct{ now time.Time }

func (c stopped) Now() time.Time                             { return c.now }
func (c stopped) Sleep(context.Context, time.Duration) error { return nil }
func (c stopped) Scale() float64                             { return 1 }

// fakePicker holds weights as the picker does.
type fakePicker struct {
	mu      sync.Mutex
	current score.Weights
}

func (p *fakePicker) Open() int { return 3 }

func (p *fakePicker) Weights() *score.Weights {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.Clone()
}

func (p *fakePicker) SetWeights(w score.Weights, generation uint64) (uint64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current.Generation != generation {
		return p.current.Generation, picker.ErrGeneration
	}
	p.current = *w.Clone()
	p.current.Generation = generation + 1
	return p.current.Generation, nil
}

// broken is a recorder whose disk is gone. It hands out some records first.
type broken struct {
	records []*explain.Record
	err     error
}

func (b broken) Walk(_ context.Context, _ record.Query, visit func(*explain.Record) bool) error {
	for _, rec := range b.records {
		if !visit(rec) {
			return nil
		}
	}
	return b.err
}

func (b broken) Coverage() (record.Coverage, error) { return record.Coverage{}, b.err }

func pod(name string, blocks, waiting float64) score.PodState {
	p := score.NewPod(name, "10.0.0."+name[len(name)-1:]+":8000")
	p.Cache = score.Reading{Value: blocks, State: score.Known, Source: score.SourceReport, Age: 1500 * time.Millisecond}
	p.Utilization = score.Read(.5, score.SourceReport)
	p.Waiting = score.Read(waiting, score.SourceMetrics)
	p.Health = score.Read(1, score.SourceProbe)
	p.AdapterState = score.Known
	return p
}

// decide records one decision, the n-th of the ring.
func decide(ring *record.Ring, n int, requestID, model string, pods ...score.PodState) {
	weights := score.Default()
	in := &score.Inputs{
		Request: &score.InferenceRequest{
			ID: requestID, Model: model, Count: 64, Blocks: 4, Arrival: start.Add(time.Duration(n) * time.Second),
			Headers: map[string][]string{"Authorization": {secrets[0]}}, Client: secrets[1],
		},
		Pods: pods, Weights: &weights, Seed: 7,
	}
	d := &score.Decision{}
	in.Decide(d)
	e := &record.Entry{
		RequestID: requestID, TimeScale: 1, Policy: "scores", Path: "/v1/completions", Model: model, Prompts: 1, PrefixTokens: 64,
		BlockSize: 16, TokensFrom: "ids", Fingerprints: []uint64{1, 2, 3, 4}, Inputs: in, Decision: d, Picked: d.Winner, Roster: uint64(len(pods)),
		Timings: record.Timings{Total: 5 * time.Microsecond}, PredictedCached: 48,
	}
	binary.BigEndian.PutUint32(e.DecisionID[:], uint32(0xd0000000+n))
	e.DecisionID[6], e.DecisionID[8] = 0x40, 0x80
	ring.Append(e)
}

// names are two rules, and one that lost to the first.
func names() *naming.Table {
	table, _ := naming.NewTable([]naming.Rule{
		{
			Source: "InferenceModel prod/chat", Older: true, Created: start, Model: "chat", Pool: "prod/llama", Criticality: naming.Sheddable,
			Targets: []naming.Target{{Model: "billing-v3", Weight: 30}, {Model: "billing-v2", Weight: 70}},
		},
		{Source: "InferenceModel prod/chat-too", Older: true, Created: start.Add(time.Hour), Model: "chat", Pool: "prod/llama"},
		{Source: "InferenceModelRewrite prod/all", Order: 2, Created: start, Targets: []naming.Target{{Model: "llama", Weight: 1}}},
	})
	return table
}

// newDeps is a picker with six decisions: alpha, alpha-2, beta, twin, twin, refused.
func newDeps() Deps {
	ring := record.NewRing(record.RingConfig{Key: []byte("key")})
	two := []score.PodState{pod("pod-1", 4, 1), pod("pod-2", 0, 0)}
	decide(ring, 0, "alpha", "llama", two...)
	decide(ring, 1, "alpha-2", "llama", two...)
	decide(ring, 2, "beta", "qwen", two[1])
	decide(ring, 3, "twin", "llama", two...)
	decide(ring, 4, "twin", "llama", two...)
	decide(ring, 5, "refused", "llama")
	level := &slog.LevelVar{}
	return Deps{
		Decisions: record.NewStore(ring, nil),
		Fleet:     newFleet(),
		Picker:    &fakePicker{current: score.Default()},
		Pods:      views,
		Tree:      func() prefix.Stats { return prefix.Stats{Blocks: 12, Runs: 3, Pods: 2, BytesEstimate: 4096} },
		Names:     names,
		Config:    func() any { return map[string]any{"blockSize": 16} },
		Level:     level,
		Version:   buildinfo.Info{Version: "v0.1.0", Go: "go1.26.8", Platform: "linux/amd64"},
		Clock:     stopped{start.Add(time.Minute)},
	}
}

// views are a pod that is well, one that nothing is known of, and one that left.
func views() []pool.View {
	well := pod("pod-1", 0, 2)
	hot := health.Assess(&health.Signals{Hottest: health.Of(85), Warm: health.Yes, Reported: health.Of(.9)})
	well.Adapters, well.MaxAdapters, well.Labels = []string{"fr"}, 4, map[string]string{"zone": "a"}
	well.Pending, well.InFlight = 1, 2
	blank := score.NewPod("pod-2", "10.0.0.2:8000")
	blank.Notes = &score.Notes{score.QueueDepth: "HTTP 404 on port 8000"}
	gone := pod("pod-3", 0, 0)
	gone.InFlight, gone.Excluded = 1, score.NotInPool
	return []pool.View{
		{State: gone, Departed: true},
		{State: blank, Scrapes: 4, Failures: 4, LastError: "HTTP 404 on port 8000", LastScrape: start},
		{
			State: well, Health: &hot, TreeBlocks: 12, Running: score.Read(3, score.SourceMetrics), Engine: "vllm", BlockSize: 16, Blocks: 32768,
			Ranks: []engine.Rank{ // case M3: a row for each
				{Name: "0", Waiting: engine.Value{Known: true}, Running: engine.Value{Known: true, V: 3}, KVUsage: engine.Value{Known: true, V: .25}},
				{Name: "1", Waiting: engine.Value{Known: true, V: 40}, Running: engine.Value{Reason: "NaN"}, KVUsage: engine.Value{Known: true, V: .5}},
			},
			Scrapes: 9, LastScrape: start, ScrapeAge: 200 * time.Millisecond, ReportEpoch: 7, ReportSeq: 3, LastReport: start, Reports: 3, ReportGaps: 1, Resyncs: 1,
		},
	}
}

// serve starts the API and a client of it.
func serve(t *testing.T, deps Deps) (*httptest.Server, *Client) {
	t.Helper()
	server := httptest.NewServer(NewServer(deps))
	t.Cleanup(server.Close)
	return server, newClient(t, server.URL)
}

func newClient(t *testing.T, server string) *Client {
	t.Helper()
	client, err := NewClient(server, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// request is an HTTP request of a test.
type request struct {
	method, path, body string
	header             map[string]string
}

// ask calls the handler and returns the answer.
func ask(t *testing.T, h http.Handler, q request) *httptest.ResponseRecorder {
	t.Helper()
	if q.method == "" {
		q.method = http.MethodGet
	}
	r := httptest.NewRequest(q.method, q.path, strings.NewReader(q.body))
	r.Host = "localhost:9091"
	for name, value := range q.header {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, secret := range secrets { // case P5
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s %s shows %q", q.method, q.path, secret)
		}
	}
	return w
}

// decode reads an answer into doc.
func decode(t *testing.T, w *httptest.ResponseRecorder, doc any) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), doc); err != nil {
		t.Fatalf("answer is no JSON: %v\n%s", err, w.Body)
	}
}

// indented is JSON as golden files have it.
func indented(t *testing.T, got []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(got), "", "  "); err != nil {
		t.Fatalf("answer is no JSON: %v\n%s", err, got)
	}
	return append(b.Bytes(), '\n')
}

// logTo is a logger for a test to read.
func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }
