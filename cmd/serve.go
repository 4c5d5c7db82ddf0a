package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/telemetry"
)

const serveLong = `Run the picker with its embedded gateway.

With --sim N it brings its own fleet: N simulated vLLM pods, each a real HTTP
server, so that everything can be tried without a GPU. With --endpoint or
--endpoints it serves in front of real model servers. Requests go to the gateway as
to any OpenAI-compatible server; every decision is recorded and can be explained.`

// serveFlags are the flags of serve.
type serveFlags struct {
	sim                                int
	simBlocks, simMaxAdapters          int
	simSpeed                           float64
	simProfile, simModel, simLoad      string
	simAdapters                        []string
	simLoadLimit                       int
	simLoadRate                        float64
	simLoadStay                        bool
	endpoints                          []string
	endpointsFile                      string
	policy                             string
	configFile                         string
	checkConfig, printConfig           bool
	recordDir, recordMemory, recordKey string
	addresses                          config.Addresses
	addrFile                           string
	reportToken, reportTokenFile       string
	allowWrite                         bool
	drain                              time.Duration
	logLevel                           string
	maxBody                            string
	preset                             string
	maxQueue                           int
	saturation                         string
}

func newServe(p *program, s *cli.Streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the picker with its embedded gateway",
		Long:  serveLong,
		Example: example(`
			# Four simulated pods
			eppctl serve --sim 4

			# Two real model servers
			eppctl serve --endpoint a=http://10.0.0.1:8000 --endpoint b=http://10.0.0.2:8000

			# Replay a trace against eight simulated pods and sum it up
			eppctl serve --sim 8 --sim-load testdata/traces/mooncake-2000.jsonl

			# Is this configuration right?
			eppctl serve --config eppctl.yaml --check-config`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), p, s, c) },
	}
	f.register(c)
	return c
}

func (f *serveFlags) register(c *cobra.Command) {
	d := config.Default()
	fs := c.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.sim, "sim", 0, "bring a fleet of this many simulated pods")
	fs.IntVar(&f.simBlocks, "sim-blocks", 32768, "KV cache blocks of 16 tokens a simulated pod has")
	fs.Float64Var(&f.simSpeed, "sim-speed", 20, "simulated seconds that pass in one second of the wall's")
	fs.StringVar(&f.simProfile, "sim-profile", "llama-8b", "cost profile of the simulated engines: llama-8b or llama-70b")
	fs.StringVar(&f.simModel, "sim-model", "", "base model that the simulated pods serve")
	fs.StringSliceVar(&f.simAdapters, "sim-adapters", nil, "LoRA adapters that the simulated pods can load: NAME or NAME:RANK, comma separated")
	fs.IntVar(&f.simMaxAdapters, "sim-max-adapters", 4, "LoRA adapters that a simulated pod holds at once")
	fs.StringVar(&f.simLoad, "sim-load", "", "built-in traffic: requests a simulated second, or a trace file in Mooncake's format")
	fs.IntVar(&f.simLoadLimit, "sim-load-limit", 0, "end the built-in traffic after this many requests")
	fs.Float64Var(&f.simLoadRate, "sim-load-rate", 1, "factor on the arrival rate of a trace")
	fs.BoolVar(&f.simLoadStay, "sim-load-stay", false, "go on serving after the built-in traffic has ended")
	fs.StringArrayVar(&f.endpoints, "endpoint", nil, "a model server: name=http://host:port (repeatable)")
	fs.StringVar(&f.endpointsFile, "endpoints", "", "file with model servers, watched for changes")
	fs.StringVar(&f.policy, "policy", "scores", "what picks: scores, or for comparison random, round-robin, least-connections")
	fs.StringVar(&f.configFile, "config", "", "configuration file (YAML)")
	fs.BoolVar(&f.checkConfig, "check-config", false, "check the configuration and end")
	fs.BoolVar(&f.printConfig, "print-config", false, "print the configuration with all defaults and end")
	fs.StringVar(&f.preset, "preset", "", "weights for a workload: default, chatbot, api-gateway, multi-lora, batch, rag")
	fs.IntVar(&f.maxQueue, "max-queue", 0, "queue depth at which a pod counts as full")
	fs.StringVar(&f.saturation, "saturation", "", "when all queues are full: relax (let the cache decide) or reject (answer 429)")
	fs.StringVar(&f.recordDir, "record", "", "directory to append every completed decision to, as JSON Lines")
	fs.StringVar(&f.recordMemory, "record-memory", "128MiB", "memory for recorded decisions")
	fs.StringVar(&f.recordKey, "record-key", "", "file with the secret that keys block ids in records, so that replicas agree")
	fs.StringVar(&f.addresses.Gateway, "gateway-addr", d.Addresses.Gateway, "address of the gateway")
	fs.StringVar(&f.addresses.Health, "health-addr", d.Addresses.Health, "address of /healthz and /readyz")
	fs.StringVar(&f.addresses.Metrics, "metrics-addr", d.Addresses.Metrics, "address of /metrics")
	fs.StringVar(&f.addresses.Admin, "admin-addr", d.Addresses.Admin, "address of the admin API")
	fs.StringVar(&f.addresses.Report, "report-addr", d.Addresses.Report, "address for status reports of pods")
	fs.StringVar(&f.addrFile, "addr-file", "", "write the real addresses to this file as JSON (for port 0)")
	fs.StringVar(&f.reportToken, "report-token", "", "bearer token that reporting pods must show (better: --report-token-file)")
	fs.StringVar(&f.reportTokenFile, "report-token-file", "", "file with the bearer token that reporting pods must show")
	fs.BoolVar(&f.allowWrite, "allow-write", false, "let the admin API change weights and log level")
	fs.DurationVar(&f.drain, "drain", 30*time.Second, "how long running requests may take to finish at the end")
	fs.StringVar(&f.logLevel, "log-level", "", "trace, debug, info, warn or error (default info)")
	fs.StringVar(&f.maxBody, "max-body", "16MiB", "largest request body")
}

