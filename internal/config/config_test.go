package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eppctl/eppctl/score"
)

func parse(b []byte) (Config, error) { return Read("", b, Default()) }

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
	c, err := parse([]byte("preset: rag\nmaxQueue: 12\nmodels: [{name: m, aliases: [n], adapters: [fr]}]\nstaleness: {reportsSeconds: 9}\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse(b)
	if err != nil {
		t.Fatalf("own output does not parse: %v\n%s", err, b)
	}
	if diff := cmp.Diff(c, again, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("printed and read back (-want +got):\n%s", diff)
	}
}

func TestEffectiveReadsBackToTheSameWeights(t *testing.T) {
	cost := []score.CustomWeight{{Name: "cost", Weight: .05}}
	c, err := parse([]byte("preset: api-gateway\nweights: {cache: 0.35, cost: 0.05}\n"))
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
	again, err := parse(b)
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

func TestWeights(t *testing.T) {
	cost := []score.CustomWeight{{Name: "cost", Weight: .05}}
	for _, tc := range []struct {
		name, file string
		over       []Overrides
		want       score.Weights // Custom apart
		cost       float64
	}{
		{"nothing but the program's", "", nil, score.Weights{Cache: .55, MaxQueue: 20}, .05},
		{"a maxQueue is no choice of weights", "maxQueue: 12\n", []Overrides{{MaxQueue: new(9)}}, score.Weights{Cache: .55, MaxQueue: 9}, .05},
		{"weights of the file replace the program's", "weights: {cache: 0.5, load: 0.2, queue: 0.1, health: 0.05, adapter: 0.05, cost: 0.1}\n", nil, score.Weights{Cache: .5, MaxQueue: 20}, .1},
		{"so does a preset of the file, with its maxQueue", "preset: api-gateway\n", nil, score.Weights{Cache: .4, MaxQueue: 10}, 0},
		{"and a preset with one change", "preset: default\nweights: {cache: 0.5, cost: 0.1}\n", nil, score.Weights{Cache: .5, MaxQueue: 20}, .1},
		{"an empty preset is none", "preset:\nmaxQueue:\n", nil, score.Weights{Cache: .55, MaxQueue: 20}, .05},
		{
			"a preset by flag replaces preset, weights and maxQueue of the file",
			"preset: rag\nweights: {cache: 0.6, cost: 0.1}\nmaxQueue: 9\n",
			[]Overrides{{Preset: "batch"}},
			score.Weights{Cache: .4, MaxQueue: 40},
			0,
		},
		{"a preset by flag without a file", "", []Overrides{{Preset: "rag"}}, score.Weights{Cache: .7, MaxQueue: 20}, 0},
		{"a preset and a maxQueue by flag", "maxQueue: 9\n", []Overrides{{Preset: "batch", MaxQueue: new(30)}}, score.Weights{Cache: .4, MaxQueue: 30}, 0},
		{
			"weights by flag change those of the file", "preset: rag\nweights: {cache: 0.6, cost: 0.1}\n",
			[]Overrides{{Weights: map[string]float64{"cache": .65, "cost": .05}}},
			score.Weights{Cache: .65, MaxQueue: 20},
			.05,
		},
		{
			"weights by flag change the defaults and drop the program's", "",
			[]Overrides{{Weights: map[string]float64{"cache": .5, "cost": .1}}},
			score.Weights{Cache: .5, MaxQueue: 20},
			.1,
		},
		{
			"a flag comes before a variable", "preset: rag\n",
			[]Overrides{{Preset: "batch", MaxQueue: new(30)}, {Preset: "multi-lora"}},
			score.Weights{Cache: .45, MaxQueue: 20},
			0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := parsed(t, tc.file)
			for _, o := range tc.over {
				c.Overlay(o)
			}
			c.UseProgram(map[string]float64{"cache": .55})
			w, err := c.EngineWeights(cost)
			if err != nil {
				t.Fatal(err)
			}
			if w.Cache != tc.want.Cache || w.MaxQueue != tc.want.MaxQueue || w.Custom[0].Weight != tc.cost {
				t.Errorf("cache %v, maxQueue %d, cost %v; want %v, %d, %v",
					w.Cache, w.MaxQueue, w.Custom[0].Weight, tc.want.Cache, tc.want.MaxQueue, tc.cost)
			}
		})
	}
	t.Run("settings laid over change no copy and no map of the caller", func(t *testing.T) {
		c := parsed(t, "weights: {cache: 1}\nmaxQueue: 0\n")
		before, flags := c, map[string]float64{"cache": .5}
		c.Overlay(Overrides{Weights: flags, MaxQueue: new(9)})
		c.Overlay(Overrides{Weights: map[string]float64{"load": .5}})
		if before.Weights["cache"] != 1 || len(flags) != 1 {
			t.Errorf("the copy has %v, the flags are %v", before.Weights, flags)
		}
		if err := before.Validate(nil); err == nil || !strings.Contains(err.Error(), "line 2: maxQueue") {
			t.Errorf("error of the copy: %v, want one that names line 2", err)
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

func parsed(t *testing.T, file string) Config {
	t.Helper()
	c, err := parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	for file, want := range map[string]string{
		"nope: 1\nmaxQueu: 1\n": path + ": line 1: unknown key nope: did you mean models?\n" + path + ": line 2: unknown key maxQueu: did you mean maxQueue?",
		"maxQueue: [1]\n":       path + ": line 1: cannot unmarshal !!seq into int",
		"a: 1\n---\nb: 2\n":     path + ": more than one YAML document: only one is read",
	} {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, Default()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := Load(path+".gone", Default()); err == nil {
		t.Error("a missing file must be an error")
	}
}

// A flag's mistake is none of the file that it comes before.
func TestFlagsOfExtprocComeBeforeTheFile(t *testing.T) {
	c := parsed(t, "extproc: {fallbacks: 2, maxStreams: 9}\n")
	c.Overlay(Overrides{Fallbacks: new(3), ScoresMetadata: new(true)})
	if c.Extproc.Fallbacks != 3 || !c.Extproc.ScoresMetadata || c.Extproc.MaxStreams != 9 {
		t.Errorf("in force is %+v", c.Extproc)
	}
	c.Overlay(Overrides{Fallbacks: new(99)})
	err := c.Validate(nil)
	if want := "extproc.fallbacks: must be between 0 and 15, got 99"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestEffectiveSpellsOutWhatFollowsFromOtherSettings(t *testing.T) {
	for file, want := range map[string]float64{
		"":                                      6,
		"intervals: {podReportIntervalMs: 500}": 1.5,
		"intervals: {podReportIntervalMs: 86400000}": 86400,
		"staleness: {reportsSeconds: 9}":             9,
	} {
		c := parsed(t, file)
		effective, err := c.Effective(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := effective.Staleness.ReportsSeconds; got != want {
			t.Errorf("%q: reportsSeconds %v, want %v", file, got, want)
		}
		if err := effective.Validate(nil); err != nil {
			t.Errorf("%q: what is in force is not valid: %v", file, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("preset: rag\nweights: {cache: 1}\n"))
	f.Add([]byte("models: [{name: a}]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parse(b)
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
		if _, err := parse(out); err != nil {
			t.Errorf("own output does not parse: %v\n%s", err, out)
		}
	})
}
