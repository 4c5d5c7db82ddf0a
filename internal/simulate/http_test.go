package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/score"
)

// manual is a clock that passes when it is told.
type manual struct {
	mu       sync.Mutex
	now      time.Time
	moved    chan struct{} // closed when it has
	sleeping int
}

func newManual() *manual { return &manual{now: epoch, moved: make(chan struct{})} }

func (m *manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Scale lets the fleet's loops look again soon.
func (m *manual) Scale() float64 { return 1e6 }

func (m *manual) Sleep(ctx context.Context, d time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.now.Add(d)
	m.sleeping++
	defer func() { m.sleeping-- }()
	for m.now.Before(until) && ctx.Err() == nil {
		moved := m.moved
		m.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
	return context.Cause(ctx)
}

// asleep is how many wait for time to pass.
func (m *manual) asleep() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sleeping
}

func (m *manual) set(at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = epoch.Add(at)
	close(m.moved)
	m.moved = make(chan struct{})
}

// overHTTP is a fleet of real servers with a picker, on a manual clock. What pods tell
// they tell in status reports.
type overHTTP struct {
	*testing.T
	clock  *manual
	fleet  *sim.Fleet
	pool   *pool.Pool
	picker *picker.Picker
	epochs []time.Duration // next report, by pod
}

const reportEvery = 2 * time.Second

func serveOverHTTP(t *testing.T, pods, blocks int) *overHTTP {
	h := &overHTTP{T: t, clock: newManual()}
	tree := prefix.New()
	h.pool = pool.New(pool.Config{
		Clock: h.clock, Tree: tree, BlockSize: 16,
		Limits: pool.Limits{Metrics: 5 * time.Second, Reports: 3 * reportEvery},
	})
	reports := httptest.NewServer(report.Handler(h.pool, "", nil))
	t.Cleanup(reports.Close)
	var err error
	h.fleet, err = sim.New(sim.Config{
		Pods: pods, Blocks: blocks, Clock: h.clock, ReportInterval: reportEvery, ReportURL: func() string { return reports.URL + "/v1/reports" },
	})
	h.must(err)
	h.picker, err = picker.New(picker.Config{
		Pool: h.pool, Tree: tree, Recorder: unrecorded{}, Clock: h.clock, Weights: score.Default(), BlockSize: 16,
		Random: rand.NewPCG(1, 1), Hasty: true,
	})
	h.must(err)
	var members []pool.Member
	for i, p := range h.fleet.Pods() {
		members = append(members, pool.Member{Name: p.Name, Address: p.Address, URL: p.URL, Events: pool.EventsOff})
		h.epochs = append(h.epochs, reportEvery*time.Duration(i)/time.Duration(pods))
	}
	h.must(h.pool.Set(members))
	for _, target := range h.pool.Targets() {
		h.pool.Listed(target, []engine.Model{{ID: h.fleet.Model()}}, nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.fleet.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("fleet: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
		h.must(h.picker.Close(context.Background()))
	})
	return h
}

func (h *overHTTP) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// until polls what other goroutines make true.
func (h *overHTTP) until(what string, holds func() bool) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	for !holds() {
		if (clock.Wall{}).Sleep(ctx, 200*time.Microsecond) != nil {
			h.Fatalf("waited in vain until %s", what)
		}
	}
}

// advance lets time pass up to a moment, with every report on the way at its time.
func (h *overHTTP) advance(to time.Duration) {
	h.Helper()
	for {
		next := 0
		for i := range h.epochs {
			if h.epochs[i] < h.epochs[next] {
				next = i
			}
		}
		at := h.epochs[next]
		if at > to {
			break
		}
		seq := h.fleet.Pods()[next].ReportSeqAcked
		if h.clock.Now().Before(epoch.Add(at)) {
			h.clock.set(at)
		}
		h.until("a report is applied", func() bool { return h.fleet.Pods()[next].ReportSeqAcked > seq || at == 0 && seq > 0 })
		h.epochs[next] += reportEvery
		h.until("all wait for their next report", func() bool { return h.clock.asleep() == len(h.epochs) })
	}
	h.clock.set(to)
}

// send picks a pod for a request and sends it there, and returns which pod that was
// and how many tokens it found in its cache, when the next moment has come.
func (h *overHTTP) send(q *Request, next time.Duration) Outcome {
	h.Helper()
	tokens := text(q.Prompt).Append(nil, 0, q.Input())
	k, err := h.picker.Pick(h.Context(), &picker.Call{
		ID: "x", Path: "/v1/completions", Arrival: h.clock.Now(),
		Request: &request.Request{
			Kind: request.Completions, Model: h.fleet.Model(), Choices: 1, MaxTokens: q.Output, HasMaxTokens: true,
			Tokens: tokens, PromptTokens: [][]uint32{tokens}, TotalTokens: len(tokens), TokensFrom: request.FromIDs,
		},
	})
	h.must(err)
	done := make(chan int, 1)
	go func() { done <- h.post("http://"+k.Endpoint()+"/v1/completions", tokens, q.Output) }()
	pod, err := strconv.Atoi(k.Pod()[len("sim-"):])
	h.must(err)
	h.until("the request has arrived", func() bool { p := h.fleet.Pods()[pod]; return p.Running+p.Waiting == 1 })
	h.advance(next)
	cached := <-done
	k.Answered(200)
	k.Done(picker.End{Status: 200, ServedEndpoint: k.Endpoint(), PromptTokens: len(tokens), CachedTokens: cached, OutputTokens: q.Output})
	return Outcome{Pod: int32(pod), Cached: int32(cached)}
}

// post returns the cached tokens of the answer's usage; −1 for a failure.
func (h *overHTTP) post(url string, tokens []uint32, output int) int {
	body, _ := json.Marshal(map[string]any{"model": h.fleet.Model(), "prompt": tokens, "max_tokens": output})
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	var answer struct {
		Usage struct {
			Details struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if json.NewDecoder(res.Body).Decode(&answer) != nil || answer.Usage.Details.Cached == nil {
		return -1
	}
	return *answer.Usage.Details.Cached
}

// One model, two clocks: 500 requests one at a time, each after the report that tells
// of the one before, go to the same pods and find as much there, over HTTP and in
// virtual time.
func TestSameDecisionsAsOverHTTP(t *testing.T) {
	const pods, blocks, gap = 4, 500, 4 * time.Second
	requests := 500
	if testing.Short() {
		requests = 60
	}
	tr := generated(t, fmt.Sprintf("gen:chat:requests=%d:systems=5:system=900:question=300:answer=20", requests), 1)
	for i := range tr.Requests {
		tr.Requests[i].At, tr.Requests[i].Answer = 100*time.Millisecond+gap*time.Duration(i), 0
	}
	h := serveOverHTTP(t, pods, blocks)
	h.advance(tr.Requests[0].At)
	want := make([]Outcome, requests)
	for i := range want {
		want[i] = h.send(&tr.Requests[i], tr.Requests[i].At+gap)
	}

	cfg := fleetOf(t, tr, "4", "eppctl")
	cfg.Profile.Blocks, cfg.Profile.Cache = blocks, byReports
	cfg.Profile.Intervals.Metrics, cfg.Profile.Intervals.Probe, cfg.Profile.Intervals.GPU = 0, 0, 0
	for i, p := range h.fleet.Pods() {
		cfg.Pods[i].Name, cfg.Pods[i].Address = p.Name, p.Address
	}
	run := mustRun(t, cfg).Runs[0]
	found, used := 0, map[int32]bool{}
	for i, o := range run.Outcomes {
		if o.Pod != want[i].Pod || o.Cached != want[i].Cached {
			t.Fatalf("request %d: simulated on pod %d with %d tokens cached, over HTTP on %d with %d", i, o.Pod, o.Cached, want[i].Pod, want[i].Cached)
		}
		found += int(o.Cached)
		used[o.Pod] = true
	}
	if found == 0 || len(used) < 2 {
		t.Errorf("%d tokens found on %d pods: this test sees nothing", found, len(used))
	}
}
