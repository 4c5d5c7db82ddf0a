// Package config is the one configuration file of eppctl serve: strict YAML with
// defaults and presets.
//
// The one idea: a setting that is not understood is an error with its line and
// the nearest right key, never ignored. A file that loads is valid.
//
// It does not read flags or the environment (cmd lays them over the file) and
// does not watch the file.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

// maxFile bounds a configuration file.
const maxFile = 1 << 20

// Config is the configuration of a picker. The YAML keys are the field tags.
type Config struct {
	// Preset names a set of weights to start from; Weights then changes single
	// ones. Without a preset, Weights has to be complete.
	Preset         string             `yaml:"preset,omitempty" json:"preset,omitempty"`
	Weights        map[string]float64 `yaml:"weights,omitempty" json:"weights,omitempty"`
	MaxQueue       int                `yaml:"maxQueue" json:"maxQueue"`
	MaxUtilization float64            `yaml:"maxUtilization" json:"maxUtilization"`
	Saturation     string             `yaml:"saturation" json:"saturation"`

	Models    []Model   `yaml:"models,omitempty" json:"models,omitempty"`
	Addresses Addresses `yaml:"addresses" json:"addresses"`
	Intervals Intervals `yaml:"intervals" json:"intervals"`
	Staleness Staleness `yaml:"staleness" json:"staleness"`
	BlockSize int       `yaml:"blockSize" json:"blockSize"`
	// AllowHeaders names the request headers that custom scorers may see.
	AllowHeaders []string `yaml:"allowHeaders,omitempty" json:"allowHeaders,omitempty"`
	// ScorerDeadlineMs is how long custom scorers may take, in wall time.
	ScorerDeadlineMs float64 `yaml:"scorerDeadlineMs" json:"scorerDeadlineMs"`
}

// Model is an entry of the model catalogue.
type Model struct {
	Name     string   `yaml:"name" json:"name"`
	Aliases  []string `yaml:"aliases,omitempty" json:"aliases,omitempty"`
	Adapters []string `yaml:"adapters,omitempty" json:"adapters,omitempty"`
}

// Addresses are the listen addresses; "" switches a listener off.
type Addresses struct {
	Gateway string `yaml:"gateway" json:"gateway"`
	Health  string `yaml:"health" json:"health"`
	Metrics string `yaml:"metrics" json:"metrics"`
	Admin   string `yaml:"admin" json:"admin"`
	Report  string `yaml:"report" json:"report"`
}

// Intervals say how often state is fetched or expected, in milliseconds of the
// picker's clock.
type Intervals struct {
	PodReportMs float64 `yaml:"podReportIntervalMs" json:"podReportIntervalMs"`
	ScrapeMs    float64 `yaml:"scrapeMs" json:"scrapeMs"`
	ProbeMs     float64 `yaml:"probeMs" json:"probeMs"`
}

// Staleness says how old values may be, in seconds of the picker's clock.
// ReportsSeconds 0 means three report intervals.
type Staleness struct {
	MetricsSeconds float64 `yaml:"metricsSeconds" json:"metricsSeconds"`
	ReportsSeconds float64 `yaml:"reportsSeconds" json:"reportsSeconds"`
}

// Default is the configuration without a file.
func Default() Config {
	return Config{
		Preset: "default", MaxUtilization: 1, Saturation: score.Relax.String(),
		Addresses: Addresses{
			Gateway: "127.0.0.1:8080", Health: "127.0.0.1:9003", Metrics: "127.0.0.1:9090",
			Admin: "127.0.0.1:9091", Report: "127.0.0.1:9092",
		},
		Intervals:        Intervals{PodReportMs: 2000, ScrapeMs: 200, ProbeMs: 1000},
		Staleness:        Staleness{MetricsSeconds: 5},
		BlockSize:        16,
		ScorerDeadlineMs: 1,
	}
}

// Load reads a file over the defaults. Errors name the file, the line and, for a
// key that does not exist, the nearest one that does.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Config{}, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return Config{}, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	c, err := Parse(b)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads a configuration over the defaults. It does not validate: flags may
// still change settings, see [Config.Validate].
func Parse(b []byte) (Config, error) {
	c := Default()
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return c, nil
	}
	if err != nil {
		return c, plain(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return c, errors.New("more than one YAML document: only one is read")
	}
	if err := checkKeys(&doc, c); err != nil {
		return c, err
	}
	if has(&doc, "weights") && !has(&doc, "preset") {
		c.Preset = ""
	}
	if err := doc.Decode(&c); err != nil {
		return c, plain(err)
	}
	return c, nil
}

// plain takes the library's name out of an error message.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	return errors.New(strings.ReplaceAll(text, "\n  ", "; "))
}

