// Package cmd is the command line of eppctl: one file a command, with its flags,
// its wiring and its output.
//
// The one idea: a command is a thin skin. It reads flags, hands them to a
// package that does the work, and prints what comes back; anything worth a unit
// test lives below. [Main] is also the entry point of pickers with custom
// scorers, which are ten-line programs of their own:
//
//	func main() {
//		os.Exit(cmd.Main(cmd.WithWeights("cache=.55"), cmd.WithScorer("cost", .05, cost.New())))
//	}
//
// It holds no logic of routing, recording or explaining.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // to silence it
	"os"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/score"
)

// Option changes what the program is built of.
type Option func(*program) error

// program is what a main function is made of beside the command line.
type program struct {
	weights map[string]float64 // of the built-in factors, over the defaults
	custom  []score.CustomWeight
	scorers []picker.Custom
	plugin  string // how it was typed as a plugin of kubectl; "" when it was not
}

// WithScorer registers a custom scorer under a unique name with its weight. The
// weights of all factors must sum to 1, so take the weight from others by
// [WithWeights].
func WithScorer(name string, weight float64, s score.Scorer) Option {
	return func(p *program) error {
		if name == "" || s == nil {
			return fmt.Errorf("scorer %q: a name and a scorer are needed", name)
		}
		for _, c := range p.custom {
			if c.Name == name {
				return fmt.Errorf("scorer %q is registered twice", name)
			}
		}
		p.custom = append(p.custom, score.CustomWeight{Name: name, Weight: weight})
		p.scorers = append(p.scorers, picker.Custom{Name: name, Scorer: s})
		return nil
	}
}

// WithWeights changes the weights of built-in factors: "cache=.55,queue=.10".
// The keys are cache, load, queue, health and adapter. Weights in a
// configuration file replace all of these.
func WithWeights(list string) Option {
	return func(p *program) error {
		for part := range strings.SplitSeq(list, ",") {
			key, text, ok := strings.Cut(part, "=")
			v, err := strconv.ParseFloat(text, 64)
			if !ok || err != nil {
				return fmt.Errorf("weights %q: %q is not KEY=NUMBER", list, part)
			}
			w := score.Default()
			if err := w.Set(key, v); err != nil {
				return fmt.Errorf("weights %q: %w", list, err)
			}
			p.weights[key] = v
		}
		return nil
	}
}

// Main runs the command line of this process and returns its exit status.
func Main(options ...Option) int {
	// net/http's transport writes what a server sends unasked to the global
	// logger; it may be anybody's answer.
	log.SetOutput(io.Discard)
	streams := cli.System()
	ctx, stop := cli.SignalContext(context.Background())
	defer stop()
	return run(ctx, streams, os.Args[1:], append(options, calledAs(os.Args[0]))...)
}

func run(ctx context.Context, streams *cli.Streams, args []string, options ...Option) int {
	p := &program{weights: map[string]float64{}}
	var problems []error
	for _, o := range options {
		problems = append(problems, o(p))
	}
	if err := errors.Join(problems...); err != nil {
		err = cli.WithHint(err, cli.ExitUsage, "correct the call of cmd.Main in this program")
		cli.PrintError(streams.Err, err)
		return cli.Status(err)
	}
	root := newRoot(p, streams)
	if p.plugin != "" {
		asPlugin(root, streams, p.plugin)
	}
	root.SetArgs(args)
	err := cli.Interrupted(ctx, root.ExecuteContext(ctx))
	cli.PrintError(streams.Err, err)
	return cli.Status(err)
}
