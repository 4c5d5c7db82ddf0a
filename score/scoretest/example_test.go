package scoretest_test

import (
	"fmt"
	"os"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/cost"
	"github.com/eppctl/eppctl/score/scoretest"
)

// printer stands in for the *testing.T of a test.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func ExampleScore() {
	var t printer // in a test: its *testing.T
	results := scoretest.Score(t, cost.New(), scoretest.Request(100),
		scoretest.Pod("a100", scoretest.Cached(90), scoretest.Annotation(cost.PriceKey, "3.67")),
		scoretest.Pod("a10g", scoretest.Cached(80), scoretest.Annotation(cost.PriceKey, "0.38")))
	for _, r := range results {
		fmt.Println(r.Value, r.Detail)
	}
	// Output:
	// 0 $3.67/h
	// 1 $0.38/h
}

func ExampleContract() {
	var t printer
	scoretest.Contract(t, cost.New(), scoretest.ContractOptions{
		Pods: []score.PodState{scoretest.Pod("a10g", scoretest.Annotation(cost.PriceKey, "0.38"))},
	})
	fmt.Println("no more to report")
	// Output: no more to report
}

func ExampleReplay() {
	var t printer
	decisions, err := os.Open("testdata/decisions.jsonl") // eppctl decisions -o jsonl
	if err != nil {
		fmt.Println(err)
		return
	}
	defer decisions.Close()
	prices := map[string]string{"sim-0": "3.67", "sim-1": "3.67", "sim-2": "0.38", "sim-3": "0.38"}
	got := scoretest.Replay(t, cost.New(), decisions, scoretest.ReplayOptions{
		Name: "cost", Weight: .05,
		Complete: func(_ *score.InferenceRequest, pods []score.PodState) {
			for i := range pods {
				pods[i].Annotations = map[string]string{cost.PriceKey: prices[pods[i].Pod]}
			}
		},
	})
	fmt.Println(got)
	// Output: 20 decisions, 2 with another pick, 0 skipped
}
