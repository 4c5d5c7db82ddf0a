package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/shell"
	"github.com/eppctl/eppctl/internal/source"
	"github.com/eppctl/eppctl/tui"
)

const topLong = `Watch the pods, the decisions, and what is wrong, as it happens.

The second line from the top is the verdict: what stands out, since when and why. 'e'
explains the newest decision for a pod, 'w' tries other weights on what was decided,
'?' lists the keys and what the columns mean. Without a terminal it prints the pods
once, for scripts with -o json.`

type topFlags struct {
	servers     []string
	in          poolFlags
	replay      string
	demo        bool
	metricsURLs []string
	engines     []string
	tokenFile   string

	once, watch, noHeaders bool
	output                 string
	interval               time.Duration

	ascii, compact, mouse, reduceMotion bool

	askAll bool // replicas, since it is printed once
}

func newTop(p *program, s *cli.Streams) *cobra.Command {
	var f topFlags
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch the pods and the decisions as they happen",
		Long:  topLong,
		Example: example(`
			# The picker on this host
			eppctl top

			# A simulated fleet of its own, to look around
			eppctl top --demo

			# What was it like when it happened? ← and → step through a recording
			eppctl top --replay decisions.jsonl

			# llm-d's own picker, and the engines: figures alone, for it tells no decisions
			eppctl top --metrics-url 10.0.0.2:9090 --engines vllm-0=10.0.0.7:8000,vllm-1=10.0.0.8:8000

			# For a script: once, or a line a second
			eppctl top -o json
			eppctl top -o jsonl --watch --interval 1s`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl help columns       what the columns mean
			eppctl explain REQUEST    why a request went where it went`},
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, p, s) },
	}
	flagGroup(c, "Where from", func(fs *pflag.FlagSet) {
		fs.StringSliceVar(&f.servers, serverFlag, nil, "admin `ADDRESS` of the picker: host:port or URL (default: 127.0.0.1:9091 if it answers, else the picker of --pool)")
		fs.StringVar(&f.replay, "replay", "", "play the decisions in this `FILE` or directory: JSON Lines, or a picker's log")
		fs.BoolVar(&f.demo, "demo", false, "bring a picker with simulated pods and traffic")
		fs.StringSliceVar(&f.metricsURLs, "metrics-url", nil, "`ADDRESS` of the metrics page of a picker that has no admin API, such as llm-d's; several are replicas")
		fs.StringSliceVar(&f.engines, "engines", nil, "`ADDRESS` of each engine's metrics page: URL or host:port, with NAME= before it as the picker names the pod")
		fs.StringVar(&f.tokenFile, "token-file", "", "send the bearer token in this `FILE` to the page of --metrics-url")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "print in place of the screen: `FORMAT` is table, wide, json, yaml or jsonl")
		fs.BoolVar(&f.once, "once", false, "print once and end; so it does without a terminal")
		fs.BoolVarP(&f.watch, "watch", "w", false, "go on printing until interrupted")
		fs.DurationVar(&f.interval, "interval", tui.DefaultInterval, "ask every `DURATION`, from 100ms to 1m")
		fs.BoolVar(&f.noHeaders, "no-headers", false, "tables without their first lines")
	})
	flagGroup(c, "Screen", func(fs *pflag.FlagSet) {
		fs.BoolVar(&f.ascii, "ascii", false, "draw with ASCII alone; so it does where the locale has no UTF-8")
		fs.BoolVar(&f.compact, "compact", false, "the small layout on a large screen too")
		fs.BoolVar(&f.mouse, "mouse", false, "take the mouse: wheel and clicks")
		fs.BoolVar(&f.reduceMotion, "reduce-motion", false, "redraw on news alone")
	})
	f.in.register(c)
	for _, name := range []string{"replay", "demo", "metrics-url", "engines"} { // of one call, not of a shell
		_ = c.Flags().SetAnnotation(name, noVariableKey, []string{"true"}) // fails only for a flag that is not there
	}
	_ = c.RegisterFlagCompletionFunc("output", oneOf("table", "wide", "json", "yaml", "jsonl")) // fails only for a flag that is not there
	return c
}

func (f *topFlags) run(c *cobra.Command, p *program, s *cli.Streams) error {
	format, err := cli.ParseFormat(f.output, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONL)
	if err != nil {
		return usage(err, c)
	}
	if err := f.check(c, format); err != nil {
		return usage(err, c)
	}
	screen := f.onScreen(c, s)
	f.askAll = !screen && !f.watch
	src, err := f.open(c.Context(), p, s)
	if err != nil {
		return err
	}
	defer src.done()
	if screen {
		return endedWell(c.Context(), f.display(c, s, src))
	}
	if f.askAll {
		src.single(s, f.interval)
	}
	out := &topPrinter{
		printer: cli.Printer{Streams: s, Format: format, NoHeaders: f.noHeaders}, server: src.server, from: src.from, once: !f.watch,
	}
	if src.replicas != nil {
		out.hint = src.replicas.wayOn(src.replicas.picker.Running()[0])
	}
	if f.askAll && src.replicas.several() {
		return endedWell(c.Context(), out.each(c.Context(), src.replicas))
	}
	return endedWell(c.Context(), out.follow(c.Context(), src.source, f.interval))
}

// endedWell: a dashboard is ended by a signal, as it is meant to be.
func endedWell(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// pages reports whether metrics pages are looked at.
func (f *topFlags) pages() bool { return len(f.metricsURLs) > 0 || len(f.engines) > 0 }

// checkOrigin refuses more than one place to look at.
func (f *topFlags) checkOrigin() error {
	asks, plays := len(f.servers) > 0 || f.in.given(), f.demo || f.replay != ""
	switch {
	case f.demo && f.replay != "":
		return errors.New("--demo and --replay contradict each other: give one of them")
	case asks && plays:
		return errors.New("--server and --pool ask a picker: give them without --demo and --replay")
	case f.pages() && (asks || plays):
		return errors.New("--metrics-url and --engines look at metrics alone: give them without --server, --pool, --demo and --replay")
	case len(f.servers) > 1:
		return errors.New("--server: the dashboard follows one picker; open another one for the next, or add their counts up with 'eppctl metrics'")
	}
	return nil
}

func (f *topFlags) check(c *cobra.Command, format cli.Format) error {
	given := func(flag string) bool { return c.Flags().Changed(flag) }
	if err := f.checkOrigin(); err != nil {
		return err
	}
	switch {
	case f.once && f.watch:
		return errors.New("--once and --watch contradict each other: give one of them")
	case f.watch && (format == cli.FormatJSON || format == cli.FormatYAML):
		return fmt.Errorf("--watch: has no output format %s, which is one document; there are table, wide and jsonl", f.output)
	case f.interval < tui.MinInterval || f.interval > tui.MaxInterval:
		return fmt.Errorf("--interval: must be from %s to %s, got %s", tui.MinInterval, tui.MaxInterval, f.interval)
	case given("interval") && f.once && !f.pages():
		return errors.New("--interval: has no meaning with --once")
	}
	return filled(c.Flags(), "replay")
}

// onScreen reports whether there is a screen to draw on, and nothing to be printed.
func (f *topFlags) onScreen(c *cobra.Command, s *cli.Streams) bool {
	printing := f.once || f.watch || c.Flags().Changed("output")
	return !printing && s.OutIsTerminal && s.InIsTerminal && !strings.EqualFold(s.Env("TERM"), "dumb")
}

// screen is how the dashboard looks on this terminal.
func (f *topFlags) screen(s *cli.Streams) tui.Options {
	look := tui.Look{ASCII: f.ascii || !utf8Locale(s.Env)}
	switch painted := s.Paint(cli.Good, "x"); {
	case painted != "x":
		look.Color = tui.FullColor
	case s.Paint(cli.Strong, "x") != "x":
		look.Color = tui.Attributes
	}
	return tui.Options{
		Look: look, Width: s.Width, Height: s.Height, Compact: f.compact, Mouse: f.mouse, ReduceMotion: f.reduceMotion,
		Interval: f.interval, Now: s.Now, Input: s.In, Output: s.Out, Env: os.Environ(), Save: saveReport(s.Now),
	}
}

// utf8Locale reports whether text is UTF-8 here; it is where nobody says otherwise.
func utf8Locale(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return locale == "" || strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// topSource is where a dashboard's data comes from.
type topSource struct {
	source   tui.Source
	server   string    // that is asked; "" for a file
	from     string    // of the Source… constants; "" for a picker
	command  []string  // flags that explain takes for the same place
	replicas *replicas // it is in a cluster; nil elsewhere
	done     func()
}

// single prepares for one snapshot, which is to tell most: a recording's last, and of
// pages the second, for rates need two.
func (t *topSource) single(s *cli.Streams, interval time.Duration) {
	switch src := t.source.(type) {
	case *replaySource:
		src.at = src.until
	case *patrolSource:
		src.twice = true
		fmt.Fprintf(s.Err, "looking twice, %s apart, for rates\n", interval)
	}
}

// open finds the source. Another kind of it is one more case here.
func (f *topFlags) open(ctx context.Context, p *program, s *cli.Streams) (*topSource, error) {
	switch {
	case f.replay != "":
		src, err := openReplay(ctx, f.replay, source.Options{Stdin: s.In, Now: s.Now, Warn: warner(s)})
		if err != nil {
			return nil, err
		}
		return &topSource{source: src, command: []string{"-f", f.replay}, done: func() {}}, nil
	case f.demo:
		fmt.Fprintln(s.Err, "starting a picker with simulated pods")
		src, err := startDemo(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("--demo: %w", err)
		}
		server := src.client.Server()
		return &topSource{source: src, server: server, command: []string{"--" + serverFlag, server}, done: src.close}, nil
	case f.pages():
		return f.openPatrol(clock.Wall{})
	}
	return f.openLive(ctx, s)
}

// openLive finds the picker; it need not be there yet.
func (f *topFlags) openLive(ctx context.Context, s *cli.Streams) (*topSource, error) {
	variable := s.Env(admin.EnvServer)
	if len(f.servers) == 0 && strings.Contains(variable, ",") {
		return nil, cli.WithHint(fmt.Errorf("%s: has several addresses; the dashboard follows one picker", admin.EnvServer), cli.ExitUsage, "give one with --server")
	}
	named := len(f.servers) > 0 || variable != ""
	if f.in.given() && !named {
		return f.openPool(ctx, s)
	}
	f.in.passedOver(s)
	where, err := admin.Locate(ctx, first(f.servers), s.Env)
	if _, down := errors.AsType[*admin.UnreachableError](err); down {
		if src := f.elsewhere(ctx, s); src != nil {
			return src, nil
		}
		where = admin.Location{Server: admin.DefaultServer, Source: "default"} // it may come
	} else if err != nil {
		return nil, clientError(err)
	}
	token, err := readToken(adminTokenFlag, f.in.tokenFile)
	if err != nil {
		return nil, err
	}
	client, err := admin.NewClient(where.Server, admin.ClientOptions{Token: token})
	if err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "give --server as host:port or as a URL")
	}
	out := &topSource{source: &liveSource{client}, server: client.Server(), done: client.Close}
	if len(f.servers) > 0 {
		out.command = []string{"--" + serverFlag, f.servers[0]}
	}
	return out, nil
}

// display shows the dashboard; in a cluster one can go to other pools.
func (f *topFlags) display(c *cobra.Command, s *cli.Streams, src *topSource) error {
	if src.replicas == nil {
		return show(c, src.source, f.screen(s), func() []string { return src.command })
	}
	pools := newPoolSource(f, s, src)
	defer pools.close()
	return show(c, pools, f.screen(s), pools.command)
}

// show runs the dashboard. A hangup ends it too: the terminal may still be there. flags
// are those that explain takes for the same place.
func show(c *cobra.Command, src tui.Source, opt tui.Options, flags func() []string) error {
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP)
	defer stop()
	opt.Command = func(id string) string {
		return shell.Line(slices.Concat(strings.Fields(c.Root().CommandPath()), []string{"explain", id}, flags())...)
	}
	return tui.Run(ctx, src, opt)
}

// saveReport writes the snapshot and the decisions to a file in the working directory.
func saveReport(now func() time.Time) func(*explain.Snapshot, []*explain.Record) (string, error) {
	return func(snapshot *explain.Snapshot, records []*explain.Record) (string, error) {
		path := "eppctl-report-" + now().UTC().Format("20060102T150405Z") + ".jsonl"
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", fmt.Errorf("save a report: %w", err)
		}
		err = cli.WriteJSONLine(file, snapshot)
		for _, rec := range records {
			err = cmp.Or(err, cli.WriteJSONLine(file, rec))
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return path, fmt.Errorf("save a report: %w", err)
		}
		return path, nil
	}
}

func newColumns() *cobra.Command {
	return topic("columns", "What the columns of 'top' mean", func() string {
		const name, width = 9, 90
		var b strings.Builder
		b.WriteString("The columns of 'eppctl top', in their order; a narrow screen has fewer. What is not known is\n" +
			cli.Unknown + ", never 0. 'eppctl top -o wide' lists the figures one a column.\n\n")
		for _, c := range tui.Columns() {
			text := indent(ansi.Wordwrap(c.Help, width-name-4, ""), strings.Repeat(" ", name+4))
			fmt.Fprintf(&b, "  %-*s  %s", name, c.Name, strings.TrimLeft(text, " "))
		}
		return strings.TrimRight(b.String(), "\n")
	})
}
