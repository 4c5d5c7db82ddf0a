package e2e

import (
	"net/http"
	"testing"
)

// A pod that says that it is busy is passed over for the next of the list.
func TestFallbackAfter503(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		r := build(t, setup{cluster: overrideHost, h2: h2, fallbacks: 2, envoyFlags: retries})
		for _, body := range [][]byte{small, completionOf(2 << 20)} {
			for busy := 1; busy <= 2; busy++ {
				c := &call{body: body, script: script{Busy: busy}}
				a := r.send(t.Context(), c)
				want := served
				want.attempts = busy + 1
				rec := r.tell(t, c, a, want)
				got(t, c, a)
				if e := r.envoy.entry(t, c.id); e.Attempts != want.attempts {
					t.Errorf("Envoy logged %d attempts, want %d", e.Attempts, want.attempts)
				}
				if rec == nil {
					continue
				}
				for i, seen := range r.fleet.seen(c.id) {
					if next := rec.Candidates[rec.Result.Order[i]].Pod; seen.pod.name != next {
						t.Errorf("attempt %d went to %s, the list says %s", i+1, seen.pod.name, next)
					}
				}
			}
		}
	}
}

// With the fallbacks of the list a request outlives two dead pods of three.
func TestFallbackPastDeadPods(t *testing.T) {
	r := build(t, setup{cluster: overrideHost, fallbacks: 2, envoyFlags: retries})
	for _, p := range r.fleet.pods[1:] {
		p.server.Close()
	}
	alive := r.fleet.pods[0]
	retried := false
	for range 20 {
		c := &call{body: small}
		a := r.send(t.Context(), c)
		got(t, c, a)
		arrivals := r.fleet.seen(c.id)
		if a.status != http.StatusOK || len(arrivals) != 1 || arrivals[0].pod != alive {
			t.Fatalf("status %d, error %v, %d arrivals; the access log says\n%s", a.status, a.err, len(arrivals), r.envoy.entry(t, c.id).line)
		}
		rec := r.record(t, c.id)
		if o := rec.Outcome; o.Status != http.StatusOK || o.ServedEndpoint != alive.address || o.Error != "" {
			t.Errorf("the outcome is %+v", o)
		}
		if rec.Result.Pod != alive.name {
			retried = true
			if len(rec.Attempts) < 2 {
				t.Errorf("picked was %s, served has %s, and the record has the attempts %+v", rec.Result.Pod, alive.name, rec.Attempts)
			}
		}
	}
	if !retried {
		t.Error("no dead pod was picked, so nothing is shown")
	}
}
