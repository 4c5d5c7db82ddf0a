package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// load is clients that send one request after another.
type load struct {
	r       *rig
	clients sync.WaitGroup
	stop    chan struct{}
	done    atomic.Int64 // requests that have ended

	mu     sync.Mutex
	failed []*call // those that did not get their whole answer, and know it
	wrong  []*call // those that got another one, and can't know
}

// traffic is what the clients of a load send in turn.
func traffic(i int) *call {
	switch i % 4 {
	case 0:
		return &call{body: small}
	case 1:
		return &call{body: completionOf(50 << 10), h2: true}
	case 2:
		return &call{body: completion(model, 20, true), script: script{Events: 10, Pause: time.Millisecond}}
	}
	return &call{method: http.MethodGet, path: "/v1/models", h2: true}
}

// start sends requests from n clients until the load is ended.
func (r *rig) start(t *testing.T, n int) *load {
	l := &load{r: r, stop: make(chan struct{})}
	for first := range n {
		l.clients.Go(func() {
			for i := first; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				l.one(t.Context(), traffic(i))
				if l.failing() {
					time.Sleep(5 * time.Millisecond) // as clients do that have to try again
				}
			}
		})
	}
	return l
}

func (l *load) one(ctx context.Context, c *call) {
	a := l.r.send(ctx, c)
	l.done.Add(1)
	if a.err == nil && a.status == http.StatusOK && bytes.Equal(a.body, c.expected()) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.err == nil && a.status == http.StatusOK {
		l.wrong = append(l.wrong, c)
		return
	}
	l.failed = append(l.failed, c)
}

// failing reports whether there was a failure.
func (l *load) failing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failed) > 0
}

// end stops the load when at least n requests have been made, and returns those
// that failed.
func (l *load) end(t *testing.T, n int64) []*call {
	t.Helper()
	until(t, "the clients have sent enough", func() bool { return l.done.Load() >= n })
	close(l.stop)
	l.clients.Wait()
	if len(l.wrong) > 0 {
		t.Errorf("%d clients took a wrong answer for right", len(l.wrong))
		l.r.show(t, l.wrong)
	}
	return l.failed
}

// drainFlags let a picker serve on for long enough that Envoy's health check has
// turned away.
var drainFlags = []string{"--drain", "2s"}

// show logs what Envoy says of requests.
func (r *rig) show(t *testing.T, failed []*call) {
	t.Helper()
	for _, c := range failed[:min(len(failed), 5)] {
		t.Log(r.envoy.entry(t, c.id).line)
	}
}

// A picker that is asked to end takes nobody with it when there is another.
func TestPickerEndsUnderLoadBesideAnother(t *testing.T) {
	r := build(t, setup{pickers: 2, pickerFlags: drainFlags})
	l := r.start(t, 16)
	until(t, "both pickers have work", func() bool { return l.done.Load() > 200 })
	r.pickers[0].signal(syscall.SIGTERM)
	if !within(patience, r.pickers[0].exited) {
		t.Fatal("the picker did not end")
	}
	if code := r.pickers[0].cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the picker ended with status %d", code)
	}
	if failed := l.end(t, 2000); len(failed) > 0 {
		t.Errorf("%d of %d requests failed", len(failed), l.done.Load())
		r.show(t, failed)
	}
}

// A picker that is killed takes with it what is open at that moment.
func TestPickerIsKilledUnderLoadBesideAnother(t *testing.T) {
	const clients = 16
	r := build(t, setup{pickers: 2})
	l := r.start(t, clients)
	until(t, "both pickers have work", func() bool { return l.done.Load() > 200 })
	r.pickers[0].end(syscall.SIGKILL)
	failed := l.end(t, l.done.Load()+1000)
	t.Logf("%d of %d requests failed", len(failed), l.done.Load())
	if len(failed) > clients {
		t.Errorf("%d of %d requests failed, at most %d were open", len(failed), l.done.Load(), clients)
		r.show(t, failed)
	}
}

