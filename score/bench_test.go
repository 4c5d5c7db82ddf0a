package score_test

import (
	"fmt"
	"testing"

	"github.com/eppctl/eppctl/score"
)

func benchInputs(n int) (*score.InferenceRequest, []score.PodState, score.Weights) {
	pods := make([]score.PodState, n)
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		p := score.NewPod(name, fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250))
		p.Cache = score.Read(float64(i*37%257), score.SourceEvents)
		p.Utilization = score.Read(float64(i*13%100)/100, score.SourceMetrics)
		p.Waiting = score.Read(float64(i*7%23), score.SourceMetrics)
		p.Health = score.Read(1, score.SourceProbe)
		p.AdapterState = score.Known
		pods[i] = p
	}
	return &score.InferenceRequest{Blocks: 256, Count: 4096}, pods, score.Default()
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{8, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			req, pods, w := benchInputs(n)
			var d score.Decision
			b.ReportAllocs()
			seed := uint64(0)
			for b.Loop() {
				seed++
				score.Decide(&d, req, pods, nil, &w, seed)
			}
		})
	}
}
