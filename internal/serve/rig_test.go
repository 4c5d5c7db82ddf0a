package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/sim"
)

// patience is how long a test waits for something that must happen; it fails
// after that. Nothing is waited for that long on a machine that is not stuck.
const patience = 3 * time.Minute

// A rig is a running picker with its fleet, used as clients use it: over HTTP.
type rig struct {
	t      *testing.T
	ctx    context.Context // ends with the test's patience
	server *Server
	fleet  *sim.Fleet
	model  string
	at     Addresses
	admin  *admin.Client
	client *http.Client

	stop  context.CancelFunc // as SIGTERM does
	ended chan struct{}
	err   error // of Run, once ended is closed
}

// serveOptions are those of a picker with n simulated pods. Readings don't grow
// stale, however slow the machine is: the tests that are about that say so.
func serveOptions(n int) Options {
	c := config.Default()
	const anyPort = "127.0.0.1:0"
	c.Addresses = config.Addresses{Gateway: anyPort, Extproc: anyPort, Health: anyPort, Metrics: anyPort, Admin: anyPort, Report: anyPort}
	c.Staleness = config.Staleness{MetricsSeconds: 3600, ReportsSeconds: 3600}
	o := Options{Config: c, RecordMemory: 64 << 20, Linger: patience, Drain: patience, quiet: 20 * time.Millisecond}
	if n > 0 {
		o.Sim = &Sim{Pods: n, Speed: 20, Blocks: 8192}
	}
	return o
}

// start serves until the test ends, and until requests are welcome before that.
func start(t *testing.T, opts Options) *rig {
	t.Helper()
	ready := make(chan struct{})
	opts.Ready = func(Addresses) { close(ready) }
	server, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	running, stop := context.WithCancel(context.Background())
	r := &rig{
		t: t, ctx: ctx, server: server, fleet: server.fleet, at: server.Addresses(), stop: stop, ended: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	r.model = r.at.Model
	if r.admin, err = admin.NewClient(r.at.Admin, admin.ClientOptions{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		r.err = server.Run(running)
	}()
	t.Cleanup(func() {
		if r.fleet != nil {
			_ = r.fleet.Release(sim.AllPods, sim.Everything())
		}
		r.client.CloseIdleConnections()
		r.admin.Close()
		stop()
		select {
		case <-r.ended:
		case <-time.After(patience):
			t.Error("the server did not end")
		}
		cancel()
		if r.err != nil {
			t.Errorf("the server ended with: %v", r.err)
		}
	})
	select {
	case <-ready:
	case <-r.ended:
		t.Fatalf("the server ended before it was ready: %v", r.err)
	case <-ctx.Done():
		t.Fatal("the server was not ready in time")
	}
	return r
}

// until waits for a condition that the program must reach by itself.
func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	for !condition() {
		if (clock.Wall{}).Sleep(r.ctx, time.Millisecond) != nil {
			r.t.Fatalf("waited in vain until %s", what)
		}
	}
}

const (
	completionsPath = "/v1/completions"
	chatPath        = "/v1/chat/completions"
)

func (r *rig) pod(name string) sim.PodInfo {
	r.t.Helper()
	for _, p := range r.fleet.Pods() {
		if p.Name == name {
			return p
		}
	}
	r.t.Fatalf("no pod %q", name)
	return sim.PodInfo{}
}

// decision finds the newest decision of a request.
func (r *rig) decision(id string) *explain.Record {
	r.t.Helper()
	found, err := r.admin.Decision(r.ctx, id, 1)
	if err != nil {
		r.t.Fatalf("look up %s: %v", id, err)
	}
	return found.Item
}

// completed waits for the outcome, which joins the record a moment after the
// client has its answer.
func (r *rig) completed(id string) (rec *explain.Record) {
	r.t.Helper()
	r.until(id+" has its outcome", func() bool {
		rec = r.decision(id)
		return rec.Outcome.State != explain.OutcomePending
	})
	return rec
}

// decisions are all of them, newest first.
func (r *rig) decisions() (list []*explain.Record) {
	r.t.Helper()
	err := r.admin.Walk(r.ctx, admin.Filter{}, func(rec *explain.Record) error {
		list = append(list, rec)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *rig) ledger() *admin.Ledger {
	r.t.Helper()
	l, err := r.admin.Ledger(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

// inFlight waits until exactly n requests run.
func (r *rig) inFlight(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d requests run", n), func() bool {
		l := r.ledger()
		for _, p := range l.Pods {
			if p.InFlight < 0 || p.Pending < 0 || p.Pending > p.InFlight {
				r.t.Fatalf("the ledger says %+v", p)
			}
		}
		return l.Open == n && l.InFlight == n
	})
}

func (r *rig) pods() map[string]admin.Pod {
	r.t.Helper()
	list, err := r.admin.Pods(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	pods := map[string]admin.Pod{}
	for _, p := range list.Items {
		pods[p.Pod] = p
	}
	return pods
}

// reported waits until the picker knows what has happened on the pods so far.
func (r *rig) reported() {
	r.t.Helper()
	if err := r.fleet.WaitReported(r.ctx); err != nil {
		r.t.Fatal(err)
	}
}

// quiet waits until nothing runs and every pod has reported that it was idle
// all the time since its last report.
func (r *rig) quiet() {
	r.t.Helper()
	r.inFlight(0)
	r.until("all pods are idle", func() bool {
		r.reported()
		for _, p := range r.pods() {
			if p.Load.Value == nil || *p.Load.Value != 0 || p.Waiting.Value == nil || *p.Waiting.Value != 0 {
				return false
			}
		}
		return true
	})
}

// fetch reads a page that the server offers.
func (r *rig) fetch(url string) (status int, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, url, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// metric is the value of a sample on a metrics page, such as
// `epp_open_requests` or `x{pod="a"}`.
func (r *rig) metric(url, sample string) string {
	r.t.Helper()
	_, page := r.fetch(url)
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

func (r *rig) ours(sample string) string {
	r.t.Helper()
	return r.metric("http://"+r.at.Metrics+"/metrics", sample)
}

// candidate is a pod as a decision saw it.
func candidate(t *testing.T, rec *explain.Record, pod string) *explain.Candidate {
	t.Helper()
	i := slices.IndexFunc(rec.Candidates, func(c explain.Candidate) bool { return c.Pod == pod })
	if i < 0 {
		t.Fatalf("decision %s has no candidate %q", rec.RequestID, pod)
	}
	return &rec.Candidates[i]
}

// matched is how many blocks the decision believed that a pod holds.
func matched(t *testing.T, rec *explain.Record, pod string) int {
	t.Helper()
	c := candidate(t, rec, pod)
	if c.Cache.Value == nil {
		t.Fatalf("decision %s: the cache of %s is %s", rec.RequestID, pod, c.Cache.State)
	}
	return int(*c.Cache.Value)
}

// replayed fails unless the replay of a record is identical.
func replayed(t *testing.T, rec *explain.Record) {
	t.Helper()
	if verdict, _, _ := explain.Replay(rec); !verdict.Identical {
		t.Errorf("decision %s: %s", rec.RequestID, verdict.Difference)
	}
}

// countOf reads a count that must be known.
func countOf(t *testing.T, what string, n *int) int {
	t.Helper()
	if n == nil {
		t.Fatalf("%s is not known", what)
	}
	return *n
}
