package score

import (
	"fmt"
	"time"
)

// The five factors as pure functions. Decide calls them directly and the
// Scorers wrap them, so that there is one computation and two ways to reach it.
// Each returns a value in [0,1] and the state it was computed from.

// cacheMatch is matched / blocks, counted in consecutive blocks from the start
// of the prompt. A prompt without a full block is not applicable.
func cacheMatch(req *InferenceRequest, p *PodState) (float64, State) {
	if req.Blocks <= 0 || req.NoPrefix != "" {
		return 0, NotApplicable
	}
	if !number(p.Cache) {
		return 0, lost(p.Cache)
	}
	ratio := p.Cache.Value / float64(req.Blocks)
	if ratio > 1 {
		return 1, Clamped
	}
	return ratio, Known
}

// loadScore is 1 − min(utilization / maxUtilization, 1).
func loadScore(p *PodState, maxUtilization float64) (float64, State) {
	if !number(p.Utilization) {
		return 0, lost(p.Utilization)
	}
	ratio := p.Utilization.Value / maxUtilization
	if ratio > 1 {
		return 0, Clamped
	}
	return 1 - ratio, Known
}

// queueScore is 1 − min((waiting + pending) / maxQueue, 1) of what
// [PodState.QueueDepth] says.
func queueScore(p *PodState, depth float64, known bool, maxQueue float64) (float64, State) {
	if !known {
		return 0, lost(p.Waiting)
	}
	ratio := depth / maxQueue
	if ratio > 1 {
		return 0, Clamped
	}
	return 1 - ratio, Known
}

// healthScore is the health reading, cut to 1.
func healthScore(p *PodState) (float64, State) {
	if !number(p.Health) {
		return 0, lost(p.Health)
	}
	if p.Health.Value > 1 {
		return 1, Clamped
	}
	return p.Health.Value, Known
}

// adapterMatch is 1 when the adapter is loaded, or when none is needed.
func adapterMatch(req *InferenceRequest, p *PodState) (float64, State) {
	if req.Adapter == "" {
		return 1, NotApplicable
	}
	if !p.AdapterState.Usable() {
		return 0, p.AdapterState
	}
	if p.HasAdapter(req.Adapter) {
		return 1, Known
	}
	return 0, Known
}

// lost is the state of a reading that can't be computed with: Stale stays
// Stale, anything else (also a known NaN) is Unknown.
func lost(r Reading) State {
	if r.State == Stale {
		return Stale
	}
	return Unknown
}

// why is the pod's own explanation of an unknown reading, or a plain one.
func why(p *PodState, f int) string {
	if note := p.note(f); note != "" {
		return note
	}
	return "unknown: never reported"
}

// age renders an age for a detail line.
func age(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
