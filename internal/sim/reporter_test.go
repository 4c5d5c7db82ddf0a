package sim

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/report"
)

// reported starts a fleet that reports to a receiver.
func reported(t *testing.T, cfg Config) (*Fleet, *receiver) {
	t.Helper()
	r := newReceiver(t)
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	cfg.ReportURL = func() string { return srv.URL + "/v1/reports" }
	return start(t, cfg), r
}

func waitReported(t *testing.T, f *Fleet) {
	t.Helper()
	if err := f.WaitReported(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReportsFollowTheCache(t *testing.T) {
	f, r := reported(t, Config{Pods: 2, Blocks: 64, ReportToken: "s3cret", Adapters: adapters("fr")})
	for i := range 12 { // 8 blocks each, so that old ones are evicted
		pod := f.Pods()[i%2]
		complete(t, pod, completionsPath, idsPrompt(i, 8*16, `,"max_tokens":1`))
		if i%3 == 0 {
			complete(t, pod, chatPath, `{"model":"fr","cache_salt":"x","messages":[{"role":"user","content":"a text of some length, more than sixteen tokens, so that it fills blocks"}]}`)
		}
		if i%2 == 1 {
			waitReported(t, f)
			for _, p := range f.Pods() {
				if got := r.known(p.Name); got != p.BlocksCached {
					t.Errorf("after %d requests %s has %d blocks, the receiver knows %d", i+1, p.Name, p.BlocksCached, got)
				}
			}
		}
	}
	last := r.last()
	if last.Full || last.Model != DefaultModel || last.BlockSize != 16 || last.Epoch == 0 || *last.Health != 1 || *last.QueueDepth != 0 {
		t.Errorf("the last report: %+v", last)
	}
	if diff := cmp.Diff([]string{"fr"}, last.Adapters); diff != "" {
		t.Errorf("adapters (-want +got):\n%s", diff)
	}
	if len(r.tokens) != 1 || !r.tokens["Bearer s3cret"] {
		t.Errorf("tokens sent: %v", r.tokens)
	}
	full := map[string]int{}
	for _, rep := range r.reports {
		if rep.Full {
			full[rep.Pod]++
		}
	}
	if diff := cmp.Diff(map[string]int{"sim-0": 1, "sim-1": 1}, full); diff != "" {
		t.Errorf("full reports (-want +got):\n%s", diff)
	}
}

func TestReportsAreFullAfterTrouble(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
	}{
		{"asked for", 200, `{"resync":true}`},
		{"an error", 500, `oops`},
		{"an answer that is none", 200, `<html>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, r := reported(t, Config{})
			pod := f.Pods()[0]
			complete(t, pod, completionsPath, idsPrompt(1, 64, `,"max_tokens":1`))
			waitReported(t, f)
			refused := make(chan uint64, 1)
			r.setAnswer(func(rep *report.Report) (int, string) { // once, and only an increment
				if rep.Full || len(refused) > 0 {
					return 0, ""
				}
				refused <- rep.Seq
				return tt.status, tt.body
			})
			complete(t, pod, completionsPath, idsPrompt(2, 64, `,"max_tokens":1`))
			until(t, "a report was refused", func() bool { return len(refused) > 0 })
			waitReported(t, f)
			if got := r.known(pod.Name); got != 8 {
				t.Errorf("the receiver knows %d blocks, want 8", got)
			}
			seq := <-refused
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, rep := range r.reports {
				if rep.Seq == seq+1 && !rep.Full {
					t.Errorf("report %d follows a refused one and is an increment", rep.Seq)
				}
			}
		})
	}
}

func TestRestartChangesTheEpoch(t *testing.T) {
	f, r := reported(t, Config{})
	pod := f.Pods()[0]
	complete(t, pod, completionsPath, idsPrompt(1, 64, `,"max_tokens":1`))
	waitReported(t, f)
	before := r.last()
	if err := f.Restart(AllPods); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections() // to the server that is gone
	waitReported(t, f)
	after := r.last()
	if after.Epoch <= before.Epoch || r.known(pod.Name) != 0 || f.Pods()[0].Address != pod.Address {
		t.Errorf("epoch %d, then %d; %d blocks known after the restart", before.Epoch, after.Epoch, r.known(pod.Name))
	}
	if c := complete(t, pod, completionsPath, idsPrompt(1, 64, `,"max_tokens":1`)); c.Usage.Details.Cached != 0 {
		t.Errorf("%d tokens cached after a restart", c.Usage.Details.Cached)
	}
}

func TestReportsHeldAndDropped(t *testing.T) {
	f, r := reported(t, Config{})
	pod := f.Pods()[0]
	waitReported(t, f)
	for _, tt := range []struct {
		name      string
		stop, end func() error
	}{
		{"held", func() error { return f.Hold("sim-0", Channels{Reports: true}) }, func() error { return f.Release("sim-0", Everything()) }},
		{"dropped", func() error { return f.Drop("sim-0") }, func() error { return f.Recover("sim-0") }},
		{"failing", func() error { return f.Fail("sim-0", FailStatus) }, func() error { return f.Recover("sim-0") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.stop(); err != nil {
				t.Fatal(err)
			}
			pass := func(d time.Duration) uint64 {
				if err := clock.NewScaled(50).Sleep(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				return f.Pods()[0].ReportSeq
			}
			before := pass(4 * DefaultReportInterval) // what was under way has left
			if after := pass(5 * DefaultReportInterval); after != before {
				t.Errorf("%d reports were sent", after-before)
			}
			if err := tt.end(); err != nil {
				t.Fatal(err)
			}
			complete(t, pod, completionsPath, idsPrompt(len(tt.name), 64, `,"max_tokens":1`))
			waitReported(t, f)
			if got, want := r.known("sim-0"), f.Pods()[0].BlocksCached; got != want {
				t.Errorf("afterwards the receiver knows %d blocks of %d", got, want)
			}
		})
	}
}
