package playback

import (
	"cmp"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// Recording is decisions in the order of their arrival. It is not safe for concurrent
// use.
type Recording struct {
	records []*explain.Record
	watch   explain.FleetWatch
	judged  time.Time // what watch saw last
}

// New takes decisions in any order; there must be one at least.
func New(records []*explain.Record) *Recording {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b *explain.Record) int { return a.Time.Compare(b.Time) })
	return &Recording{records: records}
}

// From is the first arrival.
func (r *Recording) From() time.Time { return r.records[0].Time }

// Until is the last arrival, or the end of a request that ended later.
func (r *Recording) Until() time.Time {
	last := r.records[len(r.records)-1].Time
	for _, rec := range r.records {
		if end, ended := ended(rec); ended && end.After(last) {
			last = end
		}
	}
	return last
}

// ended is when a request ended; false when that is not known.
func ended(rec *explain.Record) (time.Time, bool) {
	if rec.Outcome.State != explain.OutcomeDone || rec.Outcome.DurationSeconds == nil {
		return time.Time{}, false
	}
	return rec.Time.Add(time.Duration(*rec.Outcome.DurationSeconds * float64(time.Second))), true
}

// before is how many decisions were taken up to a moment.
func (r *Recording) before(t time.Time) int {
	n, _ := slices.BinarySearchFunc(r.records, t, func(rec *explain.Record, t time.Time) int {
		if rec.Time.After(t) {
			return 1
		}
		return -1
	})
	return n
}

// Around is when the decisions next to a moment were taken, before and after it; the
// zero time where there is none.
func (r *Recording) Around(t time.Time) (before, after time.Time) {
	n := r.before(t)
	if n > 0 {
		before = r.records[n-1].Time
	}
	if n < len(r.records) {
		after = r.records[n].Time
	}
	return before, after
}

// Recent lists the newest decisions of a moment, the newest first.
func (r *Recording) Recent(t time.Time, limit int) []*explain.Record {
	n := r.before(t)
	out := slices.Clone(r.records[max(n-limit, 0):n])
	slices.Reverse(out)
	return out
}

// Rows lists them in a line each; what was not known at that moment of how requests
// ended is left out.
func (r *Recording) Rows(t time.Time, limit int) []explain.Row {
	recent := r.Recent(t, limit)
	rows := make([]explain.Row, len(recent))
	for i, rec := range recent {
		if end, ok := ended(rec); ok && end.After(t) {
			running := *rec
			running.Outcome = explain.Outcome{State: explain.OutcomePending, PredictedCached: rec.Outcome.PredictedCached}
			rec = &running
		}
		rows[i] = explain.Summarize(rec)
	}
	return rows
}

// How far back the verdict looks, and in which steps.
const (
	lookBack = 15 * time.Second
	lookStep = time.Second
)

// At is the fleet at a moment.
func (r *Recording) At(t time.Time) *explain.Snapshot {
	if gap := t.Sub(r.judged); gap < 0 || gap > 2*lookStep {
		r.watch = explain.FleetWatch{}
		for at := t.Add(-lookBack); at.Before(t); at = at.Add(lookStep) {
			if at.Before(r.From()) {
				continue // nothing was known yet, which is no empty pool
			}
			r.watch.Judge(r.snapshot(at))
		}
	}
	s := r.snapshot(t)
	r.watch.Judge(s)
	r.judged = t
	return s
}

// missing is what no record tells.
var missing = []string{
	"blocks in the prefix tree", "streams of KV events", "names of loaded adapters", "fill of the engines' caches",
	"figures between decisions: those of the last decision are shown",
}

