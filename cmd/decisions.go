package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/record"
)

const decisionsLong = `List recent decisions, newest first.

Use it to find a request to explain, or to export decisions as JSON Lines: the
records can be explained and replayed later, without the picker.`

type decisionsFlags struct {
	router    router
	file      string
	output    string
	noHeaders bool
	replay    bool
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

			# Export everything that is recorded
			eppctl decisions -o jsonl > decisions.jsonl

			# Do all of them replay to the same bits?
			eppctl decisions -f decisions.jsonl --replay`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl explain REQUEST    why that one went where it went`},
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, s) },
	}
	flagGroup(c, "Where from", func(fs *pflag.FlagSet) {
		f.router.register(fs)
		fs.StringVarP(&f.file, "file", "f", "", "read decisions from this `FILE` of JSON Lines, - for standard input")
	})
	flagGroup(c, "Which", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.filter.Pod, "pod", "", "only picks of the pod `NAME`")
		fs.StringVar(&f.filter.Model, "model", "", "only requests for the model `NAME`")
		fs.StringVar(&f.filter.Adapter, "adapter", "", "only requests for the LoRA adapter `NAME`")
		fs.StringVar(&f.filter.Since, "since", "", "only decisions since `WHEN`: a duration like 10m, or a time (RFC 3339)")
		fs.StringVar(&f.filter.Until, "until", "", "only decisions before `WHEN`")
		fs.BoolVar(&f.filter.Ties, "ties", false, "only ties in the score")
		fs.BoolVar(&f.filter.Relaxed, "relaxed", false, "only decisions with every queue full")
		fs.BoolVar(&f.filter.Refused, "refused", false, "only requests that no pod got")
		fs.IntVar(&f.filter.Limit, "limit", 0, "at most `N` (default 50; all for jsonl and --replay)")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: table, wide, json, yaml, jsonl or name")
		fs.BoolVar(&f.noHeaders, "no-headers", false, "tables without their first line")
		fs.BoolVar(&f.replay, "replay", false, "replay them in place of a list; status 1 when one comes out otherwise")
	})
	_ = c.RegisterFlagCompletionFunc("output", oneOf("table", "wide", "json", "yaml", "jsonl", "name"))
	_ = c.RegisterFlagCompletionFunc("pod", f.completePod(s)) // fails only for a flag that is not there
	return c
}

// defaultLimit is how many decisions a list shows.
const defaultLimit = 50

func (f *decisionsFlags) run(c *cobra.Command, s *cli.Streams) error {
	format, err := cli.ParseFormat(f.output, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONL, cli.FormatName)
	if err != nil {
		return usage(err, c)
	}
	if f.filter.Limit < 0 {
		return usage(fmt.Errorf("--limit: must not be negative, got %d", f.filter.Limit), c)
	}
	if f.replay && (format == cli.FormatJSONL || format == cli.FormatName) {
		return usage(fmt.Errorf("--replay: has no output format %s; there are table, json and yaml", f.output), c)
	}
	if f.filter.Limit == 0 && format != cli.FormatJSONL && !f.replay {
		f.filter.Limit = defaultLimit
	}
	q, err := f.query(s.Now())
	if err != nil {
		return usage(err, c)
	}
	printer := cli.Printer{Streams: s, Format: format, NoHeaders: f.noHeaders}
	if f.replay {
		out := newReplayPrinter(printer, f.from())
		if err := f.each(c, s, q, out.add); err != nil {
			return err
		}
		return out.finish()
	}
	out := &decisionsPrinter{printer: printer, rows: []explain.Row{}}
	out.start()
	if err := f.each(c, s, q, out.add); err != nil {
		return err
	}
	return out.finish()
}

// from are the flags that say where the decisions come from.
func (f *decisionsFlags) from() []string {
	switch {
	case f.file != "":
		return []string{"-f", f.file}
	case f.router.server != "":
		return []string{"--" + serverFlag, f.router.server}
	}
	return nil
}

