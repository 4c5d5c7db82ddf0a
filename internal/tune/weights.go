package tune

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/nearest"
)

// KeyMaxQueue is the key of the queue depth at which a pod counts as full.
const KeyMaxQueue = "maxQueue"

// ParseWeights reads weights: the name of a preset, or KEY=N with commas between, which
// are changes to the default ones or to those of preset=NAME. Their sum has to be 1.
func ParseWeights(text string) (*score.Weights, error) {
	w := score.Default()
	if text == "" {
		return &w, nil
	}
	if !strings.Contains(text, "=") {
		return presetNamed(text)
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is not KEY=NUMBER", part)
		case seen[key]:
			return nil, fmt.Errorf("%s is given twice", key)
		case key == "preset" && len(seen) > 0:
			return nil, fmt.Errorf("preset has to come first")
		}
		seen[key] = true
		if err := setWeight(&w, key, value); err != nil {
			return nil, err
		}
	}
	return &w, w.Validate()
}

func presetNamed(name string) (*score.Weights, error) {
	w, err := score.Preset(name)
	if err != nil {
		return nil, fmt.Errorf("%w; did you mean %s?", err, nearest.Name(name, score.PresetNames()))
	}
	return &w, nil
}

func setWeight(w *score.Weights, key, value string) error {
	if key == "preset" {
		p, err := presetNamed(value)
		if err == nil {
			*w = *p
		}
		return err
	}
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%s: want a number, got %q", key, value)
	case key == "maxUtilization":
		w.MaxUtilization = v
	case key != KeyMaxQueue:
		return w.Set(key, v)
	case v != math.Trunc(v) || v < 1 || v > math.MaxInt32:
		return fmt.Errorf("maxQueue: want a whole number above 0, got %q", value)
	default:
		w.MaxQueue = int(v)
	}
	return nil
}
