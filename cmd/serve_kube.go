package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/internal/telemetry"
)

// connect finds the cluster of the pools, and reads the settings that it has for
// them; nil when no pool is given. A picker that is to run waits for an API server
// that does not answer.
func (f *serveFlags) connect(ctx context.Context, flags *pflag.FlagSet, log io.Writer) (*serve.Kube, error) {
	if len(f.pools) == 0 {
		return nil, nil
	}
	if err := errors.Join(f.checkPools(), f.checkCombination(flags)); err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "see 'eppctl serve --help'")
	}
	opts, err := f.cluster.options()
	if err != nil {
		return nil, err
	}
	k := &serve.Kube{ConfigFile: f.configFile != ""}
	k.Cluster, err = kube.Connect(opts)
	if _, none := errors.AsType[*kube.NoConfigError](err); none {
		return nil, cli.WithHint(err, cli.ExitUsage, "give --kubeconfig FILE, or run it in a pod; without a cluster: --sim 4, or --endpoint NAME=http://HOST:PORT")
	}
	if err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "see 'kubectl config view'")
	}
	for _, text := range f.pools {
		name, err := kube.ParseName(text, k.Cluster.Namespace)
		if err == nil && slices.Contains(k.Pools, name) {
			err = fmt.Errorf("%s is given twice", name)
		}
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("--pool: %w", err), cli.ExitUsage, "list the pools with 'eppctl pools -A'")
		}
		k.Pools = append(k.Pools, name)
	}
	if f.poolConfig != "" {
		k.ConfigMap = kube.Name{Namespace: k.Pools[0].Namespace, Name: f.poolConfig}
		if err := k.ConfigMap.Check(); err != nil {
			return nil, cli.WithHint(fmt.Errorf("--pool-config: %w", err), cli.ExitUsage, "give the name alone: the ConfigMap is in the pool's namespace")
		}
	}
	return k, f.readSettings(ctx, k, log)
}

// errToldToEnd: the picker was told to end while it waited for the cluster, which is no
// failure, as it is none of one that runs.
var errToldToEnd = errors.New("told to end while the cluster does not answer")

// readSettings reads the ConfigMap of settings, unless a file goes before it.
func (f *serveFlags) readSettings(ctx context.Context, k *serve.Kube, log io.Writer) error {
	if k.ConfigFile {
		return nil
	}
	logger := telemetry.Logger(log, new(slog.LevelVar))
	var err error
	if f.checkConfig || f.printConfig {
		err = k.ReadSettings(ctx)
	} else if err = k.AwaitSettings(ctx, f.healthAddress(), logger); err != nil && ctx.Err() != nil {
		return errToldToEnd
	}
	if missing, is := errors.AsType[*serve.MissingSettingsError](err); is {
		name := missing.Settings.Name
		return cli.WithHint(err, cli.ExitNotFound, fmt.Sprintf(
			"make it with 'kubectl create configmap -n %s %s --from-file=%s=FILE'", name.Namespace, name.Name, kube.SettingsKey))
	}
	if err != nil {
		return cli.WithHint(err, cli.ExitUnreachable, "")
	}
	if m := k.Settings; m.Name != (kube.Name{}) && !m.Found {
		logger.Warn("the pool's annotation names a ConfigMap that is not there, may not be read, or lacks the key: the defaults are in force",
			slog.String(logkey.ConfigMap, m.Name.String()), slog.String(logkey.Key, kube.SettingsKey))
	}
	return nil
}

// healthAddress is where health is told while the settings are not known.
func (f *serveFlags) healthAddress() string {
	if d := config.Default(); f.addresses.Health != d.Addresses.Health {
		return f.addresses.Health
	}
	return config.InCluster().Addresses.Health
}

// checkPools refuses what can't be served beside the pods of pools.
func (f *serveFlags) checkPools() error {
	switch {
	case f.sim != 0:
		return errors.New("--pool and --sim exclude each other: the pods are the cluster's, or simulated")
	case len(f.endpoints) > 0:
		return errors.New("--pool and --endpoint exclude each other: the pods of a pool are found by its selector")
	case f.endpointsFile != "":
		return errors.New("--pool and --endpoints exclude each other: the pods of a pool are found by its selector")
	case f.poolConfig != "" && f.configFile != "":
		return errors.New("--pool-config and --config exclude each other: give one of them")
	}
	return nil
}

// defaults is the configuration without a file.
func (f *serveFlags) defaults() config.Config {
	if len(f.pools) > 0 {
		return config.InCluster()
	}
	return config.Default()
}

// baseConfig is the configuration before flags.
func (f *serveFlags) baseConfig(inCluster *serve.Kube) (config.Config, error) {
	switch {
	case f.configFile != "":
		return config.Load(f.configFile, f.defaults())
	case inCluster != nil && inCluster.Settings.Found:
		return config.Read(serve.SettingsSource(inCluster.Settings.Name), []byte(inCluster.Settings.YAML), f.defaults())
	}
	return f.defaults(), nil
}
