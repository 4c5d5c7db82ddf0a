package source

import (
	"context"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
)

const (
	// alikeSpan is how far from a request others of its conversation are looked for.
	alikeSpan = 2 * time.Hour
	// alikeBudget is how long that may take at least when nobody has asked for it: the
	// nearest are found first.
	alikeBudget = 400 * time.Millisecond
)

// Alike finds the decisions whose prompts begin most like one: those before it, in
// twice the time that the look-up took, or when all are wanted those after it as well.
// The list is cut when that time was too short. It returns the errors of [Source.Each].
func Alike(ctx context.Context, src Source, rec *explain.Record, took time.Duration, all bool) (list []*explain.Record, cut bool, err error) {
	found := explain.NewAlike(rec)
	block := found.FirstBlock()
	if block == "" {
		return nil, false, nil
	}
	until, budget := rec.Time.Add(alikeSpan), ctx
	if !all {
		var cancel func()
		until = rec.Time
		budget, cancel = context.WithTimeout(ctx, max(alikeBudget, 2*took))
		defer cancel()
	}
	want := Want{Filter: admin.Filter{
		FirstBlock: block, Since: rec.Time.Add(-alikeSpan).Format(time.RFC3339Nano), Until: until.Format(time.RFC3339Nano),
	}}
	_, err = src.Each(budget, want, func(r *explain.Record) error {
		found.See(r)
		return nil
	})
	if !all && ctx.Err() == nil {
		cut, err = budget.Err() != nil, nil // what was found in time will do
	}
	return found.Records(), cut, err
}
