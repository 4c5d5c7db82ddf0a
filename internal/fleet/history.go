package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

const (
	maxEvents = 200
	// quiet is how long an event of a pod is not told again: a queue at its limit
	// comes and goes.
	quiet = 10 * time.Second
	// maxFlaps bounds the crossings that are remembered of a pod.
	maxFlaps = 100
)

// history is what happened to the fleet. It belongs to one goroutine.
type history struct {
	pods    map[place]*podHistory
	weights uint64 // generation that was last seen
	begun   bool
	events  []explain.FleetEvent // oldest first
	told    map[[2]string]time.Time
}

// podHistory is how a pod was when it was last looked at.
type podHistory struct {
	health   side
	full     bool
	drained  bool
	departed bool
	engine   engineTrack
	flaps    []time.Time // crossings of the line, of the longest window
}

// side is on which side of the line a pod's health is.
type side uint8

const (
	unseen side = iota // not known yet
	in
	out
)

// engineTrack is what of an engine only ever grows, or says that it is another one.
type engineTrack struct {
	epoch              uint64
	restarts, gaps     uint64
	streams, connected int
	degraded           kvindex.Degraded
	missed             uint64
}

func newHistory() *history {
	return &history{pods: map[place]*podHistory{}, told: map[[2]string]time.Time{}}
}

// look compares the fleet with how it was. The states are those of the views.
func (h *history) look(now time.Time, views []pool.View, states []explain.PodSnapshot, weights *score.Weights) {
	h.changedWeights(now, weights)
	present := make(map[place]bool, len(views))
	for i := range views {
		at := place{views[i].State.Pod, views[i].State.Endpoint}
		present[at] = true
		p := h.pods[at]
		fresh := p == nil
		if fresh {
			p = &podHistory{}
			h.pods[at] = p
			if h.begun {
				h.tell(now, at.pod, explain.EventJoined, "joined the pool at "+at.endpoint)
			}
		}
		h.pod(now, p, &views[i], &states[i], fresh)
	}
	maps.DeleteFunc(h.pods, func(at place, p *podHistory) bool {
		if !present[at] && !p.departed {
			h.tell(now, at.pod, explain.EventLeft, "left the pool")
		}
		return !present[at]
	})
	maps.DeleteFunc(h.told, func(_ [2]string, at time.Time) bool { return now.Sub(at) >= quiet })
	h.begun = true
}

func (h *history) changedWeights(now time.Time, w *score.Weights) {
	if h.begun && w.Generation != h.weights {
		h.tell(now, "", explain.EventWeights, fmt.Sprintf("the weights were changed: generation %d", w.Generation))
	}
	h.weights = w.Generation
}

// pod compares one pod with how it was.
func (h *history) pod(now time.Time, p *podHistory, v *pool.View, s *explain.PodSnapshot, fresh bool) {
	if v.Departed && !p.departed {
		h.tell(now, s.Pod, explain.EventLeft, fmt.Sprintf("left the pool with %d requests running", v.State.InFlight))
	}
	p.departed = v.Departed
	drained := s.State == explain.PodDraining
	if drained != p.drained && !v.Departed {
		h.tell(now, s.Pod, explain.EventDrained, drainText(drained))
	}
	p.drained = drained
	h.crossed(now, p, v, s)
	full := s.State == explain.PodFull
	if full && !p.full {
		h.tell(now, s.Pod, explain.EventQueueFull, s.Reason)
	}
	p.full = full
	h.engine(now, p, v, fresh)
}

func drainText(drained bool) string {
	if drained {
		return "gets no new requests"
	}
	return "gets requests again"
}

// crossed notes on which side of the line a pod's health is. What is not known, or
// by an operator's word, is no crossing.
func (h *history) crossed(now time.Time, p *podHistory, v *pool.View, s *explain.PodSnapshot) {
	past := now.Add(-time.Duration(explain.WindowSeconds[longWindow]) * time.Second)
	p.flaps = slices.DeleteFunc(p.flaps, func(at time.Time) bool { return !at.After(past) })
	health := v.State.Health
	if v.Departed || health.State != score.Known || health.Source == score.SourceManual {
		return
	}
	where := in
	if health.Value < score.HealthCutoff {
		where = out
	}
	before := p.health
	p.health = where
	switch {
	case where == before, before == unseen && where == in:
		return
	case where == out:
		h.tell(now, s.Pod, explain.EventDown, s.Reason)
	default:
		h.tell(now, s.Pod, explain.EventUp, fmt.Sprintf("takes requests again, with health %.2f", health.Value))
	}
	if before != unseen && len(p.flaps) < maxFlaps {
		p.flaps = append(p.flaps, now)
	}
}

// engine compares what is known of a pod's engine and of its events.
func (h *history) engine(now time.Time, p *podHistory, v *pool.View, fresh bool) {
	t, old := trackOf(v), p.engine
	p.engine = t
	if fresh || v.Departed {
		return
	}
	if t.restarts > old.restarts || old.epoch != 0 && t.epoch != old.epoch && t.epoch != 0 {
		h.tell(now, v.State.Pod, explain.EventRestart, "the engine has started again, with an empty cache")
	}
	h.streams(now, v.State.Pod, &old, &t)
}

func trackOf(v *pool.View) engineTrack {
	t := engineTrack{epoch: v.ReportEpoch, streams: len(v.Streams)}
	for i := range v.Streams {
		s := &v.Streams[i]
		t.restarts += s.Restarts
		t.gaps += s.Gaps
		t.missed += s.Missed
		t.degraded = max(t.degraded, s.Degraded)
		if s.Connected {
			t.connected++
		}
	}
	return t
}

// streams compares a pod's streams of KV events with how they were.
func (h *history) streams(now time.Time, pod string, old, t *engineTrack) {
	if t.gaps > old.gaps {
		h.tell(now, pod, explain.EventGap, fmt.Sprintf("%d batches of KV events were missed", t.missed-min(old.missed, t.missed)))
	}
	switch {
	case t.degraded == kvindex.Gapped && old.degraded != kvindex.Gapped:
		h.tell(now, pod, explain.EventDegraded, "what is known of its cache has a gap")
	case t.degraded == kvindex.Whole && old.degraded == kvindex.Gapped:
		h.tell(now, pod, explain.EventRestored, "what is known of its cache is whole again")
	}
	if t.streams != old.streams || t.connected == old.connected {
		return
	}
	connected := fmt.Sprintf("%d of %d streams of KV events are connected", t.connected, t.streams)
	switch {
	case t.connected < old.connected:
		h.tell(now, pod, explain.EventStreamLost, connected)
	case t.connected > old.connected && old.connected > 0:
		h.tell(now, pod, explain.EventStreamBack, connected)
	}
}

// tell adds an event, unless the same was told of the pod a moment ago.
func (h *history) tell(now time.Time, pod, code, text string) {
	key := [2]string{pod, code}
	if at, told := h.told[key]; told && now.Sub(at) < quiet {
		return
	}
	h.told[key] = now
	if len(h.events) == maxEvents {
		h.events = slices.Delete(h.events, 0, 1)
	}
	h.events = append(h.events, explain.FleetEvent{Time: now.UTC(), Pod: pod, Code: code, Text: text})
}

// newest are the events, the newest first.
func (h *history) newest() []explain.FleetEvent {
	out := slices.Clone(h.events)
	slices.Reverse(out)
	if out == nil {
		out = []explain.FleetEvent{}
	}
	return out
}

// flaps is how often a pod crossed the line in the longest window.
func (h *history) flaps(at place) int {
	if p := h.pods[at]; p != nil {
		return len(p.flaps)
	}
	return 0
}
