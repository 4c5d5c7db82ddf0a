// Package config is the one configuration file of eppctl serve: strict YAML with
// defaults and presets.
//
// The one idea: a setting that is not understood is an error with its line and
// the nearest right key, never ignored. A file that loads is valid.
//
// Flags and variables come before the file, the file before the weights that a
// program of its own was built with ([Config.Overlay], [Config.UseProgram]), and
// those before the defaults. The package does not read flags or the environment
// itself, and does not watch the file.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/tokens"
	"github.com/eppctl/eppctl/score"
)

// maxFile bounds a configuration file.
const maxFile = 1 << 20

// Config is the configuration of a picker. The YAML keys are the field tags.
type Config struct {
	// Preset names a set of weights to start from; Weights then changes single
	// ones. Without a preset, Weights has to be complete.
	Preset  string             `yaml:"preset,omitempty" json:"preset,omitempty"`
	Weights map[string]float64 `yaml:"weights,omitempty" json:"weights,omitempty"`
	// MaxQueue is the preset's (without one 20) when it is 0 and was not asked for.
	MaxQueue       int     `yaml:"maxQueue,omitempty" json:"maxQueue,omitempty"`
	MaxUtilization float64 `yaml:"maxUtilization" json:"maxUtilization"`
	Saturation     string  `yaml:"saturation" json:"saturation"`

	Models    []Model   `yaml:"models,omitempty" json:"models,omitempty"`
	Addresses Addresses `yaml:"addresses" json:"addresses"`
	Extproc   Extproc   `yaml:"extproc" json:"extproc"`
	Intervals Intervals `yaml:"intervals" json:"intervals"`
	Staleness Staleness `yaml:"staleness" json:"staleness"`
	Probes    Probes    `yaml:"probes" json:"probes"`
	Events    Events    `yaml:"events" json:"events"`
	Assume    Assume    `yaml:"assume" json:"assume"`
	Tokens    Tokens    `yaml:"tokens" json:"tokens"`
	BlockSize int       `yaml:"blockSize" json:"blockSize"`
	// AllowHeaders names the request headers that custom scorers may see.
	AllowHeaders []string `yaml:"allowHeaders,omitempty" json:"allowHeaders,omitempty"`
	// ScorerDeadlineMs is how long custom scorers may take, in wall time.
	ScorerDeadlineMs float64 `yaml:"scorerDeadlineMs" json:"scorerDeadlineMs"`

	// chosen: a file, a variable or a flag names a preset or weights, so that the
	// program's own are out of force, see [Config.UseProgram].
	chosen bool
	// queueChosen is the same for MaxQueue: 0 is then wrong and no default.
	queueChosen bool
	from        origin
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
	Extproc string `yaml:"extproc" json:"extproc"`
	Health  string `yaml:"health" json:"health"`
	Metrics string `yaml:"metrics" json:"metrics"`
	Admin   string `yaml:"admin" json:"admin"`
	Report  string `yaml:"report" json:"report"`
}

// Extproc are the settings of the ext_proc server; its times are wall time.
type Extproc struct {
	// Fallbacks is how many endpoints follow the picked one in the destination.
	Fallbacks      int  `yaml:"fallbacks" json:"fallbacks"`
	ScoresMetadata bool `yaml:"scoresMetadata" json:"scoresMetadata"`
	MaxStreams     int  `yaml:"maxStreams" json:"maxStreams"`

	BodyTimeoutSeconds float64 `yaml:"bodyTimeoutSeconds" json:"bodyTimeoutSeconds"`
	IdleTimeoutSeconds float64 `yaml:"idleTimeoutSeconds" json:"idleTimeoutSeconds"`
	EndTimeoutSeconds  float64 `yaml:"endTimeoutSeconds" json:"endTimeoutSeconds"`
}

// Intervals say how often state is fetched or expected, in milliseconds of the
// picker's clock.
type Intervals struct {
	PodReportMs float64 `yaml:"podReportIntervalMs" json:"podReportIntervalMs"`
	ScrapeMs    float64 `yaml:"scrapeMs" json:"scrapeMs"`
	ProbeMs     float64 `yaml:"probeMs" json:"probeMs"`
}

// Staleness says how old values may be, in seconds of the picker's clock.
// ReportsSeconds 0 means three report intervals, and a day at most.
type Staleness struct {
	MetricsSeconds float64 `yaml:"metricsSeconds" json:"metricsSeconds"`
	ReportsSeconds float64 `yaml:"reportsSeconds" json:"reportsSeconds"`
}

// Probes are requests for one token, which show that an engine still computes.
type Probes struct {
	Active          bool    `yaml:"active" json:"active"`
	IntervalSeconds float64 `yaml:"intervalSeconds" json:"intervalSeconds"` // of the picker's clock
	TimeoutSeconds  float64 `yaml:"timeoutSeconds" json:"timeoutSeconds"`   // of wall time
}

