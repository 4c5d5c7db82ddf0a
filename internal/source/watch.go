package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

const (
	// patience is how long after its arrival, by the picker's clock, a decision is
	// waited for to have its outcome, and how long it is known how far the decisions of
	// a part were shown that is gone.
	patience = 10 * time.Minute
	// maxNew bounds the new decisions of one look at a part.
	maxNew = 10_000
)

// Part is one of several places of a source.
type Part struct {
	Name string
	Source
}

// parted is a source of several places, which come and go. Each is watched by itself:
// one that is silent for a while has not told what it decided then.
type parted interface {
	Parts(ctx context.Context) ([]Part, error)
}

// Watch visits decisions as their requests end, in the order of arrival: at first
// the last few, want.Limit, and then what is new at each interval. It returns when
// ctx ends, when visit fails, or when the first look does; later ones are warned of
// once. What has not ended within ten minutes is shown as it is. Of several pickers
// one that falls silent, comes or goes is told of.
func Watch(ctx context.Context, src Source, want Want, interval time.Duration, opts Options, visit func([]*explain.Record) error) error {
	q, err := want.Query(time.Time{})
	if err != nil {
		return err
	}
	w := watch{q: q, limit: want.Limit, opts: &opts, parts: map[string]*watched{}}
	w.q.Since, w.q.Limit = time.Time{}, 0
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failing := false
	for first := true; ; first = false {
		fresh, err := w.look(ctx, src)
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
	q     record.Query // what is shown; asked for is all, since an outcome may still make it match
	limit int          // of what is shown at first
	opts  *Options
	parts map[string]*watched
	// began is the newest arrival of the first look: of parts that come later nothing
	// before it is new.
	began  time.Time
	looked bool
	newest time.Time // arrival
}

// watched is a part, and how far its decisions were shown.
type watched struct {
	from    time.Time            // nothing before it is new; zero at first
	shown   map[string]time.Time // decisions since from
	there   bool
	failing bool
}

// answer is what a part tells in one look.
type answer struct {
	part *watched
	name string
	list []*explain.Record // newest first
	more bool
	err  error
}

// look asks once and returns what is new, oldest first.
func (w *watch) look(ctx context.Context, src Source) (fresh []*explain.Record, err error) {
	parts := []Part{{Source: src}}
	if several, ok := src.(parted); ok {
		if parts, err = several.Parts(ctx); err != nil {
			return nil, err
		}
	}
	w.meet(parts)
	answers := w.ask(ctx, parts)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := w.silent(answers); err != nil {
		return nil, err
	}
	for i := range answers {
		if answers[i].err == nil {
			fresh = append(fresh, w.take(&answers[i])...)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *explain.Record) int { return a.Time.Compare(b.Time) })
	if !w.looked {
		fresh = w.begin(fresh, answers)
	}
	for name, p := range w.parts {
		if !p.there && w.newest.Sub(p.from) > patience {
			delete(w.parts, name)
		}
	}
	return fresh, nil
}

// begin ends the first look: the last few of all parts are shown, and of parts that did
// not answer nothing before them is new.
func (w *watch) begin(fresh []*explain.Record, answers []answer) []*explain.Record {
	w.began, w.looked = w.newest, true
	for i := range answers {
		if answers[i].err != nil {
			answers[i].part.from = w.began
		}
	}
	if w.limit == 0 {
		return fresh
	}
	return fresh[max(len(fresh)-w.limit, 0):]
}

// meet notes which parts there are.
func (w *watch) meet(parts []Part) {
	names := map[string]bool{}
	for _, p := range parts {
		names[p.Name] = true
		known := w.parts[p.Name]
		if known == nil {
			known = &watched{from: w.began, shown: map[string]time.Time{}}
			w.parts[p.Name] = known
		}
		if !known.there && w.looked {
			w.opts.warn("%s is there now, and is followed too", p.Name)
		}
		known.there = true
	}
	for name, p := range w.parts {
		if p.there && !names[name] {
			p.there, p.failing = false, false
			w.opts.warn("%s is gone; what it decided last may be missing", name)
		}
	}
}

// ask asks all parts at once. One that hangs does not hold up the others for longer
// than a grace.
func (w *watch) ask(ctx context.Context, parts []Part) []answer {
	answers := make([]answer, len(parts))
	var asked sync.WaitGroup
	for i, part := range parts {
		a := &answers[i]
		a.part, a.name = w.parts[part.Name], part.Name
		asked.Go(func() {
			ctx := ctx
			if len(parts) > 1 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, grace, fmt.Errorf("no answer in %s", grace))
				defer cancel()
			}
			want := Want{}
			if want.Limit = w.limit; w.looked { // what had none until then has new ones alone
				want.Limit = maxNew
			}
			if !a.part.from.IsZero() {
				want.Since = a.part.from.Format(time.RFC3339Nano)
			}
			a.more, a.err = part.Each(ctx, want, func(rec *explain.Record) error {
				a.list = append(a.list, rec)
				return nil
			})
		})
	}
	asked.Wait()
	return answers
}

// silent tells of the parts that don't answer, and of those that do again. When none
// does that is the error.
func (w *watch) silent(answers []answer) (err error) {
	failed := 0
	for i := range answers {
		if a := &answers[i]; a.err != nil {
			failed, err = failed+1, cmp.Or(err, a.err)
		}
	}
	if failed == len(answers) && (failed == 1 || !w.looked) {
		return err
	}
	for i := range answers {
		a := &answers[i]
		switch {
		case a.err != nil && !a.part.failing:
			w.opts.warn("%v; trying again", a.err)
		case a.err == nil && a.part.failing:
			w.opts.warn("%s answers again; what it decided meanwhile follows", a.name)
		}
		a.part.failing = a.err != nil
	}
	return nil
}

// take returns what is new of a part.
func (w *watch) take(a *answer) (fresh []*explain.Record) {
	p := a.part
	var waiting time.Time
	for _, rec := range a.list {
		if w.wasShown(rec.DecisionID) {
			continue
		}
		if pending(rec) && a.list[0].Time.Sub(rec.Time) < patience {
			waiting = rec.Time
			continue
		}
		p.shown[rec.DecisionID] = rec.Time
		if w.q.Wants(rec) {
			fresh = append(fresh, rec)
		}
	}
	if len(a.list) == 0 {
		return nil
	}
	if newest := a.list[0].Time; newest.After(w.newest) {
		w.newest = newest
	}
	if a.more && w.looked {
		w.opts.warn("more than %d new decisions at once: the oldest are left out", maxNew)
	}
	if p.from = a.list[0].Time; !waiting.IsZero() {
		p.from = waiting
	}
	for id, arrival := range p.shown {
		if arrival.Before(p.from) {
			delete(p.shown, id)
		}
	}
	return fresh
}

// wasShown: by whichever part, for two addresses may be of one picker.
func (w *watch) wasShown(id string) bool {
	for _, p := range w.parts {
		if _, old := p.shown[id]; old {
			return true
		}
	}
	return false
}
