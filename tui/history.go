package tui

import (
	"math"

	"github.com/eppctl/eppctl/explain"
)

// historyLength is how many values of a figure are kept.
const historyLength = 120

// metric is a figure of a pod that has a history.
type metric struct {
	name  string
	value func(*explain.PodSnapshot) *float64
}

// metrics are what the key m goes through.
var metrics = []metric{
	{"PICKS", func(p *explain.PodSnapshot) *float64 { return pickCount(p, 0) }},
	{"QUEUE", func(p *explain.PodSnapshot) *float64 { return new(depth(&p.Queue)) }},
	{"LOAD", func(p *explain.PodSnapshot) *float64 { return p.Load }},
	{"HITS", func(p *explain.PodSnapshot) *float64 { return p.CacheHitRatio }},
	{"HEALTH", func(p *explain.PodSnapshot) *float64 { return p.Health }},
}

func pickCount(p *explain.PodSnapshot, window int) *float64 {
	if window >= len(p.Picks) {
		return nil
	}
	return new(float64(p.Picks[window]))
}

// depth is a queue as the picker counts it: what the engine said and what it can't
// have seen.
func depth(q *explain.QueueSnapshot) float64 {
	if q.Waiting == nil || q.Stale {
		return float64(q.Pending + q.PeerPending)
	}
	return *q.Waiting + float64(q.Pending+q.PeerPending)
}

// series are the newest values of a figure, the newest last. Not known is NaN.
type series []float32

func (s *series) add(v *float64) {
	value := float32(math.NaN())
	if v != nil {
		value = float32(*v)
	}
	if len(*s) == historyLength {
		copy(*s, (*s)[1:])
		(*s)[historyLength-1] = value
		return
	}
	*s = append(*s, value)
}

// decisionRate is the decisions a second in a window. A young picker has seen a part of
// it alone.
func decisionRate(s *explain.Snapshot, window int) *float64 {
	if window >= len(s.Windows) || s.Windows[window].Seconds <= 0 || !s.PicksKnown() {
		return nil
	}
	span := float64(s.Windows[window].Seconds)
	if up := s.Router.Uptime; up > 0 {
		span = min(span, max(up, 1))
	}
	return new(float64(s.Windows[window].Decisions) / span)
}

// history is what the figures were.
type history struct {
	fleet series // decisions a second
	pods  map[string][]series
}

// see adds a snapshot, and forgets pods that are gone.
func (h *history) see(s *explain.Snapshot) {
	if h.pods == nil {
		h.pods = map[string][]series{}
	}
	h.fleet.add(decisionRate(s, 0))
	there := make(map[string]bool, len(s.Pods))
	for i := range s.Pods {
		p := &s.Pods[i]
		id := podID(p)
		there[id] = true
		list := h.pods[id]
		if list == nil {
			list = make([]series, len(metrics))
			h.pods[id] = list
		}
		for k := range metrics {
			list[k].add(metrics[k].value(p))
		}
	}
	for id := range h.pods {
		if !there[id] {
			delete(h.pods, id)
		}
	}
}

func (h *history) of(p *explain.PodSnapshot, metric int) series {
	if list := h.pods[podID(p)]; list != nil {
		return list[metric]
	}
	return nil
}

// podID tells pods apart that have one name.
func podID(p *explain.PodSnapshot) string { return p.Pod + "\x00" + p.Endpoint }
