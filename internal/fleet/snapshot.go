package fleet

import (
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

// snapshot is all that is known now, but for the verdict.
func (w *Watch) snapshot(now time.Time, views []pool.View) *explain.Snapshot {
	weights := w.cfg.Weights()
	s := &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: now.Round(0).UTC(), TimeScale: w.cfg.Clock.Scale(),
		Source: explain.SourcePicker, Router: w.router(now, weights), Windows: w.windows.rates(),
		Index: w.index(), Pods: make([]explain.PodSnapshot, len(views)), Missing: []string{},
	}
	for i := range views {
		s.Pods[i] = podSnapshot(&views[i], weights)
		told := heard(&views[i], &s.Pods[i], now)
		if told != nil && !views[i].Departed && (s.Index.LastHeard == nil || *told < *s.Index.LastHeard) {
			s.Index.LastHeard = told
		}
		addStream(&s.Index, s.Pods[i].Stream)
	}
	w.history.look(now, views, s.Pods, weights)
	w.count(s, weights)
	return s
}

func (w *Watch) router(now time.Time, weights *score.Weights) explain.RouterState {
	r := w.cfg.Router
	r.Models, r.Uptime, r.MaxQueue = w.cfg.Models(), now.Sub(w.begun).Seconds(), weights.MaxQueue
	r.Weights, r.InFlight = explain.RecordWeights(weights), w.cfg.Open()
	if w.cfg.Role != nil {
		r.Role, r.Leader = w.cfg.Role()
	}
	if w.cfg.Silence != nil {
		r.Silence = w.cfg.Silence()
	}
	r.Streams, r.Dropped = int(w.feed.count.Load()), w.feed.dropped.Load()
	return r
}

// index is the prefix tree; what feeds it is added pod by pod.
func (w *Watch) index() explain.IndexState {
	tree := w.cfg.Tree()
	return explain.IndexState{Blocks: &tree.Blocks, Bytes: &tree.BytesEstimate}
}

func addStream(x *explain.IndexState, s *explain.StreamState) {
	if s == nil {
		return
	}
	x.Streams += s.Ranks
	x.Connected += s.Connected
	x.Gaps += s.Gaps
	x.Orphans += s.Orphans
	sum := s.EventsPerSecond
	if x.EventsPerSecond != nil {
		sum += *x.EventsPerSecond
	}
	x.EventsPerSecond = &sum
}

// count adds what the windows know of the pods.
func (w *Watch) count(s *explain.Snapshot, weights *score.Weights) {
	again := w.windows.reloads.of()
	all := 0
	for _, n := range w.windows.sums[midWindow].picks {
		all += int(n)
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		at := place{p.Pod, p.Endpoint}
		p.Flaps = w.history.flaps(at)
		p.Picks, p.DecidedBy = make([]int, len(w.windows.sums)), map[string]int{}
		if all > 0 {
			p.PicksShare = new(0.0)
		}
		n, counted := w.windows.numbers[at]
		if !counted {
			continue
		}
		for k := range w.windows.sums {
			p.Picks[k] = int(w.windows.sums[k].picks[n])
		}
		if all > 0 {
			p.PicksShare = new(float64(p.Picks[midWindow]) / float64(all))
		}
		w.windows.pods[n].show(p, weights, w.cfg.Policy)
		p.Adapters.Reloads = again[n]
	}
}

// show adds what a pod did in the middle window.
func (c *podSum) show(p *explain.PodSnapshot, weights *score.Weights, policy string) {
	for i, n := range c.by {
		if n > 0 {
			p.DecidedBy[deciderName(i, weights, policy)] += int(n)
		}
	}
	p.Served, p.Adapters.Loads = int(c.served), int(c.loads)
	if c.prompt > 0 {
		p.CacheHitRatio = new(float64(c.found) / float64(c.prompt))
		p.ComputedTokens = new(float64(c.prompt-c.found) / float64(c.told))
	}
	p.TTFTP95 = quantile(c.ttft[:], .95, ttftUnit)
}

// deciderName is the inverse of [decider], in words.
func deciderName(i int, w *score.Weights, policy string) string {
	by := score.DecidedBy(i - noFactors)
	if i < noFactors {
		by = score.DecidedBy(-i - 1)
	}
	switch {
	case by == score.ByNothing:
		return policy
	case int(by) >= w.Factors():
		return "other"
	}
	return by.Name(w)
}
