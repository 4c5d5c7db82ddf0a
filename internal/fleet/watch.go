package fleet

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// Config is what a watch looks at. All but Router and Models is needed.
type Config struct {
	Clock   clock.Clock // the picker's
	Pods    func() []pool.View
	Tree    func() prefix.Stats
	Weights func() *score.Weights
	Open    func() int // requests that have not ended
	// Router is what stays the same in [explain.RouterState]: its replica, version
	// and pool.
	Router explain.RouterState
	Models func() string // base models that are served, in words
	// Role is the picker's among its replicas, see [explain.RouterState]; nil = all pick.
	Role func() (role, leader string)
	// Silence is what there is no news of from a cluster; nil = there is none.
	Silence func() *explain.Silence
	Policy  string // that picks
}

// Watch follows a fleet. It is the picker's observer, and safe for concurrent use
// but for [Watch.Look].
type Watch struct {
	cfg    Config
	begun  time.Time
	tally  *tally
	feed   *feed
	latest atomic.Pointer[document]

	// Of whoever calls Look.
	windows *windows
	history *history
	judge   explain.FleetWatch
	verdict [2]string // code and pod
}

var _ picker.Observer = (*Watch)(nil)

// New makes a watch. Nothing is known before the first [Watch.Look].
func New(cfg Config) *Watch {
	if cfg.Models == nil {
		cfg.Models = func() string { return "" }
	}
	now := cfg.Clock.Now()
	return &Watch{cfg: cfg, begun: now, tally: newTally(now), feed: newFeed(), windows: newWindows(), history: newHistory()}
}

// Picked implements [picker.Observer].
func (w *Watch) Picked(e *record.Entry) {
	w.tally.picked(e)
	w.feed.picked(e)
}

// Completed implements [picker.Observer].
func (w *Watch) Completed(k *picker.Pick, o *record.Outcome, stale bool) {
	served := place{k.Pod(), k.Endpoint()}
	if n := len(o.Attempts); n > 0 {
		served = place{o.Attempts[n-1].Pod, o.Attempts[n-1].Endpoint}
	}
	w.tally.completed(served, o, k.Predicted(), stale)
	w.feed.completed(k, o)
}

// ScorerFailed implements [picker.Observer].
func (w *Watch) ScorerFailed(string, picker.Failure) {}

const (
	// second is how often a fleet is looked at, by its picker's clock.
	second = time.Second
	// pause is how long there is between two looks at least, in wall time: a
	// simulated second may be over sooner.
	pause = 20 * time.Millisecond
)

// Run looks at the fleet once a second until ctx ends, and then lets readers go.
func (w *Watch) Run(ctx context.Context) error {
	defer close(w.feed.done)
	step := max(second, time.Duration(float64(pause)*w.cfg.Clock.Scale()))
	next := w.cfg.Clock.Now()
	for {
		now := w.cfg.Clock.Now()
		for !next.After(now) {
			next = next.Add(step)
		}
		if w.cfg.Clock.Sleep(ctx, next.Sub(now)) != nil {
			return nil
		}
		w.Look()
	}
}

// Look takes in what happened since the last time, and makes a new snapshot of it.
// Only one goroutine at a time may call it.
func (w *Watch) Look() {
	now := w.cfg.Clock.Now()
	views := w.views()
	present := make(map[place]bool, len(views))
	for i := range views {
		present[place{views[i].State.Pod, views[i].State.Endpoint}] = true
	}
	w.windows.turn(w.tally, now, present)
	s := w.snapshot(now, views)
	w.judge.Judge(s)
	w.judged(now, s)
	w.latest.Store(&document{snapshot: s})
}

// judged makes an event of another verdict.
func (w *Watch) judged(now time.Time, s *explain.Snapshot) {
	verdict := [2]string{s.Verdict.Code, s.Verdict.Pod}
	if before := w.verdict; before[0] != "" && before != verdict {
		w.history.tell(now, s.Verdict.Pod, explain.EventVerdict, s.Verdict.Code+": "+s.Verdict.Message)
	}
	w.verdict = verdict
	s.Events = w.history.newest()
}

// views are all endpoints, by name.
func (w *Watch) views() []pool.View {
	views := w.cfg.Pods()
	slices.SortStableFunc(views, func(a, b pool.View) int {
		return cmp.Or(cmp.Compare(a.State.Pod, b.State.Pod), cmp.Compare(a.State.Endpoint, b.State.Endpoint))
	})
	return views
}

// document is a snapshot, and its text for whoever asks.
type document struct {
	snapshot *explain.Snapshot

	once sync.Once
	line []byte
}

// Snapshot is the newest one, not to be changed; nil before the first look.
func (w *Watch) Snapshot() *explain.Snapshot {
	if d := w.latest.Load(); d != nil {
		return d.snapshot
	}
	return nil
}

// Line is the newest snapshot as {"snapshot":Snapshot} with a newline, not to be
// changed; nil before the first look.
func (w *Watch) Line() []byte {
	d := w.latest.Load()
	if d == nil {
		return nil
	}
	d.once.Do(func() {
		d.line = encodeLine(struct {
			Snapshot *explain.Snapshot `json:"snapshot"`
		}{d.snapshot})
	})
	return d.line
}

// Subscribe makes a reader of the decisions to come, which has to be closed; false
// when there are [MaxReaders].
func (w *Watch) Subscribe() (*Reader, bool) { return w.feed.subscribe() }
