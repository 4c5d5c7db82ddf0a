package cmd

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/tui"
)

// liveSource is a picker that is asked by its admin API: one stream, no polls.
type liveSource struct{ client *admin.Client }

// The waits between tries.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// maxPending bounds the decisions that are kept for the next snapshot.
const maxPending = 1000

// errPace ends a stream that is to go on at another pace.
var errPace = errors.New("another pace")

// Follow implements [tui.Source].
func (s *liveSource) Follow(ctx context.Context, pace *tui.Pace, send func(tui.Update)) error {
	for wait := firstRetry; ; {
		err := s.stream(ctx, pace, func(u tui.Update) {
			wait = firstRetry
			send(u)
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errPace):
			continue
		}
		update := tui.Update{Err: brief(err), Retry: wait}
		if snapshot := s.uninvited(ctx, err); snapshot != nil {
			update, wait = tui.Update{Snapshot: snapshot}, max(pace.Interval(), firstRetry)
		}
		send(update)
		if !sleepOr(ctx, wait, pace.Changed()) {
			return context.Cause(ctx)
		}
		wait = min(2*wait, lastRetry)
	}
}

// uninvited is the snapshot for who may not follow, because too many do already; nil
// when that is not why a stream failed.
func (s *liveSource) uninvited(ctx context.Context, err error) *explain.Snapshot {
	refused, ok := errors.AsType[*admin.RequestError](err)
	if !ok || refused.Code != admin.CodeTooManyReaders {
		return nil
	}
	snapshot, err := s.client.Snapshot(ctx)
	if err != nil {
		return nil
	}
	snapshot.Missing = append(snapshot.Missing, "decisions: "+refused.Message+"; close a dashboard")
	return snapshot
}

// brief is what a line has room for: the picker's address stands beside it.
func brief(err error) error {
	if e, ok := errors.AsType[*admin.UnreachableError](err); ok {
		return e.Err
	}
	return err
}

// sleepOr waits for a while, or for less; false when ctx has ended.
func sleepOr(ctx context.Context, d time.Duration, less <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-less:
	case <-ctx.Done():
		return false
	}
	return true
}

// stream follows the picker until it fails, or the pace is to be another. Decisions
// are kept for the snapshot that follows them.
func (s *liveSource) stream(ctx context.Context, pace *tui.Pace, send func(tui.Update)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-pace.Changed():
			cancel(errPace)
		case <-ctx.Done():
		}
	})
	interval := min(max(pace.Interval(), admin.MinInterval), admin.MaxInterval)
	var rows []explain.Row // oldest first
	return s.client.Stream(ctx, interval, func(line *admin.StreamLine) error {
		switch {
		case line.Decision != nil:
			rows = append(rows[max(len(rows)-maxPending+1, 0):], *line.Decision)
		case line.Snapshot != nil:
			send(tui.Update{Snapshot: line.Snapshot, Rows: newestFirst(rows)})
			rows = nil
		}
		return nil
	})
}

// newestFirst turns a list round.
func newestFirst(rows []explain.Row) []explain.Row {
	out := make([]explain.Row, len(rows))
	for i := range rows {
		out[len(rows)-1-i] = rows[i]
	}
	return out
}

// Decision implements [tui.Source].
func (s *liveSource) Decision(ctx context.Context, id string) (*explain.Record, error) {
	found, err := s.client.Decision(ctx, id, 1)
	if err != nil {
		return nil, err
	}
	return found.Item, nil
}

// Recent implements [tui.Source].
func (s *liveSource) Recent(ctx context.Context, limit int) ([]*explain.Record, error) {
	var list []*explain.Record
	err := s.client.Walk(ctx, admin.Filter{Limit: limit}, func(rec *explain.Record) error {
		list = append(list, rec)
		return nil
	})
	return list, err
}

// unreachable is the snapshot of a picker that did not answer.
func unreachable(server, from string, err error, now time.Time) *explain.Snapshot {
	return &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: now.UTC(), TimeScale: 1, Source: cmp.Or(from, explain.SourcePicker),
		Router:  explain.RouterState{Server: server},
		Verdict: explain.Unreachable(server, brief(err).Error(), now.UTC()),
		Windows: []explain.WindowRates{}, Pods: []explain.PodSnapshot{}, Events: []explain.FleetEvent{}, Missing: []string{"all: nobody answered"},
	}
}