// Interval is 0 when they are off.
func (p *Probes) Interval() time.Duration {
	if !p.Active {
		return 0
	}
	return Seconds(p.IntervalSeconds)
}

// Assume lets what was sent to a server count as cached there while neither events
// nor reports tell what is.
type Assume struct {
	Enabled bool `yaml:"enabled" json:"enabled"`
	// Tokens are what a cache holds whose server does not say.
	Tokens int `yaml:"tokens" json:"tokens"`
}

// Tokens says where the ids of prompts in words come from; its time is wall time.
type Tokens struct {
	// Source is one of package tokens; with auto, simulated pods are not asked, whose
	// ids are the approximate ones.
	Source    string  `yaml:"source" json:"source"`
	RenderURL string  `yaml:"renderURL" json:"renderURL"`
	TimeoutMs float64 `yaml:"timeoutMs" json:"timeoutMs"`
	CacheMiB  int     `yaml:"cacheMiB" json:"cacheMiB"`
}

// Default is the configuration without a file.
func Default() Config {
	return Config{
		Preset: "default", MaxUtilization: 1, Saturation: score.Relax.String(),
		Addresses: Addresses{
			Gateway: "127.0.0.1:8080", Extproc: "127.0.0.1:9002", Health: "127.0.0.1:9003",
			Metrics: "127.0.0.1:9090", Admin: "127.0.0.1:9091", Report: "127.0.0.1:9092",
		},
		Extproc:          Extproc{MaxStreams: 20_000, BodyTimeoutSeconds: 60, IdleTimeoutSeconds: 3600, EndTimeoutSeconds: 300},
		Intervals:        Intervals{PodReportMs: 2000, ScrapeMs: 200, ProbeMs: 1000},
		Staleness:        Staleness{MetricsSeconds: 5},
		Probes:           Probes{IntervalSeconds: 30, TimeoutSeconds: 10},
		Events:           Events{Enabled: true, Port: 5557, OnGap: gapKeep, TierWeights: TierWeights{GPU: 1}, LimitSeconds: 30},
		Assume:           Assume{Tokens: 131_072},
		Tokens:           Tokens{Source: string(tokens.SourceAuto), TimeoutMs: 150, CacheMiB: 64},
		BlockSize:        16,
		ScorerDeadlineMs: 1,
	}
}

// InCluster is the configuration without a file of a picker for pools of a cluster:
// it is spoken to from elsewhere, but for the admin API, and gateways are others'.
func InCluster() Config {
	c := Default()
	c.Addresses = Addresses{Extproc: ":9002", Health: ":9003", Metrics: ":9090", Admin: c.Addresses.Admin, Report: ":9092"}
	return c
}

// Load is [Read] for a file.
func Load(path string, base Config) (Config, error) {
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
	return Read(path, b, base)
}

// Read reads a configuration over the given one: [Default], or [InCluster]. It does
// not validate: flags may still change settings, and the names of weights are known
// to the caller alone, see [Config.Validate]. Errors name what is read, the line and,
// for a key that does not exist, the nearest one that does.
func Read(name string, b []byte, c Config) (Config, error) {
	c.from = origin{file: name, lines: map[string]int{}}
	if err := strict(b, &c, c.from); err != nil {
		return c, err
	}
	c.chosen = c.from.has("weights") || c.from.has("preset")
	c.queueChosen = c.from.has("maxQueue")
	if c.from.has("weights") && !c.from.has("preset") {
		c.Preset = ""
	}
	return c, nil
}

// Strict reads a YAML file of another kind over the values of a struct as a
// configuration is read: what is not understood is an error that names the line.
func Strict(file string, b []byte, into any) error {
	return strict(b, into, origin{file: file, lines: map[string]int{}})
}

// strict reads a document over the values of a struct, and notes the lines.
func strict(b []byte, into any, from origin) error {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return from.wrap(plain(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return from.wrap(errors.New("more than one YAML document: only one is read"))
	}
	if err := checkKeys(&doc, reflect.TypeOf(into).Elem(), from); err != nil {
		return err
	}
	if err := doc.Decode(into); err != nil {
		return from.wrap(plain(err))
	}
	return nil
}

// plain takes the library's name out of an error message.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	return errors.New(strings.ReplaceAll(text, "\n  ", "; "))
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
	l := pool.Limits{
		Metrics: Seconds(c.Staleness.MetricsSeconds), Reports: Seconds(c.Staleness.ReportsSeconds), Events: Seconds(c.Events.LimitSeconds),
		Generation: min(3*Seconds(c.Probes.IntervalSeconds), day),
	}
	if l.Reports == 0 {
		l.Reports = min(3*Milliseconds(c.Intervals.PodReportMs), day)
	}
	return l
}

// PoolAssume is the assumed size of a cache in the pool's form.
func (c *Config) PoolAssume() int {
	if !c.Assume.Enabled {
		return 0
	}
	return c.Assume.Tokens
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

// Seconds makes a duration of a number of seconds.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

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