// What runs when the only picker is asked to end comes to its end; what comes
// later fails, until the picker is back.
func TestPickerEndsAndComesBack(t *testing.T) {
	r := build(t, setup{pickerFlags: drainFlags})
	p, l := r.picker(), r.start(t, 8)
	c := &call{body: completion(model, 20, true), script: script{Events: 20, Hold: midAnswer}}
	res, err := r.open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	until(t, "Envoy knows that the picker ends", func() bool { return len(r.envoy.healthy(t, "picker")) == 0 })
	r.fleet.release(c.id)
	got(t, c, read(res, nil))
	if !within(patience, p.exited) {
		t.Fatal("the picker did not end")
	}
	r.fails(t)
	r.back(t, p)
	l.end(t, l.done.Load()+100)
}

// fails checks that without a picker requests end in an error, and never in half
// an answer.
func (r *rig) fails(t *testing.T) {
	t.Helper()
	for _, c := range []*call{{body: small}, {body: small, h2: true}, {method: http.MethodGet, path: "/v1/models"}} {
		a := r.send(t.Context(), c)
		if a.status != http.StatusInternalServerError || len(r.fleet.seen(c.id)) != 0 {
			t.Errorf("without a picker: status %d, error %v, %d pods asked", a.status, a.err, len(r.fleet.seen(c.id)))
		}
		if e := r.envoy.entry(t, c.id); e.Code != http.StatusInternalServerError {
			t.Errorf("the access log says %s", e.line)
		}
	}
}

// back starts the picker anew where it was, and checks that all is well.
func (r *rig) back(t *testing.T, was *picker) {
	t.Helper()
	r.pickers = []*picker{r.startPicker(was.at.Extproc)}
	r.t.Cleanup(r.close)
	until(t, "Envoy asks the picker again", func() bool {
		c := &call{method: http.MethodGet, path: "/v1/models"}
		return r.send(t.Context(), c).status == http.StatusOK && r.picker().lookUp(c.id) != nil
	})
	for _, c := range []*call{{body: small}, {body: small, h2: true}, {method: http.MethodGet, path: "/v1/models"}} {
		a := r.send(t.Context(), c)
		r.tell(t, c, a, served)
		got(t, c, a)
	}
}

func TestPickerIsKilledAndComesBack(t *testing.T) {
	r := build(t, setup{})
	p, l := r.picker(), r.start(t, 8)
	streaming := &call{body: completion(model, 20, true), script: script{Events: 20, Hold: midAnswer}}
	res, err := r.open(t.Context(), streaming)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	waiting := &call{body: small, script: script{Hold: beforeAnswer}}
	waiting.prepare()
	answered := make(chan *answer, 1)
	go func() { answered <- r.send(t.Context(), waiting) }()
	until(t, "the pod has the request", func() bool { return len(r.fleet.seen(waiting.id)) == 1 })

	p.end(syscall.SIGKILL)
	if a := read(res, nil); a.err == nil {
		t.Error("the client took half a stream for the whole")
	}
	if a := <-answered; a.status != http.StatusInternalServerError {
		t.Errorf("what waited for its pod got %d, error %v", a.status, a.err)
	}
	r.told(t, streaming)
	r.told(t, waiting)
	r.fails(t)
	r.back(t, p)
	l.end(t, l.done.Load()+100)
}

// Behind a list of pods and fail-open Envoy picks by itself as soon as it knows
// that the picker is away; until then what has a body fails.
func TestFailOpen(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		r := build(t, setup{cluster: overrideHost, failOpen: true, h2: h2})
		p := r.picker()
		p.end(syscall.SIGKILL)
		until(t, "Envoy knows that the picker is away", func() bool { return len(r.envoy.healthy(t, "picker")) == 0 })
		for _, c := range []*call{
			{method: http.MethodGet, path: "/v1/models"},
			{body: small},
			{body: completionOf(2 << 20)},
			{body: completionOf(2 << 20), pieces: 20, h2: true},
			{body: small, trailer: "after the body"},
			{body: completion(model, 20, true), script: script{Events: 100}},
		} {
			a := r.send(t.Context(), c)
			got(t, c, a)
			arrivals := r.arrivals(t, c, served)
			if a.status != http.StatusOK || len(arrivals) != 1 {
				t.Errorf("status %d, error %v; the access log says\n%s", a.status, a.err, r.envoy.entry(t, c.id).line)
			}
		}
		r.back(t, p)
	}
}
