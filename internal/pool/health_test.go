package pool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/health"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

// healthy probes the pod once, as one that is well.
func (p *Pool) healthy(pod string) {
	p.Probed(p.target(pod), engine.Probe{Healthy: true, At: time.Now()})
}

func (p *Pool) probeFails(pod string) {
	p.Probed(p.target(pod), engine.Probe{Reason: "timeout after 1s", At: time.Now()})
}

// reports sends a report with that health and nothing else.
func (p *Pool) reports(t *testing.T, value float64) {
	t.Helper()
	time.Sleep(time.Millisecond)
	p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: uint64(time.Now().UnixNano()), Full: true, Model: "m", Health: &value})
}

func value(v float64) engine.Value { return engine.Value{Known: true, V: v} }

// expectHealth compares the health that a decision would see.
func (p *Pool) expectHealth(t *testing.T, when string, want float64, source score.Source, note string) {
	t.Helper()
	s := p.state(t, "a")
	got := ""
	if s.Notes != nil {
		got = s.Notes[score.Health]
	}
	if s.Health.State != score.Known || s.Health.Value != want || s.Health.Source != source || got != note {
		t.Errorf("%s: health %+v %q, want %v from %v, %q", when, s.Health, got, want, source, note)
	}
}

func TestHealthNamesWhatCostThePoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, "a")
		p.healthy("a")
		p.expectHealth(t, "nothing but a probe", 1, score.SourceProbe, "")
		p.reports(t, .7)
		p.healthy("a")
		p.expectHealth(t, "its own report", .7, score.SourceReport, "0.70: as the pod itself reports")
		p.reports(t, 1)
		p.healthy("a")
		p.expectHealth(t, "a report of an empty cache", .9, score.SourceProbe, "0.90: nothing cached")
		p.send(t, &report.Report{Pod: "a", Epoch: 2, Seq: 1, Full: true, Model: "m", Chains: chain(blocks(4))})
		p.healthy("a")
		p.expectHealth(t, "a report of a warm one", 1, score.SourceProbe, "")

		gpu := engine.GPU{
			Temperature: value(86), Throttled: value(1 << 5), SingleBitErrors: value(7), DoubleBitErrors: value(1),
			MemoryUsed: value(70_000), MemoryFree: value(10_000),
		}
		measure := func() { p.Measured(p.target("a"), engine.Measurement{GPU: gpu, At: time.Now()}) }
		measure()
		p.expectHealth(t, "heat, and errors of long ago", .7, score.SourceDCGM, "0.70: 86 °C, throttling")
		gpu.DoubleBitErrors = value(2)
		measure()
		p.expectHealth(t, "an error that is new", .2, score.SourceDCGM, "0.20: 1 uncorrectable ECC errors")
		if v := p.Views()[0]; v.Health == nil || health.BandOf(v.Health.Score) != health.Out || len(v.Health.Costs) != 3 {
			t.Errorf("the view has %+v, want three costs", v.Health)
		}
		p.Measured(p.target("a"), engine.Measurement{Err: errors.New("HTTP 500"), At: time.Now()})
		time.Sleep(5100 * time.Millisecond)
		p.healthy("a")
		p.expectHealth(t, "when the exporter is silent", 1, score.SourceProbe, "")

		p.Refused("a", "127.0.0.1:8000", "connection refused")
		p.expectHealth(t, "a refused request", 0, score.SourceProbe, "0.00: connection refused")
		p.Probed(p.target("a"), engine.Probe{Healthy: true, At: time.Now().Add(-time.Second)})
		p.expectHealth(t, "a probe from before that", 0, score.SourceProbe, "0.00: connection refused")
	})
}

func TestHealthFailsAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, "a")
		p.probeFails("a")
		if s := p.state(t, "a"); s.Health.State != score.Unknown {
			t.Errorf("after a failure and nothing else health is %+v, want unknown", s.Health)
		}
		p.healthy("a")
		for _, want := range []float64{.9, .7, 0, 0} {
			p.probeFails("a")
			if s := p.state(t, "a"); s.Health.Value != want {
				t.Errorf("health %+v, want %v", s.Health, want)
			}
			time.Sleep(time.Second)
		}
		from := time.Now()
		for _, want := range []float64{.3, .3, .4, .4, .5, .5, .6, .6, .7, .7, .8, .8, .9, .9, 1, 1} {
			p.healthy("a")
			if s := p.state(t, "a"); s.Health.Value != want {
				t.Errorf("%v after the first success health is %+v, want %v", time.Since(from), s.Health, want)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestHealthGrowsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, "a")
		p.Measured(p.target("a"), engine.Measurement{GPU: engine.GPU{Temperature: value(95)}, At: time.Now()})
		if s := p.state(t, "a"); s.Health.State != score.Unknown {
			t.Errorf("a temperature alone makes health %+v, want unknown", s.Health)
		}
		p.probeFails("a")
		p.probeFails("a")
		p.probeFails("a")
		time.Sleep(5100 * time.Millisecond)
		s := p.state(t, "a")
		if s.Health.State != score.Stale || s.Health.Value != 0 || s.Health.Age != 5100*time.Millisecond {
			t.Errorf("health %+v, want a stale 0", s.Health)
		}
		if v := p.Views()[0]; v.Health != nil {
			t.Errorf("the view still has %+v", v.Health)
		}
		p.reports(t, .8)
		p.expectHealth(t, "a report is enough", .8, score.SourceReport, "0.80: as the pod itself reports")
	})
}

