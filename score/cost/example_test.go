package cost_test

import (
	"context"
	"fmt"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/cost"
)

func ExampleNew() {
	a10g := score.NewPod("a10g", "10.0.0.2:8000")
	a10g.Annotations = map[string]string{cost.PriceKey: "0.38"}
	pods := []score.PodState{score.NewPod("a100", "10.0.0.1:8000"), a10g}
	req := &score.InferenceRequest{Blocks: 100}
	w := score.Default()
	set := score.Summarize(req, pods, &w)
	var scorer score.Scorer = cost.New()
	for i := range pods {
		r := scorer.Score(context.Background(), req, &pods[i], &set)
		fmt.Println(r.State, r.Value, r.Detail)
	}
	// Output:
	// unknown 0 no price: the pod has no annotation or label eppctl.dev/price-per-hour
	// known 1 $0.38/h
}
