package cmd

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
)

// topic is a help page without a command behind it: 'eppctl help NAME'.
func topic(name, short string, page func() string) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), page()) })
	return c
}

func newExitCodes() *cobra.Command {
	return topic("exit-codes", "What the exit status says", func() string {
		var b strings.Builder
		b.WriteString("The exit status of every command:\n")
		for _, code := range cli.ExitCodes() {
			fmt.Fprintf(&b, "\n  %3d  %s", code.Code, code.Meaning)
		}
		b.WriteString("\n\n'serve' ends with 0 when it is interrupted: that is how it is meant to end.\n" +
			"'explain --fail-on' ends with 5 when one of the causes that it names is found, after the\n" +
			"explanation was printed; 'eppctl help causes' lists them. 'metrics --fail-on' ends with 5\n" +
			"when a check is at the level that it names, or worse.")
		return b.String()
	})
}

func newCauses() *cobra.Command {
	return topic("causes", "What 'explain' says of a decision, and what to do", func() string {
		const columns = 90
		var b strings.Builder
		b.WriteString("The causes of a decision, the gravest first. A cause is named only where the records\n" +
			"show it; of several the first is the decision's cause.\n")
		for _, c := range explain.Causes() {
			fmt.Fprintf(&b, "\n%s\n", c.Code)
			for _, text := range []string{c.Means, "What to do: " + c.Do} {
				b.WriteString(indent(ansi.Wordwrap(text, columns-2, ""), "  "))
			}
		}
		return strings.TrimRight(b.String(), "\n")
	})
}

// indent puts a prefix before each line.
func indent(text, prefix string) string {
	return prefix + strings.ReplaceAll(text, "\n", "\n"+prefix) + "\n"
}

func newEnvironment(root *cobra.Command) *cobra.Command {
	return topic("environment", "Which variables are read", func() string {
		var b strings.Builder
		b.WriteString("A flag that is not given is taken from its variable: flags come first, then\n" +
			"variables, then the configuration file, then the defaults. An empty variable counts\n" +
			"as not set.\n")
		writeVariables(&b, "every command", root.PersistentFlags())
		for _, sub := range root.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				writeVariables(&b, sub.CommandPath(), sub.LocalNonPersistentFlags())
			}
		}
		b.WriteString("\n" + `Others:
  KUBECONFIG                  where clusters are told of, as for kubectl
  EPP_LOG_LEVEL               the log level, when neither --log-level nor EPPCTL_LOG_LEVEL is given
  NO_COLOR                    when set, no colour
  CLICOLOR_FORCE              when set and not 0, colour although the output is no terminal
  EPPCTL_FORCE_TTY            WIDTHxHEIGHT: behave as on a terminal of that size`)
		return b.String()
	})
}

func writeVariables(b *strings.Builder, heading string, flags *pflag.FlagSet) {
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if !hasVariable(f) || f.Hidden {
			return
		}
		if first {
			fmt.Fprintf(b, "\n%s:\n", heading)
			first = false
		}
		fmt.Fprintf(b, "  %-26s  --%s\n", envName(f.Name), f.Name)
	})
}
