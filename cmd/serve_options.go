package cmd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/telemetry"
)

// minRecordMemory keeps --record-memory=128 from recording nothing.
const minRecordMemory = 1 << 20

// maxBody is the longest body that can be asked for: one is a message of gRPC,
// whose length is a number of 32 bits.
const maxBody = 1 << 30

// options turns flags into what serve needs.
func (f *serveFlags) options(cfg config.Config, p *program, s *cli.Streams, log io.Writer, c *cobra.Command) (*serve.Options, error) {
	o := &serve.Options{
		Config: cfg, Custom: p.custom, Scorers: p.scorers, EndpointsFile: f.endpointsFile, RecordDir: f.recordDir,
		AllowWrite: f.allowWrite, AddrFile: f.addrFile, Linger: f.drain, Drain: f.drain, ReportToken: f.reportToken, Level: new(slog.LevelVar),
		TLS: serve.TLS{CertFile: f.tlsCert, KeyFile: f.tlsKey, Plaintext: f.plaintext, Reports: f.reportTLS},
	}
	var err error
	problems := []error{f.checkCombination(c.Flags()), filled(c.Flags(), "replica", "peers", "leader-elect"), f.replica.check(), f.checkExtproc(c.Flags(), cfg.Addresses.Extproc)}
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
	if err == nil && o.RecordMemory < minRecordMemory {
		try(fmt.Errorf("--record-memory: must be at least 1MiB, got %s", f.recordMemory))
	}
	try(f.bodySizes(o))
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
	o.Logger = telemetry.Logger(log, o.Level)
	try(f.simOptions(o, s))
	if f.sim == 0 && o.ReportToken == "" { // without a fleet and a token nobody may report
		if a := cfg.Addresses.Report; a != "" && (c.Flags().Changed("report-addr") || a != f.defaults().Addresses.Report) {
			try(errors.New("--report-addr needs --report-token-file: reports change where requests go"))
		}
		o.Config.Addresses.Report = ""
	}
	return o, errors.Join(problems...)
}

// bodySizes reads the limits of request bodies.
func (f *serveFlags) bodySizes(o *serve.Options) error {
	var one, all error
	o.MaxBody, one = parseBytes("max-body", f.maxBody)
	o.MaxBodies, all = parseBytes("max-bodies", f.maxBodies)
	if err := errors.Join(one, all); err != nil {
		return err
	}
	if o.MaxBody > maxBody {
		return fmt.Errorf("--max-body: must be at most 1GiB, got %s", f.maxBody)
	}
	if o.MaxBodies < o.MaxBody {
		return fmt.Errorf("--max-bodies: %s is less than the %s of one body (--max-body)", f.maxBodies, f.maxBody)
	}
	return nil
}

// checkExtproc refuses flags of ext_proc and of TLS that contradict each other, or
// that nobody would read.
func (f *serveFlags) checkExtproc(flags *pflag.FlagSet, address string) error {
	if err := filled(flags, "tls-cert", "tls-key"); err != nil {
		return err
	}
	elsewhere := f.adminAuth || f.reportTLS // TLS is spoken at other ports too
	if err := f.checkTLS(elsewhere); err != nil || address != "" {
		return err
	}
	for _, name := range []string{"tls-cert", "plaintext", "fallbacks", "scores-metadata"} {
		if flags.Changed(name) && (name != "tls-cert" || !elsewhere) {
			return fmt.Errorf("--%s needs ext_proc, which has no address: give --extproc-addr HOST:PORT", name)
		}
	}
	return nil
}

func (f *serveFlags) checkTLS(elsewhere bool) error {
	switch {
	case f.plaintext && f.tlsCert+f.tlsKey != "" && !elsewhere:
		return errors.New("--plaintext and --tls-cert or --tls-key contradict each other: give one of them")
	case f.tlsCert != "" && f.tlsKey == "":
		return errors.New("--tls-cert needs --tls-key FILE")
	case f.tlsKey != "" && f.tlsCert == "":
		return errors.New("--tls-key needs --tls-cert FILE")
	case f.reportTLS && f.sim == 0 && f.reportTokenFile+f.reportToken == "":
		return errors.New("--report-tls needs --report-token-file FILE")
	}
	return nil
}

