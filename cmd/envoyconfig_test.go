package cmd

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
