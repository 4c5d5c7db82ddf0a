package cmd

import (
	"fmt"
	"os"
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
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(err, c)
	})
	root.PersistentFlags().StringVar(&color, "color", "auto", "colour the output: auto, always or never")
	root.AddCommand(newServe(p, s), newExplain(s), newDecisions(s), newVersion(s), newExitCodes(), newEnvironment(root))
	root.CompletionOptions.HiddenDefaultCmd = false
	wrapArgs(root)
	return root
}

// usage makes a wrong call of a command an error with status 2 and a way on.
func usage(err error, c *cobra.Command) error {
	return cli.WithHint(err, cli.ExitUsage, fmt.Sprintf("see '%s --help'", c.CommandPath()))
}

// wrapArgs gives wrong positional arguments, unknown commands among them, the
// status of a wrong call.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			if !c.HasParent() && len(args) > 0 {
				err = fmt.Errorf("unknown command %q", args[0])
				if near := c.SuggestionsFor(args[0]); len(near) > 0 {
					err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
				}
			}
			return usage(err, c)
		}
		return nil
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// envPrefix starts the name of every variable that stands for a flag.
const envPrefix = "EPPCTL_"

// envName is the variable that stands for a flag: --gateway-addr is
// EPPCTL_GATEWAY_ADDR.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that were not given from their variables.
func fromEnvironment(flags *pflag.FlagSet, env func(string) string) error {
	if env == nil {
		env = os.Getenv
	}
	var problem error
	flags.VisitAll(func(f *pflag.Flag) {
		v := env(envName(f.Name))
		if f.Changed || v == "" || f.Name == "help" || problem != nil {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			problem = cli.WithHint(fmt.Errorf("%s=%q: %w", envName(f.Name), v, err), cli.ExitUsage,
				fmt.Sprintf("correct the variable, or give --%s", f.Name))
		}
	})
	return problem
}

// example takes the indentation off a raw string, and sets it as kubectl does.
func example(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("  "+strings.TrimLeft(line, "\t"), " ")
	}
	return strings.Join(lines, "\n")
}
