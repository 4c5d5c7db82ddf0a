// Command benchratio runs the benchmarks that have a promise and compares them
// with it. `.ci/bench-ratios` starts it.
//
// The one idea: nanoseconds depend on the machine, ratios hardly do. Most limits
// are multiples of one unit, fingerprinting a prompt of 4096 tokens, measured in
// the same round. The rounds are interleaved (each runs every package once), so
// that a machine that slows down for a while slows the unit down too; the figure
// is the median of the rounds' ratios.
//
// It does not replace benchstat: to compare two commits, use that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/eppctl/eppctl/internal/benchpage"
	"github.com/eppctl/eppctl/internal/cli"
)

func main() {
	ctx, stop := cli.SignalContext(context.Background())
	err := cli.Interrupted(ctx, run(ctx, os.Args[1:], os.Stdout, os.Stderr))
	stop()
	cli.PrintError(os.Stderr, err)
	os.Exit(cli.Status(err))
}

// options are the program's flags.
type options struct {
	limits    string
	count     int
	benchtime string
	failOver  float64
	markdown  bool
	update    string
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseOptions(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return cli.WithHint(err, cli.ExitUsage, "see .ci/bench-ratios -h")
	}
	text, err := os.ReadFile(o.limits)
	if err != nil {
		return cli.WithHint(fmt.Errorf("read the limits: %w", err), cli.ExitUsage, "run .ci/bench-ratios from the root of the checkout")
	}
	limits, err := parseLimits(string(text))
	if err != nil {
		return cli.WithHint(fmt.Errorf("%s: %w", o.limits, err), cli.ExitUsage, "")
	}
	bench := runner{benchtime: o.benchtime, progress: progress}
	rounds, err := bench.rounds(ctx, limits, o.count)
	if err != nil {
		return err
	}
	report := compare(limits, rounds)
	if err := publish(report, o, out); err != nil {
		return err
	}
	return report.failure(o.failOver)
}

func parseOptions(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench-ratios", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.limits, "limits", ".ci/bench-limits.tsv", "file with the limits")
	flags.IntVar(&o.count, "count", 5, "rounds; the median counts")
	flags.StringVar(&o.benchtime, "benchtime", "1s", "as in go test")
	flags.Float64Var(&o.failOver, "fail-over", 1, "fail when a figure is worse than its limit by more than this factor")
	flags.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&o.update, "update", "", "also put the Markdown between the markers of this file, e.g. docs/benchmarks.md")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.count < 1:
		return o, fmt.Errorf("-count: must be 1 or more, got %d", o.count)
	case o.failOver < 1:
		return o, fmt.Errorf("-fail-over: must be 1 or more, got %g", o.failOver)
	}
	return o, nil
}

// publish prints the report and, with -update, writes it into a page.
func publish(r report, o options, out io.Writer) error {
	text := r.text()
	if o.markdown {
		text = r.markdown()
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if o.update == "" {
		return nil
	}
	return benchpage.Update(o.update, "bench-ratios", r.markdown())
}
