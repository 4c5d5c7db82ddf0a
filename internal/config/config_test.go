package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/score"
)

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	if err := c.Validate(nil); err != nil {
		t.Fatal(err)
	}
	w, err := c.EngineWeights(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(score.Default(), w); diff != "" {
		t.Errorf("weights of the default config (-want +got):\n%s", diff)
	}
	if got := c.Warnings(&w); got != nil {
		t.Errorf("warnings on the defaults: %v", got)
	}
}

func TestYAMLReadsBack(t *testing.T) {
	c, err := Parse([]byte("preset: rag\nmaxQueue: 12\nmodels: [{name: m, aliases: [n], adapters: [fr]}]\nstaleness: {reportsSeconds: 9}\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(b)
	if err != nil {
		t.Fatalf("own output does not parse: %v\n%s", err, b)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("printed and read back (-want +got):\n%s", diff)
	}
}

func TestEffectiveReadsBackToTheSameWeights(t *testing.T) {
	cost := []score.CustomWeight{{Name: "cost", Weight: .05}}
	c, err := Parse([]byte("preset: api-gateway\nweights: {cache: 0.35}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.EngineWeights(cost)
	if err != nil {
		t.Fatal(err)
	}
	effective, err := c.Effective(cost)
	if err != nil {
		t.Fatal(err)
	}
	b, err := effective.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.EngineWeights([]score.CustomWeight{{Name: "cost", Weight: .9}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("weights (-want +got):\n%s\nfrom\n%s", diff, b)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "maxQueue: 9\nmaxQueu: 8\n", "line 2: unknown key maxQueu: did you mean maxQueue?"},
		{"unknown nested key", "intervals:\n  scrapMs: 3\n", "line 2: unknown key intervals.scrapMs: did you mean scrapeMs?"},
		{"unknown key in a list", "models:\n- name: a\n  alias: [b]\n", "line 3: unknown key models.alias: did you mean aliases?"},
		{"twice", "maxQueue: 9\nmaxQueue: 8\n", "stands already in line 1"},
		{"wrong type", "maxQueue: many\n", "line 1: cannot unmarshal !!str `many` into int"},
		{"not a mapping", "- a\n", "line 1: the file must be a mapping"},
		{"scalar for a mapping", "intervals: 5\n", "line 1: intervals. must be a mapping"},
		{"no YAML", "a: [\n", "line 1"},
		{"two documents", "maxQueue: 9\n---\nmaxQueue: 8\n", "more than one YAML document"},
		{"alias", "models: &x []\nweights: *x\n", "aliases are not supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse([]byte(tc.file))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestValidateListsEveryProblem(t *testing.T) {
	c, err := Parse([]byte(`
weights: {cache: 0.5, load: 0.2, queue: 0.1, health: 0.05, adapter: 0.05}
saturation: relax
blockSize: 0
intervals: {scrapeMs: -1}
models: [{name: a, adapters: [a]}, {name: ""}]
`))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Validate(nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"sum is 0.9 (cache 0.5 + load 0.2 + queue 0.1 + health 0.05 + adapter 0.05), must be 1",
		"blockSize", "intervals.scrapeMs", `models[0].adapters[0]: "a" is already the name at models[0].name`, "models[1].name: must not be empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestWeights(t *testing.T) {
	cost := []score.CustomWeight{{Name: "cost", Weight: .05}}
	t.Run("a preset with one change", func(t *testing.T) {
		c, _ := Parse([]byte("preset: default\nweights: {cache: 0.55}\n"))
		w, err := c.EngineWeights(cost)
		if err != nil || w.Cache != .55 || w.Custom[0].Weight != .05 || w.MaxQueue != 20 {
			t.Errorf("%+v, %v", w, err)
		}
	})
	t.Run("a file's weights replace the program's", func(t *testing.T) {
		c, _ := Parse([]byte("weights: {cache: 0.5, load: 0.2, queue: 0.1, health: 0.05, adapter: 0.05, cost: 0.1}\n"))
		w, err := c.EngineWeights(cost)
		if err != nil || w.Custom[0].Weight != .1 {
			t.Errorf("%+v, %v", w, err)
		}
	})
	t.Run("a preset brings its maxQueue", func(t *testing.T) {
		c, _ := Parse([]byte("preset: api-gateway\n"))
		if w, err := c.EngineWeights(nil); err != nil || w.MaxQueue != 10 {
			t.Errorf("maxQueue %d, %v; want 10", w.MaxQueue, err)
		}
	})
	t.Run("an unknown scorer", func(t *testing.T) {
		c, _ := Parse([]byte("preset: default\nweights: {costs: 0.1}\n"))
		if _, err := c.EngineWeights(cost); err == nil || !strings.Contains(err.Error(), "cache, load, queue, health, adapter, cost") {
			t.Errorf("error %v does not list the weights", err)
		}
	})
	t.Run("maxQueue outside of 8 to 40 warns", func(t *testing.T) {
		for _, q := range []int{5, 100} {
			w := score.Default()
			w.MaxQueue = q
			c := Default()
			if got := c.Warnings(&w); len(got) != 1 || !strings.Contains(got[0], "maxQueue") {
				t.Errorf("warnings for %d: %v", q, got)
			}
		}
	})
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("nope: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name the file", err)
	}
	if _, err := Load(path + ".gone"); err == nil {
		t.Error("a missing file must be an error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("preset: rag\nweights: {cache: 1}\n"))
	f.Add([]byte("models: [{name: a}]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(b)
		if err != nil {
			return
		}
		if c.Validate(nil) != nil {
			return
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out); err != nil {
			t.Errorf("own output does not parse: %v\n%s", err, out)
		}
	})
}
