package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/envoyconfig"
)

const envoyConfigLong = `Print a configuration for Envoy with this picker in it.

It is a whole bootstrap for a gateway with fixed addresses, as JSON, which is also
YAML. Use it to try the picker behind a real Envoy, or as what to start from: it
holds every setting that an endpoint picker needs, and docs/envoy.md says why.
Envoy Gateway, Istio and kgateway configure Envoy themselves.`

type envoyConfigFlags struct {
	config                     envoyconfig.Config
	cluster, request, response string
	pickerCA, maxBody          string
	validate                   string
}

func newEnvoyConfig(s *cli.Streams) *cobra.Command {
	f := envoyConfigFlags{config: envoyconfig.Default()}
	c := &cobra.Command{
		Use:   "envoy-config",
		Short: "Print an Envoy configuration with this picker in it",
		Long:  envoyConfigLong,
		Example: example(`
			# For 'eppctl serve' on this machine
			eppctl envoy-config > envoy.json

			# A list of pods, one --endpoint each, from which Envoy chooses when the picker is away
			eppctl envoy-config --cluster override-host --endpoint 10.0.0.1:8000 --fail-open

			# Two pickers, that must show certificates of one's own CA
			eppctl envoy-config --picker 10.0.1.1:9002 --picker 10.0.1.2:9002 --picker-ca ca.pem

			# Does this Envoy take it?
			eppctl envoy-config --validate /usr/local/bin/envoy > envoy.json`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl serve --sim 4                 a picker with pods to try it with
			envoy -c <(eppctl envoy-config)      Envoy, without a file (bash, zsh)`},
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, s) },
	}
	f.register(c)
	return c
}

func (f *envoyConfigFlags) register(c *cobra.Command) {
	to, d := &f.config, f.config
	flagGroup(c, "Listeners", func(fs *pflag.FlagSet) {
		fs.StringVar(&to.Listen, "listen", d.Listen, "`IP:PORT` for clients; port 0 takes any free one")
		fs.StringVar(&to.Admin, "admin", d.Admin, "`IP:PORT` of Envoy's admin interface, \"\" for none")
	})
	flagGroup(c, "Picker", func(fs *pflag.FlagSet) {
		fs.StringArrayVar(&to.Pickers, "picker", d.Pickers, "`HOST:PORT` of the picker's ext_proc service (repeatable)")
		fs.BoolVar(&to.Plaintext, "plaintext", false, "no TLS to the picker; without it any certificate is taken, unless there is a CA")
		fs.StringVar(&f.pickerCA, "picker-ca", "", "`FILE` with the CA (PEM) that signed the picker's certificate; it is copied into the configuration")
		fs.StringVar(&to.PickerName, "picker-name", "", "host `NAME` or IP that the certificate must be for (default: the hosts of --picker)")
		fs.StringVar(&f.request, "request", string(d.Request), "the `WAY` of a request's body through the picker: full-duplex or buffered")
		fs.StringVar(&f.response, "response", string(d.Response), "`WHAT` the picker sees of an answer: body, headers or none")
		fs.BoolVar(&to.AccessLogService, "access-log-service", false, "tell the picker how each request ended, by Envoy's gRPC access log")
		fs.StringVar(&f.maxBody, "max-body", "16MiB", "`SIZE` of the largest request body with --request buffered; else the picker's own limit counts")
	})
	flagGroup(c, "Pods", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.cluster, "cluster", string(d.Cluster), "the `KIND` of cluster: original-dst dials what the picker names, override-host knows a list")
		fs.StringArrayVar(&to.Endpoints, "endpoint", nil, "a pod of that list: `IP:PORT` or NAME=http://IP:PORT (repeatable)")
		fs.BoolVar(&to.FailOpen, "fail-open", false, "without a picker let Envoy choose from the list (not all requests are saved: docs/envoy.md)")
		fs.IntVar(&to.Retries, "retries", 0, "try up to `N` further pods when one can't be reached or answers 503; needs --request buffered")
		fs.BoolVar(&to.HTTP2, "upstream-http2", false, "speak HTTP/2 to the pods, without TLS")
	})
	flagGroup(c, "Check", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.validate, "validate", "", "let this `ENVOY` check the configuration, and print it only if it is taken")
	})
	for flag, values := range map[string][]string{
		"cluster":  {string(envoyconfig.OriginalDst), string(envoyconfig.OverrideHost)},
		"request":  {string(envoyconfig.FullDuplex), string(envoyconfig.Buffered)},
		"response": {string(envoyconfig.ResponseBody), string(envoyconfig.ResponseHeaders), string(envoyconfig.ResponseNone)},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, oneOf(values...)) // fails only for a flag that is not there
	}
}

func (f *envoyConfigFlags) run(c *cobra.Command, s *cli.Streams) error {
	if err := f.read(c.Flags()); err != nil {
		return usage(err, c)
	}
	config := f.config.JSON()
	if f.validate != "" {
		if err := f.check(c.Context(), config); err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "eppctl: %s takes this configuration\n", f.validate)
	}
	_, err := s.Out.Write(config)
	return err
}

// read makes the configuration of the flags.
func (f *envoyConfigFlags) read(flags *pflag.FlagSet) error {
	if err := filled(flags, "picker-ca", "picker-name", "validate"); err != nil {
		return err
	}
	to := &f.config
	to.Cluster, to.Request, to.Response = envoyconfig.Cluster(f.cluster), envoyconfig.Request(f.request), envoyconfig.Response(f.response)
	var err, caErr error
	if to.MaxBody, err = parseBytes("max-body", f.maxBody); err != nil {
		to.MaxBody = envoyconfig.Default().MaxBody // one complaint is enough
	}
	if f.pickerCA != "" {
		to.PickerCA, caErr = readCA(f.pickerCA)
	}
	return errors.Join(err, caErr, to.Validate())
}

// maxCA bounds the file of --picker-ca, in bytes.
const maxCA = 1 << 20

func readCA(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--picker-ca: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxCA+1))
	if err != nil {
		return nil, fmt.Errorf("--picker-ca: %w", err)
	}
	if len(b) > maxCA {
		return nil, fmt.Errorf("--picker-ca: %s: larger than %d bytes", path, maxCA)
	}
	return b, nil
}

func (f *envoyConfigFlags) check(ctx context.Context, config []byte) error {
	err := envoyconfig.Check(ctx, f.validate, config)
	if errors.Is(err, envoyconfig.ErrNoEnvoy) {
		return cli.WithHint(fmt.Errorf("--validate: %w", err), cli.ExitUsage, "give the path of an envoy program, or leave --validate out")
	}
	if err != nil {
		return cli.WithHint(fmt.Errorf("--validate: %w", err), cli.ExitError, "the settings are those of Envoy 1.40; an older one may not know them")
	}
	return nil
}
