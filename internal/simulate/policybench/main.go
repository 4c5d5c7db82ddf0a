// Command policybench compares all routing policies on one trace, on fleets of two
// sizes, below and above what they can serve. `.ci/policies` starts it.
//
// The one idea: rates mean nothing without the fleet, so they are shares of its
// capacity, the highest rate at which least-connections keeps the SLO for 95 % of
// requests. It is found by bisection, and each policy then gets the same arrivals at
// 60, 90 and 110 % of it.
//
// It simulates with package simulate, as eppctl simulate does, and judges nothing: the
// reading of its tables stands beside them in docs/simulate.md.
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
	"github.com/eppctl/eppctl/internal/simulate"
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
	trace  string
	limit  int
	pods   []string
	update string
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseOptions(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return cli.WithHint(err, cli.ExitUsage, "see .ci/policies -h")
	}
	trace, err := readTrace(o.trace, o.limit)
	if err != nil {
		return err
	}
	var tables []*table
	for _, pods := range o.pods {
		f, err := newFleet(trace, pods, progress)
		if err != nil {
			return cli.WithHint(err, cli.ExitUsage, "")
		}
		t, err := f.table(ctx)
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	text := markdown(trace, tables)
	if _, err := io.WriteString(out, text); err != nil || o.update == "" {
		return err
	}
	return benchpage.Update(o.update, "policies", text)
}

func parseOptions(args []string, usage io.Writer) (options, error) {
	o := options{pods: []string{"8", "16"}}
	flags := flag.NewFlagSet("policies", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&o.limit, "limit", 0, "take the first `N` requests only")
	flags.Func("pods", "a fleet of `N` pods alone (default: one of 8 and one of 16)", func(text string) error {
		o.pods = []string{text}
		return nil
	})
	flags.StringVar(&o.update, "update", "", "also put the tables between the markers of this `FILE`, e.g. docs/simulate.md")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() != 1:
		return o, fmt.Errorf("one trace is needed, got %d", flags.NArg())
	case o.limit < 0:
		return o, fmt.Errorf("-limit: must not be negative, got %d", o.limit)
	}
	o.trace = flags.Arg(0)
	return o, nil
}

// readTrace reads the first requests of a file; 0: all of them.
func readTrace(path string, limit int) (*simulate.Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer file.Close()
	trace, err := simulate.Read(path, file, limit)
	if err != nil {
		return nil, err
	}
	if trace.Rate() == 0 {
		return nil, fmt.Errorf("%s: all requests come at once: there is no rate to look for", path)
	}
	return trace, nil
}
