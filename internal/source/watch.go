package source

import (
	"context"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

const (
	// patience is how long after its arrival, by the picker's clock, a decision is
	// waited for to have its outcome.
	patience = 10 * time.Minute
	// maxNew bounds the new decisions of one look.
	maxNew = 10_000
)

// Watch visits decisions as their requests end, in the order of arrival: at first
// the last few, want.Limit, and then what is new at each interval. It returns when
// ctx ends, when visit fails, or when the first look does; later ones are warned of
// once. What has not ended within ten minutes is shown as it is.
func Watch(ctx context.Context, src Source, want Want, interval time.Duration, opts Options, visit func([]*explain.Record) error) error {
	q, err := want.Query(time.Time{})
	if err != nil {
		return err
	}
	w := watch{q: q, shown: map[string]time.Time{}}
	w.q.Since, w.q.Limit = time.Time{}, 0
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failing := false
	for first := true; ; first = false {
		fresh, err := w.look(ctx, src, want.Limit, &opts)
		switch {
		case err != nil && (first || ctx.Err() != nil):
			return err
		case err != nil && !failing:
			opts.warn("%v; trying again", err)
		case err == nil:
			if err := visit(fresh); err != nil {
				return err
			}
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

type watch struct {
	q     record.Query         // what is shown; asked for is all, since an outcome may still make it match
	from  time.Time            // nothing before it is new; zero at first
	shown map[string]time.Time // decisions since from
}

// look asks once and returns what is new, oldest first.
func (w *watch) look(ctx context.Context, src Source, limit int, opts *Options) (fresh []*explain.Record, err error) {
	var want Want
	want.Limit = limit
	if !w.from.IsZero() {
		want.Since, want.Limit = w.from.Format(time.RFC3339Nano), maxNew
	}
	var newest, waiting time.Time // arrivals
	more, err := src.Each(ctx, want, func(rec *explain.Record) error {
		if rec.Time.After(newest) {
			newest = rec.Time
		}
		if _, old := w.shown[rec.DecisionID]; old {
			return nil
		}
		if rec.Outcome.State == explain.OutcomePending && newest.Sub(rec.Time) < patience {
			waiting = rec.Time
			return nil
		}
		w.shown[rec.DecisionID] = rec.Time
		if w.q.Wants(rec) {
			fresh = append(fresh, rec)
		}
		return nil
	})
	if err != nil || newest.IsZero() {
		return nil, err
	}
	if more && !w.from.IsZero() {
		opts.warn("more than %d new decisions at once: the oldest are left out", maxNew)
	}
	if w.from = newest; !waiting.IsZero() {
		w.from = waiting
	}
	for id, arrival := range w.shown {
		if arrival.Before(w.from) {
			delete(w.shown, id)
		}
	}
	slices.Reverse(fresh)
	return fresh, nil
}
