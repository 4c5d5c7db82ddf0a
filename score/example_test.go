package score_test

import (
	"context"
	"fmt"

	"github.com/eppctl/eppctl/score"
)

// fleet is two pods: one holds most of the prompt and is busy, one is idle.
func fleet() (*score.InferenceRequest, []score.PodState) {
	hot, idle := score.NewPod("hot", "10.0.0.1:8000"), score.NewPod("idle", "10.0.0.2:8000")
	for i, p := range []*score.PodState{&hot, &idle} {
		p.Cache = score.Read([]float64{160, 0}[i], score.SourceEvents)
		p.Utilization = score.Read([]float64{.8, .1}[i], score.SourceDCGM)
		p.Waiting = score.Read([]float64{6, 0}[i], score.SourceMetrics)
		p.Health = score.Read(1, score.SourceProbe)
	}
	return &score.InferenceRequest{Count: 3200, Blocks: 200}, []score.PodState{hot, idle}
}

func ExampleDecide() {
	req, pods := fleet()
	weights := score.Default()
	var d score.Decision
	score.Decide(&d, req, pods, nil, &weights, 42)
	fmt.Printf("%s with %.3f, %.3f ahead, decided by %s\n",
		pods[d.Winner].Pod, d.Results[d.Winner].Score, d.Margin, d.DecidedBy.Name(&weights))
	// Output: hot with 0.690, 0.310 ahead, decided by cacheMatch
}

func ExampleDecision_Contribution() {
	req, pods := fleet()
	weights := score.Default()
	var d score.Decision
	score.Decide(&d, req, pods, nil, &weights, 42)
	for f := range weights.Factors() {
		fmt.Printf("%-12s %.3f\n", weights.FactorName(f), d.Contribution(f, d.Winner, nil, &weights))
	}
	// Output:
	// cacheMatch   0.480
	// load         0.040
	// queueDepth   0.070
	// health       0.050
	// adapterMatch 0.050
}

func ExampleDecision_FullOrder() {
	req, pods := fleet()
	weights := score.Default()
	var d score.Decision
	score.Decide(&d, req, pods, nil, &weights, 42)
	for _, rank := range d.FullOrder(pods, &weights, 42) {
		fmt.Println(pods[rank.Pod].Pod)
	}
	// Output:
	// hot
	// idle
}

func ExampleInputs_Flips() {
	req, pods := fleet()
	weights := score.Default()
	in := score.Inputs{Request: req, Pods: pods, Weights: &weights, Seed: 42}
	for _, flip := range in.Flips(1) {
		if flip.Possible {
			fmt.Printf("idle wins with %s %.0f instead of %.0f\n", weights.FactorName(flip.Factor), flip.To, flip.From)
		}
	}
	// Output: idle wins with cacheMatch 104 instead of 0
}

func ExampleInputs_Change() {
	req, pods := fleet()
	weights := score.Default()
	in := score.Inputs{Request: req, Pods: pods, Weights: &weights, Seed: 42}
	var d score.Decision
	in.Change(0, score.QueueDepth, 20).Decide(&d)
	fmt.Println(pods[d.Winner].Pod, "wins,", pods[0].Pod, "is", d.Results[0].Reason)
	// Output: idle wins, hot is queue-full
}

func ExampleWeights_Validate() {
	w := score.Default()
	w.Queue = .15
	fmt.Println(w.Validate())
	// Output: weights: sum is 1.05 (cache 0.6 + load 0.2 + queue 0.15 + health 0.05 + adapter 0.05), must be 1
}

func ExampleWeights_Set() {
	w := score.Default()
	_ = w.Set("cache", .55)
	_ = w.Set("queue", .15)
	fmt.Println(w.Validate(), w.Cache, w.Queue)
	fmt.Println(w.Set("quue", .1))
	// Output:
	// <nil> 0.55 0.15
	// unknown weight "quue": the weights are cache, load, queue, health, adapter
}

func ExamplePreset() {
	w, err := score.Preset("api-gateway")
	fmt.Println(w.Cache, w.Queue, w.MaxQueue, err)
	// Output: 0.4 0.3 10 <nil>
}

func ExampleDefault() {
	w := score.Default()
	fmt.Println(w.Cache, w.Load, w.Queue, w.Health, w.Adapter, w.MaxQueue)
	// Output: 0.6 0.2 0.1 0.05 0.05 20
}

func ExamplePresetNames() {
	fmt.Println(score.PresetNames())
	// Output: [api-gateway batch chatbot default multi-lora rag]
}

