package cmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/steering"
)

func TestEnvoyPageTellsOfEveryFlag(t *testing.T) {
	page := document(t, "docs/envoy.md")
	_, flags, found := strings.Cut(page, "\n## All flags\n")
	if !found {
		t.Fatal("docs/envoy.md has no list of flags")
	}
	eachFlag(func(c *cobra.Command, f *pflag.Flag) {
		if c.Name() == "envoy-config" && f.Name != "color" && !strings.Contains(flags, "`--"+f.Name+"`") {
			t.Errorf("docs/envoy.md does not tell of --%s", f.Name)
		}
	})
}

func TestEnvoyPageTellsWhatIsStripped(t *testing.T) {
	page := document(t, "docs/envoy.md")
	for _, pattern := range steering.Patterns() {
		if name := strings.TrimSuffix(strings.ReplaceAll(pattern, "[-_]", "-"), ".*"); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/envoy.md does not say that %s is stripped", name)
		}
	}
}

// --picker-ca "$CA" with no such variable would else be taken for no CA at all.
func TestEmptyFilesAreRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be served
	for _, args := range [][]string{
		{"envoy-config", "--picker-ca", ""},
		{"envoy-config", "--picker-ca", "../internal/envoyconfig/testdata/ca.pem", "--picker-name", ""},
		{"envoy-config", "--validate", ""},
		{"serve", "--sim", "1", "--tls-cert", "", "--tls-key", ""},
	} {
		s, out, errOut := cli.Test()
		if status := run(ctx, s, args); status != cli.ExitUsage || out.Len() > 0 || !strings.Contains(errOut.String(), "the value is empty") {
			t.Errorf("%q: status %d, %q; want status 2 and why", args, status, errOut)
		}
	}
}

func TestALongCAIsNotCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, make([]byte, maxCA+1), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, errOut := cli.Test()
	if status := run(t.Context(), s, []string{"envoy-config", "--picker-ca", path}); status != cli.ExitUsage || !strings.Contains(errOut.String(), "larger than 1048576 bytes") {
		t.Errorf("status %d, %q", status, errOut)
	}
}
