package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/nearest"
)

// Overrides are the settings of variables and flags that bear on each other; an
// empty field was not given.
type Overrides struct {
	// Preset replaces the preset, the weights and the maxQueue of the file.
	Preset string
	// Weights change single weights of what is in force.
	Weights  map[string]float64
	MaxQueue *int

	Fallbacks      *int
	ScoresMetadata *bool
}

// Overlay lays settings over the file. It may be called again, with those that
// come before the first.
func (c *Config) Overlay(o Overrides) {
	c.from.lines = maps.Clone(c.from.lines)
	if o.Preset != "" {
		c.Preset, c.Weights, c.MaxQueue, c.chosen, c.queueChosen = o.Preset, nil, 0, true, false
		c.from.forget("preset", "weights", "maxQueue")
	}
	if len(o.Weights) > 0 {
		weights := maps.Clone(c.Weights)
		if weights == nil {
			weights = map[string]float64{}
		}
		maps.Copy(weights, o.Weights)
		c.Weights, c.chosen = weights, true
		c.from.forget("weights")
	}
	if o.MaxQueue != nil {
		c.MaxQueue, c.queueChosen = *o.MaxQueue, true
		c.from.forget("maxQueue")
	}
	if o.Fallbacks != nil {
		c.Extproc.Fallbacks = *o.Fallbacks
		c.from.forget("extproc.fallbacks")
	}
	if o.ScoresMetadata != nil {
		c.Extproc.ScoresMetadata = *o.ScoresMetadata
	}
}

// UseProgram lays the weights that a program of its own was built with over the
// defaults. They count only when neither file nor [Config.Overlay] named a preset
// or weights: those replace them all, so call it last. The weights of the program's
// custom scorers, see [Config.EngineWeights], go the same way.
func (c *Config) UseProgram(weights map[string]float64) {
	if !c.chosen && len(weights) > 0 {
		c.Weights = maps.Clone(weights)
	}
}

// EngineWeights are the weights in the engine's form; custom lists the names of
// the registered custom scorers with the weights that the program gave them. Once
// a preset or weights were named elsewhere, a custom scorer that is not among them
// weighs 0.
func (c *Config) EngineWeights(custom []score.CustomWeight) (score.Weights, error) {
	w := score.Weights{MaxQueue: 20}
	var problems []error
	if c.Preset != "" {
		var err error
		if w, err = score.Preset(c.Preset); err != nil {
			problems = append(problems, fmt.Errorf("preset: %w", err))
		}
	}
	w.Custom = slices.Clone(custom)
	if c.chosen || c.Preset == "" {
		for i := range w.Custom {
			w.Custom[i].Weight = 0
		}
	}
	unknown := c.setWeights(&w)
	if c.MaxQueue != 0 || c.queueChosen {
		w.MaxQueue = c.MaxQueue
	}
	w.MaxUtilization = c.MaxUtilization
	saturation, err := score.ParseSaturation(c.Saturation)
	w.Saturation = saturation
	problems = append(problems, err)
	if errors.Join(problems...) == nil && unknown == nil { // else the sum is wrong because of those
		problems = append(problems, w.Validate())
	}
	return w, errors.Join(unknown, c.from.place(errors.Join(problems...)))
}

// setWeights lays the weights by name over w, and returns an error for each name
// that there is not, in the order of the file.
func (c *Config) setWeights(w *score.Weights) error {
	names := score.WeightKeys()
	for _, k := range w.Custom {
		names = append(names, k.Name)
	}
	keys := slices.SortedFunc(maps.Keys(c.Weights), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.from.lines["weights."+a], c.from.lines["weights."+b]), strings.Compare(a, b))
	})
	var problems []error
	for _, key := range keys {
		if w.Set(key, c.Weights[key]) != nil {
			problems = append(problems, fmt.Errorf("%sunknown key weights.%s: did you mean %s? The weights are %s",
				c.from.at("weights."+key), key, nearest.Name(key, names), strings.Join(names, ", ")))
		}
	}
	return errors.Join(problems...)
}

// Effective is the configuration with every weight and limit that is in force
// spelled out; [Parse] reads it back to the same.
func (c *Config) Effective(custom []score.CustomWeight) (Config, error) {
	w, err := c.EngineWeights(custom)
	if err != nil {
		return *c, err
	}
	out := *c
	out.Preset, out.MaxQueue, out.chosen, out.queueChosen, out.from = "", w.MaxQueue, true, true, origin{}
	out.Staleness.ReportsSeconds = c.PoolLimits().Reports.Seconds()
	out.Weights = map[string]float64{
		"cache": w.Cache, "load": w.Load, "queue": w.Queue, "health": w.Health, "adapter": w.Adapter,
	}
	for _, k := range w.Custom {
		out.Weights[k.Name] = k.Weight
	}
	return out, nil
}
