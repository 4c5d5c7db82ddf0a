package record_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// plainEntry is the n-th decision over a pool of healthy pods, as a picker would
// hand it over.
func plainEntry(n, pods int) *record.Entry {
	in := &score.Inputs{
		Request: &score.InferenceRequest{
			Model: "llama-8b", Adapter: "fr", Count: 4096, Blocks: 256, Arrival: start.Add(time.Duration(n) * time.Second),
		},
		Weights: new(score.Default()),
		Seed:    uint64(n),
	}
	for i := range pods {
		p := score.NewPod(fmt.Sprintf("vllm-llama-8b-%05d", i), fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250))
		p.Cache = score.Reading{Value: float64((i * 37) % 256), State: score.Known, Source: score.SourceReport, Age: 1200 * time.Millisecond}
		p.Utilization = score.Reading{Value: float64(i%100) / 100, State: score.Known, Source: score.SourceKVUsage, Age: 120 * time.Millisecond}
		p.Waiting = score.Reading{Value: float64(i % 7), State: score.Known, Source: score.SourceMetrics, Age: 120 * time.Millisecond}
		p.Health = score.Read(1, score.SourceProbe)
		p.Pending, p.InFlight = i%3, i%5
		p.AdapterState, p.Adapters, p.MaxAdapters = score.Known, []string{"de", "fr"}, 4
		in.Pods = append(in.Pods, p)
	}
	return entry(n, in)
}

// entry decides and wraps up.
func entry(n int, in *score.Inputs) *record.Entry {
	d := new(score.Decision)
	in.Decide(d)
	e := &record.Entry{
		RequestID: fmt.Sprintf("request-%06d", n), TimeScale: 1, Policy: "scores", Path: "/v1/chat/completions",
		Model: "llama", Prompts: 1, PrefixTokens: in.Request.Count, BlockSize: 16, TokensFrom: "approximate",
		Inputs: in, Decision: d, Picked: d.Winner, Roster: uint64(len(in.Pods)), PredictedCached: 100,
		Timings: record.Timings{Parse: 12340, Tokens: 5 * time.Microsecond, Lookup: 900, Decide: 1230, Total: 20 * time.Microsecond},
	}
	binary.BigEndian.PutUint64(e.DecisionID[8:], uint64(n))
	e.DecisionID[6], e.DecisionID[8] = 0x40, 0x80
	for i := range in.Request.Blocks {
		e.Fingerprints = append(e.Fingerprints, uint64(i+1)*0x9e3779b97f4a7c15)
	}
	return e
}

// drawEntry makes any decision that a picker could take, and some it shouldn't.
func drawEntry(t *rapid.T) *record.Entry {
	n := rapid.IntRange(0, 999999).Draw(t, "n")
	in := &score.Inputs{Request: drawRequest(t, n), Weights: drawWeights(t), Seed: rapid.Uint64().Draw(t, "seed")}
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		in.Pods = append(in.Pods, drawPod(t, i))
	}
	for k := range rapid.IntRange(0, len(in.Weights.Custom)).Draw(t, "scorers that answered") {
		in.Extra = append(in.Extra, score.FactorValues{
			Name: in.Weights.Custom[k].Name, Values: rapid.SliceOfN(answers(), 0, len(in.Pods)).Draw(t, "answers"),
		})
	}
	e := entry(n, in)
	e.RequestIDReplaced = rapid.Bool().Draw(t, "replaced")
	e.Roster = rapid.Uint64().Draw(t, "roster")
	e.Fingerprints = rapid.SliceOfN(rapid.Uint64(), 0, 100).Draw(t, "fingerprints")
	e.PredictedCached = rapid.IntRange(-1, 1<<20).Draw(t, "predicted")
	if rapid.Bool().Draw(t, "a gateway in front") {
		front(t, e)
	}
	if rapid.Bool().Draw(t, "a rule for the name") {
		e.Rewrite = record.Rewrite{
			To: rapid.String().Draw(t, "to"), By: rapid.String().Draw(t, "by"), Criticality: rapid.String().Draw(t, "criticality"),
			Weight: rapid.Int().Draw(t, "weight"), Sum: rapid.Int().Draw(t, "sum"), Targets: rapid.Int().Draw(t, "targets"),
		}
	}
	if e.Picked >= 0 && rapid.Bool().Draw(t, "another policy") {
		var eligible []int
		for i := range e.Decision.Results {
			if e.Decision.Results[i].Reason == score.Eligible {
				eligible = append(eligible, i)
			}
		}
		e.Policy, e.Picked = "random", rapid.SampledFrom(eligible).Draw(t, "picked")
	}
	return e
}

func front(t *rapid.T, e *record.Entry) {
	e.Gateway = &record.Gateway{Kind: "envoy", RequestBody: rapid.String().Draw(t, "request body")}
	e.Subset = rapid.SampledFrom([][]string{nil, {}, {"10.0.0.1:8000", "[::1]:1", "bad\xff"}, make([]string, 1<<17)}).Draw(t, "subset")
	e.SubsetUnknown = rapid.IntRange(0, 1<<17).Draw(t, "unknown")
	e.Fallbacks = rapid.IntRange(0, 300).Draw(t, "fallbacks")
	e.Timings.BodyWait = time.Duration(rapid.Int64().Draw(t, "body wait"))
}

