package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
)

// The annotations that the help page reads.
const (
	headingKey = "eppctl_heading" // of a flag: the heading it stands under
	seeAlsoKey = "eppctl_see_also"
)

// pipeColumns is how wide a help page is that goes to no terminal.
const pipeColumns = 100

// flagGroup registers flags that stand under a heading of their own on the help
// page, in the order of their registration.
func flagGroup(c *cobra.Command, heading string, register func(*pflag.FlagSet)) {
	fs := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	fs.SortFlags = false
	register(fs)
	fs.VisitAll(func(f *pflag.Flag) { _ = fs.SetAnnotation(f.Name, headingKey, []string{heading}) }) // fails only for a flag that is not there
	c.Flags().SortFlags = false
	c.Flags().AddFlagSet(fs)
}

// usagePage prints what stands below the description on a command's help page.
func usagePage(s *cli.Streams) func(*cobra.Command) error {
	columns := pipeColumns
	if s.OutIsTerminal && s.Width > 0 {
		columns = min(s.Width, pipeColumns)
	}
	return func(c *cobra.Command) error {
		var b strings.Builder
		b.WriteString("Usage:\n")
		if c.HasAvailableSubCommands() {
			fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
		} else {
			fmt.Fprintf(&b, "  %s\n", c.UseLine())
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
		}
		writeCommands(&b, c)
		writeFlags(&b, c, columns)
		if also := c.Annotations[seeAlsoKey]; also != "" {
			fmt.Fprintf(&b, "\nSee also:\n%s\n", example(also))
		}
		_, err := fmt.Fprint(c.OutOrStderr(), b.String())
		return err
	}
}

func writeCommands(b *strings.Builder, c *cobra.Command) {
	var commands, topics [][2]string
	width := 0
	for _, sub := range c.Commands() {
		name := sub.Name()
		switch {
		case sub.IsAdditionalHelpTopicCommand():
			name = "help " + name
			topics = append(topics, [2]string{name, sub.Short})
		case sub.IsAvailableCommand() || sub.Name() == "help":
			commands = append(commands, [2]string{name, sub.Short})
		default:
			continue
		}
		width = max(width, len(name))
	}
	list := func(heading string, items [][2]string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s:\n", heading)
		for _, item := range items {
			fmt.Fprintf(b, "  %-*s  %s\n", width, item[0], item[1])
		}
	}
	list("Commands", commands)
	list("Help topics", topics)
}

func writeFlags(b *strings.Builder, c *cobra.Command, columns int) {
	var headings []string
	groups := map[string]*pflag.FlagSet{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		heading := "Flags"
		if given := f.Annotations[headingKey]; len(given) > 0 {
			heading = given[0]
		}
		if groups[heading] == nil {
			groups[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
			groups[heading].SortFlags = false
			headings = append(headings, heading)
		}
		groups[heading].AddFlag(shown(f))
	})
	if c.HasAvailableInheritedFlags() {
		groups["Global flags"] = c.InheritedFlags()
		headings = append(headings, "Global flags")
	}
	for _, heading := range headings {
		if usages := groups[heading].FlagUsagesWrapped(columns); usages != "" {
			fmt.Fprintf(b, "\n%s:\n%s", heading, usages)
		}
	}
}

// shown is a flag as a help page has it. One whose value may be left out takes it
// after "=" alone.
func shown(f *pflag.Flag) *pflag.Flag {
	if f.NoOptDefVal == "" || f.Value.Type() == "bool" {
		return f
	}
	value, text := pflag.UnquoteUsage(f)
	alone := *f
	alone.Name, alone.NoOptDefVal = fmt.Sprintf("%s[=%s]", f.Name, value), ""
	alone.Usage = fmt.Sprintf("``%s (without =%s: %s)", text, value, f.NoOptDefVal)
	return &alone
}

// newHelp is cobra's help command, but a page that does not exist is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Help about a command or a topic",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var pages []cobra.Completion
			for _, sub := range root.Commands() {
				if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
					pages = append(pages, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return pages, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			page, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return cli.WithHint(fmt.Errorf("no help page %q", strings.Join(args, " ")), cli.ExitUsage,
					"see 'eppctl help' for the commands and topics")
			}
			page.InitDefaultHelpFlag()
			return page.Help()
		},
	}
}