// each visits the decisions of the file or the picker.
func (f *decisionsFlags) each(c *cobra.Command, s *cli.Streams, q record.Query, visit func(*explain.Record) error) error {
	if f.file == "" {
		client, err := f.router.connect(c.Context(), s)
		if err != nil {
			return err
		}
		defer client.Close()
		return clientError(client.Walk(c.Context(), f.filter, visit))
	}
	in, err := open(f.file, s)
	if err != nil {
		return err
	}
	defer in.Close()
	if f.replay && q.Limit == 0 { // all of them, in any order: none has to be kept
		err = record.Each(in, q, visit)
	} else {
		err = newestFirst(in, q, visit)
	}
	if errors.Is(err, record.ErrTorn) {
		fmt.Fprintf(s.Err, "eppctl: warning: %s: %v\n", cli.Sanitize(f.file), err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	return nil
}

// newestFirst visits the decisions of a file in order, which takes all that the
// query wants into memory. ErrTorn comes after all before the torn line.
func newestFirst(in io.Reader, q record.Query, visit func(*explain.Record) error) error {
	list, torn := record.Select(in, q)
	if torn != nil && !errors.Is(torn, record.ErrTorn) {
		return torn
	}
	for _, rec := range list {
		if err := visit(rec); err != nil {
			return err
		}
	}
	return torn
}

// query is the filter for decisions of a file. Durations count back from now.
func (f *decisionsFlags) query(now time.Time) (q record.Query, err error) {
	q = record.Query{
		Pod: f.filter.Pod, Model: f.filter.Model, Adapter: f.filter.Adapter, Limit: f.filter.Limit,
		Ties: f.filter.Ties, Relaxed: f.filter.Relaxed, Refused: f.filter.Refused,
	}
	if q.Since, err = moment("since", f.filter.Since, now); err != nil {
		return q, err
	}
	q.Until, err = moment("until", f.filter.Until, now)
	return q, err
}

func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("--%s: %q is neither a duration like 10m nor a time like 2026-11-30T14:00:00Z", flag, text)
	}
	return t, nil
}

// decisionsPrinter prints decisions as they come, where the format allows.
type decisionsPrinter struct {
	printer cli.Printer
	table   *cli.Table
	rows    []explain.Row
	count   int
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
	case cli.FormatTable, cli.FormatWide, cli.FormatText:
		p.row(explain.Summarize(rec))
	}
	return nil
}

func (p *decisionsPrinter) row(r explain.Row) {
	// Simulated time runs ahead of the wall's, so there are no ages here.
	when := r.Time.UTC().Format(rowTimeFormat)
	if p.printer.Streams.OutIsTerminal {
		when = r.Time.UTC().Format(rowClockFormat)
	}
	p.table.Row(
		when, r.RequestID, fmt.Sprint(r.Tokens), orNone(r.Picked), number(r.Score, "%.3f"), number(r.Margin, "%+.3f"),
		orNone(r.DecidedBy), orNone(r.Over), cached(r.CachedTokens, r.PredictedCached), whole(r.Status), seconds(r.TTFTSeconds),
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
		return p.printer.Document(decisionRows{APIVersion: explain.APIVersion, Kind: "DecisionRows", Items: p.rows})
	case cli.FormatTable, cli.FormatWide, cli.FormatText:
		if p.count == 0 {
			_, err := fmt.Fprintln(p.printer.Streams.Err, "no decisions match")
			return err
		}
		return p.table.Flush()
	case cli.FormatJSONL, cli.FormatName:
	}
	return nil
}

// decisionRows is the JSON document of the list.
type decisionRows struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Items      []explain.Row `json:"items"`
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

func whole(v *int) string {
	if v == nil {
		return cli.Unknown
	}
	return fmt.Sprint(*v)
}

// cached is the engine's cached tokens against what was predicted.
func cached(actual, predicted *int) string {
	if actual == nil && predicted == nil {
		return cli.Unknown
	}
	return whole(actual) + "/" + whole(predicted)
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
		return completePods(c.Context(), s, f.router)
	}
}

func completePods(ctx context.Context, s *cli.Streams, r router) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	quiet := router{server: r.server, quiet: true}
	client, err := quiet.connect(ctx, s)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	pods, err := client.Pods(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, p := range pods.Items {
		out = append(out, cli.Sanitize(p.Pod))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