func (f *serveFlags) run(ctx context.Context, p *program, s *cli.Streams, c *cobra.Command) error {
	cfg, err := f.config(p, c)
	if err != nil {
		return cli.WithHint(err, cli.ExitUsage, "print a right configuration with 'eppctl serve --print-config'")
	}
	if f.checkConfig || f.printConfig {
		return f.showConfig(&cfg, p, s)
	}
	opts, err := f.options(cfg, p, s)
	if err != nil {
		return usage(err, c)
	}
	w, _ := cfg.EngineWeights(p.custom) // validated by config
	for _, warning := range cfg.Warnings(&w) {
		fmt.Fprintln(s.Err, "eppctl: warning:", warning)
	}
	opts.Ready = func(a serve.Addresses) { f.welcome(s, a) }
	server, err := serve.New(*opts)
	if err != nil {
		return explainStart(err)
	}
	return server.Run(ctx)
}

// config lays flags over the file over the defaults, and checks the result.
func (f *serveFlags) config(p *program, c *cobra.Command) (config.Config, error) {
	cfg := config.Default()
	if f.configFile != "" {
		var err error
		if cfg, err = config.Load(f.configFile); err != nil {
			return cfg, err
		}
	}
	set := func(flag string, to *string, v string) {
		if c.Flags().Changed(flag) {
			*to = v
		}
	}
	set("gateway-addr", &cfg.Addresses.Gateway, f.addresses.Gateway)
	set("health-addr", &cfg.Addresses.Health, f.addresses.Health)
	set("metrics-addr", &cfg.Addresses.Metrics, f.addresses.Metrics)
	set("admin-addr", &cfg.Addresses.Admin, f.addresses.Admin)
	set("report-addr", &cfg.Addresses.Report, f.addresses.Report)
	set("preset", &cfg.Preset, f.preset)
	set("saturation", &cfg.Saturation, f.saturation)
	if c.Flags().Changed("max-queue") {
		cfg.MaxQueue = f.maxQueue
	}
	if len(cfg.Weights) == 0 && len(p.weights) > 0 { // a config's weights replace the program's
		cfg.Weights = p.weights
	}
	return cfg, cfg.Validate(p.custom)
}

func (f *serveFlags) showConfig(cfg *config.Config, p *program, s *cli.Streams) error {
	if f.printConfig {
		b, err := cfg.YAML()
		if err != nil {
			return err
		}
		_, err = s.Out.Write(b)
		return err
	}
	w, err := cfg.EngineWeights(p.custom)
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings(&w) {
		fmt.Fprintln(s.Out, "warning:", warning)
	}
	_, err = fmt.Fprintln(s.Out, "the configuration is right")
	return err
}

// options turns flags into what serve needs.
func (f *serveFlags) options(cfg config.Config, p *program, s *cli.Streams) (*serve.Options, error) {
	o := &serve.Options{
		Config: cfg, Custom: p.custom, Scorers: p.scorers, EndpointsFile: f.endpointsFile, RecordDir: f.recordDir,
		AllowWrite: f.allowWrite, AddrFile: f.addrFile, Drain: f.drain, ReportToken: f.reportToken, Level: new(slog.LevelVar),
	}
	var err error
	problems := []error{f.checkCombination()}
	try := func(e error) { problems = append(problems, e) }
	o.Policy, err = picker.ParsePolicy(f.policy)
	try(err)
	for _, text := range f.endpoints {
		m, err := serve.ParseEndpoint(text)
		try(err)
		o.Endpoints = append(o.Endpoints, m)
	}
	o.RecordMemory, err = parseBytes("record-memory", f.recordMemory)
	try(err)
	o.MaxBody, err = parseBytes("max-body", f.maxBody)
	try(err)
	if f.recordKey != "" {
		o.RecordKey, err = readSecret("record-key", f.recordKey)
		try(err)
	}
	if f.reportTokenFile != "" {
		token, err := readSecret("report-token-file", f.reportTokenFile)
		try(err)
		o.ReportToken = string(token)
	}
	level, err := telemetry.LevelSources{Flag: f.logLevel, Getenv: s.Env}.Level()
	try(err)
	o.Level.Set(level)
	o.Logger = telemetry.Logger(s.Err, o.Level)
	try(f.simOptions(o, s))
	if f.sim == 0 && o.ReportToken == "" && cfg.Addresses.Report == config.Default().Addresses.Report {
		o.Config.Addresses.Report = "" // without a fleet and a token nobody may report
	}
	return o, errors.Join(problems...)
}

