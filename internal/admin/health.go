package admin

import "github.com/eppctl/eppctl/internal/health"

// PodSignals is what a pod's health was judged by.
type PodSignals struct {
	Band string `json:"band"` // healthy, minor, significant, out, failed
	// Costs are what keeps it from being 1: first what decides, then the most
	// expensive.
	Costs []PodCost `json:"costs"`
	// Unknown are the signals of which nothing is known; they cost nothing.
	Unknown []string `json:"unknown"`
}

// PodCost is what one signal takes from a pod's health.
type PodCost struct {
	Signal string  `json:"signal"`
	Points float64 `json:"points"` // what it would take by itself, 0..1
	Text   string  `json:"text"`
}

// signalsOf is nil for a health that is not known.
func signalsOf(a *health.Assessment) *PodSignals {
	if a == nil {
		return nil
	}
	s := &PodSignals{
		Band: health.BandOf(a.Score).String(), Costs: make([]PodCost, len(a.Costs)), Unknown: make([]string, len(a.Unknown)),
	}
	for i, c := range a.Costs {
		s.Costs[i] = PodCost{c.Signal.String(), c.Points, c.Text}
	}
	for i, of := range a.Unknown {
		s.Unknown[i] = of.String()
	}
	return s
}
