package cmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// question checks that there are requests to explain, or a window.
func (f *explainFlags) question(c *cobra.Command, args []string) error {
	if c.Flags().Changed("window") {
		return cobra.NoArgs(c, args)
	}
	return someRequests(c, args)
}

// checkWindow refuses what makes no sense for a window.
func (f *explainFlags) checkWindow(flags *pflag.FlagSet) error {
	if f.window <= 0 {
		return fmt.Errorf("--window: must be above 0, got %v", f.window)
	}
	for _, name := range []string{"nth", "conversation", "interactive", "set", "preset", "max-queue", "without", "vs", "fail-on"} {
		if flags.Changed(name) {
			return fmt.Errorf("--%s: is about one request, so it does not go with --window", name)
		}
	}
	return nil
}

// explainWindow says what changed in the last while.
func (f *explainFlags) explainWindow(c *cobra.Command, s *cli.Streams) error {
	format, err := f.format(nil)
	if err != nil {
		return usage(err, c)
	}
	if err := f.checkWindow(c.Flags()); err != nil {
		return usage(err, c)
	}
	src, done, err := f.from.open(c.Context(), s)
	if err != nil {
		return err
	}
	defer done()
	newest, err := src.Find(c.Context(), record.Latest, 1)
	if err != nil {
		return sourceError(err)
	}
	until := newest.Record.Time.Add(1)
	if now := s.Now(); f.from.file == "" && now.After(until) { // a simulated clock runs ahead of ours
		until = now
	}
	w := explain.NewWindow(until.Add(-f.window), until)
	want := source.Want{AnyOrder: true, Filter: admin.Filter{Since: w.From().Format(time.RFC3339Nano), Until: until.Format(time.RFC3339Nano)}}
	if _, err := src.Each(c.Context(), want, func(rec *explain.Record) error { w.See(rec); return nil }); err != nil {
		return sourceError(err)
	}
	if w.Passed > 0 {
		warner(s)(fmt.Sprintf("%d decisions beyond the first %d were left out", w.Passed, explain.MaxWindow))
	}
	return writeExplained(s, w.Window(), format, f.layout(s, format))
}
