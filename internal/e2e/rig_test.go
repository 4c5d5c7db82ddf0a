package e2e

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
)

// The kinds of cluster that the pods can stand in.
const (
	originalDst  = "original-dst"
	overrideHost = "override-host"
)

// A setup says what to build around the picker. The zero value is three HTTP/1.1
// pods in an ORIGINAL_DST cluster and one picker with TLS.
type setup struct {
	cluster     string
	h2          bool // Envoy speaks HTTP/2 with the pods
	plaintext   bool // between Envoy and the picker
	failOpen    bool
	fallbacks   int
	pods        int      // 0 = 3
	pickers     int      // 0 = 1
	config      string   // of the picker, YAML besides what every picker gets
	pickerFlags []string // besides those that every picker gets
	envoyFlags  []string // likewise of envoy-config
	fleet       *fleet   // nil = a new one
	strangers   []*pod   // that Envoy knows and the picker does not
	patch       func(envoyConfig)
}

// buffered reports whether Envoy holds the bodies of requests.
func (s *setup) buffered() bool { return slices.Contains(s.envoyFlags, "buffered") }

// A rig is Envoy between clients, pickers and pods.
type rig struct {
	t       *testing.T
	setup   setup
	fleet   *fleet
	pickers []*picker
	envoy   *envoy
	clients *clients
}

// build starts everything. At the end of the test no request may be on a
// picker's books.
func build(t *testing.T, s setup) *rig {
	t.Helper()
	path := need(t, "envoy", "EPPCTL_E2E_ENVOY")
	s.pods, s.pickers, s.cluster = cmp.Or(s.pods, 3), cmp.Or(s.pickers, 1), cmp.Or(s.cluster, originalDst)
	r := &rig{t: t, setup: s, fleet: s.fleet, clients: newClients(t)}
	if r.fleet == nil {
		r.fleet = newFleet(t, s.pods)
	}
	for range s.pickers {
		r.pickers = append(r.pickers, r.startPicker("127.0.0.1:0"))
	}
	r.envoy = startEnvoy(t, path, r.config())
	t.Cleanup(r.close)
	return r
}

// close waits until nothing is on the pickers' books, and ends Envoy first: while
// it is connected, pickers wait for it.
func (r *rig) close() {
	r.t.Helper()
	for _, p := range r.pickers {
		if !p.gone() {
			p.settled()
		}
	}
	r.envoy.end(syscall.SIGTERM)
}

func (r *rig) startPicker(extproc string) *picker {
	r.t.Helper()
	flags := slices.Clone(r.setup.pickerFlags)
	if r.setup.plaintext {
		flags = append(flags, "--plaintext")
	}
	if r.setup.fallbacks > 0 {
		flags = append(flags, "--fallbacks", fmt.Sprint(r.setup.fallbacks))
	}
	return startPicker(r.t, r.fleet, pickerConfig+r.setup.config, extproc, flags...)
}

// config is Envoy's, as eppctl prints it, with what the test changes.
func (r *rig) config() envoyConfig {
	r.t.Helper()
	args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--cluster", r.setup.cluster}
	for _, p := range r.pickers {
		args = append(args, "--picker", p.at.Extproc)
	}
	if r.setup.cluster == overrideHost {
		for _, p := range slices.Concat(r.fleet.pods, r.setup.strangers) {
			args = append(args, "--endpoint", p.address)
		}
	}
	if r.setup.h2 {
		args = append(args, "--upstream-http2")
	}
	if r.setup.plaintext {
		args = append(args, "--plaintext")
	}
	if r.setup.failOpen {
		args = append(args, "--fail-open")
	}
	config := printConfig(r.t, append(args, r.setup.envoyFlags...)...)
	if r.setup.patch != nil {
		r.setup.patch(config)
	}
	return config
}

// picker is the only one.
func (r *rig) picker() *picker {
	r.t.Helper()
	if len(r.pickers) != 1 {
		r.t.Fatalf("there are %d pickers", len(r.pickers))
	}
	return r.pickers[0]
}

// send sends a request through Envoy and reads the whole answer.
func (r *rig) send(ctx context.Context, c *call) *answer {
	res, err := r.open(ctx, c)
	return read(res, err)
}

// open sends a request and leaves the answer's body to be read.
func (r *rig) open(ctx context.Context, c *call) (*http.Response, error) {
	c.prepare()
	req, err := c.request(ctx, "http://"+r.envoy.front, nil)
	if err != nil {
		return nil, err
	}
	return r.clients.of(c.h2).Do(req)
}

// A story is what all sides must tell about a request.
type story struct {
	status   int    // that the client got; 0 = none
	attempts int    // pods that were asked
	flags    string // in the access log, a part of them; "" = none
	details  string // in the access log, a part of them

	// unpicked: the picker has no decision about it.
	unpicked bool
	refused  string // why no pod was picked
	state    string // the outcome's; "" = done
	err      string // the outcome's; where one can't know, "this|that"
	usage    bool   // the outcome has the engine's token counts
}

// served is the story of a request that a pod answered with 200 and usage.
var served = story{status: http.StatusOK, attempts: 1, details: "via_upstream", usage: true}

