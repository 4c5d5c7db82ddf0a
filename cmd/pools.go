package cmd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
)

const poolsLong = `List the InferencePools of a namespace, and who picks for them.

Use it to see which pools there are to be asked with --pool, whose picker each has, and
what is wrong with it: also what the picker itself says, which is asked by a port-forward.
What may not be read is unknown, and said so.`

type poolsFlags struct {
	cluster   clusterFlags
	tokenFile string
	all       bool
	selector  string
	output    string
	noHeaders bool
	watch     bool
	interval  time.Duration
}

func newPools(s *cli.Streams) *cobra.Command {
	var f poolsFlags
	c := &cobra.Command{
		Use:     "pools",
		Aliases: []string{"pool"},
		Short:   "List the pools of a cluster, and who picks for them",
		Long:    poolsLong,
		Example: example(`
			# Those of the context's namespace
			eppctl pools

			# Those of all namespaces, and each change
			eppctl pools -A --watch

			# For a script
			eppctl pools -A -o json`),
		Annotations: map[string]string{seeAlsoKey: `
			eppctl top --pool NAME       the pods of a pool, and the decisions
			eppctl explain --pool NAME   why a request went where it went`},
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, s) },
	}
	flagGroup(c, "Which", func(fs *pflag.FlagSet) {
		fs.BoolVarP(&f.all, "all-namespaces", "A", false, "those of all namespaces")
		fs.StringVarP(&f.selector, "selector", "l", "", "only those whose labels match: `KEY=VALUE,...`")
	})
	flagGroup(c, "Output", func(fs *pflag.FlagSet) {
		fs.StringVarP(&f.output, "output", "o", "", "output `FORMAT`: table, wide, json, yaml, jsonl or name")
		fs.BoolVar(&f.noHeaders, "no-headers", false, "tables without their first line")
		fs.BoolVarP(&f.watch, "watch", "w", false, "go on with those that changed, until interrupted")
		fs.DurationVar(&f.interval, "interval", defaultInterval, "with --watch, look every `DURATION`")
	})
	flagGroup(c, clusterHeading, func(fs *pflag.FlagSet) {
		fs.StringVar(&f.tokenFile, adminTokenFlag, "", "show the bearer token in this `FILE` to pickers that serve their admin API with --admin-auth")
		f.cluster.register(fs)
	})
	for _, name := range []string{"all-namespaces", "selector", adminTokenFlag} { // of one call, not of a shell: many may see the token
		_ = c.Flags().SetAnnotation(name, noVariableKey, []string{"true"})
	}
	f.cluster.completions(c)
	_ = c.RegisterFlagCompletionFunc("output", oneOf("table", "wide", "json", "yaml", "jsonl", "name")) // fails only for a flag that is not there
	return c
}

func (f *poolsFlags) run(c *cobra.Command, s *cli.Streams) error {
	format, err := cli.ParseFormat(f.output, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONL, cli.FormatName)
	if err != nil {
		return usage(err, c)
	}
	if err := f.check(c, format); err != nil {
		return usage(err, c)
	}
	cluster, err := f.cluster.connect()
	if err != nil {
		return err
	}
	token, err := readToken(adminTokenFlag, f.tokenFile)
	if err != nil {
		return err
	}
	namespace := cluster.Namespace
	if f.all {
		namespace = ""
	}
	out := &poolsPrinter{printer: cli.Printer{Streams: s, Format: format, NoHeaders: f.noHeaders}, last: map[kube.Name]poolItem{}}
	out.start()
	look := &poolsLook{cluster: cluster, namespace: namespace, selector: f.selector, token: token}
	list, err := look.pools(c.Context())
	switch {
	case c.Context().Err() != nil:
		return context.Cause(c.Context())
	case err != nil:
		return stepError(err)
	case len(list) == 0:
		fmt.Fprintln(s.Err, cli.Sanitize(nonePlace(cluster, namespace)))
	}
	if err := out.print(list, !f.watch); err != nil || !f.watch {
		return err
	}
	return f.goOn(c.Context(), out, func() ([]poolItem, error) { return look.pools(c.Context()) })
}

