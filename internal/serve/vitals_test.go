package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/sim"
)

// says is what the admin API says of a pod's health; -1 is unknown.
func (r *rig) says(pod string) (value float64, detail string, p admin.Pod) {
	r.t.Helper()
	p = r.pods()[pod]
	if p.Health.Value == nil {
		return -1, p.Health.Detail, p
	}
	return *p.Health.Value, p.Health.Detail, p
}

func TestDrainedPodFinishesWhatItHas(t *testing.T) {
	opts := serveOptions(2)
	opts.AllowWrite = true
	r := start(t, opts)
	body := r.completion(words("d", 640), 1)
	_, rec := r.ask("first", completionsPath, body)
	warm := rec.Result.Pod // it holds the prefix, so that all would go there
	r.quiet()
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("running", 3, func(int) object { return body })
	r.inFlight(3)

	list, err := r.admin.Drain(r.ctx, warm, true)
	if err != nil || len(list.Items) != 1 || list.Items[0].InFlight != 3 {
		t.Fatalf("drained: %+v, %v; want 3 requests that still run", list, err)
	}
	v, detail, p := r.says(warm)
	if v != 0 || p.Health.Source != "manual" || detail != "0.00: drained by an operator" || p.Reason != "unhealthy" {
		t.Errorf("health %+v, reason %q; want the operator's 0", p.Health, p.Reason)
	}
	if p.Signals == nil || p.Signals.Band != "failed" || p.Signals.Costs[0].Signal != "operator" {
		t.Errorf("signals %+v", p.Signals)
	}
	other := r.crowd("other", 1, func(int) object { return body })
	r.inFlight(4)
	r.release()
	running.allWell(t)
	other.allWell(t)
	r.inFlight(0)

	rec = r.completed("other-0")
	if rec.Result.Pod == warm {
		t.Errorf("a new request went to %s, which is drained", warm)
	}
	replayed(t, rec)
	r.because("other-0", explain.CauseOwnerUnhealthy, warm+" would have won", "drained by an operator")
	if _, err := r.admin.Drain(r.ctx, warm, false); err != nil {
		t.Fatal(err)
	}
	if v, _, p := r.says(warm); v <= 0 || p.Health.Source == "manual" || p.State != "ready" {
		t.Errorf("undrained, and health is %v by %s, state %s", v, p.Health.Source, p.State)
	}
	r.until("all is well", func() bool { v, _, _ := r.says(warm); return v == 1 })
}

// An engine that answers GET /health and computes nothing is found out, and
// recovers.
func TestStuckEngineIsFoundByTokens(t *testing.T) {
	opts := serveOptions(1)
	opts.Config.Probes.Active = true
	opts.Config.Probes.IntervalSeconds = 2
	opts.Config.Probes.TimeoutSeconds = .3
	r := start(t, opts)
	r.ask("warms it up", completionsPath, r.completion(words("s", 64), 1))
	r.until("it is well by its tokens", func() bool {
		v, _, p := r.says("sim-0")
		return v == 1 && p.Signals != nil && !slices.Contains(p.Signals.Unknown, "generation")
	})
	if l, n := r.ledger(), len(r.decisions()); l.Open != 0 || l.InFlight != 0 || n != 1 {
		t.Errorf("the ledger has %+v, and %d decisions are recorded; want the client's one alone", l, n)
	}
	r.hold(sim.Channels{Answers: true})
	r.until("it fails", func() bool {
		v, detail, p := r.says("sim-0")
		return v == 0 && p.Reason == "unhealthy" && strings.HasPrefix(detail, "0.00: 1-token probe: timeout after 300ms, ")
	})
	r.release()
	r.until("it recovers", func() bool {
		v, detail, _ := r.says("sim-0")
		return v >= .3 && v < 1 && strings.Contains(detail, ": recovering from 1-token probe: timeout after 300ms")
	})
	r.until("it is well", func() bool { v, _, _ := r.says("sim-0"); return v == 1 })
}

// What a GPU's exporter says reaches the score, the record and the explanation.
func TestFaultsOfGPUsCostPoints(t *testing.T) {
	r := start(t, serveOptions(1))
	body := r.completion(words("g", 64), 1)
	r.ask("warms it up", completionsPath, body)
	r.until("all is well", func() bool {
		v, _, p := r.says("sim-0")
		return v == 1 && !slices.Contains(p.Signals.Unknown, "temperature") && !slices.Contains(p.Signals.Unknown, "warmth")
	})
	for _, fault := range []struct {
		gpu  sim.GPU
		want float64
		note string
	}{
		{sim.GPU{Temperature: 86, Throttled: 1 << 5}, .7, "0.70: 86 °C, throttling"},
		{sim.GPU{Throttled: 0x40}, .6, "0.60: slowed down by the hardware"},
		{sim.GPU{SingleBitErrors: 4}, .9, "0.90: 4 corrected ECC errors"},
		{sim.GPU{SingleBitErrors: 4, XID: 79}, .2, "0.20: XID 79: GPU has fallen off the bus"},
		{sim.GPU{SingleBitErrors: 4, DoubleBitErrors: 1}, .2, "0.20: 1 uncorrectable ECC errors"},
	} {
		r.must(r.fleet.SetGPU("sim-0", fault.gpu))
		r.until(fault.note, func() bool {
			v, detail, p := r.says("sim-0")
			return v == fault.want && detail == fault.note && p.Health.Source == "dcgm"
		})
	}
	a := r.send(r.ctx, "refused", completionsPath, body)
	if a.status != 503 || !strings.Contains(a.body, "sim-0 unhealthy") {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	rec := r.completed("refused")
	replayed(t, rec)
	report := explain.Explain(rec, explain.Options{})
	if want := "health 0.2 is below 0.3: 1 uncorrectable ECC errors"; len(report.Excluded) != 1 || report.Excluded[0].Detail != want {
		t.Errorf("excluded %+v, want %q", report.Excluded, want)
	}
}
