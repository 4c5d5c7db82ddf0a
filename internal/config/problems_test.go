package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/score"
)

func TestErrorsNameThePlace(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "maxQueue: 9\nmaxQueu: 8\n", "line 2: unknown key maxQueu: did you mean maxQueue?"},
		{"unknown nested key", "intervals:\n  scrapMs: 3\n", "line 2: unknown key intervals.scrapMs: did you mean scrapeMs?"},
		{"a fraction for a whole number", "blockSize: 16.9\n", "line 1: blockSize must be a whole number, got 16.9"},
		{"another", "a: 1\nmaxQueue: 12.7\n", "line 2: maxQueue must be a whole number, got 12.7"},
		{"a whole number written as a fraction", "maxQueue: 1e1\n", "line 1: maxQueue must be a whole number, got 1e1"},
		{"a weight twice", "weights:\n  cache: 0.6\n  cache: 0.5\n", "line 3: weights.cache stands already in line 2"},
		{"a weight without a value", "weights:\n  cache:\n", "line 2: weights.cache has no value"},
		{"a weight that is no number", "weights:\n  cache: much\n", "line 2: cannot unmarshal"},
		{"an alias in the weights", "weights:\n  cache: &x 0.6\n  load: *x\n", "line 3: YAML aliases are not supported"},
		{"a merge in the weights", "weights:\n  <<: {cache: 1}\n", "line 2: weights: YAML merges are not supported"},
		{"a word for it", "events:\n  tiers: [gpu]\n", "line 2: unknown key events.tiers: did you mean tierWeights?"},
		{"unknown key of ext_proc", "extproc:\n  fallback: 1\n", "line 2: unknown key extproc.fallback: did you mean fallbacks?"},
		{"a word for a switch", "extproc: {scoresMetadata: often}\n", "line 1: cannot unmarshal"},
		{"unknown key in a list", "models:\n- name: a\n  alias: [b]\n", "line 3: unknown key models[0].alias: did you mean aliases?"},
		{"twice", "maxQueue: 9\nmaxQueue: 8\n", "stands already in line 1"},
		{"wrong type", "maxQueue: many\n", "line 1: cannot unmarshal !!str `many` into int"},
		{"not a mapping", "- a\n", "line 1: the file must be a mapping"},
		{"scalar for a mapping", "intervals: 5\n", "line 1: intervals must be a mapping"},
		{"no YAML", "a: [\n", "line 1"},
		{"two documents", "maxQueue: 9\n---\nmaxQueue: 8\n", "more than one YAML document"},
		{"alias", "models: &x []\nweights: *x\n", "aliases are not supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse([]byte(tc.file))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// What comes from a cluster may be a megabyte of mistakes.
func TestErrorsAreBounded(t *testing.T) {
	var keys, models strings.Builder
	models.WriteString("models:\n")
	for i := range 10_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
		models.WriteString("- name: m\n")
	}
	for _, text := range []string{keys.String(), models.String(), "weights: {" + strings.Repeat("a, ", 10_000) + "}"} {
		c, err := parse([]byte(text))
		if err == nil {
			err = c.Validate(nil)
		}
		if err == nil || strings.Count(err.Error(), "\n") != mostProblems || !strings.Contains(err.Error(), "there is more") {
			t.Errorf("%.20q: %d lines", text, strings.Count(fmt.Sprint(err), "\n"))
		}
	}
}

