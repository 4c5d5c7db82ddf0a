package cmd

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
)

func TestClusterFlags(t *testing.T) {
	parse := func(args ...string) *clusterFlags {
		var f clusterFlags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return &f
	}
	if parse().given() {
		t.Error("no flag: a cluster is asked for")
	}
	f := parse("-n", "prod", "--request-timeout", "30", "--as-group", "a", "--as-group", "b,c")
	s, err := f.options()
	if err != nil || !f.given() || s.Namespace != "prod" || s.RequestTimeout != 30*time.Second || len(s.AsGroups) != 2 {
		t.Errorf("options = %+v, %v, given %v", s, err, f.given())
	}
	for _, text := range []string{"soon", "-1s", "-5", "9223372036854775807"} {
		if _, err := parse("--request-timeout", text).options(); cli.Status(err) != cli.ExitUsage {
			t.Errorf("--request-timeout %s: %v", text, err)
		}
	}
}
