package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/sim"
)

// case P2: every way out of a request ends its reservation, and its record says
// how it ended.
func TestEveryWayOutEndsTheReservation(t *testing.T) {
	r := start(t, serveOptions(2))
	short := r.completion(words("w", 64), 4)
	tests := []struct {
		name   string
		run    func(id string)
		status int
		err    string
	}{
		{name: "finished", status: 200, run: func(id string) { r.ask(id, completionsPath, short) }},
		{name: "streamed", status: 200, run: func(id string) {
			body := r.completion(words("w", 64), 4)
			body["stream"] = true
			if a, _ := r.ask(id, completionsPath, body); !strings.Contains(a.body, "[DONE]") {
				r.t.Errorf("no end of the stream: %s", a.body)
			}
		}},
		{name: "client hangs up before the answer", err: picker.ErrorClientGone, run: func(id string) {
			r.hold(sim.Channels{Answers: true})
			defer r.release()
			ctx, hangUp := context.WithCancel(r.ctx)
			defer hangUp()
			gone := make(chan *answer, 1)
			go func() { gone <- r.send(ctx, id, completionsPath, short) }()
			r.inFlight(1)
			hangUp()
			if a := <-gone; !errors.Is(a.err, context.Canceled) {
				r.t.Errorf("error %v", a.err)
			}
			r.inFlight(0)
		}},
		{name: "client hangs up in the stream", status: 200, err: picker.ErrorClientGone, run: func(id string) {
			body := r.completion(words("w", 64), 100_000)
			body["stream"] = true
			ctx, hangUp := context.WithCancel(r.ctx)
			defer hangUp()
			res, err := r.open(ctx, "http://"+r.at.Gateway+completionsPath, id, body)
			if err != nil {
				r.t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := res.Body.Read(make([]byte, 1)); err != nil {
				r.t.Fatal(err)
			}
			hangUp()
		}},
		{name: "upstream 500", status: 500, err: picker.ErrorUpstreamStatus, run: func(id string) {
			r.fail(sim.FailStatus)
			defer r.recover()
			if a := r.send(r.ctx, id, completionsPath, short); a.status != 500 {
				r.t.Errorf("status %d, error %v", a.status, a.err)
			}
		}},
		{name: "upstream closes before the answer", status: 502, err: picker.ErrorUpstreamFailed, run: func(id string) {
			r.fail(sim.FailClose)
			defer r.recover()
			if a := r.send(r.ctx, id, completionsPath, short); a.status != http.StatusBadGateway {
				r.t.Errorf("status %d, error %v", a.status, a.err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			id := strings.ReplaceAll(tt.name, " ", "-")
			tt.run(id)
			rec := r.completed(id)
			if o := rec.Outcome; o.Status != tt.status || o.Error != tt.err {
				t.Errorf("the record says status %d and %q, want %d and %q", o.Status, o.Error, tt.status, tt.err)
			}
			replayed(t, rec)
			r.inFlight(0)
		})
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) hold(c sim.Channels) { r.t.Helper(); r.must(r.fleet.Hold(sim.AllPods, c)) }
func (r *rig) release()            { r.t.Helper(); r.must(r.fleet.Release(sim.AllPods, sim.Everything())) }
func (r *rig) fail(way string)     { r.t.Helper(); r.must(r.fleet.Fail(sim.AllPods, way)) }

// cold is the health of a well pod that has nothing in its cache yet.
const cold = 0.9

// recover ends the faults and waits until the pods count as well again.
func (r *rig) recover() {
	r.t.Helper()
	r.must(r.fleet.Recover(sim.AllPods))
	r.until("all pods are well", func() bool {
		for _, p := range r.pods() {
			if p.State != "ready" || p.Health.Value == nil || *p.Health.Value < cold {
				return false
			}
		}
		return true
	})
}

// case P2: probes and scrapes come and go, and a pod flaps, while a request of
// 20 minutes runs.
func TestLongRequestIsCountedToItsEnd(t *testing.T) {
	opts := serveOptions(1)
	opts.Sim.Speed = 2000 // 20 minutes are 0.6 s
	opts.Config.Intervals.ScrapeMs = 20_000
	opts.Config.Intervals.ProbeMs = 100_000
	opts.Config.Intervals.PodReportMs = 100_000
	r := start(t, opts)
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("long", 1, func(int) object { return r.completion(words("l", 64), 1) })
	r.inFlight(1)
	before, began := r.pods()["sim-0"], r.server.clock.Now()

	member := r.member("sim-0")
	for _, notReady := range []bool{true, false} {
		member.NotReady = notReady
		r.must(r.server.setMembers([]pool.Member{member}))
		if l := r.ledger(); l.Open != 1 || l.InFlight != 1 {
			t.Errorf("not ready %t: the ledger says %+v", notReady, l)
		}
	}
	r.must(r.server.clock.Sleep(r.ctx, 20*time.Minute-r.server.clock.Now().Sub(began)))
	r.until("scrapes and probes were there", func() bool {
		p := r.pods()["sim-0"]
		return p.Scrapes.Total >= before.Scrapes.Total+10 && p.Reports.Total > before.Reports.Total && p.Health.AgeSeconds < 1000
	})
	l := r.ledger()
	if l.Open != 1 || l.InFlight != 1 || l.Pending != 0 {
		t.Errorf("after 20 minutes, and scrapes that saw the request, the ledger says %+v", l)
	}
	r.release()
	running.allWell(t)
	r.inFlight(0)
	rec := r.completed("long-0")
	if d := rec.Outcome.DurationSeconds; d == nil || *d < 20*60 {
		t.Errorf("the record says %v seconds", d)
	}
}

// member is a simulated pod as the pool knows it.
func (r *rig) member(name string) pool.Member {
	p := r.pod(name)
	return pool.Member{Name: p.Name, Address: p.Address, URL: p.URL}
}

// case P4: no new requests for a pod that terminates, and the running ones finish,
// also when it has left the pool.
func TestTerminatingPodFinishesWhatItHas(t *testing.T) {
	r := start(t, serveOptions(2))
	body := r.completion(words("t", 320), 1)
	_, rec := r.ask("warm", completionsPath, body)
	leaving := rec.Result.Pod
	r.quiet()
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("running", 2, func(int) object { return body })
	r.inFlight(2)

	members := []pool.Member{r.member("sim-0"), r.member("sim-1")}
	for i := range members {
		members[i].Terminating = members[i].Name == leaving
	}
	r.must(r.server.setMembers(members))
	late := r.crowd("late", 3, func(int) object { return body })
	r.inFlight(5)
	for i := range 3 {
		rec := r.decision(fmt.Sprint("late-", i))
		if c := candidate(t, rec, leaving); rec.Result.Pod == leaving || c.Reason != "terminating" || c.InFlight < 2 {
			t.Errorf("late-%d went to %s; the terminating pod is %q with %d in flight", i, rec.Result.Pod, c.Reason, c.InFlight)
		}
	}
	for i := range members {
		if members[i].Name != leaving {
			r.must(r.server.setMembers(members[i : i+1]))
			break
		}
	}
	if l := r.ledger(); l.Open != 5 || l.InFlight != 5 {
		t.Errorf("after the pod left, the ledger says %+v", l)
	}
	r.release()
	running.allWell(t)
	late.allWell(t)
	r.inFlight(0)
	if pods := r.pods(); len(pods) != 1 {
		t.Errorf("the pod that left is still there: %v", pods)
	}
}

// case P3, first part
func TestNoPods(t *testing.T) {
	opts := serveOptions(0)
	opts.EndpointsFile = filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(opts.EndpointsFile, []byte("endpoints: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, opts)
	r.model = "any"
	a := r.send(r.ctx, "nowhere", completionsPath, r.completion("hello", 1))
	if a.err != nil || a.status != http.StatusServiceUnavailable || a.code() != "no_endpoints" || !strings.Contains(a.body, "no endpoints") {
		t.Errorf("status %d, error %v: %s", a.status, a.err, a.body)
	}
	refusedFor(t, r.completed("nowhere"), "no-endpoint", 503)
	r.inFlight(0)
}

// case P3, second part
func TestAllPodsExcluded(t *testing.T) {
	r := start(t, serveOptions(2))
	r.must(r.fleet.SetHealth("sim-0", 0.1))
	members := []pool.Member{r.member("sim-0"), r.member("sim-1")}
	members[1].NotReady = true
	r.must(r.server.setMembers(members))
	r.until("sim-0 is known to be unhealthy", func() bool { return r.pods()["sim-0"].Reason == "unhealthy" })
	a := r.send(r.ctx, "excluded", completionsPath, r.completion("hello", 1))
	if a.err != nil || a.status != http.StatusServiceUnavailable || a.code() != "no_endpoints" {
		t.Errorf("status %d, error %v: %s", a.status, a.err, a.body)
	}
	for _, want := range []string{"sim-0 unhealthy", "sim-1 not-ready"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the client is not told %q: %s", want, a.body)
		}
	}
	rec := r.completed("excluded")
	refusedFor(t, rec, "no-endpoint", 503)
	report := explain.Explain(rec, explain.Options{})
	if report.Picked != nil || len(report.Excluded) != 2 {
		t.Errorf("picked %v, excluded %+v", report.Picked, report.Excluded)
	}
	r.inFlight(0)
}

func refusedFor(t *testing.T, rec *explain.Record, reason string, status int) {
	t.Helper()
	if rec.Result.Refused != reason || rec.Result.Index != -1 || rec.Outcome.Status != status {
		t.Errorf("the record says refused %q, index %d, status %d; want %q and %d", rec.Result.Refused, rec.Result.Index, rec.Outcome.Status, reason, status)
	}
	replayed(t, rec)
}

// case P3, third part
func TestAllQueuesFull(t *testing.T) {
	const pods, maxQueue = 2, 3
	for _, tt := range []struct {
		saturation string
		status     int
	}{{"relax", 200}, {"reject", 429}} {
		t.Run(tt.saturation, func(t *testing.T) {
			opts := serveOptions(pods)
			opts.Config.MaxQueue, opts.Config.Saturation = maxQueue, tt.saturation
			r := start(t, opts)
			r.hold(sim.Everything())
			filling := r.crowd("filling", pods*maxQueue, func(i int) object { return r.completion(words(fmt.Sprint(i), 64), 1) })
			r.inFlight(pods * maxQueue)
			for i := range pods * maxQueue {
				if rec := r.decision(fmt.Sprint("filling-", i)); rec.Result.Relaxed {
					t.Errorf("filling-%d was relaxed while there was room", i)
				}
			}
			over := r.crowd("over", 1, func(int) object { return r.completion(words("o", 64), 1) })
			if tt.status == 200 {
				r.inFlight(pods*maxQueue + 1)
			} else {
				over.wg.Wait()
				r.inFlight(pods * maxQueue)
			}
			r.release()
			over.wg.Wait()
			a := over.answers[0]
			if a.err != nil || a.status != tt.status {
				t.Fatalf("status %d, error %v: %s", a.status, a.err, a.body)
			}
			rec := r.completed("over-0")
			if tt.status == 200 {
				if !rec.Result.Relaxed {
					t.Error("the record does not say that the limit was let go")
				}
			} else {
				refusedFor(t, rec, "saturated", 429)
				if a.code() != "saturated" || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "queue-full") {
					t.Errorf("the client is told %v: %s", a.header, a.body)
				}
			}
			r.because("over-0", explain.CauseSaturated, "queue")
			filling.allWell(t)
			r.inFlight(0)
		})
	}
}
