package cmd

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/golden"
)

// runTest runs a command line without a process.
func runTest(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	s, out, errOut := cli.Test()
	status = run(context.Background(), s, args)
	return out.String(), errOut.String(), status
}

// pages lists the command lines of all help pages.
func pages() map[string][]string {
	s, _, _ := cli.Test()
	root := newRoot(&program{}, s)
	out := map[string][]string{"eppctl": {"help"}}
	for _, c := range root.Commands() {
		if c.Name() != "help" && c.Name() != "completion" { // cobra's own words
			out["eppctl-"+c.Name()] = []string{"help", c.Name()}
		}
	}
	return out
}

func TestHelpPages(t *testing.T) {
	for name, args := range pages() {
		t.Run(name, func(t *testing.T) {
			got, stderr, status := runTest(t, args...)
			if status != cli.ExitOK || stderr != "" {
				t.Fatalf("status %d, stderr %q", status, stderr)
			}
			golden.Equal(t, filepath.Join("..", "testdata", "help", name+".txt"), got)
			for line := range strings.Lines(got) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > pipeColumns {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}

// eachFlag visits every flag that a person can give.
func eachFlag(visit func(*cobra.Command, *pflag.Flag)) {
	s, _, _ := cli.Test()
	root := newRoot(&program{}, s)
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				visit(c, f)
			}
		})
	}
}

func TestEnvironmentPageListsEveryFlag(t *testing.T) {
	page, _, _ := runTest(t, "help", "environment")
	eachFlag(func(c *cobra.Command, f *pflag.Flag) {
		listed := strings.Contains(page, " "+envName(f.Name)+" ") && strings.Contains(page, "--"+f.Name+"\n")
		if hasVariable(f) && !listed {
			t.Errorf("%s --%s: %s is not on the page", c.Name(), f.Name, envName(f.Name))
		}
	})
}

func TestFlagsAreDescribedAlike(t *testing.T) {
	eachFlag(func(c *cobra.Command, f *pflag.Flag) {
		if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
			t.Errorf("%s --%s: want a phrase without a full stop, got %q", c.Name(), f.Name, f.Usage)
		}
		if kind := f.Value.Type(); kind != "bool" && !strings.Contains(f.Usage, "`") {
			t.Errorf("%s --%s: name its value in backquotes", c.Name(), f.Name)
		}
		if len(f.Shorthand) > 0 && !strings.Contains("nAlofw", f.Shorthand) {
			t.Errorf("%s -%s: kubectl's short flags alone are used", c.Name(), f.Shorthand)
		}
	})
}

// What a command's examples show must be flags and arguments that it takes.
func TestExamplesParse(t *testing.T) {
	s, _, _ := cli.Test()
	root := newRoot(&program{}, s)
	for _, c := range append(root.Commands(), root) {
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			args := strings.Fields(line)
			if len(args) == 0 || args[0] == "#" {
				continue
			}
			fresh := newRoot(&program{}, s) // flags of the line before count for nothing
			found, rest, err := fresh.Find(args[1:])
			if args[0] != "eppctl" || err != nil {
				t.Errorf("%s: %q is no call of eppctl: %v", c.Name(), line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", c.Name(), line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", c.Name(), line, err)
			}
		}
	}
}
