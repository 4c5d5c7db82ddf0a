package tune

import (
	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// The documents of this package.
const (
	APIVersion      = explain.APIVersion
	KindSensitivity = "Sensitivity"
	KindAdvice      = "TuningAdvice"
)

// Sensitivity is what follows from weights alone.
type Sensitivity struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Weights    explain.Weights `json:"weights"`
	*explain.Analysis
	// DominanceText says in words when cache decides alone.
	DominanceText string `json:"dominanceText"`
}

// SensitivityOf looks at weights.
func SensitivityOf(w *score.Weights) *Sensitivity {
	a := explain.Analyse(w)
	return &Sensitivity{
		APIVersion: APIVersion, Kind: KindSensitivity, Weights: explain.RecordWeights(w), Analysis: a,
		DominanceText: a.Dominance.Text(),
	}
}
