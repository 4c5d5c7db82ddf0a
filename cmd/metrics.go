package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/scrape"
)

const metricsLong = `Ask a running picker's metrics, without a Prometheus server.

Without arguments it answers the usual questions: is the cache of value, does a queue
fill, is a pod unhealthy, is the picker slow, are caches stale, do adapters thrash. Each
has its alert threshold. One reading counts since the picker's start; --for reads twice,
and is about the time between. Alerts that ask for minutes are a WARN until they were
seen that long.

With names or globs it prints these series. With the address of a page, http://pod:8000,
it reads that one: a picker's, also llm-d's own, or an engine's. Several pickers are
replicas of one: their counts are added up.`

// formatProm is Prometheus' text format, which no other command has.
const formatProm cli.Format = "prom"

type metricsFlags struct {
	in        poolFlags
	servers   []string
	urls      []string
	files     []string
	tokenFile string
	timeout   time.Duration

	span     time.Duration
	watch    bool
	interval time.Duration

	output    string
	noHeaders bool
	failOn    string

	clock clock.Clock
}

func newMetrics(s *cli.Streams) *cobra.Command {
	f := metricsFlags{clock: clock.Wall{}}
	c := &cobra.Command{
		Use:   "metrics [NAME|GLOB|URL]...",
		Short: "Ask a running picker's metrics, without Prometheus",
		Long:  metricsLong,
		Example: example(`
			# Is anything wrong, and what are the distributions?
			eppctl metrics

			# Rates of ten seconds, and status 5 when something is beyond its threshold
			eppctl metrics --for 10s --fail-on warn

			# Single series, with the quantiles of histograms
			eppctl metrics 'epp_queue_depth{pod="sim-1"}' 'epp_*_us'

			# An engine's page, and both replicas of llm-d's picker
			eppctl metrics http://10.0.0.7:8000
			eppctl metrics http://10.0.0.8:9090 http://10.0.0.9:9090 -o wide`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl decisions          what was decided, one by one
			eppctl help exit-codes    what the exit status says`},
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, s, args) },
	}
	flagGroup(c, "Where from", func(fs *pflag.FlagSet) {
		fs.StringSliceVar(&f.servers, serverFlag, nil, "admin `ADDRESS` of a picker, which tells where its metrics are; several are replicas (default: 127.0.0.1:9091 if it answers, else the picker of --pool)")
		fs.StringSliceVar(&f.urls, "metrics-url", nil, "`ADDRESS` of a metrics page itself: host:port or URL")
		fs.StringSliceVarP(&f.files, "file", "f", nil, "read this `FILE`, a page that was saved, also packed by gzip; - for standard input")
		fs.StringVar(&f.tokenFile, "token-file", "", "send the bearer token in this `FILE`")
		fs.DurationVar(&f.timeout, "timeout", scrape.DefaultTimeout, "wait `DURATION` for a page")
	})
	flagGroup(c, "When", func(fs *pflag.FlagSet) {
		fs.DurationVar(&f.span, "for", 0, "read twice, `DURATION` apart, and tell of the time between")
		fs.BoolVarP(&f.watch, "watch", "w", false, "go on, each time with what is new since the last, until interrupted")
		fs.DurationVar(&f.interval, "interval", defaultInterval, "with --watch, read every `DURATION`")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: table, wide, json, jsonl or prom")
		fs.BoolVar(&f.noHeaders, "no-headers", false, "tables without their first line")
		fs.StringVar(&f.failOn, "fail-on", "", "end with status 5 when a check is at `LEVEL` or worse: warn or alert")
	})
	f.in.register(c)
	for _, name := range []string{"metrics-url", "file", "fail-on"} { // what these would mean is another thing in other commands
		_ = c.Flags().SetAnnotation(name, noVariableKey, []string{"true"}) // fails only for a flag that is not there
	}
	_ = c.RegisterFlagCompletionFunc("output", oneOf("table", "wide", "json", "jsonl", "prom"))
	_ = c.RegisterFlagCompletionFunc("fail-on", oneOf("warn", "alert")) // fails only for a flag that is not there
	return c
}

// splitArgs tells the addresses of pages from what is to be read on them.
func splitArgs(args []string) (urls []string, selectors []metricview.Selector, err error) {
	for _, arg := range args {
		if strings.Contains(arg, "://") && !strings.Contains(arg, "{") {
			urls = append(urls, arg)
			continue
		}
		selector, err := metricview.ParseSelector(arg)
		if err != nil {
			return nil, nil, cli.WithHint(err, cli.ExitUsage, `examples: epp_queue_depth, 'epp_*_total', 'epp_queue_depth{pod="sim-1"}'`)
		}
		selectors = append(selectors, selector)
	}
	return urls, selectors, nil
}

func (f *metricsFlags) run(c *cobra.Command, s *cli.Streams, args []string) error {
	urls, selectors, err := splitArgs(args)
	if err != nil {
		return usage(err, c)
	}
	format, err := cli.ParseFormat(f.output, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatJSONL, formatProm)
	if err != nil {
		return usage(err, c)
	}
	if err := f.check(c, format, urls, selectors); err != nil {
		return usage(err, c)
	}
	out := &metricsPrinter{
		printer: cli.Printer{Streams: s, Format: format, NoHeaders: f.noHeaders}, selectors: selectors,
		limit: metricview.Status(strings.ToUpper(f.failOn)),
	}
	if len(f.files) > 0 {
		return f.runFiles(s, out)
	}
	token, err := readToken("token-file", f.tokenFile)
	if err != nil {
		return err
	}
	where, err := f.find(c.Context(), s, urls)
	if err != nil {
		return err
	}
	defer where.done()
	addresses := where.addresses
	client := scrape.NewClient(scrape.Options{Clock: f.clock, Timeout: f.timeout, Token: token, Transport: where.transport})
	defer client.Close()
	if f.watch {
		return f.follow(c.Context(), s, client, addresses, out)
	}
	return f.once(c.Context(), s, client, addresses, out)
}

// check refuses what does not go together.
func (f *metricsFlags) check(c *cobra.Command, format cli.Format, urls []string, selectors []metricview.Selector) error {
	if err := f.checkOrigin(len(urls) > 0 || len(f.urls) > 0); err != nil {
		return err
	}
	if err := f.checkTimes(c.Flags().Changed("interval"), format); err != nil {
		return err
	}
	switch {
	case f.failOn != "" && f.failOn != "warn" && f.failOn != "alert":
		return fmt.Errorf("--fail-on: %q is neither warn nor alert", f.failOn)
	case f.failOn != "" && (len(selectors) > 0 || format == formatProm):
		return errors.New("--fail-on: single series have no thresholds; leave out their names and -o prom")
	}
	return filled(c.Flags(), "token-file")
}

func (f *metricsFlags) checkOrigin(pages bool) error {
	files, servers := len(f.files) > 0, len(f.servers) > 0 || f.in.given()
	switch {
	case files && (pages || servers):
		return errors.New("-f: reads files; it does not go with --server, --pool, --metrics-url and addresses")
	case files && (f.watch || f.span > 0):
		return errors.New("-f: a file does not change, so --for and --watch have no meaning")
	case pages && servers:
		return errors.New("--server and --pool: ask a picker where its metrics are; that does not go with the address of a page")
	}
	return nil
}

func (f *metricsFlags) checkTimes(interval bool, format cli.Format) error {
	switch {
	case f.span < 0 || f.span > 0 && f.span < minInterval:
		return fmt.Errorf("--for: must be at least %s, got %s", minInterval, f.span)
	case f.span > 0 && f.watch:
		return errors.New("--for: does not go with --watch, which tells of the time since the last reading; give --interval")
	case !f.watch && interval:
		return errors.New("--interval: has a meaning with --watch alone")
	case f.watch && f.interval < minInterval:
		return fmt.Errorf("--interval: must be at least %s, got %s", minInterval, f.interval)
	case f.watch && (format == cli.FormatJSON || format == formatProm):
		return fmt.Errorf("--watch: has no output format %s, which is one document; there are table, wide and jsonl", f.output)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout: must be positive, got %s", f.timeout)
	}
	return nil
}

// once reads the pages one time, or twice with a wait between.
func (f *metricsFlags) once(ctx context.Context, s *cli.Streams, client *scrape.Client, addresses []string, out *metricsPrinter) error {
	watch := client.NewWatch(addresses)
	seen, err := watch.Next(ctx)
	if err != nil {
		return pageError(err)
	}
	if f.span > 0 {
		tell, done := progress(s, f.span)
		err := client.Wait(ctx, f.span, tell)
		done()
		if err != nil {
			return err
		}
		if seen, err = watch.Next(ctx); err != nil {
			return pageError(err)
		}
	}
	return out.print(seen)
}

// follow reads the pages until it is interrupted. Pages that can't be read are told
// of once, and come back by themselves.
func (f *metricsFlags) follow(ctx context.Context, s *cli.Streams, client *scrape.Client, addresses []string, out *metricsPrinter) error {
	watch := client.NewWatch(addresses)
	out.held = new(metricview.Held)
	warn, last := warner(s), ""
	for first := true; ; first = false {
		seen, err := watch.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && first:
			return pageError(err)
		case err != nil:
			if err.Error() != last {
				warn(err.Error() + "; trying again every " + f.interval.String())
			}
			last = err.Error()
		default:
			last = ""
			if err := out.print(seen); err != nil {
				return err
			}
		}
		if err := f.clock.Sleep(ctx, f.interval); err != nil {
			return err
		}
	}
}

// progress tells a person at a terminal how much of a wait has passed.
func progress(s *cli.Streams, of time.Duration) (tell func(time.Duration), done func()) {
	if !s.ErrIsTerminal {
		return func(time.Duration) {}, func() {}
	}
	return func(passed time.Duration) {
			fmt.Fprintf(s.Err, "\rmeasuring: %s of %s\x1b[K", passed.Round(time.Second), of)
		}, func() {
			fmt.Fprint(s.Err, "\r\x1b[K")
		}
}
