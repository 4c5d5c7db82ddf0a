package tui

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Source is where a dashboard gets what it shows.
type Source interface {
	// Follow sends what is known now and then at each interval of pace, until ctx
	// ends. That nobody answers is sent too: it is no reason to return.
	Follow(ctx context.Context, pace *Pace, send func(Update)) error
	// Decision finds a decision by a prefix of its request or decision ID that only
	// one has.
	Decision(ctx context.Context, id string) (*explain.Record, error)
	// Recent lists the newest decisions, the newest first.
	Recent(ctx context.Context, limit int) ([]*explain.Record, error)
}

// Player is a source of the past, in which one can move.
type Player interface {
	Source
	// Step stops at the moment so many frames on, or back.
	Step(frames int)
	// Play goes on, at so many times the recorded speed.
	Play(speed float64)
}

// Switcher is a source that can look at the picker of another pool.
type Switcher interface {
	Source
	// Switch goes on with the picker of another pool, and says which it is. A namespace
	// of "" is the one that it is in; a pool of "" is the only one there. After an
	// error all is as before.
	Switch(ctx context.Context, namespace, pool string) (where string, err error)
}

// Update is news of a source.
type Update struct {
	// Anew: it is of another picker than those before, of which nothing is kept.
	Anew bool
	// Snapshot is nil when there was no answer; then Err says why, and Retry how long
	// it is until the next try.
	Snapshot *explain.Snapshot
	Err      error
	Retry    time.Duration
	// Rows are the decisions since the last update, the newest first; with Whole they
	// are all that there are.
	Rows  []explain.Row
	Whole bool
	// Play is where a [Player] stands.
	Play *Playback
}

// Playback is where a [Player] stands.
type Playback struct {
	From, Until, At time.Time
	Speed           float64 // 0 when it stands still
}

// Pace is how often a source is asked. It is safe for concurrent use.
type Pace struct {
	interval atomic.Int64
	changed  chan struct{}
}

// The intervals that can be chosen.
const (
	MinInterval     = 100 * time.Millisecond
	MaxInterval     = time.Minute
	DefaultInterval = time.Second
)

// NewPace begins with an interval.
func NewPace(interval time.Duration) *Pace {
	p := &Pace{changed: make(chan struct{}, 1)}
	p.interval.Store(int64(interval))
	return p
}

// Interval is the time between two updates.
func (p *Pace) Interval() time.Duration { return time.Duration(p.interval.Load()) }

// Changed receives when the interval is another, or news are wanted at once.
func (p *Pace) Changed() <-chan struct{} { return p.changed }

// Set changes the interval.
func (p *Pace) Set(interval time.Duration) {
	if p.interval.Swap(int64(interval)) != int64(interval) {
		p.Hurry()
	}
}

// Hurry asks for news at once.
func (p *Pace) Hurry() {
	select {
	case p.changed <- struct{}{}:
	default: // it was told already
	}
}
