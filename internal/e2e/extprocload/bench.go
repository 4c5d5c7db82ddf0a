package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/benchpage"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/request"
)

// benchOptions are the flags of the comparison.
type benchOptions struct {
	count    int
	scale    float64
	only     string
	eppctl   string
	itself   bool
	failOver float64
	markdown bool
	update   string
}

func runBench(ctx context.Context, args []string, s *cli.Streams) error {
	var o benchOptions
	flags := flag.NewFlagSet("extproc-bench", flag.ContinueOnError)
	flags.IntVar(&o.count, "count", 5, "pairs of runs for each kind of work; the median counts")
	flags.Float64Var(&o.scale, "scale", 1, "multiply the number of requests: 0.1 is a quick look")
	flags.StringVar(&o.only, "only", "", "run only the kinds of work whose names match this regular expression")
	flags.StringVar(&o.eppctl, "eppctl", "", "measure this binary instead of building one")
	flags.BoolVar(&o.itself, "noise", false, "compare the no-op picker with itself: how far is 1.0 off?")
	flags.Float64Var(&o.failOver, "fail-over", 1, "fail when a figure is worse than its limit by more than this factor")
	flags.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&o.update, "update", "", "also put the Markdown between the markers of this file, e.g. docs/benchmarks.md")
	if done, err := parse(flags, args, s); done {
		return err
	}
	only, err := regexp.Compile(o.only)
	switch {
	case err != nil:
		err = fmt.Errorf("-only: %w", err)
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.count < 1:
		err = fmt.Errorf("-count: must be 1 or more, got %d", o.count)
	case !(o.scale > 0):
		err = fmt.Errorf("-scale: must be above 0, got %g", o.scale)
	case !(o.failOver >= 1):
		err = fmt.Errorf("-fail-over: must be 1 or more, got %g", o.failOver)
	}
	if err != nil {
		return cli.WithHint(err, cli.ExitUsage, "see .ci/extproc-bench -h")
	}
	c, err := compare(ctx, &o, only, s)
	if err != nil {
		return err
	}
	if err := publish(c, &o, s.Out); err != nil {
		return err
	}
	return c.failure(o.failOver)
}

// compare runs all rows.
func compare(ctx context.Context, o *benchOptions, only *regexp.Regexp, s *cli.Streams) (*comparison, error) {
	dir, err := os.MkdirTemp("", "extproc-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b, err := newBench(ctx, dir, o.eppctl, s)
	if err == nil && o.eppctl == "" && !o.itself {
		err = b.build(ctx)
	}
	if err != nil {
		return nil, err
	}
	c := &comparison{count: o.count}
	for _, r := range rows() {
		if !only.MatchString(r.name) {
			continue
		}
		pairs, err := b.pairs(ctx, &r, o.count, o.scale, o.itself)
		if err != nil {
			return nil, err
		}
		c.add(&r, pairs)
		parsing, err := parsingMs(r.work)
		if err != nil {
			return nil, err
		}
		c.figures = append(c.figures, shownFigure(r.name, "of it parsing and fingerprints, ms", parsing))
	}
	if o.itself {
		return c, nil
	}
	for _, streams := range []int{holdStreams, crowdStreams} {
		if name := holdName(streams); only.MatchString(name) {
			h, err := b.held(ctx, streams)
			if err != nil {
				return nil, err
			}
			c.hold(name, h)
		}
	}
	if len(c.figures) == 0 {
		return nil, cli.WithHint(errors.New("-only: no kind of work has such a name"), cli.ExitUsage, "see internal/e2e/extprocload/rows.go")
	}
	return c, nil
}

// parsingMs is what our picker's reading of a body takes by itself, on a processor
// that does nothing else: from the bytes to the fingerprints of its blocks.
func parsingMs(work workload) ([]float64, error) {
	bodies, err := work.bodies()
	if err != nil {
		return nil, err
	}
	const rounds = 200
	root := prefix.Root(work.model, "", "")
	var took []time.Duration
	var blocks []uint64
	for n := range rounds {
		began := clock.Wall{}.Now()
		r, err := request.Parse(chatPath, bodies[n%len(bodies)], request.Limits{})
		if err != nil {
			return nil, err
		}
		blocks = prefix.Fingerprints(blocks[:0], root, r.Tokens, blockSize)
		took = append(took, clock.Wall{}.Now().Sub(began))
	}
	slices.Sort(took)
	return []float64{took[rounds/2].Seconds() * 1e3}, nil
}

// publish prints the comparison and, with -update, writes it into a page.
func publish(c *comparison, o *benchOptions, out io.Writer) error {
	text := c.text()
	if o.markdown {
		text = c.markdown()
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if o.update == "" {
		return nil
	}
	return benchpage.Update(o.update, "extproc-bench", c.markdown())
}