// EngineWeights are the weights in the engine's form; custom lists the names of
// the registered custom scorers with the weights that the program gave them.
func (c *Config) EngineWeights(custom []score.CustomWeight) (score.Weights, error) {
	w := score.Weights{MaxQueue: 20}
	if c.Preset != "" {
		var err error
		if w, err = score.Preset(c.Preset); err != nil {
			return w, fmt.Errorf("preset: %w", err)
		}
	}
	w.Custom = slices.Clone(custom)
	if c.Preset == "" { // the file's weights replace the program's
		for i := range w.Custom {
			w.Custom[i].Weight = 0
		}
	}
	for key, v := range c.Weights {
		if err := w.Set(key, v); err != nil {
			return w, fmt.Errorf("weights: %w", err)
		}
	}
	if c.MaxQueue != 0 {
		w.MaxQueue = c.MaxQueue
	}
	w.MaxUtilization = c.MaxUtilization
	saturation, err := score.ParseSaturation(c.Saturation)
	if err != nil {
		return w, err
	}
	w.Saturation = saturation
	return w, w.Validate()
}

// Effective is the configuration with every weight and limit that is in force
// spelled out; [Parse] reads it back to the same weights.
func (c *Config) Effective(custom []score.CustomWeight) (Config, error) {
	w, err := c.EngineWeights(custom)
	if err != nil {
		return *c, err
	}
	out := *c
	out.Preset, out.MaxQueue = "", w.MaxQueue
	out.Weights = map[string]float64{
		"cache": w.Cache, "load": w.Load, "queue": w.Queue, "health": w.Health, "adapter": w.Adapter,
	}
	for _, k := range w.Custom {
		out.Weights[k.Name] = k.Weight
	}
	return out, nil
}

// Validate returns all that is wrong with the configuration, each problem with
// its key.
func (c *Config) Validate(custom []score.CustomWeight) error {
	_, err := c.EngineWeights(custom)
	problems := []error{err}
	positive := func(key string, v float64) {
		if !(v > 0 && v <= float64(24*time.Hour/time.Millisecond)) {
			problems = append(problems, fmt.Errorf("%s: must be above 0 and at most a day, got %v", key, v))
		}
	}
	positive("intervals.podReportIntervalMs", c.Intervals.PodReportMs)
	positive("intervals.scrapeMs", c.Intervals.ScrapeMs)
	positive("intervals.probeMs", c.Intervals.ProbeMs)
	positive("staleness.metricsSeconds", c.Staleness.MetricsSeconds)
	positive("scorerDeadlineMs", c.ScorerDeadlineMs)
	if !(c.Staleness.ReportsSeconds >= 0) {
		problems = append(problems, fmt.Errorf("staleness.reportsSeconds: must not be negative, got %v", c.Staleness.ReportsSeconds))
	}
	if c.BlockSize < 1 || c.BlockSize > 1024 {
		problems = append(problems, fmt.Errorf("blockSize: must be between 1 and 1024, got %d", c.BlockSize))
	}
	return errors.Join(append(problems, c.validateModels()...)...)
}

func (c *Config) validateModels() (problems []error) {
	taken := map[string]string{}
	name := func(place, n string) {
		switch other, ok := taken[n]; {
		case n == "":
			problems = append(problems, fmt.Errorf("%s: must not be empty", place))
		case ok:
			problems = append(problems, fmt.Errorf("%s: %q is already the name at %s", place, n, other))
		default:
			taken[n] = place
		}
	}
	for i, m := range c.Models {
		name(fmt.Sprintf("models[%d].name", i), m.Name)
		for j, a := range m.Aliases {
			name(fmt.Sprintf("models[%d].aliases[%d]", i, j), a)
		}
		for j, a := range m.Adapters {
			name(fmt.Sprintf("models[%d].adapters[%d]", i, j), a)
		}
	}
	return problems
}

// Warnings are settings that are allowed and seldom meant.
func (c *Config) Warnings(w *score.Weights) []string {
	var out []string
	if w.MaxQueue < 8 || w.MaxQueue > 40 {
		out = append(out, fmt.Sprintf("maxQueue %d is outside of 8 to 40: lower ones send requests to cold pods too early, higher ones let queues grow", w.MaxQueue))
	}
	if w.Cache == 0 {
		out = append(out, "weights.cache is 0: cached prefixes are ignored")
	}
	return out
}

// PoolLimits are the staleness limits in the pool's form.
func (c *Config) PoolLimits() pool.Limits {
	l := pool.Limits{Metrics: seconds(c.Staleness.MetricsSeconds), Reports: seconds(c.Staleness.ReportsSeconds)}
	if l.Reports == 0 {
		l.Reports = 3 * Milliseconds(c.Intervals.PodReportMs)
	}
	return l
}

// PoolModels is the model catalogue in the pool's form.
func (c *Config) PoolModels() []pool.ModelEntry {
	var out []pool.ModelEntry
	for _, m := range c.Models {
		out = append(out, pool.ModelEntry(m))
	}
	return out
}

// Milliseconds makes a duration of a number of milliseconds.
func Milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// YAML is the configuration as a file that [Parse] reads back to the same.
func (c *Config) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}