func ExampleGradient() {
	w := score.Default()
	for _, slope := range score.Gradient(&w) {
		fmt.Printf("%+.3f per %s\n", slope.PerUnit, slope.Unit)
	}
	// Output:
	// +0.600 per match ratio
	// -0.200 per load ratio
	// -0.005 per request
	// +0.050 per health score
	// +0.050 per adapter loaded
}

func ExampleSensitivity() {
	w := score.Default()
	for _, swing := range score.Sensitivity(&w) {
		fmt.Printf("%s %.3f\n", swing.Factor, swing.Eligible)
	}
	// Output:
	// cacheMatch 0.600
	// load 0.200
	// queueDepth 0.095
	// health 0.035
	// adapterMatch 0.050
}

func ExampleCacheDominance() {
	w := score.Default()
	fmt.Printf("%.4f\n", score.CacheDominance(&w).WithCutoff)
	// Output: 0.6333
}

func ExampleEquivalents() {
	w := score.Default()
	for _, e := range score.Equivalents(&w, .10) {
		fmt.Printf("%s %+.1f %v\n", e.Factor, e.Change, e.Possible)
	}
	// Output:
	// load -0.3 true
	// queueDepth -12.0 true
	// health +1.2 false
	// adapterMatch +1.2 false
}

func ExampleBuiltins() {
	req, pods := fleet()
	weights := score.Default()
	w := score.Default()
	set := score.Summarize(req, pods, &w)
	for _, scorer := range score.Builtins(&weights) {
		r := scorer.Score(context.Background(), req, &pods[0], &set)
		fmt.Printf("%.2f %s\n", r.Value, r.Detail)
	}
	// Output:
	// 0.80 160 of 200 blocks
	// 0.20 80% by dcgm
	// 0.70 6 waiting + 0 pending of 20
	// 1.00 1.00
	// 1.00 no adapter needed
}

func ExampleSummarize() {
	req, pods := fleet()
	w := score.Default()
	set := score.Summarize(req, pods, &w)
	fmt.Println(set.BestCachePod, set.BestCache, set.MinLoad, set.MaxQueue)
	// Output: hot 0.8 0.1 6
}

// zone prefers pods in one zone.
type zone string

func (z zone) Score(_ context.Context, _ *score.InferenceRequest, pod *score.PodState, _ *score.Summary) score.Result {
	switch in := pod.Labels["topology.kubernetes.io/zone"]; in {
	case "":
		return score.NotKnown("the pod has no zone label")
	case string(z):
		return score.Scored(1, "in "+in)
	default:
		return score.Scored(0, "in "+in)
	}
}

func ExampleScorer() {
	req, pods := fleet()
	w := score.Default()
	set := score.Summarize(req, pods, &w)
	pods[1].Labels = map[string]string{"topology.kubernetes.io/zone": "eu-1a"}
	var scorer score.Scorer = zone("eu-1a")
	values := score.FactorValues{Name: "zone"}
	for i := range pods {
		values.Values = append(values.Values, scorer.Score(context.Background(), req, &pods[i], &set))
	}
	weights := score.Default()
	weights.Cache, weights.Custom = .25, []score.CustomWeight{{Name: "zone", Weight: .35}}
	var d score.Decision
	score.Decide(&d, req, pods, []score.FactorValues{values}, &weights, 42)
	fmt.Println(pods[d.Winner].Pod, d.DecidedBy.Name(&weights), values.Values[0].Detail)
	// Output: idle zone the pod has no zone label
}

func ExampleRead() {
	r := score.Read(.35, score.SourceDCGM)
	fmt.Println(r.Value, r.State, r.Source, score.Reading{}.State)
	// Output: 0.35 known dcgm unknown
}

func ExamplePodState_QueueDepth() {
	p := score.NewPod("a", "10.0.0.1:8000")
	p.Waiting, p.Pending = score.Read(9, score.SourceMetrics), 3
	fmt.Println(p.QueueDepth())
	p.Waiting.State = score.Stale
	fmt.Println(p.QueueDepth())
	// Output:
	// 12 true
	// 3 false
}

func ExampleCacheRatio() {
	req, pods := fleet()
	fmt.Println(score.CacheRatio(req, &pods[0]))
	// Output: 0.8
}

func ExampleNameHash() {
	fmt.Printf("%016x\n", score.NameHash("sim-0", "127.0.0.1:8000"))
	// Output: a48e05ae4053cb22
}
