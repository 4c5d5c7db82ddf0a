package score

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Indices of the built-in factors, in the order in which they are summed.
const (
	CacheMatch = iota
	Load
	QueueDepth
	Health
	AdapterMatch
	NumFactors // custom factors are counted from here
)

var factorNames = [NumFactors]string{"cacheMatch", "load", "queueDepth", "health", "adapterMatch"}

// weightKeys are the factors' names in configs and --set.
var weightKeys = [NumFactors]string{"cache", "load", "queue", "health", "adapter"}

// HealthCutoff is the health score below which a pod gets no new traffic; a pod
// that stands exactly on it is still eligible.
const HealthCutoff = 0.3

// SumTolerance is how far the sum of the weights may be from 1.
const SumTolerance = 1e-9

// Saturation says what happens when every remaining pod has a full queue.
type Saturation uint8

const (
	// Relax lets the cutoff go for this request, so that the cache decides.
	Relax Saturation = iota
	// Reject answers 429.
	Reject
)

// String is the setting's spelling in a config.
func (s Saturation) String() string {
	if s == Reject {
		return "reject"
	}
	return "relax"
}

// ParseSaturation is the inverse of [Saturation.String].
func ParseSaturation(name string) (Saturation, error) {
	switch name {
	case "relax":
		return Relax, nil
	case "reject":
		return Reject, nil
	}
	return Relax, fmt.Errorf("saturation: must be relax or reject, got %q", name)
}

// CustomWeight is the weight of a custom scorer.
type CustomWeight struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// WeightKeys are the names of the built-in weights in configurations, in the
// order of the sum.
func WeightKeys() []string { return slices.Clone(weightKeys[:]) }

// Weights are the weights and limits that a decision is taken under.
type Weights struct {
	Cache, Load, Queue, Health, Adapter float64

	// Custom holds the weights of custom scorers, in the order of registration.
	Custom []CustomWeight
	// MaxQueue is the queue depth at which a pod counts as full (> 0).
	MaxQueue int
	// MaxUtilization is the utilization that counts as full load (> 0).
	MaxUtilization float64
	Saturation     Saturation
	// Generation counts the changes of the weights while a picker runs.
	Generation uint64
}

// builtin returns the five built-in weights in the order of the sum.
func (w *Weights) builtin() [NumFactors]float64 {
	return [NumFactors]float64{w.Cache, w.Load, w.Queue, w.Health, w.Adapter}
}

// Factors is the number of factors: the built-in five and the custom ones.
func (w *Weights) Factors() int { return NumFactors + len(w.Custom) }

// Weight is the weight of factor f, see [Weights.FactorName].
func (w *Weights) Weight(f int) float64 {
	if f < NumFactors {
		return w.builtin()[f]
	}
	return w.Custom[f-NumFactors].Weight
}

// FactorName is the name of factor f: 0 to NumFactors−1 are built in, the
// custom scorers follow in the order of registration.
func (w *Weights) FactorName(f int) string {
	if f < NumFactors {
		return factorNames[f]
	}
	return w.Custom[f-NumFactors].Name
}

// Set changes one weight by its config key: cache, load, queue, health, adapter
// or a custom scorer's name.
func (w *Weights) Set(key string, value float64) error {
	for i := range w.Custom {
		if w.Custom[i].Name == key {
			w.Custom[i].Weight = value
			return nil
		}
	}
	field := map[string]*float64{
		"cache": &w.Cache, "load": &w.Load, "queue": &w.Queue, "health": &w.Health, "adapter": &w.Adapter,
	}[key]
	if field == nil {
		return fmt.Errorf("unknown weight %q: the weights are %s", key, strings.Join(w.keys(), ", "))
	}
	*field = value
	return nil
}

func (w *Weights) keys() []string {
	keys := slices.Clone(weightKeys[:])
	for _, c := range w.Custom {
		keys = append(keys, c.Name)
	}
	return keys
}

// Clone is a copy that shares nothing with w.
func (w *Weights) Clone() *Weights {
	c := *w
	c.Custom = slices.Clone(w.Custom)
	return &c
}

// Validate returns all that is wrong with the weights, each problem with the
// field's name. The sum must be 1 within [SumTolerance]; if it is not, the error
// gives the sum that was found and the parts it is made of.
func (w *Weights) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	sum, parts := 0.0, make([]string, 0, w.Factors())
	for f, key := range w.keys() {
		v := w.Weight(f)
		if !(v >= 0 && v <= 1) {
			bad("weights.%s: must be between 0 and 1, got %v", key, v)
		}
		if names[key] || (f >= NumFactors && slices.Contains(factorNames[:], key)) {
			bad("weights.%s: the name is taken: every scorer needs a name of its own", key)
		}
		names[key] = true
		sum += v
		parts = append(parts, fmt.Sprintf("%s %v", key, v))
	}
	if !(math.Abs(sum-1) <= SumTolerance) {
		bad("weights: sum is %v (%s), must be 1", sum, strings.Join(parts, " + "))
	}
	if w.MaxQueue < 1 || w.MaxQueue > math.MaxInt32 {
		bad("maxQueue: must be at least 1, got %d", w.MaxQueue)
	}
	if !(w.MaxUtilization > 0 && w.MaxUtilization <= math.MaxFloat64) {
		bad("maxUtilization: must be above 0, got %v", w.MaxUtilization)
	}
	return errors.Join(problems...)
}

// presets are the weight settings for workloads that the seed document names.
var presets = map[string]Weights{
	"default":     {Cache: .60, Load: .20, Queue: .10, Health: .05, Adapter: .05, MaxQueue: 20},
	"chatbot":     {Cache: .60, Load: .20, Queue: .10, Health: .05, Adapter: .05, MaxQueue: 20},
	"api-gateway": {Cache: .40, Load: .20, Queue: .30, Health: .05, Adapter: .05, MaxQueue: 10},
	"multi-lora":  {Cache: .45, Load: .20, Queue: .10, Health: .05, Adapter: .20, MaxQueue: 20},
	"batch":       {Cache: .40, Load: .35, Queue: .15, Health: .05, Adapter: .05, MaxQueue: 40},
	"rag":         {Cache: .70, Load: .15, Queue: .05, Health: .05, Adapter: .05, MaxQueue: 20},
}

// Default are the default weights: .60 .20 .10 .05 .05, maxQueue 20.
func Default() Weights {
	w, _ := Preset("default")
	return w
}

// Preset returns the weights of a named workload.
func Preset(name string) (Weights, error) {
	w, ok := presets[name]
	if !ok {
		return Weights{}, fmt.Errorf("unknown preset %q: the presets are %s", name, strings.Join(PresetNames(), ", "))
	}
	w.MaxUtilization = 1
	return w, nil
}

// PresetNames lists the presets in alphabetical order.
func PresetNames() []string { return slices.Sorted(maps.Keys(presets)) }
