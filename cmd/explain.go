package cmd

import (
	"cmp"
	"context"
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

// timeFormat is how times are printed where they must be exact.
const timeFormat = time.RFC3339Nano

const explainLong = `Explain why a request went where it went, factor by factor.

The decision is replayed by the very engine that took it, from the recorded inputs;
the raw inputs stand beside every number. Use it when a request was slower than it
should be, or went to a pod that you did not expect. What its pods used to hold is
known from earlier requests that began alike, which are looked for.

With --window it says what has changed in the last minutes, for when latency spikes
or adapters thrash.`

type explainFlags struct {
	from   origin
	output string
	nth    int
	flips  int
	width  int
	all    bool
	// conversation shows the other turns, and window what changed in a time.
	conversation bool
	window       time.Duration
	interactive  bool
	whatIf       whatIfFlags
}

func newExplain(s *cli.Streams) *cobra.Command {
	f := explainFlags{from: origin{twice: true}} // for the request, and for others like it
	c := &cobra.Command{
		Use:   "explain REQUEST...|latest|--window DURATION",
		Short: "Explain why a request went where it went",
		Long:  explainLong,
		Example: example(`
			# The last request; or one by its x-request-id, of which the first characters are enough
			eppctl explain latest
			eppctl explain 91c2f0a7

			# From recorded decisions or a picker's log
			eppctl explain 91c2f0a7 -f decisions.jsonl

			# Turn by turn: where did this conversation move, and why?
			eppctl explain latest --conversation

			# Why is latency spiking? The last quarter of an hour beside the one before
			eppctl explain --window 15m

			# Why not that pod? Where would it have gone with other weights, or an empty queue?
			eppctl explain latest --vs sim-0
			eppctl explain latest --set weights.queue=.3 --set weights.cache=.4
			eppctl explain latest --set 'pods[sim-1].queue=0'

			# A page for a ticket; a script that fails when the engine had lost what was predicted
			eppctl explain 91c2f0a7 -o html > why.html
			eppctl explain latest -o json --fail-on evicted-unseen,owner-queue-full`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl decisions          the IDs of recent requests
			eppctl help causes        what --fail-on can look for
			eppctl help exit-codes    what a script can rely on`},
		Args:              f.question,
		ValidArgsFunction: f.complete(s),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.explainWindow(c, s)
			}
			return f.run(c, s, args)
		},
	}
	f.register(c)
	return c
}

func (f *explainFlags) register(c *cobra.Command) {
	flagGroup(c, "Where from", func(fs *pflag.FlagSet) {
		f.from.register(fs)
		fs.DurationVar(&f.window, "window", 0, "say what changed in the last `DURATION`, beside the time before it")
		fs.IntVar(&f.nth, "nth", 1, "decision `N` of a repeated request ID: 1 is the newest")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: text, wide, json, yaml, jsonl (the one for several requests), html or md")
		fs.BoolVar(&f.all, "all", false, "show all pods, not only the best and those that matter most")
		fs.BoolVar(&f.conversation, "conversation", false, "show the other requests of its conversation, turn by turn")
		fs.IntVar(&f.flips, "flips", 1, "say for `N` pods behind the winner what would have made them win")
		fs.IntVar(&f.width, "width", 0, "set the text in `N` columns (default: the terminal's, or 120)")
		fs.BoolVar(&f.interactive, "interactive", false, "show it on the dashboard of 'eppctl top', where weights can be tried")
	})
	for _, name := range []string{"window", "nth", "interactive"} { // of one call, not of a shell
		_ = c.Flags().SetAnnotation(name, noVariableKey, []string{"true"}) // fails only for a flag that is not there
	}
	f.whatIf.register(c)
	f.from.in.register(c)
	_ = c.RegisterFlagCompletionFunc("output", oneOf(formatNames(explainFormats)...)) // fails only for a flag that is not there
}

func (f *explainFlags) run(c *cobra.Command, s *cli.Streams, ids []string) error {
	format, err := f.format(ids)
	if err != nil {
		return usage(err, c)
	}
	if f.nth < 1 {
		return usage(fmt.Errorf("--nth: must be at least 1, got %d", f.nth), c)
	}
	for flag, v := range map[string]int{"flips": f.flips, "width": f.width} {
		if v < 0 {
			return usage(fmt.Errorf("--%s: must not be negative, got %d", flag, v), c)
		}
	}
	if err := f.whatIf.check(c); err != nil {
		return err
	}
	if f.interactive {
		return f.explore(c, s, ids)
	}
	src, done, err := f.from.open(c.Context(), s)
	if err != nil {
		return err
	}
	defer done()
	var found error // by --fail-on
	for _, id := range ids {
		verdict, err := f.one(c, s, src, id, format)
		if err != nil {
			return err
		}
		found = cmp.Or(found, verdict)
	}
	return found
}

// one explains a request. The verdict is an error when --fail-on found something.
func (f *explainFlags) one(c *cobra.Command, s *cli.Streams, src source.Source, id string, format cli.Format) (verdict, err error) {
	rec, others, err := f.find(c.Context(), s, src, id)
	if err != nil {
		return nil, err
	}
	layout := f.layout(s, format)
	if f.whatIf.asked() {
		return nil, f.whatIf.compare(c, s, rec, format, layout)
	}
	flips := f.flips
	if flips == 0 {
		flips = -1 // none
	}
	report := explain.Explain(rec, explain.Options{Flips: flips, Earlier: others})
	if f.conversation {
		report.Conversation = explain.Converse(rec, others)
	}
	if err := f.whatIf.against(c, rec, report); err != nil {
		return nil, err
	}
	return f.whatIf.verdict(report), writeExplained(s, report, format, layout)
}

// tones maps what a line of an explanation is to what it looks like.
var tones = map[explain.Tone]cli.Tone{
	explain.Plain: cli.Plain, explain.Strong: cli.Strong, explain.Faint: cli.Faint,
	explain.Good: cli.Good, explain.Warn: cli.Warn, explain.Bad: cli.Bad,
}

func (f *explainFlags) layout(s *cli.Streams, format cli.Format) explain.TextOptions {
	return explain.TextOptions{
		Width: f.columns(s), All: f.all, Wide: format == cli.FormatWide, Sanitize: cli.Sanitize,
		Paint: func(tone explain.Tone, text string) string { return s.Paint(tones[tone], text) },
	}
}

// columns is the width of the text: never more than is read with ease.
func (f *explainFlags) columns(s *cli.Streams) int {
	switch {
	case f.width > 0:
		return f.width
	case s.OutIsTerminal && s.Width > 0:
		return min(s.Width, 160)
	}
	return 120
}

// find gets the record from where it is, and others that begin like it.
func (f *explainFlags) find(ctx context.Context, s *cli.Streams, src source.Source, id string) (rec *explain.Record, others []*explain.Record, err error) {
	began := s.Now()
	found, err := src.Find(ctx, id, f.nth)
	if err != nil {
		return nil, nil, sourceError(err)
	}
	if found.Where != "" {
		fmt.Fprintf(s.Err, "found at %s\n", cli.Sanitize(found.Where))
	}
	if found.Count > 1 {
		fmt.Fprintf(s.Err, "%d decisions for this request ID, this is number %d from the newest (--nth)\n", found.Count, f.nth)
	}
	if !f.whatIf.asked() {
		var cut bool
		if others, cut, err = source.Alike(ctx, src, found.Record, s.Now().Sub(began), f.conversation); cut {
			warner(s)("not all earlier requests were looked at, which would have taken long: --conversation looks at all")
		}
	}
	return found.Record, others, sourceError(err)
}

// complete offers the latest request IDs with their pod and age.
func (f *explainFlags) complete(s *cli.Streams) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := recentForCompletion(c.Context(), s, router{server: first(f.from.servers), in: f.from.in}, admin.Filter{ID: prefix, Limit: 50})
		out := []cobra.Completion{cobra.CompletionWithDesc(record.Latest, "the newest decision")}
		for _, rec := range list {
			out = append(out, cobra.CompletionWithDesc(cli.Sanitize(rec.RequestID), cli.Sanitize(rec.Result.Pod)+", "+rec.Time.UTC().Format(rowClockFormat)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