// goOn prints what changes until ctx ends. A trouble is told once while it lasts.
func (f *poolsFlags) goOn(ctx context.Context, out *poolsPrinter, look func() ([]poolItem, error)) error {
	warn := tellOnce(warner(out.printer.Streams))
	for sleepOr(ctx, f.interval, nil) {
		list, err := look()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			warn(err.Error() + "; trying again")
		default:
			warn = tellOnce(warner(out.printer.Streams))
			if err := out.print(list, false); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

func nonePlace(cluster *kube.Cluster, namespace string) string {
	if namespace == "" {
		return "no InferencePool in any namespace (" + cluster.String() + ")"
	}
	return "no InferencePool in namespace " + namespace + " (" + cluster.String() + "); all namespaces: -A"
}

// check refuses what does not go together.
func (f *poolsFlags) check(c *cobra.Command, format cli.Format) error {
	switch {
	case f.all && f.cluster.set.Namespace != "":
		return errors.New("-A and -n contradict each other: give one of them")
	case f.watch && (format == cli.FormatJSON || format == cli.FormatYAML):
		return fmt.Errorf("--watch: has no output format %s, which is one document; there are table, wide, jsonl and name", f.output)
	case !f.watch && c.Flags().Changed("interval"):
		return errors.New("--interval: has a meaning with --watch alone")
	case f.interval < minInterval:
		return fmt.Errorf("--interval: must be at least %s, got %s", minInterval, f.interval)
	}
	if err := kube.CheckSelector(f.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return nil
}

// poolsPrinter prints pools, and with --watch those that changed.
type poolsPrinter struct {
	printer cli.Printer
	table   *cli.Table
	last    map[kube.Name]poolItem
}

func (p *poolsPrinter) start() {
	p.table = p.printer.Table(
		cli.Column{Name: "NAMESPACE", Min: 8},
		cli.Column{Name: "NAME", Min: 8},
		cli.Column{Name: "PICKER"},
		cli.Column{Name: "VERSION", Priority: 3},
		cli.Column{Name: "READY", Right: true, Priority: 1},
		cli.Column{Name: "PODS", Right: true, Priority: 1},
		cli.Column{Name: "PORTS", Priority: 4},
		cli.Column{Name: "AGE", Priority: 5},
		cli.Column{Name: "HEALTH", Min: 24, Sentence: true},
		cli.Column{Name: "SERVICE", Wide: true},
		cli.Column{Name: "API", Wide: true},
	)
}

// print prints a list; all of it, or what is not as it was.
func (p *poolsPrinter) print(list []poolItem, all bool) error {
	switch p.printer.Format {
	case cli.FormatJSON, cli.FormatYAML:
		return p.printer.Document(poolList{APIVersion: explain.APIVersion, Kind: kindPoolList, Items: list})
	default:
	}
	for _, item := range list {
		name := kube.Name{Namespace: item.Namespace, Name: item.Name}
		if !all && reflect.DeepEqual(p.last[name], item) {
			continue
		}
		p.last[name] = item
		switch p.printer.Format {
		case cli.FormatJSONL:
			if err := p.printer.Line(poolLine{explain.APIVersion, kindPool, item}); err != nil {
				return err
			}
		case cli.FormatName:
			fmt.Fprintf(p.printer.Streams.Out, "inferencepool.%s/%s\n", strings.SplitN(item.API, "/", 2)[0], cli.Sanitize(item.Name))
		default:
			p.row(&item)
		}
	}
	if p.table.Len() == 0 {
		return nil
	}
	defer p.table.Continue()
	return p.table.Flush()
}

func (p *poolsPrinter) row(item *poolItem) {
	health := item.Health
	if len(item.Why) > 0 {
		health += ": " + strings.Join(item.Why, "; ")
	}
	var ports []string
	for _, port := range item.Ports {
		ports = append(ports, strconv.Itoa(port))
	}
	age := item.Created.UTC().Format(time.RFC3339)
	if p.printer.Streams.OutIsTerminal {
		age = cli.Age(p.printer.Streams.Now().Sub(item.Created))
	}
	tone := map[string]cli.Tone{healthOK: cli.Good, healthDegraded: cli.Warn, healthDown: cli.Bad}[item.Health]
	cells := []cli.Cell{
		{Text: item.Namespace},
		{Text: item.Name},
		{Text: item.Picker},
		{Text: item.Version},
		{Text: ofAll(item.ReadyReplicas, item.Replicas)},
		{Text: ofAll(item.ReadyPods, item.Pods)},
		{Text: strings.Join(ports, ",")},
		{Text: age},
		{Text: health, Tone: tone},
		{Text: item.Service},
		{Text: item.API},
	}
	p.table.Cells(cells...)
}

// ofAll is "1/2"; unknown when it is.
func ofAll(some, all *int) string {
	if some == nil || all == nil {
		return cli.Unknown
	}
	return fmt.Sprintf("%d/%d", *some, *all)
}