func drawRequest(t *rapid.T, n int) *score.InferenceRequest {
	return &score.InferenceRequest{
		Model:    rapid.SampledFrom([]string{"", "llama-8b", "bad\xffutf8", "<b>&\u2028"}).Draw(t, "model"),
		Adapter:  rapid.SampledFrom([]string{"", "fr"}).Draw(t, "adapter"),
		NoPrefix: rapid.SampledFrom([]string{"", "", "/v1/embeddings has no prompt prefix"}).Draw(t, "noPrefix"),
		Count:    rapid.IntRange(0, 1<<20).Draw(t, "tokens"), Blocks: rapid.IntRange(0, 64).Draw(t, "blocks"),
		Arrival: start.Add(time.Duration(n)*time.Millisecond + 7),
	}
}

func drawWeights(t *rapid.T) *score.Weights {
	names := score.PresetNames()
	w, _ := score.Preset(rapid.SampledFrom(names).Draw(t, "preset"))
	w.Generation = rapid.Uint64().Draw(t, "generation")
	w.Saturation = score.Saturation(rapid.IntRange(0, 1).Draw(t, "saturation"))
	for k := range rapid.IntRange(0, 3).Draw(t, "custom scorers") {
		w.Cache -= .05
		w.Custom = append(w.Custom, score.CustomWeight{Name: fmt.Sprintf("cost-%d", k), Weight: .05})
	}
	return &w
}

func drawPod(t *rapid.T, i int) score.PodState {
	p := score.NewPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.0.0.%d:8000", i))
	p.Excluded = score.Reason(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 3, 4, 5}).Draw(t, "excluded"))
	p.Cache, p.Utilization = drawReading(t, "cache", 64), drawReading(t, "load", 1)
	p.Waiting, p.Health = drawReading(t, "waiting", 22), drawReading(t, "health", 1)
	p.PeerPending = max(0, rapid.IntRange(-20, 25).Draw(t, "peerPending")) // mostly there is none
	p.Pending, p.InFlight = rapid.IntRange(0, 25).Draw(t, "pending"), rapid.IntRange(0, 1<<33).Draw(t, "inFlight")
	p.AdapterState = drawState(t)
	p.Adapters = rapid.SliceOfN(rapid.SampledFrom([]string{"fr", "de", ""}), 0, 3).Draw(t, "adapters")
	p.MaxAdapters = rapid.IntRange(0, 8).Draw(t, "slots")
	if p.Cache.State != score.Unknown && rapid.IntRange(0, 3).Draw(t, "tiers") == 0 {
		p.CacheTiers = []score.TierBlocks{
			{Tier: "gpu", Blocks: rapid.IntRange(0, 64).Draw(t, "on the GPU"), Weight: 1},
			{Tier: rapid.SampledFrom([]string{"cpu", "cpu+disk", "bad\xff", ""}).Draw(t, "tier"), Blocks: 3, Weight: rapid.Float64Range(0, 1).Draw(t, "weight")},
		}
		p.Cache.Value = score.TierValue(p.CacheTiers)
	}
	if rapid.Bool().Draw(t, "notes") {
		p.Notes = new(score.Notes)
		for f := range p.Notes {
			p.Notes[f] = rapid.SampledFrom([]string{"", "HTTP 404 on port 8000", "\xff\x00 ä"}).Draw(t, "note")
		}
	}
	return p
}

func drawState(t *rapid.T) score.State {
	return score.State(rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 4, 9, 200}).Draw(t, "state"))
}

func drawReading(t *rapid.T, name string, limit float64) score.Reading {
	return score.Reading{
		Value: drawValue(t, name, limit), State: drawState(t),
		Source: score.Source(rapid.IntRange(0, 12).Draw(t, "source")),
		Age:    time.Duration(rapid.Int64().Draw(t, "age")),
	}
}

func drawValue(t *rapid.T, name string, limit float64) float64 {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), -3, math.MaxFloat64, math.SmallestNonzeroFloat64}
	switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
	case 0:
		return rapid.SampledFrom(odd).Draw(t, name)
	case 1:
		return float64(rapid.IntRange(0, int(limit)+1).Draw(t, name))
	}
	return rapid.Float64Range(0, limit).Draw(t, name)
}

func answers() *rapid.Generator[score.Result] {
	return rapid.Custom(func(t *rapid.T) score.Result {
		return score.Result{
			Value: drawValue(t, "answer", 1), State: drawState(t),
			Detail: rapid.SampledFrom([]string{"", "spot A10G", "panicked", "\xf0\x9f"}).Draw(t, "detail"),
		}
	})
}

func mustAppend(t testing.TB, r *record.Ring, e *record.Entry) record.Handle {
	t.Helper()
	h := r.Append(e)
	if h == 0 {
		t.Fatalf("Append(%s) = 0, want a handle", e.RequestID)
	}
	return h
}
