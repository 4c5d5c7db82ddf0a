package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/deploy"
	"github.com/eppctl/eppctl/internal/shell"
	"github.com/eppctl/eppctl/score"
)

const manifestsLong = `Print what installs the picker of a pool in a Kubernetes cluster.

It is all that one pool needs in its namespace: the InferencePool, the picker with its
Service and its account, whose Role has the verbs that are used and no other, and with
a gateway the HTTPRoute. No cluster is asked; docs/kubernetes.md is the way from nothing
to the first routed request.`

type manifestsFlags struct {
	options     deploy.Options
	selector    string
	format, dir string
	overwrite   bool
}

// The formats of manifests.
const (
	formatYAML      = "yaml"
	formatKustomize = "kustomize"
	formatHelm      = "helm"
)

func newManifests(s *cli.Streams) *cobra.Command {
	f := manifestsFlags{options: deploy.Default()}
	f.options.Version = buildinfo.Read().Version
	f.options.Image = deploy.Image(f.options.Version)
	c := &cobra.Command{
		Use:   "manifests [POOL] [flags]",
		Short: "Print what installs a picker in a cluster",
		Long:  manifestsLong,
		Example: example(`
			# The picker of a pool named chat, whose model servers have the label app=vllm
			eppctl manifests chat -n inference -l app=vllm > chat.yaml

			# Three of them behind Istio, with its Gateway
			eppctl manifests chat -n inference -l app=vllm --replicas 3 --gateway-class istio > chat.yaml

			# A chart, with these options as its values
			eppctl manifests chat -n inference -l app=vllm --format helm --dir chart

			# A picker for a pool that is there already
			eppctl manifests chat -n inference --skip InferencePool > chat.yaml`),
		Annotations: map[string]string{seeAlsoKey: `
			kubectl apply -f chat.yaml           install it
			eppctl serve --pool NAMESPACE/POOL   what runs in the pod`},
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args, s) },
	}
	f.register(c)
	return c
}

func (f *manifestsFlags) register(c *cobra.Command) {
	to, d := &f.options, f.options
	flagGroup(c, "Pool", func(fs *pflag.FlagSet) {
		fs.StringVarP(&to.Namespace, "namespace", "n", "", "`NAME` of the namespace")
		fs.StringVar(&to.Pool, "pool", "", "[NAMESPACE/]`NAME` of the InferencePool, when it is no argument")
		fs.StringVarP(&f.selector, "selector", "l", "", "`LABELS` of the model servers' pods: app=vllm,…")
		fs.IntSliceVar(&to.TargetPorts, "target-port", d.TargetPorts, "`PORT` on which they serve, each an endpoint of its own (repeatable)")
	})
	flagGroup(c, "Picker", func(fs *pflag.FlagSet) {
		fs.StringVar(&to.Name, "name", "", "`NAME` of everything but the pool (default: the pool's and -epp)")
		fs.StringVar(&to.Image, "image", d.Image, "`IMAGE` of eppctl")
		fs.IntVar(&to.Replicas, "replicas", d.Replicas, "run `N` pickers")
		fs.BoolVar(&to.LeaderElect, "leader-elect", false, "let one of them pick and the others stand by; else all pick")
		fs.StringVar(&to.Preset, "preset", d.Preset, "weights for a `WORKLOAD`: default, chatbot, api-gateway, multi-lora, batch or rag")
		fs.StringVar(&to.CPU, "cpu", d.CPU, "`AMOUNT` of processors that each picker requests")
		fs.StringVar(&to.Memory, "memory", d.Memory, "`AMOUNT` of memory of each picker in Mi or Gi, request and limit")
	})
	flagGroup(c, "Access", func(fs *pflag.FlagSet) {
		fs.BoolVar(&to.Plaintext, "plaintext", false, "no TLS between gateway and picker")
		fs.BoolVar(&to.AdminAuth, "admin-auth", false, "serve the admin API in the cluster, to callers whose token may")
		fs.StringVar(&to.ReportTokenSecret, "report-token-secret", "", "`NAME` of a Secret whose key token model servers show with their reports, and replicas to each other")
		fs.StringVar(&to.TLSSecret, "tls-secret", "", "`NAME` of a Secret with tls.crt and tls.key for the ports that speak TLS; with it reports and replicas do too")
		fs.StringVar(&to.Monitor, "monitor", d.Monitor, "let the Prometheus operator read the metrics: by `KIND` service or pod, or none")
		fs.StringVar(&to.PrometheusNamespace, "prometheus-namespace", d.PrometheusNamespace, "`NAME` of the namespace whose pods may read the metrics")
		fs.BoolVar(&to.RestrictEgress, "restrict-egress", false, "let the picker connect to the model servers, the API server, DNS and other replicas alone")
	})
	flagGroup(c, "Gateway", func(fs *pflag.FlagSet) {
		fs.StringVar(&to.Gateway, "gateway", "", "[NAMESPACE/]`NAME` of the Gateway of an HTTPRoute to the pool")
		fs.StringVar(&to.GatewayClass, "gateway-class", "", "make the Gateway too, and what it needs: `CLASS` is "+enumerate(deploy.GatewayClasses))
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.format, "format", formatYAML, "`FORM` is yaml, kustomize for a base, or helm for a chart")
		fs.StringVar(&f.dir, "dir", "", "write files into this `DIR`, which is new or empty")
		fs.BoolVar(&f.overwrite, "overwrite", false, "replace files of the same names in a --dir that has some")
		fs.StringSliceVar(&to.Only, "only", nil, "only objects of this `KIND` (repeatable)")
		fs.StringSliceVar(&to.Skip, "skip", nil, "no objects of this `KIND` (repeatable)")
	})
	_ = c.MarkFlagDirname("dir")
	_ = c.Flags().SetAnnotation("namespace", noVariableKey, []string{"true"}) // as of other commands
	for flag, values := range map[string][]string{
		"preset":        score.PresetNames(),
		"gateway-class": deploy.GatewayClasses,
		"monitor":       deploy.Monitors,
		"format":        {formatYAML, formatKustomize, formatHelm},
		"only":          deploy.Kinds(),
		"skip":          deploy.Kinds(),
	} {
		_ = c.RegisterFlagCompletionFunc(flag, oneOf(values...)) // fails only for a flag that is not there
	}
}