// checkCombination refuses flags that would be ignored or can't be served.
func (f *serveFlags) checkCombination(flags *pflag.FlagSet) error {
	alone := ""
	flags.Visit(func(given *pflag.Flag) {
		if needs := f.needs(given.Name); needs != "" {
			alone = "--" + given.Name + " needs " + needs
		}
	})
	switch {
	case alone != "":
		return errors.New(alone)
	case f.drain < 0:
		return fmt.Errorf("--drain: must not be negative, got %v", f.drain)
	case f.sim == 0 && flags.Changed("sim"):
		return errors.New("--sim: must be between 1 and 1024 pods, got 0")
	case f.sim == 0 && len(f.endpoints) == 0 && f.endpointsFile == "" && len(f.pools) == 0:
		return errors.New("no pods: give --sim N, --endpoint name=http://host:port, --endpoints FILE or --pool NAMESPACE/NAME")
	case f.sim == 0:
		return nil
	}
	return f.checkSim()
}

// needs says without which other flag a flag would be ignored; "" for none.
func (f *serveFlags) needs(flag string) string {
	switch {
	case (flag == "pool-config" || flag == "leader-elect" || flag == "admin-auth" || f.cluster.flags.Lookup(flag) != nil) && len(f.pools) == 0:
		return "--pool NAMESPACE/NAME"
	case strings.HasPrefix(flag, "sim-load-") && f.simLoad == "":
		return "--sim-load RATE or --sim-load FILE"
	case strings.HasPrefix(flag, "sim-") && f.sim == 0:
		return "--sim N"
	case (flag == "sim-events-as" || flag == "sim-event-loss" || flag == "sim-event-replay") && !f.simEvents:
		return "--sim-events"
	}
	return ""
}

// checkSim refuses fleets that can't be.
func (f *serveFlags) checkSim() error {
	switch {
	case f.sim < 0 || f.sim > 1024:
		return fmt.Errorf("--sim: must be between 1 and 1024 pods, got %d", f.sim)
	case !(f.simSpeed > 0 && f.simSpeed <= 1000):
		return fmt.Errorf("--sim-speed: must be above 0 and at most 1000, got %v", f.simSpeed)
	case f.simBlocks < 1:
		return fmt.Errorf("--sim-blocks: must be at least 1, got %d", f.simBlocks)
	case f.simMaxAdapters < 1:
		return fmt.Errorf("--sim-max-adapters: must be at least 1, got %d", f.simMaxAdapters)
	case !(f.simEventLoss >= 0 && f.simEventLoss <= 1):
		return fmt.Errorf("--sim-event-loss: must be between 0 and 1, got %v", f.simEventLoss)
	case f.reportTLS:
		return errors.New("--report-tls: simulated pods report without TLS: leave it out with --sim")
	case f.simSpot < 0 || f.simSpot > f.sim:
		return fmt.Errorf("--sim-spot: must be between 0 and the %d pods of --sim, got %d", f.sim, f.simSpot)
	}
	return nil
}

func (f *serveFlags) simOptions(o *serve.Options, s *cli.Streams) error {
	if f.sim == 0 {
		return nil
	}
	o.Sim = &serve.Sim{
		Pods: f.sim, Blocks: f.simBlocks, Speed: f.simSpeed, Profile: f.simProfile, Model: f.simModel, MaxAdapters: f.simMaxAdapters, Spot: f.simSpot,
		Events: f.simEvents, EventsAs: f.simEventsAs, EventLoss: f.simEventLoss, NoReplays: !f.simEventReplay,
	}
	for _, text := range f.simAdapters {
		name, rank, ranked := strings.Cut(text, ":")
		a := vllm.Adapter{Name: name}
		if ranked {
			var err error
			if a.Rank, err = strconv.Atoi(rank); err != nil || a.Rank < 1 {
				return fmt.Errorf("--sim-adapters %q: the rank must be a whole number above 0", text)
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
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > (1<<50)/unit {
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
