package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/source"
)

const (
	// alikeSpan is how far from a request others of its conversation are looked for.
	alikeSpan = 2 * time.Hour
	// alikeBudget is how long that may take when nobody has asked for it: the nearest
	// are found first.
	alikeBudget = 400 * time.Millisecond
)

// alike finds the decisions whose prompts begin most like one: those before it, in
// little time, or when all are wanted those after it as well.
func alike(ctx context.Context, src source.Source, rec *explain.Record, all bool) ([]*explain.Record, error) {
	found := explain.NewAlike(rec)
	block := found.FirstBlock()
	if block == "" {
		return nil, nil
	}
	until, budget := rec.Time.Add(alikeSpan), ctx
	if !all {
		var cancel func()
		until = rec.Time
		budget, cancel = context.WithTimeout(ctx, alikeBudget)
		defer cancel()
	}
	want := source.Want{Filter: admin.Filter{
		FirstBlock: block, Since: rec.Time.Add(-alikeSpan).Format(timeFormat), Until: until.Format(timeFormat),
	}}
	_, err := src.Each(budget, want, func(r *explain.Record) error {
		found.See(r)
		return nil
	})
	if !all && ctx.Err() == nil {
		err = nil // what was found in time will do
	}
	return found.Records(), err
}

var errConversationOfStdin = errors.New("--conversation: standard input can be read only once")
