package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/shell"
	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/internal/source"
	"github.com/eppctl/eppctl/internal/tune"
)

const tuneLong = `Give advice on the weights: what is wrong by the fleet's own records, which weight is
the lever, and what moving it would have done.

Recorded decisions are taken again first, and must come out the same. A weight is
moved only for a symptom, by 0.10 at most, and taken from another. What a move would
have done is computed for each recorded pick alone, and in a simulated fleet for the
recorded arrivals, on stretches of time that it was not chosen on. To keep the weights
is a result like any other. No latency is promised.

In place of records a TRACE can be given, as for 'eppctl simulate': it is recorded in
a simulated fleet first. With --sensitivity no traffic is needed: it tells what
follows from weights alone, given as a preset or as KEY=N with commas between.

docs/tune.md tells the symptoms and what each is seen by.`

// tuneFlags are the flags of tune.
type tuneFlags struct {
	from          origin
	filter        admin.Filter
	sensitivity   bool
	with          string
	fleet         simulateFlags // profile, pods and seed alone
	requests      int
	output, emit  string
	apply, yes    bool
	save, restore string
}

var tuneFormats = []cli.Format{cli.FormatText, cli.FormatJSON, cli.FormatYAML}

func newTune(p *program, s *cli.Streams) *cobra.Command {
	f := tuneFlags{fleet: simulateFlags{scale: 1}}
	c := &cobra.Command{
		Use:   "tune [TRACE | WEIGHTS]",
		Short: "Give advice on the weights, from the fleet's own records",
		Long:  tuneLong,
		Example: example(`
			# What a running picker's last day says
			eppctl tune --since 24h

			# From recorded files, as a fragment of a configuration
			eppctl tune -f decisions/ --emit config > weights.yaml

			# What the weights of a preset mean, and those of one's own
			eppctl tune --sensitivity rag
			eppctl tune --sensitivity cache=.5,queue=.2

			# Made-up traffic with many adapters, on four simulated pods
			eppctl tune gen:multi-lora:system=0:rank=64 --pods 4

			# Put the suggestion in force, and the way back
			eppctl tune --apply --yes
			eppctl tune --restore eppctl-weights-0.json --yes`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl explain --window   what changed in the last while
			eppctl simulate TRACE     other weights and policies on a trace`},
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, p, s, args) },
	}
	f.register(c)
	return c
}

func (f *tuneFlags) register(c *cobra.Command) {
	flagGroup(c, "Where from", f.from.register)
	flagGroup(c, "Which", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.filter.Since, "since", "", "only decisions since `WHEN`: a duration like 24h, or a time (RFC 3339)")
		fs.StringVar(&f.filter.Until, "until", "", "only decisions before `WHEN`")
	})
	flagGroup(c, "Without traffic", func(fs *pflag.FlagSet) {
		fs.BoolVar(&f.sensitivity, "sensitivity", false, "tell what follows from weights alone: those of the argument, else the default ones")
		fs.StringVar(&f.with, "with", "", "the `WEIGHTS` that a TRACE is recorded under: a preset, or KEY=N,... (default: default)")
	})
	flagGroup(c, "The simulated fleet", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.fleet.pods, "pods", "", "a fleet of `N` pods, or of several kinds: a100=8,a10g=4 (default: as recorded; for a TRACE the profile's)")
		fs.StringVar(&f.fleet.profile, "profile", "", "what the work costs: llama-8b, llama-70b or a `FILE` (YAML) (default: the one nearest to the model)")
		fs.IntVar(&f.requests, "requests", tune.DefaultRequests, "simulate at most `N` of the recorded arrivals")
		fs.Uint64Var(&f.fleet.seed, "seed", 1, "the `NUMBER` that all chance begins with")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: text, json or yaml")
		fs.StringVar(&f.emit, "emit", "", "print `WHAT` alone: config, a fragment for 'eppctl serve --config'")
	})
	flagGroup(c, "Putting it in force", func(fs *pflag.FlagSet) {
		fs.BoolVar(&f.apply, "apply", false, "put the suggested weights in force in the running picker")
		fs.StringVar(&f.save, "save", "", "keep the weights that --apply replaces in this `FILE` (default: eppctl-weights-GENERATION.json)")
		fs.StringVar(&f.restore, "restore", "", "put the weights of this `FILE` back in force")
		fs.BoolVar(&f.yes, "yes", false, "do it: --apply and --restore change a running picker")
	})
	f.from.in.register(c)
	for _, name := range []string{"apply", "save", "restore", "yes", "sensitivity", "emit"} {
		_ = c.Flags().SetAnnotation(name, noVariableKey, []string{"true"}) // fails only for a flag that is not there
	}
	_ = c.RegisterFlagCompletionFunc("output", oneOf(formatNames(tuneFormats)...))
	_ = c.RegisterFlagCompletionFunc("emit", oneOf("config"))
}

func (f *tuneFlags) run(c *cobra.Command, p *program, s *cli.Streams, args []string) error {
	format, err := cli.ParseFormat(f.output, tuneFormats...)
	if err == nil {
		err = f.check(s, args)
	}
	if err != nil {
		return usage(err, c)
	}
	printer := cli.Printer{Streams: s, Format: format}
	switch {
	case f.sensitivity:
		w, err := tune.ParseWeights(strings.Join(args, ""))
		if err != nil {
			return usage(err, c)
		}
		return writeSensitivity(printer, tune.SensitivityOf(w))
	case f.restore != "":
		return f.putBack(c.Context(), s)
	}
	advice, err := f.advise(c, p, s, args)
	if err != nil {
		return err
	}
	if f.emit != "" {
		_, err = fmt.Fprint(s.Out, advice.Config())
	} else {
		err = writeAdvice(printer, advice)
	}
	if err != nil || !f.apply {
		return err
	}
	return f.applyAdvice(c.Context(), s, advice)
}

// check refuses what does not go together.
func (f *tuneFlags) check(s *cli.Streams, args []string) error {
	return cmp.Or(f.checkInput(args), f.checkChange(args), f.checkOutput(), f.checkTimes(s))
}

func (f *tuneFlags) checkInput(args []string) error {
	trace := len(args) > 0 && !f.sensitivity
	switch {
	case f.sensitivity && (f.apply || f.restore != "" || f.emit != "" || f.from.file != ""):
		return errors.New("--sensitivity: looks at weights alone; it goes with none of the flags about traffic")
	case f.with != "" && !trace:
		return errors.New("--with: goes with a TRACE; decisions tell their weights")
	case trace && (f.from.file != "" || len(f.from.servers) > 0 || f.from.in.given()):
		return errors.New("give a TRACE, or -f, or --server, or --pool")
	case f.requests < leastRequests:
		return fmt.Errorf("--requests: at least %d, got %d", leastRequests, f.requests)
	}
	return nil
}

// leastRequests is below what no stretch of time says anything.
const leastRequests = 100

// checkChange is about what changes a running picker.
func (f *tuneFlags) checkChange(args []string) error {
	changes := f.apply || f.restore != ""
	switch {
	case f.save != "" && !f.apply:
		return errors.New("--save: goes with --apply")
	case f.yes && !changes:
		return errors.New("--yes: goes with --apply or --restore")
	case !changes:
		return nil
	case f.apply && f.restore != "":
		return errors.New("--apply and --restore: give one of them")
	case f.from.file != "" || len(args) > 0 || len(f.from.servers) > 1:
		return errors.New("--apply and --restore: change one running picker; they go with no file, no TRACE and one --server")
	case !f.yes:
		return errors.New("--apply and --restore change a running picker: add --yes")
	}
	return nil
}

func (f *tuneFlags) checkOutput() error {
	switch {
	case f.emit != "" && f.emit != "config":
		return fmt.Errorf("--emit: there is config alone, got %q", f.emit)
	case f.emit != "" && f.output != "":
		return errors.New("--emit: prints a configuration; it does not go with -o")
	}
	return nil
}

func (f *tuneFlags) checkTimes(s *cli.Streams) error {
	_, err := f.filter.Query(s.Now())
	if e, ok := errors.AsType[*admin.FilterError](err); ok {
		return fmt.Errorf("--%s: %w", filterFlag(e.Field), e.Err)
	}
	return err
}

// advise looks at the traffic.
func (f *tuneFlags) advise(c *cobra.Command, p *program, s *cli.Streams, args []string) (*tune.Advice, error) {
	options := tune.Options{Pods: f.fleet.pods, Requests: f.requests, Seed: f.fleet.seed}
	if f.fleet.profile != "" || len(args) > 0 {
		var err error
		if options.Profile, err = f.fleet.readProfile(); err == nil && f.fleet.pods != "" {
			_, err = options.Profile.Fleet(f.fleet.pods)
		}
		if err != nil {
			return nil, usage(err, c)
		}
	}
	traffic := tune.NewTraffic()
	see := f.fromSource
	if len(args) > 0 {
		see = func(ctx context.Context, s *cli.Streams, t *tune.Traffic) error {
			return f.fromTrace(ctx, s, t, args[0], options.Profile)
		}
	}
	if err := see(c.Context(), s, traffic); err != nil {
		return nil, cli.Interrupted(c.Context(), err)
	}
	if traffic.Passed > 0 {
		warner(s)(fmt.Sprintf("%d decisions beyond the first %d were left out", traffic.Passed, tune.MaxDecisions))
	}
	advice, err := traffic.Advise(c.Context(), options)
	if e, ok := errors.AsType[*tune.ReplayError](err); ok {
		return nil, cli.WithHint(err, cli.ExitError, "no advice is given; see one of them with '"+f.explaining(e.First[0].DecisionID)+"'")
	}
	return advice, cli.Interrupted(c.Context(), err)
}

// explaining is the command that explains a decision from where it was read.
func (f *tuneFlags) explaining(id string) string {
	args := []string{"eppctl", "explain", id}
	if f.from.file != "" {
		args = append(args, "-f", f.from.file)
	}
	return shell.Line(append(args, f.from.in.flags()...)...)
}

func (f *tuneFlags) fromSource(ctx context.Context, s *cli.Streams, t *tune.Traffic) error {
	src, done, err := f.from.open(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	_, err = src.Each(ctx, source.Want{Filter: f.filter}, t.See)
	if errors.Is(err, tune.ErrOrigin) {
		return cli.WithHint(err, cli.ExitUsage, "'eppctl explain --set' shows what its own weights would change, one decision at a time")
	}
	return sourceError(err)
}

// traceRing is the memory for the decisions of a trace.
const traceRing = 1 << 30

// fromTrace records a trace in a simulated fleet.
func (f *tuneFlags) fromTrace(ctx context.Context, s *cli.Streams, t *tune.Traffic, name string, profile *simulate.Profile) error {
	w, err := tune.ParseWeights(f.with)
	if err != nil {
		return cli.WithHint(fmt.Errorf("--with: %w", err), cli.ExitUsage, "an example: --with rag, or --with cache=.5,queue=.2")
	}
	cfg := &simulate.Config{Profile: profile, Seed: f.fleet.seed}
	if cfg.Trace, err = f.fleet.read(ctx, s, name); err != nil {
		return err
	}
	if len(profile.Adapters) == 0 {
		profile.Adapters = cfg.Trace.Adapters // records do not tell their ranks
	}
	if cfg.Pods, err = profile.Fleet(f.fleet.pods); err != nil {
		return err
	}
	policy, err := simulate.ParsePolicy("eppctl", *w)
	if err != nil {
		return err
	}
	cfg.Policies = []*simulate.Policy{policy}
	ring := record.NewRing(record.RingConfig{Bytes: traceRing, Key: []byte("trace")})
	cfg.Recorder = ring
	if _, err = simulate.Run(ctx, cfg); err != nil {
		return err
	}
	ring.Walk(record.Query{}, func(rec *explain.Record) bool {
		err = t.See(rec)
		return err == nil
	})
	return err
}