func (f *serveFlags) checkCombination() error {
	switch {
	case f.sim < 0 || f.sim > 1024:
		return fmt.Errorf("--sim: must be between 1 and 1024 pods, got %d", f.sim)
	case f.sim == 0 && len(f.endpoints) == 0 && f.endpointsFile == "":
		return errors.New("no pods: give --sim N, --endpoint name=http://host:port or --endpoints FILE")
	case f.simLoad != "" && f.sim == 0:
		return errors.New("--sim-load needs --sim N")
	case f.simSpeed <= 0 || f.simSpeed > 1000:
		return fmt.Errorf("--sim-speed: must be above 0 and at most 1000, got %v", f.simSpeed)
	}
	return nil
}

func (f *serveFlags) simOptions(o *serve.Options, s *cli.Streams) error {
	if f.sim == 0 {
		return nil
	}
	o.Sim = &serve.Sim{
		Pods: f.sim, Blocks: f.simBlocks, Speed: f.simSpeed, Profile: f.simProfile, Model: f.simModel, MaxAdapters: f.simMaxAdapters,
	}
	for _, text := range f.simAdapters {
		name, rank, _ := strings.Cut(text, ":")
		a := vllm.Adapter{Name: name}
		if rank != "" {
			if _, err := fmt.Sscanf(rank, "%d", &a.Rank); err != nil {
				return fmt.Errorf("--sim-adapters %q: the rank must be a number", text)
			}
		}
		o.Sim.Adapters = append(o.Sim.Adapters, a)
	}
	if f.simLoad == "" {
		return nil
	}
	load, err := serve.ParseLoad(f.simLoad, f.simLoadLimit, f.simLoadRate)
	if err != nil {
		return err
	}
	load.Stay = f.simLoadStay
	load.Progress, load.Terminal, load.Summary = s.Err, s.ErrIsTerminal, s.Out
	o.Load = load
	return nil
}

// parseBytes reads a size: a number with an optional KiB, MiB or GiB.
func parseBytes(flag, text string) (int64, error) {
	number, unit := text, int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = strings.TrimSpace(n), factor
		}
	}
	var n int64
	if _, err := fmt.Sscanf(number+"\n", "%d\n", &n); err != nil || n < 1 || n > (1<<50)/unit {
		return 0, fmt.Errorf("--%s: %q is no size; examples: 64MiB, 1GiB, 1048576", flag, text)
	}
	return n * unit, nil
}

// maxSecret bounds a file with a key or a token.
const maxSecret = 64 << 10

func readSecret(flag, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	b = []byte(strings.TrimSpace(string(b)))
	if len(b) < 16 {
		return nil, fmt.Errorf("--%s: %s holds %d bytes, at least 16 are needed", flag, path, len(b))
	}
	return b, nil
}

// explainStart adds what to do to an error of the start.
func explainStart(err error) error {
	busy, ok := errors.AsType[*serve.PortInUseError](err)
	if !ok {
		return cli.WithHint(err, cli.ExitError, "")
	}
	if busy.Free == "" {
		return cli.WithHint(err, cli.ExitError, fmt.Sprintf("choose another address with --%s", busy.Flag))
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "--"+busy.Flag+"=") })
	line := append([]string{self()}, args...)
	line = append(line, "--"+busy.Flag, busy.Free)
	return cli.WithHint(err, cli.ExitError, "this one is free: "+shellLine(line))
}

// self is how this program was called, in a form that can be typed again.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		return "eppctl"
	}
	if strings.Contains(exe, string(filepath.Separator)+"go-build") {
		return "go run ."
	}
	if found, err := exec.LookPath("eppctl"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil && found == exe {
			return "eppctl"
		}
	}
	return os.Args[0]
}

// shellLine quotes arguments for a POSIX shell where they need it.
func shellLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if i > 0 && strings.ContainsFunc(a, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+", r)
		}) {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// tryPrompt is the text of the printed request: long enough for a few blocks,
// so that asking twice shows a cache at work.
const tryPrompt = "You are the on-call engineer of a fleet of model servers. In one sentence: " +
	"why should a follow-up question go to the pod that answered the question before it?"

// welcome prints what to try next, for a person who has just started the picker.
func (f *serveFlags) welcome(s *cli.Streams, a serve.Addresses) {
	if !s.OutIsTerminal || f.simLoad != "" {
		return
	}
	model := a.Model
	if model == "" {
		model = "MODEL"
	}
	flags := ""
	if a.Admin != config.Default().Addresses.Admin {
		flags = " --server " + a.Admin
	}
	fmt.Fprintf(s.Out, `
The picker is ready. Send it a request, twice if you like:

  curl -s http://%s/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": %q, "messages": [{"role": "user", "content": %q}]}'

and ask why it went where it went:

  %s explain latest%s

`, a.Gateway, model, tryPrompt, self(), flags)
}