func (r *Recording) snapshot(t time.Time) *explain.Snapshot {
	s := &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: t.UTC(), TimeScale: 1, Source: explain.SourceRecords,
		Pods: []explain.PodSnapshot{}, Events: []explain.FleetEvent{}, Missing: missing,
	}
	longest := time.Duration(explain.WindowSeconds[len(explain.WindowSeconds)-1]) * time.Second
	// A request that ended in the window may have come long before; one that takes
	// longer than a window is missed.
	span := r.records[r.before(t.Add(-2*longest)):r.before(t)]
	if len(span) > 0 {
		last := span[len(span)-1]
		s.TimeScale = cmp.Or(last.TimeScale, 1)
		s.Router = explain.RouterState{
			Models: last.Request.Base, Uptime: t.Sub(r.From()).Seconds(), MaxQueue: last.Weights.MaxQueue, Weights: last.Weights,
		}
		for i := range last.Candidates {
			s.Pods = append(s.Pods, podOf(&last.Candidates[i], &last.Weights))
		}
		slices.SortStableFunc(s.Pods, func(a, b explain.PodSnapshot) int {
			return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Endpoint, b.Endpoint))
		})
		s.Index.LastHeard = lastHeard(last)
	}
	count(s, span, t)
	return s
}

// lastHeard is how long ago a pod last told what it holds, when the decision was taken.
func lastHeard(rec *explain.Record) (age *float64) {
	for i := range rec.Candidates {
		c := &rec.Candidates[i].Cache
		told := c.Source == score.SourceEvents.String() || c.Source == score.SourceReport.String()
		if c.Value != nil && told && (age == nil || c.AgeSeconds < *age) {
			age = new(c.AgeSeconds)
		}
	}
	return age
}

// podOf is what a decision knew of a pod.
func podOf(c *explain.Candidate, w *explain.Weights) explain.PodSnapshot {
	p := explain.PodSnapshot{
		Pod: c.Pod, Endpoint: c.Endpoint, Picks: make([]int, len(explain.WindowSeconds)), DecidedBy: map[string]int{}, CacheSource: c.Cache.Source,
		Queue: explain.QueueSnapshot{
			Waiting: c.Waiting.Value, Pending: c.Pending, InFlight: c.InFlight, Max: w.MaxQueue, Stale: c.Waiting.State == score.Stale.String(),
		},
		Running: c.Running, Load: c.Load.Value, LoadSource: c.Load.Source, Health: c.Health.Value, Signals: []string{},
	}
	if c.Adapters.Max > 0 {
		p.Adapters.Max = new(c.Adapters.Max)
	}
	for _, in := range []*explain.Input{&c.Waiting, &c.Load} {
		if in.Value != nil && (p.AgeSeconds == nil || in.AgeSeconds > *p.AgeSeconds) {
			p.AgeSeconds = new(in.AgeSeconds)
		}
	}
	if c.Health.Detail != "" {
		p.Signals = append(p.Signals, c.Health.Detail)
	}
	p.State, p.Reason = stateOf(c)
	return p
}

// sick is the health below which a pod is not well.
const sick = 0.7

func stateOf(c *explain.Candidate) (state, reason string) {
	stale := score.Stale.String()
	switch why, _ := score.ParseReason(c.Reason); why {
	case score.Terminating:
		return explain.PodDraining, "it is terminating"
	case score.NotReady:
		return explain.PodNotReady, "it is not ready"
	case score.PrefillOnly:
		return explain.PodPrefill, "it computes prompts for other pods"
	case score.Unhealthy:
		return explain.PodDown, "its health keeps it out"
	case score.QueueFull:
		return explain.PodFull, "its queue is full"
	case score.Eligible, score.NotInPool, score.NotInSubset, score.ModelNotServed:
	}
	switch {
	case c.Waiting.State == stale || c.Load.State == stale:
		return explain.PodStale, "its figures were old"
	case c.Waiting.Value == nil && c.Load.Value == nil && c.Health.Value == nil:
		return explain.PodUnknown, "nothing was known of it"
	case c.Health.Value != nil && *c.Health.Value < sick:
		return explain.PodSick, c.Health.Detail
	}
	return explain.PodOK, ""
}
