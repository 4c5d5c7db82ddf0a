package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/health"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

// Excluded is why no request can be given to a pod now; [score.Eligible] when one
// can. The engine itself is asked, about a request that any pod could take.
func Excluded(s *score.PodState, w *score.Weights) score.Reason {
	var d score.Decision
	score.Decide(&d, &score.InferenceRequest{}, []score.PodState{*s}, nil, w, 0)
	if d.Relaxed {
		return score.QueueFull // it would be let go for want of another pod
	}
	return d.Results[0].Reason
}

// podSnapshot is what the pool knows of an endpoint; the windows are added later.
func podSnapshot(v *pool.View, w *score.Weights) explain.PodSnapshot {
	s := &v.State
	p := explain.PodSnapshot{
		Pod: s.Pod, Endpoint: s.Endpoint,
		CacheSource: s.Cache.Source.String(), KVUsage: fullest(v),
		Queue: explain.QueueSnapshot{
			Waiting: shown(&s.Waiting), Pending: s.Pending, PeerPending: s.PeerPending, InFlight: s.InFlight, Max: w.MaxQueue, Stale: s.Waiting.State == score.Stale,
		},
		Running: shown(&v.Running), Load: shown(&s.Utilization), LoadSource: s.Utilization.Source.String(), Health: shown(&s.Health),
		Signals: []string{}, Adapters: adapters(s), AgeSeconds: figuresAge(v), Stream: streamState(v),
	}
	if s.Cache.State != score.Unknown {
		p.CachedBlocks = new(v.TreeBlocks)
	}
	if v.Health != nil {
		for _, c := range v.Health.Costs {
			p.Signals = append(p.Signals, c.Text)
		}
	}
	p.State, p.Reason = podState(v, &p, w)
	return p
}

// shown is a value, also one that is too old to count; null when there is none.
func shown(r *score.Reading) *float64 {
	if r.State == score.Unknown {
		return nil
	}
	return new(r.Value)
}

// fullest is how full the fullest rank's KV cache is.
func fullest(v *pool.View) (usage *float64) {
	for i := range v.Ranks {
		if kv := v.Ranks[i].KVUsage; kv.Known && (usage == nil || kv.V > *usage) {
			usage = new(kv.V)
		}
	}
	return usage
}

func adapters(s *score.PodState) (a explain.AdapterState) {
	if s.AdapterState.Usable() {
		a.Loaded = append([]string{}, s.Adapters...)
	}
	if s.MaxAdapters > 0 {
		a.Max = new(s.MaxAdapters)
	}
	return a
}

// figuresAge is the age of the older of queue and load, and of the last look at a
// pod that never told any; null when it was never seen.
func figuresAge(v *pool.View) *float64 {
	s, oldest := &v.State, time.Duration(-1)
	for _, r := range []*score.Reading{&s.Waiting, &s.Utilization} {
		if r.State != score.Unknown {
			oldest = max(oldest, r.Age)
		}
	}
	if oldest < 0 && !v.LastScrape.IsZero() {
		oldest = v.ScrapeAge
	}
	if oldest < 0 {
		return nil
	}
	return new(oldest.Seconds())
}

// podState is a pod's state in a word, and why.
func podState(v *pool.View, p *explain.PodSnapshot, w *score.Weights) (state, reason string) {
	s := &v.State
	if v.Departed {
		return explain.PodGone, "left the pool, and its requests go on"
	}
	if state, reason := keptOut(s, p, w); state != "" {
		return state, reason
	}
	switch {
	case s.Waiting.State == score.Stale || s.Utilization.State == score.Stale:
		return explain.PodStale, staleReason(v)
	case s.Waiting.State == score.Unknown && s.Utilization.State == score.Unknown && s.Health.State == score.Unknown:
		return explain.PodUnknown, "it has told nothing yet"
	case s.Health.State.Usable() && health.BandOf(s.Health.Value) < health.Minor:
		return explain.PodSick, healthReason(p)
	}
	return explain.PodOK, ""
}

// keptOut is the state of a pod that gets no request now; "" of one that may.
func keptOut(s *score.PodState, p *explain.PodSnapshot, w *score.Weights) (state, reason string) {
	switch Excluded(s, w) {
	case score.Terminating:
		return explain.PodDraining, "it is terminating"
	case score.NotReady:
		return explain.PodNotReady, "it is not ready"
	case score.PrefillOnly:
		return explain.PodPrefill, "it computes prompts for other pods"
	case score.Unhealthy:
		if s.Health.Source == score.SourceManual {
			return explain.PodDraining, "drained by an operator"
		}
		return explain.PodDown, healthReason(p)
	case score.QueueFull:
		return explain.PodFull, fmt.Sprintf("%.0f waiting + %d pending of %d", valueOr0(p.Queue.Waiting), s.Pending+s.PeerPending, w.MaxQueue)
	case score.Eligible, score.NotInPool, score.NotInSubset, score.ModelNotServed:
	}
	return "", ""
}

func valueOr0(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func healthReason(p *explain.PodSnapshot) string {
	if len(p.Signals) == 0 {
		return fmt.Sprintf("health %.2f", valueOr0(p.Health))
	}
	return strings.Join(p.Signals, ", ")
}

// staleReason names the figures that are too old, and what was wrong with the last
// look at them.
func staleReason(v *pool.View) string {
	var old []string
	for _, f := range []struct {
		name    string
		reading *score.Reading
	}{{"queue", &v.State.Waiting}, {"load", &v.State.Utilization}} {
		if f.reading.State == score.Stale {
			old = append(old, f.name)
		}
	}
	text := "nothing new of its " + strings.Join(old, " and ")
	if v.LastError != "" {
		text += ": " + v.LastError
	}
	return text
}

// streamState adds up the streams of a pod's KV events; nil without.
func streamState(v *pool.View) *explain.StreamState {
	if len(v.Streams) == 0 {
		return nil
	}
	t := &explain.StreamState{Ranks: len(v.Streams)}
	worst := kvindex.Whole
	for i := range v.Streams {
		s := &v.Streams[i]
		if s.Connected {
			t.Connected++
		}
		t.EventsPerSecond += s.PerSecond
		t.Gaps += s.Gaps
		t.Orphans += s.Orphans
		t.DecodeErrors += s.DecodeErrors
		t.Replays += s.Replays
		worst = max(worst, s.Degraded)
		if !s.LastMessage.IsZero() && (t.AgeSeconds == nil || s.LastAge.Seconds() < *t.AgeSeconds) {
			t.AgeSeconds = new(s.LastAge.Seconds())
		}
	}
	t.Degraded = worst.String()
	return t
}

// heard is how long ago a pod last told what it holds, by the way that counts; null
// when it never did.
func heard(v *pool.View, p *explain.PodSnapshot, now time.Time) *float64 {
	if v.State.Cache.Source == score.SourceEvents && p.Stream != nil {
		return p.Stream.AgeSeconds
	}
	if v.LastReport.IsZero() {
		return nil
	}
	return new(now.Sub(v.LastReport).Seconds())
}
