package cmd

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/source"
)

const decisionsLong = `List recent decisions, newest first.

Use it to find a request to explain, or to export decisions as JSON Lines: the
records can be explained and replayed later, without the picker.`

type decisionsFlags struct {
	from      origin
	output    string
	noHeaders bool
	replay    bool
	watch     bool
	interval  time.Duration
	filter    admin.Filter
}

func newDecisions(s *cli.Streams) *cobra.Command {
	var f decisionsFlags
	c := &cobra.Command{
		Use:   "decisions",
		Short: "List recent decisions, newest first",
		Long:  decisionsLong,
		Example: example(`
			# The last twenty
			eppctl decisions --limit 20

			# What went to one pod in the last ten minutes
			eppctl decisions --pod sim-2 --since 10m

			# What failed, and what a pod was left out of, as it happens
			eppctl decisions --status 5xx --watch
			eppctl decisions --excluded sim-2 --watch

			# Export everything that is recorded
			eppctl decisions -o jsonl > decisions.jsonl

			# Do all of them replay to the same bits?
			eppctl decisions -f decisions.jsonl --replay`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl explain REQUEST    why that one went where it went`},
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, s) },
	}
	flagGroup(c, "Where from", f.from.register)
	flagGroup(c, "Which", f.which)
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: table, wide, json, yaml, jsonl or name")
		fs.BoolVar(&f.noHeaders, "no-headers", false, "tables without their first line")
		fs.BoolVar(&f.replay, "replay", false, "replay them in place of a list; status 1 when one comes out otherwise")
		fs.BoolVarP(&f.watch, "watch", "w", false, "go on with new ones as their requests end, until interrupted")
		fs.DurationVar(&f.interval, "interval", defaultInterval, "with --watch, ask every `DURATION`")
	})
	f.from.in.register(c)
	_ = c.RegisterFlagCompletionFunc("output", oneOf("table", "wide", "json", "yaml", "jsonl", "name"))
	_ = c.RegisterFlagCompletionFunc("pod", f.completePod(s)) // fails only for a flag that is not there
	return c
}

// which registers the flags that say which decisions are listed.
func (f *decisionsFlags) which(fs *pflag.FlagSet) {
	fs.StringVar(&f.filter.Pod, "pod", "", "only picks of the pod `NAME`")
	fs.StringVar(&f.filter.Model, "model", "", "only requests for the model `NAME`")
	fs.StringVar(&f.filter.Adapter, "adapter", "", "only requests for the LoRA adapter `NAME`")
	fs.StringVar(&f.filter.Since, "since", "", "only decisions since `WHEN`: a duration like 10m, or a time (RFC 3339)")
	fs.StringVar(&f.filter.Until, "until", "", "only decisions before `WHEN`")
	fs.BoolVar(&f.filter.Ties, "ties", false, "only ties in the score")
	fs.BoolVar(&f.filter.Relaxed, "relaxed", false, "only decisions with every queue full")
	fs.BoolVar(&f.filter.Refused, "refused", false, "only requests that no pod got")
	fs.BoolVar(&f.filter.Stale, "stale", false, "only those whose engine had fewer cached tokens than predicted")
	fs.StringVar(&f.filter.Excluded, "excluded", "", "only decisions that the pod `NAME` was left out of")
	fs.Float64Var(&f.filter.CacheBelow, "cache-below", 0, "only picks of a pod that held less than this `RATIO` of the prompt, from 0 to 1")
	fs.Float64Var(&f.filter.MinMargin, "min-margin", 0, "only picks that were ahead by `X` or more")
	fs.StringVar(&f.filter.Status, "status", "", "only requests that ended with the HTTP `STATUS`: 429, or a class like 5xx")
	fs.IntVar(&f.filter.Limit, "limit", 0, "at most `N` (default 50; all for jsonl and --replay; 20 to begin with for --watch)")
}

const (
	defaultLimit    = 50 // of a list
	watchLimit      = 20 // of what --watch begins with
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
)

func (f *decisionsFlags) run(c *cobra.Command, s *cli.Streams) error {
	format, err := cli.ParseFormat(f.output, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONL, cli.FormatName)
	if err != nil {
		return usage(err, c)
	}
	if err := f.check(c, s, format); err != nil {
		return usage(err, c)
	}
	src, done, err := f.from.open(c.Context(), s)
	if err != nil {
		return err
	}
	defer done()
	printer := cli.Printer{Streams: s, Format: format, NoHeaders: f.noHeaders}
	want := source.Want{Filter: f.filter, AnyOrder: f.replay}
	if f.replay {
		out := newReplayPrinter(printer, f.from.flags())
		if _, err := src.Each(c.Context(), want, out.add); err != nil {
			return sourceError(err)
		}
		return out.finish()
	}
	out := &decisionsPrinter{printer: printer, from: f.from.flags(), limit: f.filter.Limit, rows: []explain.Row{}}
	out.start()
	if logs, ok := src.(*logSource); ok && f.watch {
		return sourceError(logs.follow(c.Context(), want, out.batch))
	}
	if f.watch {
		return sourceError(source.Watch(c.Context(), src, want, f.interval, source.Options{Warn: warner(s)}, out.batch))
	}
	if out.more, err = src.Each(c.Context(), want, out.add); err != nil {
		return sourceError(err)
	}
	return out.finish()
}

// check refuses what does not go together, and sets the limit that is not given.
func (f *decisionsFlags) check(c *cobra.Command, s *cli.Streams, format cli.Format) error {
	switch {
	case f.filter.Limit < 0:
		return fmt.Errorf("--limit: must not be negative, got %d", f.filter.Limit)
	case f.replay && (format == cli.FormatJSONL || format == cli.FormatName):
		return fmt.Errorf("--replay: has no output format %s; there are table, json and yaml", f.output)
	case !f.watch && c.Flags().Changed("interval"):
		return errors.New("--interval: has a meaning with --watch alone")
	}
	if err := f.checkWatch(format); f.watch && err != nil {
		return err
	}
	switch {
	case f.filter.Limit > 0 || f.replay:
	case f.watch:
		f.filter.Limit = watchLimit
	case format != cli.FormatJSONL:
		f.filter.Limit = defaultLimit
	}
	_, err := f.filter.Query(s.Now())
	if e, ok := errors.AsType[*admin.FilterError](err); ok {
		return fmt.Errorf("--%s: %w", filterFlag(e.Field), e.Err)
	}
	return err
}

// checkWatch refuses what does not go with --watch.
func (f *decisionsFlags) checkWatch(format cli.Format) error {
	switch {
	case f.interval < minInterval:
		return fmt.Errorf("--interval: must be at least %s, got %s", minInterval, f.interval)
	case f.from.file != "":
		return errors.New("--watch: asks a picker; -f reads what is there and ends")
	case format == cli.FormatJSON || format == cli.FormatYAML:
		return fmt.Errorf("--watch: has no output format %s, which is one document; there are table, wide, jsonl and name", f.output)
	case f.replay || f.filter.Since != "" || f.filter.Until != "":
		return errors.New("--watch: does not go with --replay, --since and --until")
	}
	return nil
}

// filterFlag is the flag that sets a field of a filter: --min-margin for minMargin.
func filterFlag(field string) string {
	var b strings.Builder
	for _, r := range field {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// decisionsPrinter prints decisions as they come, where the format allows.
type decisionsPrinter struct {
	printer cli.Printer
	from    []string // the flags that say where the decisions come from
	table   *cli.Table
	rows    []explain.Row
	count   int
	limit   int
	more    bool // there are more than the limit
}

// batch adds what is new and prints it.
func (p *decisionsPrinter) batch(list []*explain.Record) error {
	for _, rec := range list {
		if err := p.add(rec); err != nil {
			return err
		}
	}
	p.rows = p.rows[:0]
	if len(list) == 0 || p.printer.Format == cli.FormatJSONL || p.printer.Format == cli.FormatName {
		return nil
	}
	defer p.table.Continue()
	return p.table.Flush()
}

func (p *decisionsPrinter) start() {
	p.table = p.printer.Table(
		cli.Column{Name: "TIME"},
		cli.Column{Name: "REQUEST", Min: 8},
		cli.Column{Name: "TOKENS", Right: true},
		cli.Column{Name: "PICKED", Min: 6},
		cli.Column{Name: "SCORE", Right: true},
		cli.Column{Name: "MARGIN", Right: true, Priority: 1},
		cli.Column{Name: "DECIDED BY", Priority: 2},
		cli.Column{Name: "OVER", Priority: 5, Min: 6},
		cli.Column{Name: "CACHED", Right: true, Priority: 3},
		cli.Column{Name: "STATUS", Right: true, Priority: 4},
		cli.Column{Name: "TTFT", Right: true, Priority: 6},
		cli.Column{Name: "FLAGS", Priority: 7},
		cli.Column{Name: "MODEL", Wide: true},
		cli.Column{Name: "TOOK", Right: true, Wide: true},
		cli.Column{Name: "DECISION", Wide: true},
	)
}

func (p *decisionsPrinter) add(rec *explain.Record) error {
	p.count++
	switch p.printer.Format {
	case cli.FormatJSONL:
		return p.printer.Line(rec)
	case cli.FormatName:
		_, err := fmt.Fprintln(p.printer.Streams.Out, cli.Sanitize(rec.RequestID))
		return err
	case cli.FormatJSON, cli.FormatYAML:
		p.rows = append(p.rows, explain.Summarize(rec))
	default: // a table
		row := explain.Summarize(rec)
		p.rows = append(p.rows, row)
		p.row(&row)
	}
	return nil
}

func (p *decisionsPrinter) row(r *explain.Row) {
	// Simulated time runs ahead of the wall's, so there are no ages here.
	when := r.Time.UTC().Format(rowTimeFormat)
	if p.printer.Streams.OutIsTerminal {
		when = r.Time.UTC().Format(rowClockFormat)
	}
	p.table.Row(
		when, r.RequestID, known(r.Tokens, "%d"), orNone(r.Picked), number(r.Score, "%.3f"), number(r.Margin, "%+.3f"),
		orNone(r.DecidedBy), orNone(r.Over), cached(r.CachedTokens, r.PredictedCached), known(r.Status, "%d"), seconds(r.TTFTSeconds),
		orNone(strings.Join(r.Flags, ",")), r.Model, seconds(&r.Took), r.DecisionID,
	)
}

// The times of a list: UTC, as in explanations and logs.
const (
	rowTimeFormat  = "2006-01-02T15:04:05.000Z"
	rowClockFormat = "15:04:05Z"
)

func (p *decisionsPrinter) finish() error {
	switch p.printer.Format {
	case cli.FormatJSON, cli.FormatYAML:
		return p.printer.Document(decisionRows{
			APIVersion: explain.APIVersion, Kind: kindDecisionRows, Items: p.rows, More: p.more, Worth: worthALook(p.rows),
		})
	case cli.FormatTable, cli.FormatWide, cli.FormatText:
		if p.count == 0 {
			_, err := fmt.Fprintln(p.printer.Streams.Err, "no decisions match")
			return err
		}
		if err := p.table.Flush(); err != nil {
			return err
		}
		return p.remarks()
	case cli.FormatName:
		return p.cut()
	default:
	}
	return nil
}

const kindDecisionRows = "DecisionRows"

// decisionRows is the JSON document of the list.
type decisionRows struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Items      []explain.Row `json:"items"`
	More       bool          `json:"more"` // than --limit
	Worth      []worthRow    `json:"worthALook"`
}

// none stands for a value that there is not, as the runner-up of an only
// candidate; [cli.Unknown] is for one that exists and is not known.
const none = "-"

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// number is a score or margin, which a refused request or an only candidate has
// not.
func number(v *float64, format string) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf(format, *v)
}

// cached is the engine's cached tokens against what was predicted.
func cached(actual, predicted *int) string {
	if actual == nil && predicted == nil {
		return cli.Unknown
	}
	return known(actual, "%d") + "/" + known(predicted, "%d")
}

func seconds(v *float64) string {
	if v == nil {
		return cli.Unknown
	}
	d := time.Duration(*v * float64(time.Second))
	if d < time.Millisecond {
		return fmt.Sprintf("%dµs", d.Microseconds())
	}
	return d.Round(time.Millisecond).String()
}

// completePod offers the pods that the picker knows.
func (f *decisionsFlags) completePod(s *cli.Streams) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completePods(c.Context(), s, router{server: first(f.from.servers), in: f.from.in})
	}
}
