package serve

import (
	"context"
	"fmt"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
)

func TestStaleCacheRoutingIsTold(t *testing.T) {
	for _, lost := range []struct {
		name string
		lose func(f *sim.Fleet, pod string) error
	}{
		{"reports dropped", (*sim.Fleet).Drop},
		{"reports held", func(f *sim.Fleet, pod string) error { return f.Hold(pod, sim.Channels{Reports: true}) }},
	} {
		t.Run(lost.name, func(t *testing.T) {
			r := start(t, serveOptions(4))
			const length = 640
			body := r.completion(words("e", length), 1)
			_, rec := r.ask("first", completionsPath, body)
			pod := rec.Result.Pod
			r.quiet()
			const stale = "epp_stale_cache_routing_total"
			if got := r.ours(stale); got != "0" {
				t.Fatalf("%s is %s at the start", stale, got)
			}
			if err := lost.lose(r.fleet, pod); err != nil {
				t.Fatal(err)
			}
			if n, err := r.fleet.Evict(pod, -1); err != nil || n == 0 {
				t.Fatalf("evicted %d blocks, error %v", n, err)
			}

			_, rec = r.ask("deceived", completionsPath, body)
			replayed(t, rec)
			if rec.Result.Pod != pod {
				t.Fatalf("picked %s, believed to hold the prefix is %s", rec.Result.Pod, pod)
			}
			// The engine computes at least the last token, so of 40 blocks 39 count.
			if predicted := countOf(t, "prediction", rec.Outcome.PredictedCached); predicted != length-16 {
				t.Errorf("predicted are %d cached tokens, want %d", predicted, length-16)
			}
			if cached := countOf(t, "engine's count", rec.Outcome.CachedTokens); cached != 0 {
				t.Errorf("the engine found %d tokens after its cache was emptied", cached)
			}
			r.until("the metric counts it", func() bool { return r.ours(stale) == "1" })
			report := explain.Explain(rec, explain.Options{})
			if report.Outcome.Cache != explain.CacheStale {
				t.Errorf("the explanation says %q", report.Outcome.Cache)
			}
			r.because("deceived", explain.CauseEvicted, fmt.Sprint(length-16), "gone since the last report of "+pod)
		})
	}
}

func TestOneOver64SequencesWaits(t *testing.T) {
	const sequences = 64
	opts := serveOptions(1)
	opts.Sim.Speed = 1
	opts.Config.Intervals.PodReportMs = 100
	opts.Config.MaxQueue = 100
	r := start(t, opts)
	ctx, hangUp := context.WithCancel(r.ctx)
	defer hangUp()
	running := &crowd{answers: make([]*answer, sequences+1)}
	for i := range running.answers {
		running.wg.Go(func() {
			running.answers[i] = r.send(ctx, fmt.Sprint("long-", i), completionsPath, r.completion(words(fmt.Sprintf("%02d", i), 32), 100_000))
		})
	}
	r.until("64 sequences run and 1 waits, by a page that has seen every pick", func() bool {
		p := r.pods()["sim-0"]
		return p.Running.Value != nil && *p.Running.Value == sequences && p.Waiting.Value != nil && *p.Waiting.Value == 1 && p.Pending == 0
	})
	page := r.pod("sim-0").URL + "/metrics"
	labels := fmt.Sprintf(`{engine="0",model_name=%q}`, r.model)
	for sample, want := range map[string]string{"vllm:num_requests_running": "64", "vllm:num_requests_waiting": "1"} {
		if got := r.metric(page, sample+labels); got != want {
			t.Errorf("the pod's page says %s %s, want %s", sample, got, want)
		}
	}
	if got := r.ours(`epp_queue_depth{pod="sim-0"}`); got != "1" {
		t.Errorf("epp_queue_depth is %s, want 1", got)
	}
	if got := r.ours(`epp_pod_engine_requests{pod="sim-0"}`); got != "65" {
		t.Errorf("epp_pod_engine_requests is %s, want the 65 in flight", got)
	}
	if l := r.ledger(); l.InFlight != sequences+1 || l.Pods[0].Engine == nil || *l.Pods[0].Engine != sequences+1 {
		t.Errorf("the ledger has %+v; want the engine's count beside the picker's", l)
	}
	hangUp()
	running.wg.Wait()
	r.inFlight(0) // case P2: the clients hung up
}

// case B7
func TestSaltsShareNothing(t *testing.T) {
	r := start(t, serveOptions(1))
	const length = 320
	ask := func(id, salt string) int {
		t.Helper()
		body := r.completion(words("b", length), 1)
		if salt != "" {
			body["cache_salt"] = salt
		}
		_, rec := r.ask(id, completionsPath, body)
		r.quiet()
		predicted, cached := countOf(t, "prediction", rec.Outcome.PredictedCached), countOf(t, "engine's count", rec.Outcome.CachedTokens)
		if predicted != cached {
			t.Errorf("%s: %d tokens were predicted to be cached, the engine found %d", id, predicted, cached)
		}
		return cached
	}
	for _, salt := range []string{"A", "B", ""} {
		if n := ask(fmt.Sprintf("first-%q", salt), salt); n != 0 {
			t.Errorf("the first request with salt %q found %d tokens of others", salt, n)
		}
	}
	for _, salt := range []string{"A", "B", ""} {
		if n := ask(fmt.Sprintf("again-%q", salt), salt); n != length-16 {
			t.Errorf("the second request with salt %q found %d tokens of its own, want %d", salt, n, length-16)
		}
	}
}

// case K3: a pod that is back under its name holds nothing of before.
func TestRestartedPodMatchesNothing(t *testing.T) {
	r := start(t, serveOptions(2))
	body := r.completion(words("k", 320), 1)
	_, rec := r.ask("before", completionsPath, body)
	pod := rec.Result.Pod
	r.quiet()
	before := r.pods()[pod]
	if before.Cache.Blocks == nil || *before.Cache.Blocks == 0 {
		t.Fatalf("the picker knows of no blocks on %s", pod)
	}
	if err := r.fleet.Restart(pod); err != nil {
		t.Fatal(err)
	}
	r.quiet()
	after := r.pods()[pod]
	if after.Reports.Epoch == before.Reports.Epoch || after.Cache.Blocks == nil || *after.Cache.Blocks != 0 {
		t.Errorf("after the restart: epoch %d (before: %d), blocks %v", after.Reports.Epoch, before.Reports.Epoch, after.Cache.Blocks)
	}
	_, rec = r.ask("after", completionsPath, body)
	replayed(t, rec)
	for _, c := range rec.Candidates {
		if n := matched(t, rec, c.Pod); n != 0 {
			t.Errorf("%s is believed to hold %d blocks", c.Pod, n)
		}
	}
	if n := countOf(t, "prediction", rec.Outcome.PredictedCached); n != 0 {
		t.Errorf("%d cached tokens were predicted", n)
	}
}
