package score_test

import (
	"fmt"
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/score"
)

// draw makes random decisions: coarse values, so that ties happen, with odd
// ones among them.
type draw struct {
	t    *rapid.T
	sane bool // readings are usable numbers within their range
}

func (g draw) inputs() *score.Inputs {
	w := g.weights()
	in := &score.Inputs{
		Request: &score.InferenceRequest{Blocks: rapid.IntRange(0, 12).Draw(g.t, "blocks")},
		Weights: &w, Seed: rapid.Uint64().Draw(g.t, "seed"),
	}
	if rapid.Bool().Draw(g.t, "needs adapter") {
		in.Request.Adapter = "fr"
	}
	for i := range rapid.IntRange(1, 24).Draw(g.t, "pods") {
		in.Pods = append(in.Pods, g.pod(i, in.Request.Blocks))
	}
	for k := range w.Custom {
		values := make([]score.Result, len(in.Pods))
		for i := range values {
			r := g.reading(4)
			values[i] = score.Result{Value: r.Value / 4, State: r.State}
		}
		in.Extra = append(in.Extra, score.FactorValues{Name: w.Custom[k].Name, Values: values})
	}
	return in
}

func (g draw) weights() score.Weights {
	w, err := score.Preset(rapid.SampledFrom(score.PresetNames()).Draw(g.t, "preset"))
	if err != nil {
		panic(err)
	}
	if rapid.Bool().Draw(g.t, "custom") {
		w.Cache -= .05
		w.Custom = []score.CustomWeight{{Name: "cost", Weight: .05}}
	}
	w.Saturation = score.Saturation(rapid.IntRange(0, 1).Draw(g.t, "saturation"))
	return w
}

func (g draw) pod(i, blocks int) score.PodState {
	p := score.NewPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.0.0.%d:8000", i))
	p.Cache = g.reading(blocks + 1)
	p.Utilization = g.reading(12)
	p.Utilization.Value /= 10
	p.Waiting = g.reading(24)
	p.Health = g.reading(11)
	p.Health.Value /= 10
	p.Pending = rapid.IntRange(0, 4).Draw(g.t, "pending")
	p.PeerPending = max(0, rapid.IntRange(-4, 4).Draw(g.t, "peerPending"))
	p.AdapterState = g.state()
	if rapid.Bool().Draw(g.t, "loaded") {
		p.Adapters = []string{"de", "fr"}
	}
	if reason := rapid.IntRange(0, 30).Draw(g.t, "reason"); reason <= int(score.ModelNotServed) {
		p.Excluded = score.Reason(reason)
	}
	return p
}

func (g draw) reading(top int) score.Reading {
	r := score.Reading{Value: float64(rapid.IntRange(0, top).Draw(g.t, "value")), State: g.state(), Age: time.Second}
	if !g.sane && rapid.IntRange(0, 19).Draw(g.t, "odd") == 0 {
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.Copysign(0, -1), math.MaxFloat64, 5e-324, 1e300}
		r.Value = rapid.SampledFrom(odd).Draw(g.t, "odd value")
	}
	return r
}

func (g draw) state() score.State {
	if g.sane {
		return score.Known
	}
	states := []score.State{score.Known, score.Known, score.Known, score.Known, score.Clamped, score.Stale, score.Unknown, score.NotApplicable}
	return rapid.SampledFrom(states).Draw(g.t, "state")
}
