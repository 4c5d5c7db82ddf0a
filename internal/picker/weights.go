package picker

import (
	"errors"

	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/score"
)

// Weights are the weights now in force; they must not be changed.
func (p *Picker) Weights() *score.Weights { return p.weights.Load().all }

// ErrGeneration: the weights were changed by somebody else in between.
var ErrGeneration = errors.New("the weights have changed meanwhile")

// SetWeights puts other weights in force for the decisions to come, if the
// present generation is still the given one. It returns the new generation.
func (p *Picker) SetWeights(w score.Weights, generation uint64) (uint64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	if err := checkScorers(p.cfg.Scorers, w.Custom); err != nil {
		return 0, err
	}
	for {
		old := p.weights.Load()
		if old.all.Generation != generation {
			return old.all.Generation, ErrGeneration
		}
		w.Generation = generation + 1
		if p.weights.CompareAndSwap(old, newInForce(w)) {
			return w.Generation, nil
		}
	}
}

// inForce are the weights for all requests but those that give way to others, and
// for these, which full queues refuse.
type inForce struct{ all, sheddable *score.Weights }

func newInForce(w score.Weights) *inForce {
	f := &inForce{all: w.Clone(), sheddable: w.Clone()}
	f.sheddable.Saturation = score.Reject
	return f
}

func (f *inForce) of(criticality string) *score.Weights {
	if criticality == naming.Sheddable {
		return f.sheddable
	}
	return f.all
}
