package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/internal/telemetry"
)

const serveLong = `Run the picker with its embedded gateway, and behind Envoy as an ext_proc server.

With --sim N it brings its own fleet: N simulated vLLM pods, each a real HTTP
server, so that everything can be tried without a GPU. With --endpoint or
--endpoints it serves in front of real model servers. Requests go to the gateway as
to any OpenAI-compatible server; every decision is recorded and can be explained.
Gateways that are made of Envoy ask for a pod at --extproc-addr instead.`

func newServe(p *program, s *cli.Streams) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the picker, with its own gateway and behind Envoy",
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
		RunE: func(c *cobra.Command, _ []string) error {
			err := f.run(c.Context(), p, s, c)
			if errors.Is(err, errToldToEnd) {
				return nil
			}
			return err
		},
	}
	f.register(c)
	return c
}

func (f *serveFlags) run(ctx context.Context, p *program, s *cli.Streams, c *cobra.Command) error {
	log := telemetry.NewLines(s.Err)
	defer log.Close()
	inCluster, err := f.connect(ctx, c.Flags(), log)
	if err != nil {
		return err
	}
	cfg, err := f.config(p, c, inCluster)
	if err != nil {
		return cli.WithHint(err, cli.ExitUsage, "print a right configuration with 'eppctl serve --print-config'")
	}
	if f.checkConfig && !f.printConfig {
		err = serve.CheckEndpoints(f.endpoints, f.endpointsFile, &cfg)
	}
	switch {
	case err != nil:
		return usage(err, c)
	case f.checkConfig || f.printConfig:
		return f.showConfig(&cfg, p, s)
	}
	opts, err := f.options(cfg, p, s, log, c)
	if err != nil {
		return usage(err, c)
	}
	opts.Kube = inCluster
	if err := errors.Join(f.replica.options(opts, inCluster), f.guard(opts, inCluster)); err != nil {
		return usage(err, c)
	}
	w, _ := cfg.EngineWeights(p.custom) // validated by config
	for _, warning := range cfg.Warnings(&w) {
		fmt.Fprintln(s.Err, "eppctl: warning:", warning)
	}
	opts.Ready = func(a serve.Addresses) {
		if a.Model == "" && len(cfg.Models) > 0 {
			a.Model = cfg.Models[0].Name
		}
		f.welcome(s, a)
	}
	server, err := serve.New(*opts)
	if err != nil {
		return explainStart(err, os.Args[1:])
	}
	return server.Run(ctx)
}

// config lays flags over the file, or the cluster's ConfigMap, over the defaults, and
// checks the result.
func (f *serveFlags) config(p *program, c *cobra.Command, inCluster *serve.Kube) (config.Config, error) {
	cfg, err := f.baseConfig(inCluster)
	if err != nil {
		return cfg, err
	}
	set := func(flag string, to *string, v string) {
		if c.Flags().Changed(flag) {
			*to = v
		}
	}
	set("gateway-addr", &cfg.Addresses.Gateway, f.addresses.Gateway)
	set("extproc-addr", &cfg.Addresses.Extproc, f.addresses.Extproc)
	set("health-addr", &cfg.Addresses.Health, f.addresses.Health)
	set("metrics-addr", &cfg.Addresses.Metrics, f.addresses.Metrics)
	set("admin-addr", &cfg.Addresses.Admin, f.addresses.Admin)
	set("report-addr", &cfg.Addresses.Report, f.addresses.Report)
	set("saturation", &cfg.Saturation, f.saturation)
	var over config.Overrides
	if c.Flags().Changed("preset") {
		over.Preset = f.preset
	}
	if c.Flags().Changed("max-queue") {
		over.MaxQueue = &f.maxQueue
	}
	if c.Flags().Changed("fallbacks") {
		over.Fallbacks = &f.fallbacks
	}
	if c.Flags().Changed("scores-metadata") {
		over.ScoresMetadata = &f.scoresMetadata
	}
	cfg.Overlay(over)
	cfg.UseProgram(p.weights)
	return cfg, cfg.Validate(p.custom)
}

func (f *serveFlags) showConfig(cfg *config.Config, p *program, s *cli.Streams) error {
	if f.printConfig {
		effective, err := cfg.Effective(p.custom)
		if err != nil {
			return err
		}
		b, err := effective.YAML()
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
