package cmd

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/internal/cli"
)

// pluginPrefix starts the names of programs that kubectl runs as its own commands.
const pluginPrefix = "kubectl-"

// calledAs tells the program by which name it was started: as kubectl-epp it is
// 'kubectl epp', and what it says to be typed is that.
func calledAs(path string) Option {
	return func(p *program) error {
		name := strings.TrimSuffix(filepath.Base(path), ".exe")
		if rest, ok := strings.CutPrefix(name, pluginPrefix); ok && rest != "" {
			p.plugin = "kubectl " + strings.ReplaceAll(strings.ReplaceAll(rest, "-", " "), "_", "-")
		}
		return nil
	}
}

// asPlugin puts the name that was typed in place of eppctl's on help pages and in
// messages. Only what is to be typed is changed: the name before a command.
func asPlugin(root *cobra.Command, s *cli.Streams, plugin string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: plugin}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, regexp.QuoteMeta(c.Name()))
	}
	typed := regexp.MustCompile(`\beppctl( (?:` + strings.Join(names, "|") + `)\b)`)
	rename := func(text string) string { return typed.ReplaceAllString(text, plugin+"$1") }
	for _, c := range append(root.Commands(), root) {
		c.Long, c.Example = rename(c.Long), rename(c.Example)
		if also := c.Annotations[seeAlsoKey]; also != "" {
			c.Annotations[seeAlsoKey] = rename(also)
		}
		if c.IsAdditionalHelpTopicCommand() {
			c.SetOut(renaming{s.Out, rename})
		}
	}
	s.Err = renaming{s.Err, rename}
	root.SetErr(s.Err)
}

// renaming writes messages, each at once.
type renaming struct {
	io.Writer
	rename func(string) string
}

// Write implements [io.Writer].
func (r renaming) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.Writer, r.rename(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// completionForKubectl prints the program that kubectl asks for completions of a
// plugin.
func completionForKubectl(s *cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl",
		Short: "Generate the program that completes 'kubectl epp'",
		Long: `Generate the program that kubectl runs to complete 'kubectl epp'.

It has to be in the PATH, and executable:

  eppctl completion kubectl > /usr/local/bin/kubectl_complete-epp
  chmod +x /usr/local/bin/kubectl_complete-epp`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			plugin := cmp.Or(c.Root().Annotations[cobra.CommandDisplayNameAnnotation], "kubectl epp")
			_, err := fmt.Fprintf(s.Out, "#!/bin/sh\nexec %s __complete \"$@\"\n", plugin)
			return err
		},
	}
}
