package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
)

const rootLong = `eppctl is an endpoint picker for LLM inference that explains itself.

It picks, for each request, the pod that serves it fastest: mostly the one that
already holds the prompt's prefix in its KV cache. Every decision is recorded with
all its inputs, and can be explained and replayed.`

// newRoot builds the command tree.
func newRoot(p *program, s *cli.Streams) *cobra.Command {
	var color string
	root := &cobra.Command{
		Use:   "eppctl",
		Short: "An endpoint picker for LLM inference that explains itself",
		Long:  rootLong,
		Example: example(`
			# A picker with four simulated pods, no GPU and no cluster
			eppctl serve --sim 4

			# Why did the last request go where it went?
			eppctl explain latest

			# What was decided lately?
			eppctl decisions`),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(c.Flags(), s.Env); err != nil {
				return err
			}
			mode, err := cli.ParseColorMode(color)
			if err != nil {
				return usage(err, c)
			}
			s.Color = mode
			return nil
		},
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(usagePage(s))
	root.SuggestionsMinimumDistance = 2 // as cobra's own
	root.PersistentFlags().StringVar(&color, "color", "auto", "colour the output: `WHEN` is auto, always or never")
	_ = root.RegisterFlagCompletionFunc("color", oneOf("auto", "always", "never"))
	root.AddCommand(newServe(p, s), newEnvoyConfig(s), newExplain(s), newDecisions(s), newTop(p, s), newMetrics(s), newPools(s), newDrain(s), newUndrain(s), newVersion(s))
	root.AddCommand(newSimulate(p, s), newTune(p, s), newManifests(s))
	root.AddCommand(newCauses(), newColumns(), newExitCodes(), newEnvironment(root))
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	strictCompletion(root, s)
	wrapArgs(root)
	return root
}

// strictCompletion makes 'completion SHELL' refuse a shell that it does not know, and
// know kubectl.
func strictCompletion(root *cobra.Command, s *cli.Streams) {
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.AddCommand(completionForKubectl(s))
			c.Args = cobra.NoArgs
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// envPrefix starts the name of every variable that stands for a flag.
const envPrefix = "EPPCTL_"

// envName is the variable that stands for a flag: --gateway-addr is
// EPPCTL_GATEWAY_ADDR.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// noVariableKey is the annotation of a flag that no variable stands for.
const noVariableKey = "eppctl_no_variable"

func hasVariable(f *pflag.Flag) bool {
	return f.Name != "help" && len(f.Annotations[noVariableKey]) == 0
}

// fromEnvironment sets the flags that were not given from their variables. The
// variable of --server is left to [admin.Locate], which tells where the address
// came from.
func fromEnvironment(flags *pflag.FlagSet, env func(string) string) error {
	var problem error
	flags.VisitAll(func(f *pflag.Flag) {
		v := env(envName(f.Name))
		if f.Changed || v == "" || !hasVariable(f) || f.Name == serverFlag || problem != nil {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			problem = cli.WithHint(fmt.Errorf("%s: %w", envName(f.Name), invalidValue(f, v, err)), cli.ExitUsage,
				fmt.Sprintf("correct the variable, or give --%s", f.Name))
		}
	})
	return problem
}

// oneOf completes a flag by the values that it can have.
func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// example takes the indentation off a raw string, and sets it as kubectl does.
func example(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("  "+strings.TrimLeft(line, "\t"), " ")
	}
	return strings.Join(lines, "\n")
}
