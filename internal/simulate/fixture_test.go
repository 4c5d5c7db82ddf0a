package simulate

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tb is a test or a property.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// policies parses them.
func policies(t tb, texts ...string) []*Policy {
	t.Helper()
	var out []*Policy
	for _, text := range texts {
		p, err := ParsePolicy(text, score.Default())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// generated is a generator's trace.
func generated(t tb, text string, seed uint64) *Trace {
	t.Helper()
	tr, err := Generate(text, seed, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// fleetOf is a simulation of a trace on a fleet of llama-8b.
func fleetOf(t tb, tr *Trace, pods string, names ...string) *Config {
	t.Helper()
	p, err := ProfileNamed("")
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := p.Fleet(pods)
	if err != nil {
		t.Fatal(err)
	}
	return &Config{Trace: tr, Profile: p, Pods: fleet, Policies: policies(t, names...), Seed: 1}
}

func mustRun(t tb, cfg *Config) *Runs {
	t.Helper()
	runs, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// everyKind is one policy of each kind.
func everyKind() []string {
	return append(Kinds(), "consistent-hash:bytes=512", "eppctl:preset=multi-lora")
}
