package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/internal/source"
	"github.com/eppctl/eppctl/score"
)

const simulateLong = `Run a trace through a simulated fleet, under one routing policy or several, and
compare what came of them: cache hits, times to the first token, queues, cost.

The picker that serves and the engines of 'serve --sim' run in virtual time, so an
hour takes seconds and comes out the same each time. TRACE is a file: JSON Lines in
Mooncake's format, recorded decisions, or CSV with the columns time, input, output and
group; - is standard input. Or it is made up: gen:chat, gen:rag, gen:agents,
gen:multi-lora or gen:herd, with settings as in gen:chat:rate=5:turns=8.

docs/simulate.md tells what is modelled and what is not, and all settings.`

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	policies          []string
	pods              string
	profile, config   string
	rate, scale       float64
	limit             int
	seed              uint64
	slo, baseline     string
	output            string
	noProgress        bool
	parallel, windows int
}

func newSimulate(p *program, s *cli.Streams) *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate TRACE",
		Short: "Compare routing policies on a trace, in virtual time",
		Long:  simulateLong,
		Example: example(`
			# The picker against what proxies do, on 16 pods
			eppctl simulate testdata/traces/mooncake-2000.jsonl --pods 16

			# What would other weights have done to last night's traffic?
			eppctl simulate decisions.jsonl --policies eppctl,eppctl:cache=.5:queue=.2

			# Made-up chats, five a second, with a limit on the time to the first token
			eppctl simulate gen:chat:rate=5 --pods 4 --slo ttft=2s,tpot=50ms

			# Cheaper pods among them, and a page to look at
			eppctl simulate gen:rag --pods a100=4,a10g=8 -o html > rag.html`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl serve --sim N      the same pods as real servers
			eppctl explain REQUEST    why one request went where it went`},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("one TRACE is needed, got %d: a file, - for standard input, or gen:NAME", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, p, s, args[0]) },
	}
	f.register(c)
	return c
}

func (f *simulateFlags) register(c *cobra.Command) {
	flagGroup(c, "What is compared", func(fs *pflag.FlagSet) {
		fs.StringSliceVar(&f.policies, "policies", []string{"eppctl", "round-robin", "least-connections"}, "the policies `A,B,...`: "+strings.Join(simulate.Kinds(), ", "))
		fs.StringVar(&f.config, "config", "", "configuration `FILE` (YAML) whose weights eppctl begins with")
		fs.StringVar(&f.baseline, "baseline", "", "compare the others with this `POLICY` (default: the first that a proxy does)")
		fs.StringVar(&f.slo, "slo", "", "count what keeps these `LIMITS`: ttft=2s,tpot=50ms; ttft=5s+2x is 5 s and twice the request's own cold prefill")
	})
	flagGroup(c, "The fleet", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.pods, "pods", "", "a fleet of `N` pods, or of several kinds: a100=8,a10g=4 (default: the profile's, 8)")
		fs.StringVar(&f.profile, "profile", "llama-8b", "what the work costs: llama-8b, llama-70b or a `FILE` (YAML)")
	})
	flagGroup(c, "The traffic", func(fs *pflag.FlagSet) {
		fs.Float64Var(&f.rate, "rate", 0, "let `X` requests a second arrive on average (default: as in the trace)")
		fs.Float64Var(&f.scale, "scale", 1, "let requests arrive `X` times as fast")
		fs.IntVar(&f.limit, "limit", 0, "take the first `N` requests only")
		fs.Uint64Var(&f.seed, "seed", 1, "the `NUMBER` that all chance begins with")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: text, wide, json, yaml, csv or html")
		fs.IntVar(&f.windows, "windows", 100, "draw from `N` windows of requests for the intervals of differences")
		fs.IntVar(&f.parallel, "parallel", 0, "run `N` policies at once (default: as there are processors)")
		fs.BoolVar(&f.noProgress, "no-progress", false, "show no progress bar")
	})
	_ = c.RegisterFlagCompletionFunc("policies", oneOf(simulate.Kinds()...)) // fails only for a flag that is not there
	_ = c.RegisterFlagCompletionFunc("output", oneOf(formatNames(simulateFormats)...))
}

func (f *simulateFlags) run(c *cobra.Command, p *program, s *cli.Streams, trace string) error {
	format, err := cli.ParseFormat(f.output, simulateFormats...)
	if err != nil {
		return usage(err, c)
	}
	cfg, options, err := f.prepare(p, c.Flags().Changed("rate"))
	if err != nil {
		return usage(err, c)
	}
	if cfg.Trace, err = f.read(c.Context(), s, trace); err != nil {
		return err
	}
	began := s.Now()
	runs, err := f.simulate(c.Context(), s, cfg)
	if err != nil {
		return cli.Interrupted(c.Context(), err)
	}
	w := simulateWriter{Streams: s, format: format, report: runs.Report(*options), elapsed: s.Now().Sub(began), runs: runs}
	return w.write()
}

// prepare reads all flags but the trace's; rated is whether there is a rate.
func (f *simulateFlags) prepare(p *program, rated bool) (*simulate.Config, *simulate.ReportOptions, error) {
	cfg := &simulate.Config{Seed: f.seed, Parallel: f.parallel}
	options := &simulate.ReportOptions{Windows: f.windows}
	var problems []error
	try := func(flag string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	var err error
	cfg.Profile, err = f.readProfile()
	try("profile", err)
	if err == nil {
		cfg.Pods, err = cfg.Profile.Fleet(f.pods)
		try("pods", err)
	}
	if f.slo != "" {
		options.SLO, err = simulate.ParseSLO(f.slo)
		try("slo", err)
	}
	base, err := f.readWeights(p)
	try("config", err)
	if err == nil {
		cfg.Policies, err = f.readPolicies(base)
		try("policies", err)
	}
	if err == nil {
		options.Baseline, err = f.findBaseline(cfg.Policies)
		try("baseline", err)
	}
	for flag, v := range map[string]int{"limit": f.limit, "parallel": f.parallel, "windows": f.windows} {
		if v < 0 {
			try(flag, fmt.Errorf("must not be negative, got %d", v))
		}
	}
	if f.windows == 1 {
		try("windows", errors.New("of one there is nothing to draw: 2 at least"))
	}
	if rated && (!(f.rate > 0) || f.scale != 1) {
		try("rate", errors.New("must be above 0, and does not go with --scale"))
	}
	return cfg, options, errors.Join(problems...)
}

func (f *simulateFlags) readProfile() (*simulate.Profile, error) {
	if p, err := simulate.ProfileNamed(f.profile); err == nil {
		return p, nil
	}
	file, err := os.Open(f.profile)
	if err != nil {
		_, unknown := simulate.ProfileNamed(f.profile)
		return nil, fmt.Errorf("%w, and no file: %w", unknown, err)
	}
	defer file.Close()
	const most = 1 << 20
	b, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil, err
	}
	return simulate.ParseProfile(f.profile, b)
}

// readWeights are the weights that eppctl begins with.
func (f *simulateFlags) readWeights(p *program) (score.Weights, error) {
	if f.config == "" {
		return score.Default(), nil
	}
	cfg, err := config.Load(f.config, config.Default())
	if err != nil {
		return score.Weights{}, err
	}
	w, err := cfg.EngineWeights(p.custom)
	w.Custom = nil // custom scorers are not simulated
	return w, err
}

func (f *simulateFlags) readPolicies(base score.Weights) ([]*simulate.Policy, error) {
	var out []*simulate.Policy
	seen := map[string]bool{}
	for _, text := range f.policies {
		policy, err := simulate.ParsePolicy(text, base)
		if err != nil {
			return nil, err
		}
		if seen[text] {
			return nil, fmt.Errorf("%s stands there twice", text)
		}
		seen[text] = true
		out = append(out, policy)
	}
	if len(out) == 0 {
		return nil, errors.New("at least one is needed")
	}
	return out, nil
}

// findBaseline is what the others are compared with: what was asked for, or the first
// that a proxy does.
func (f *simulateFlags) findBaseline(policies []*simulate.Policy) (string, error) {
	for _, p := range policies {
		if p.Name == f.baseline || f.baseline == "" && !p.Picks() {
			return p.Name, nil
		}
	}
	if f.baseline == "" && len(policies) > 0 {
		return policies[0].Name, nil
	}
	return "", fmt.Errorf("%q is not among the policies %s", f.baseline, strings.Join(f.policies, ", "))
}

// read reads the trace and lets it come as fast as is wanted.
func (f *simulateFlags) read(ctx context.Context, s *cli.Streams, name string) (*simulate.Trace, error) {
	t, err := f.open(ctx, s, name)
	if err != nil {
		return nil, err
	}
	scale := f.scale
	if f.rate > 0 {
		have := t.Rate()
		if have == 0 {
			return nil, fmt.Errorf("--rate: all requests of %s come at once: there is nothing to stretch", name)
		}
		scale = f.rate / have
	}
	if err := t.Scale(scale); err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "see --scale and --rate")
	}
	return t, nil
}

func (f *simulateFlags) open(ctx context.Context, s *cli.Streams, name string) (*simulate.Trace, error) {
	if strings.HasPrefix(name, simulate.GeneratorPrefix) {
		t, err := simulate.Generate(name, f.seed, f.limit)
		return t, cli.WithHint(err, cli.ExitUsage, "docs/simulate.md lists the settings")
	}
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return f.readRecords(ctx, s, name, nil)
		}
		in = file
	}
	unpacked, err := source.Decompress(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer unpacked.Close()
	begin := bufio.NewReaderSize(unpacked, 1<<16)
	peeked, _ := begin.Peek(1 << 16) // what is not there is not looked at
	if simulate.IsTrace(peeked) {
		return simulate.Read(name, begin, f.limit)
	}
	return f.readRecords(ctx, s, name, begin)
}

// readRecords takes the trace from recorded decisions.
func (f *simulateFlags) readRecords(ctx context.Context, s *cli.Streams, name string, stdin io.Reader) (*simulate.Trace, error) {
	src, err := source.Open(name, source.Options{Stdin: stdin, Now: s.Now, Warn: warner(s)})
	if err != nil {
		return nil, sourceError(err)
	}
	records := new(simulate.Records)
	if _, err = src.Each(ctx, source.Want{AnyOrder: true}, records.Add); err != nil {
		return nil, sourceError(err)
	}
	t, err := records.Trace(name, f.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: neither a trace nor decisions: %w", name, err)
	}
	if n := records.Skipped; n > 0 {
		fmt.Fprintf(s.Err, "eppctl: warning: %d decisions have no prompt to route by, and are left out\n", n)
	}
	if n := records.Unknown(); n > 0 {
		fmt.Fprintf(s.Err, "eppctl: warning: of %d answers the length is not recorded: the median of the others stands in\n", n)
	}
	return t, nil
}

// simulate runs, and shows on a terminal how far it is.
func (f *simulateFlags) simulate(ctx context.Context, s *cli.Streams, cfg *simulate.Config) (*simulate.Runs, error) {
	if !s.ErrIsTerminal || f.noProgress {
		return simulate.Run(ctx, cfg)
	}
	var arrived atomic.Int64
	cfg.Progress = func() { arrived.Add(1) }
	all := int64(len(cfg.Trace.Requests) * len(cfg.Policies))
	ended, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				fmt.Fprint(s.Err, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprint(s.Err, progressBar(arrived.Load(), all))
			}
		}
	}()
	runs, err := simulate.Run(ctx, cfg)
	close(ended)
	<-shown
	return runs, err
}

// progressBar is a line that is written over the one before.
func progressBar(done, all int64) string {
	const width = 30
	filled := int(done * width / max(1, all))
	return fmt.Sprintf("\rsimulating [%s%s] %3d%%\x1b[K", strings.Repeat("#", filled), strings.Repeat(".", width-filled), done*100/max(1, all))
}
