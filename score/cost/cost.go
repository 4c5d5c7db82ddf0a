// Package cost is a custom scorer that prefers cheap pods, written as a third
// party would write it: against package score alone.
//
// The one idea: a cheap GPU is worth its lower speed only while it does not
// have to compute again what another pod has cached. So the scorer values a
// pod's price, but only as long as its cache match is less than 20 percentage
// points behind the best of the candidates.
//
//	value = (dearest − price) / (dearest − cheapest), cut to [0,1]
//	value = 0 when the best cache match − the pod's ≥ 0.20
//
// With the default prices an on-demand A100 has value 0 and a spot A10G 1. With
// a weight of 0.05 the scorer decides between pods that are about equal, and no
// more than that.
//
// The price stands on the pod, as an annotation or a label: a number of dollars
// an hour. Without one the factor is unknown for that pod. The package does not
// look up prices and does not know GPUs.
package cost

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/eppctl/eppctl/score"
)

// PriceKey is the annotation, or else the label, that holds a pod's price in
// dollars an hour.
const PriceKey = "eppctl.dev/price-per-hour"

// Defaults, from the seed document's mixed cluster.
const (
	OnDemandA100 = 3.67 // dollars an hour
	SpotA10G     = 0.38 // dollars an hour
	// MaxGap is the lag in cache match, as a ratio, from which a low price does
	// not count.
	MaxGap = 0.20
)

// Scorer prefers cheap pods. Make one with [New]; the fields may be changed
// before it is registered.
type Scorer struct {
	Cheapest float64 // the price, in dollars an hour, that gets value 1
	Dearest  float64 // the price that gets value 0
	MaxGap   float64 // see [MaxGap]
}

// New is a scorer with the default prices.
func New() *Scorer {
	return &Scorer{Cheapest: SpotA10G, Dearest: OnDemandA100, MaxGap: MaxGap}
}

// Score implements [score.Scorer].
func (s *Scorer) Score(_ context.Context, req *score.InferenceRequest, pod *score.PodState, set *score.Summary) score.Result {
	price, err := priceOf(pod)
	if err != nil {
		return score.NotKnown(err.Error())
	}
	// The tolerance keeps 1.0 − 0.8 from being less than 0.2.
	const tolerance = 1e-9
	gap := set.BestCache - score.CacheRatio(req, pod)
	if gap > s.MaxGap-tolerance {
		return score.Scored(0, fmt.Sprintf("$%.2f/h, but %.0f points less cache than the best pod", price, 100*gap))
	}
	return score.Scored(s.value(price), fmt.Sprintf("$%.2f/h", price))
}

func (s *Scorer) value(price float64) float64 {
	if s.Dearest <= s.Cheapest { // no range: cheap or not
		if price <= s.Cheapest {
			return 1
		}
		return 0
	}
	return min(max((s.Dearest-price)/(s.Dearest-s.Cheapest), 0), 1)
}

func priceOf(pod *score.PodState) (float64, error) {
	text, ok := pod.Annotations[PriceKey]
	if !ok {
		text, ok = pod.Labels[PriceKey]
	}
	if !ok {
		return 0, fmt.Errorf("no price: the pod has no annotation or label %s", PriceKey)
	}
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || !(price >= 0) || math.IsInf(price, 0) {
		const shown = 20
		return 0, fmt.Errorf("no price: %s is %.*q, want dollars an hour, like 0.38", PriceKey, shown, text)
	}
	return price, nil
}