func TestValidateListsEveryProblem(t *testing.T) {
	c, err := parse([]byte(`
weights: {cache: 0.5, load: 0.2, queue: 0.1, health: 0.05, adapter: 0.05}
saturation: relax
blockSize: 0
intervals: {scrapeMs: -1}
staleness: {reportsSeconds: 1e12, metricsSeconds: 86401}
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
		"blockSize", "intervals.scrapeMs", "staleness.reportsSeconds: must be between 0.001 and 86400 (a day), got 1e+12",
		"staleness.metricsSeconds: must be between 0.001 and 86400 (a day), got 86401",
		"intervals.scrapeMs: must be between 1 and 86400000 (a day), got -1", `models[0].adapters[0]: "a" is already the name at models[0].name`, "models[1].name: must not be empty",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

// What only shows when the custom scorers are known names file and line all the
// same, in the order of the file.
func TestValidationNamesFileAndLine(t *testing.T) {
	cost := []score.CustomWeight{{Name: "cost", Weight: .05}}
	for _, tc := range []struct {
		name, file string
		over       Overrides
		want       []string // lines, FILE stands for the path
	}{
		{
			"unknown weights", "preset: default\nweights:\n  lode: 0.2\n  cashe: 0.6\n  kost: 0\n", Overrides{}, []string{
				"FILE: line 3: unknown key weights.lode: did you mean load? The weights are cache, load, queue, health, adapter, cost",
				"FILE: line 4: unknown key weights.cashe: did you mean cache? The weights are cache, load, queue, health, adapter, cost",
				"FILE: line 5: unknown key weights.kost: did you mean cost? The weights are cache, load, queue, health, adapter, cost",
			},
		},
		{"their sum", "maxQueue: 9\nweights: {cache: 0.5}\n", Overrides{}, []string{"FILE: line 2: weights: sum is 0.5 (cache 0.5 + load 0 + queue 0 + health 0 + adapter 0 + cost 0), must be 1"}},
		{"maxQueue 0 is no default", "# none\nmaxQueue: 0\n", Overrides{}, []string{"FILE: line 2: maxQueue: must be at least 1, got 0"}},
		{"a weight and another setting", "weights:\n  cache: 2\nblockSize: 0\n", Overrides{}, []string{
			"FILE: line 2: weights.cache: must be between 0 and 1, got 2",
			"FILE: line 1: weights: sum is 2 (cache 2 + load 0 + queue 0 + health 0 + adapter 0 + cost 0), must be 1",
			"FILE: line 3: blockSize: must be between 1 and 1024, got 0",
		}},
		{"a preset", "preset: chatbots\nsaturation: no\n", Overrides{}, []string{
			"FILE: line 1: preset: unknown preset \"chatbots\": the presets are " + strings.Join(score.PresetNames(), ", "),
			"FILE: line 2: saturation: must be relax or reject, got \"no\"",
		}},
		{"an adapter's name", "models:\n- name: a\n  adapters:\n  - b\n  - a\n", Overrides{}, []string{"FILE: line 5: models[0].adapters[1]: \"a\" is already the name at models[0].name"}},
		{"a flag over the file is not the file's", "maxQueue: 9\n", Overrides{MaxQueue: new(0)}, []string{"maxQueue: must be at least 1, got 0"}},
		{"weights of a flag are not the file's", "weights: {cache: 1}\n", Overrides{Weights: map[string]float64{"caches": 1}}, []string{
			"unknown key weights.caches: did you mean cache? The weights are cache, load, queue, health, adapter, cost",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "eppctl.yaml")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(path, Default())
			if err != nil {
				t.Fatal(err)
			}
			c.Overlay(tc.over)
			c.UseProgram(map[string]float64{"cache": .55})
			if err = c.Validate(cost); err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(strings.ReplaceAll(err.Error(), path, "FILE"), "\n")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	for file, ok := range map[string]bool{
		"staleness: {metricsSeconds: 86400, reportsSeconds: 86400}":       true,
		"staleness: {reportsSeconds: 0}":                                  true,
		"staleness: {metricsSeconds: 86401}":                              false,
		"staleness: {metricsSeconds: 0}":                                  false,
		"staleness: {reportsSeconds: 86401}":                              false,
		"staleness: {reportsSeconds: 1e300}":                              false,
		"staleness: {reportsSeconds: -1}":                                 false,
		"staleness: {reportsSeconds: .nan}":                               false,
		"intervals: {scrapeMs: 86400000}":                                 true,
		"intervals: {scrapeMs: 86400001}":                                 false,
		"intervals: {scrapeMs: 1e-7}":                                     false,
		"extproc: {fallbacks: 0, maxStreams: 1}":                          true,
		"extproc: {fallbacks: 15}":                                        true,
		"extproc: {fallbacks: 16}":                                        false,
		"extproc: {fallbacks: -1}":                                        false,
		"extproc: {maxStreams: 0}":                                        false,
		"extproc: {maxStreams: 1000001}":                                  false,
		"extproc: {bodyTimeoutSeconds: 0}":                                false,
		"extproc: {idleTimeoutSeconds: -1}":                               false,
		"extproc: {endTimeoutSeconds: 86401}":                             false,
		"extproc: {endTimeoutSeconds: 0.5}":                               true,
		"tokens: {source: engine, timeoutMs: 1, cacheMiB: 1}":             true,
		"tokens: {source: render, renderURL: 'http://r:8000'}":            true,
		"tokens: {source: approximate}":                                   true,
		"tokens: {source: render}":                                        false,
		"tokens: {source: magic}":                                         false,
		"tokens: {renderURL: 'r:8000'}":                                   false,
		"tokens: {renderURL: 'http://u:p@r'}":                             false,
		"tokens: {timeoutMs: 0}":                                          false,
		"tokens: {cacheMiB: 0}":                                           false,
		"probes: {active: true, intervalSeconds: 1, timeoutSeconds: 0.1}": true,
		"probes: {intervalSeconds: 0.5}":                                  false,
		"probes: {timeoutSeconds: 0}":                                     false,
		"scorerDeadlineMs: 0.5":                                           true,
		"scorerDeadlineMs: 0.0001":                                        false,
	} {
		c := parsed(t, file)
		if err := c.Validate(nil); (err == nil) != ok {
			t.Errorf("%s: error %v", file, err)
		}
		if l := c.PoolLimits(); ok && (l.Metrics <= 0 || l.Reports <= 0 || l.Generation <= 0) {
			t.Errorf("%s: limits %+v", file, l)
		}
	}
}
