package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
)

// topic is a help page without a command behind it: 'eppctl help NAME'.
func topic(name, short, long string) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Long: long}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), c.Long) })
	return c
}

func newExitCodes() *cobra.Command {
	var b strings.Builder
	b.WriteString("The exit status of every command:\n")
	for _, code := range cli.ExitCodes() {
		fmt.Fprintf(&b, "\n  %3d  %s", code.Code, code.Meaning)
	}
	b.WriteString("\n\n'serve' ends with 0 when it is interrupted: that is how it is meant to end.")
	return topic("exit-codes", "What the exit status says", b.String())
}

func newEnvironment(root *cobra.Command) *cobra.Command {
	c := topic("environment", "Which variables are read", "")
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		var b strings.Builder
		b.WriteString("A flag that is not given is taken from its variable; flags come first, then\n" +
			"variables, then the configuration file, then defaults.\n")
		seen := map[string]bool{}
		for _, sub := range root.Commands() {
			sub.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name == "help" || f.Hidden || seen[f.Name] {
					return
				}
				seen[f.Name] = true
				fmt.Fprintf(&b, "\n  %-28s --%s", envName(f.Name), f.Name)
			})
		}
		b.WriteString("\n\n  EPP_LOG_LEVEL                the log level, when neither --log-level nor EPPCTL_LOG_LEVEL is given\n" +
			"  NO_COLOR, CLICOLOR_FORCE     no colour at all; colour although the output is no terminal\n" +
			"  EPPCTL_FORCE_TTY             WIDTHxHEIGHT: behave as on a terminal of that size")
		fmt.Fprintln(c.OutOrStdout(), b.String())
	})
	return c
}