func TestHealthOfModels(t *testing.T) {
	list := func(p *Pool, ids ...string) {
		models := []engine.Model{}
		for _, id := range ids {
			models = append(models, engine.Model{ID: id})
		}
		p.Listed(p.target("a"), models, nil)
	}
	const loading = "0.10: lists no model that is asked for"
	p, tree := newPool(t, "a")
	p.healthy("a")
	list(p)
	p.expectHealth(t, "an empty list", .1, score.SourceProbe, loading)
	list(p, "m")
	p.expectHealth(t, "its model", 1, score.SourceProbe, "")

	p = New(Config{Clock: p.cfg.Clock, Tree: tree, BlockSize: blockSize, Models: []ModelEntry{{Name: "m"}}})
	if err := p.Set(members("a")); err != nil {
		t.Fatal(err)
	}
	p.healthy("a")
	list(p, "other")
	p.expectHealth(t, "a model that is not configured", .1, score.SourceProbe, loading)
	list(p, "other", "m")
	p.expectHealth(t, "one that is", 1, score.SourceProbe, "")
}

func TestHealthOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, "a")
		slow := func(waiting float64) {
			time.Sleep(10 * time.Second)
			busy := page()
			busy.Waiting.V = waiting
			p.scrape("a", busy)
			p.healthy("a")
			p.Generated(p.target("a"), engine.Probe{Slow: true, Reason: "timeout after 10s", At: time.Now()})
		}
		p.Generated(p.target("a"), engine.Probe{Healthy: true, At: time.Now()})
		for range 5 {
			slow(3)
		}
		p.expectHealth(t, "busy", .6, score.SourceProbe, "0.60: 1-token probe: timeout after 10s with requests waiting, 2 times in a row")
		slow(0)
		p.expectHealth(t, "and then stuck", 0, score.SourceProbe, "0.00: 1-token probe: timeout after 10s, 3 times in a row")
		time.Sleep(91 * time.Second)
		p.healthy("a")
		p.expectHealth(t, "when there are no more of them", 1, score.SourceProbe, "")
		if n := p.InFlight(); n != 0 {
			t.Errorf("%d in flight: probes are no traffic", n)
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, "a", "b")
		p.healthy("a")
		var r Reservation
		if _, chosen, _ := p.Choose(nil, &Query{}, first{}, &r); chosen != 0 {
			t.Fatalf("chose %d", chosen)
		}
		if p.Drain("nobody", true) {
			t.Error("a pod that is not there was drained")
		}
		if !p.Drain("a", true) {
			t.Fatal("there is no pod a")
		}
		const note = "0.00: drained by an operator"
		p.expectHealth(t, "drained", 0, score.SourceManual, note)
		time.Sleep(time.Hour) // no probe, no report
		p.Drain("a", true)
		p.expectHealth(t, "an hour later", 0, score.SourceManual, note)
		if s := p.state(t, "a"); s.Health.Age != time.Hour || s.InFlight != 1 {
			t.Errorf("%v after it was drained, %d in flight; want 1 h, and 1 that goes on", s.Health.Age, s.InFlight)
		}
		p.healthy("a")
		p.expectHealth(t, "whatever a probe says", 0, score.SourceManual, note)
		var other Reservation
		p.Choose(nil, &Query{}, second{}, &other)
		if p.Move(&other, "a", "127.0.0.1:8000", 20) {
			t.Error("a request was moved to it")
		}
		r.Release()
		other.Release()

		p.Drain("a", false)
		p.expectHealth(t, "undrained", 1, score.SourceProbe, "")
		p.Drain("a", true)
		member := members("a", "b")
		member[0].NotReady = true
		for _, m := range [][]Member{member, members("a", "b")} {
			if err := p.Set(m); err != nil {
				t.Fatal(err)
			}
			p.expectHealth(t, "it flaps", 0, score.SourceManual, note)
		}
		for _, m := range [][]Member{nil, members("a")} {
			if err := p.Set(m); err != nil {
				t.Fatal(err)
			}
		}
		if s := p.state(t, "a"); s.Health.State != score.Unknown {
			t.Errorf("a pod that comes back has health %+v, want unknown", s.Health)
		}
	})
}

// first and second choose by place.
type (
	first  struct{}
	second struct{}
)

func (first) Choose([]score.PodState, uint64) int  { return 0 }
func (second) Choose([]score.PodState, uint64) int { return 1 }
