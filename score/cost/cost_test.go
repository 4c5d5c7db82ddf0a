package cost_test

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/cost"
	"github.com/eppctl/eppctl/score/scoretest"
)

func priced(name, price string, blocks int) score.PodState {
	return scoretest.Pod(name, scoretest.Cached(blocks), scoretest.Annotation(cost.PriceKey, price))
}

func TestScore(t *testing.T) {
	for name, tc := range map[string]struct {
		pods []score.PodState
		want []score.Result
	}{
		"the cheap pod, no cache anywhere": {
			[]score.PodState{priced("a100", "3.67", 0), priced("a10g", "0.38", 0)},
			[]score.Result{score.Scored(0, "$3.67/h"), score.Scored(1, "$0.38/h")},
		},
		"a gap of 19 points": {
			[]score.PodState{priced("a100", "3.67", 99), priced("a10g", "0.38", 80)},
			[]score.Result{score.Scored(0, "$3.67/h"), score.Scored(1, "$0.38/h")},
		},
		"a gap of 20 points": {
			[]score.PodState{priced("a100", "3.67", 100), priced("a10g", "0.38", 80)},
			[]score.Result{score.Scored(0, "$3.67/h"), score.Scored(0, "$0.38/h, but 20 points less cache than the best pod")},
		},
		"prices beyond the range": {
			[]score.PodState{priced("h100", "9.8", 0), priced("free", "0", 0)},
			[]score.Result{score.Scored(0, "$9.80/h"), score.Scored(1, "$0.00/h")},
		},
		"in between": {
			[]score.PodState{priced("a", "2.025", 0)},
			[]score.Result{score.Scored((3.67-2.025)/(3.67-.38), "$2.02/h")},
		},
		"a label will do": {
			[]score.PodState{scoretest.Pod("a", scoretest.Label(cost.PriceKey, "0.38"))},
			[]score.Result{score.Scored(1, "$0.38/h")},
		},
		"no price": {
			[]score.PodState{scoretest.Pod("a")},
			[]score.Result{score.NotKnown("no price: the pod has no annotation or label eppctl.dev/price-per-hour")},
		},
		"no number": {
			[]score.PodState{priced("a", "cheap", 0), priced("b", "NaN", 0), priced("c", "-1", 0), priced("d", "1e999", 0)},
			[]score.Result{
				score.NotKnown(`no price: eppctl.dev/price-per-hour is "cheap", want dollars an hour, like 0.38`),
				score.NotKnown(`no price: eppctl.dev/price-per-hour is "NaN", want dollars an hour, like 0.38`),
				score.NotKnown(`no price: eppctl.dev/price-per-hour is "-1", want dollars an hour, like 0.38`),
				score.NotKnown(`no price: eppctl.dev/price-per-hour is "1e999", want dollars an hour, like 0.38`),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, got := range scoretest.Score(t, cost.New(), scoretest.Request(100), tc.pods...) {
				if got != tc.want[i] {
					t.Errorf("%s: %+v, want %+v", tc.pods[i].Pod, got, tc.want[i])
				}
			}
		})
	}
}

func TestNoRangeOfPrices(t *testing.T) {
	flat := &cost.Scorer{Cheapest: 1, Dearest: 1, MaxGap: 1}
	got := scoretest.Score(t, flat, scoretest.Request(10), priced("a", "1", 0), priced("b", "2", 0))
	if got[0].Value != 1 || got[1].Value != 0 {
		t.Errorf("values %v and %v, want 1 and 0", got[0].Value, got[1].Value)
	}
}

func TestContract(t *testing.T) {
	scoretest.Contract(t, cost.New(), scoretest.ContractOptions{Pods: []score.PodState{
		priced("a100", "3.67", 90), priced("a10g", "0.38", 10), priced("long", strings.Repeat("9", 5000), 0),
	}})
}

// With a weight of 0.05 the cheap pod wins while the gap is small, and the
// cached one as soon as it is not.
func TestPicks(t *testing.T) {
	w := score.Default()
	w.Cache, w.Custom = .55, []score.CustomWeight{{Name: "cost", Weight: .05}}
	for _, tc := range []struct {
		name   string
		blocks int // of 100 that the cheap pod has; the A100 has 90
		want   int
	}{{"equal caches", 90, 1}, {"9 points behind", 81, 1}, {"10 points behind", 80, 0}, {"30 points behind", 60, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			pods := []score.PodState{priced("a100", "3.67", 90), priced("a10g", "0.38", tc.blocks)}
			req := scoretest.Request(100)
			extra := []score.FactorValues{{Name: "cost", Values: scoretest.Score(t, cost.New(), req, pods...)}}
			var d score.Decision
			score.Decide(&d, req, pods, extra, &w, 1)
			if d.Winner != tc.want {
				t.Errorf("winner = %s, want %s", pods[d.Winner].Pod, pods[tc.want].Pod)
			}
		})
	}
}