// tell compares the sides of a request that has ended with a story.
func (r *rig) tell(t *testing.T, c *call, a *answer, want story) *explain.Record {
	t.Helper()
	before := t.Failed()
	entry := r.envoy.entry(t, c.id)
	defer func() {
		if t.Failed() && !before {
			t.Logf("%s %s, a body of %d bytes in %d pieces, trailer %q, h2 %t, renamed %t, %+v; the access log says\n%s",
				c.id, c.path, len(c.body), c.pieces, c.trailer, c.h2, c.renamed, c.script, entry.line)
		}
	}()
	arrivals := r.arrivals(t, c, want)
	if a.status != want.status {
		t.Errorf("the client got status %d, error %v, want %d: %.300s", a.status, a.err, want.status, a.body)
	}
	if want.status != 0 && entry.Code != want.status {
		t.Errorf("Envoy logged code %d, want %d", entry.Code, want.status)
	}
	if !strings.Contains(entry.Details, want.details) {
		t.Errorf("Envoy logged the details %q, want %q", entry.Details, want.details)
	}
	if flags := strings.Trim(entry.Flags, "-"); !strings.Contains(flags, want.flags) || want.flags == "" && flags != "" {
		t.Errorf("Envoy logged the flags %q, want %q", entry.Flags, want.flags)
	}
	if want.unpicked {
		if rec := r.lookUp(c.id); rec != nil {
			t.Errorf("there is a decision: %+v", rec.Result)
		}
		return nil
	}
	rec := r.record(t, c.id)
	r.compare(t, rec, arrivals, want)
	return rec
}

// lookUp is the decision about a request, whichever picker made it.
func (r *rig) lookUp(id string) *explain.Record {
	r.t.Helper()
	for _, p := range r.pickers {
		if p.gone() {
			continue
		}
		if rec := p.lookUp(id); rec != nil {
			return rec
		}
	}
	return nil
}

// record waits until a request's decision has its outcome.
func (r *rig) record(t *testing.T, id string) *explain.Record {
	t.Helper()
	var found *explain.Record
	until(t, "a picker has the outcome of "+id, func() bool {
		found = r.lookUp(id)
		return found != nil && found.Outcome.State != explain.OutcomePending
	})
	return found
}

// arrivals waits until the pods are through with a request, and checks that
// what reached each is what was sent.
func (r *rig) arrivals(t *testing.T, c *call, want story) []*arrival {
	t.Helper()
	arrivals := r.fleet.seen(c.id)
	if len(arrivals) != want.attempts {
		t.Errorf("%d pods were asked, want %d", len(arrivals), want.attempts)
	}
	for _, a := range arrivals {
		if !within(patience, a.ended) {
			t.Fatal("a pod is not through with the request")
		}
		if a.err != nil {
			t.Errorf("%s got the body with the error %v", a.pod.name, a.err)
		}
		if body := c.forwarded(); a.length != len(body) || a.sum != sha256.Sum256(body) {
			t.Errorf("%s got a body of %d bytes, not the one of %d that it should", a.pod.name, a.length, len(body))
		}
		if got := a.trailer.Get(trailerName); got != c.trailer {
			t.Errorf("%s got the trailer %q, sent was %q", a.pod.name, got, c.trailer)
		}
		if a.method != c.method || a.uri != c.path {
			t.Errorf("%s got %s %s, sent was %s %s", a.pod.name, a.method, a.uri, c.method, c.path)
		}
		if proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[r.setup.h2]; a.proto != proto {
			t.Errorf("%s was asked with %s, want %s", a.pod.name, a.proto, proto)
		}
	}
	return arrivals
}

// compare checks a record against what the pods saw and the story.
func (r *rig) compare(t *testing.T, rec *explain.Record, arrivals []*arrival, want story) {
	t.Helper()
	o := &rec.Outcome
	if state := cmp.Or(want.state, explain.OutcomeDone); o.State != state {
		t.Errorf("the outcome is %s, want %s", o.State, state)
	}
	if rec.Result.Refused != want.refused {
		t.Errorf("refused is %q, want %q", rec.Result.Refused, want.refused)
	}
	if o.Status != want.status || !slices.Contains(strings.Split(want.err, "|"), o.Error) {
		t.Errorf("the outcome is %d %q, want %d %q", o.Status, o.Error, want.status, want.err)
	}
	if len(arrivals) > 0 {
		first, last := arrivals[0].pod, arrivals[len(arrivals)-1].pod
		if rec.Result.Pod != first.name || rec.Result.Endpoint != first.address {
			t.Errorf("picked was %s at %s, asked first %s at %s", rec.Result.Pod, rec.Result.Endpoint, first.name, first.address)
		}
		server := last.address
		if want.err == "gateway-reply" || want.status == 0 {
			server = ""
		}
		if o.ServedEndpoint != server {
			t.Errorf("the outcome says that %q served, want %q", o.ServedEndpoint, server)
		}
	}
	type usage struct{ Prompt, Cached int }
	got, counts := usage{-1, -1}, usage{-1, -1}
	if o.PromptTokens != nil && o.CachedTokens != nil {
		got = usage{*o.PromptTokens, *o.CachedTokens}
	}
	if want.usage {
		counts = usage{promptTokens, cachedTokens}
	}
	if diff := gocmp.Diff(counts, got); diff != "" {
		t.Errorf("the outcome's token counts differ (want -, got +):\n%s", diff)
	}
	if v, _, _ := explain.Replay(rec); !v.Identical {
		t.Errorf("the decision does not replay: %s", v.Difference)
	}
}

// streams waits until a number of requests is open at the picker.
func (r *rig) streams(t *testing.T, n float64) {
	t.Helper()
	until(t, fmt.Sprintf("the picker has %v streams", n), func() bool { return r.picker().metric("epp_extproc_streams") == n })
}