// enumerate is "a, b or c".
func enumerate(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func (f *manifestsFlags) run(c *cobra.Command, args []string, s *cli.Streams) error {
	if err := f.read(c.Flags(), args); err != nil {
		return usage(err, c)
	}
	files, err := f.files()
	if err != nil {
		return usage(err, c)
	}
	if f.dir == "" {
		_, err := fmt.Fprint(s.Out, deploy.Stream(files))
		return err
	}
	if err := writeFiles(f.dir, files); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "eppctl: %d files in %s; install them with '%s'\n", len(files), f.dir, f.installed())
	for _, name := range strangers(f.dir, files) {
		fmt.Fprintf(s.Err, "eppctl: warning: %s is not from this run\n", name)
	}
	return nil
}

// read makes the options of the flags and the argument.
func (f *manifestsFlags) read(flags *pflag.FlagSet, args []string) error {
	if err := filled(flags, "namespace", "pool", "name", "report-token-secret", "tls-secret", "gateway", "gateway-class", "dir"); err != nil {
		return err
	}
	o := &f.options
	var problems []error
	if len(args) == 1 {
		if o.Pool != "" && o.Pool != args[0] {
			problems = append(problems, fmt.Errorf("--pool: is %s, and the argument is %s", o.Pool, args[0]))
		}
		o.Pool = args[0]
	}
	if namespace, name, ok := strings.Cut(o.Pool, "/"); ok {
		if o.Namespace != "" && o.Namespace != namespace {
			problems = append(problems, fmt.Errorf("--namespace: is %s, and the pool is in %s", o.Namespace, namespace))
		}
		o.Namespace, o.Pool = namespace, name
	}
	var err error
	if o.Selector, err = parseLabels(f.selector); err != nil {
		problems = append(problems, fmt.Errorf("--selector: %w", err))
		o.Selector = map[string]string{"app": "vllm"} // one complaint is enough
	}
	switch f.format {
	case formatYAML:
	case formatKustomize, formatHelm:
		if f.dir == "" {
			problems = append(problems, fmt.Errorf("--format: %s is several files; give a directory for them with --dir", f.format))
		}
	default:
		problems = append(problems, fmt.Errorf("--format: there is no %q, only yaml, kustomize and helm", f.format))
	}
	switch {
	case f.dir != "":
		problems = append(problems, checkDir(f.dir, f.overwrite))
	case f.overwrite:
		problems = append(problems, errors.New("--overwrite: nothing is written into files; give a directory for them with --dir"))
	}
	return errors.Join(append(problems, o.Validate())...)
}

// parseLabels reads labels that must all be equal: all that an InferencePool's
// selector can say.
func parseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	if text == "" {
		return labels, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || strings.ContainsAny(part, " !()") || strings.HasPrefix(value, "=") {
			return nil, fmt.Errorf("%q has not the form label=value; a pool knows no other", part)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("%s is given twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}

func (f *manifestsFlags) files() ([]deploy.File, error) {
	switch f.format {
	case formatKustomize:
		return f.options.Kustomize()
	case formatHelm:
		return f.options.Helm()
	}
	return f.options.Manifests()
}

// installed is the command that installs what was written.
func (f *manifestsFlags) installed() string {
	switch f.format {
	case formatKustomize:
		return shell.Line("kubectl", "apply", "-k", f.dir)
	case formatHelm:
		return shell.Line("helm", "install", "-n", f.options.Namespace, f.options.Pool, f.dir)
	}
	return shell.Line("kubectl", "apply", "-f", f.dir)
}
