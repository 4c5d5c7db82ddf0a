package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/eppctl/eppctl/internal/tokens"
	"github.com/eppctl/eppctl/score"
)

// Bounds of durations: above a day nobody waits for anything, and below the least
// a timer would not rest.
const (
	day           = 24 * time.Hour
	leastInterval = time.Millisecond
	leastDeadline = time.Microsecond
	// leastProbe keeps requests for single tokens from becoming a load.
	leastProbe = time.Second
)

// Bounds of the ext_proc server: a decision keeps no more pods in order, and each
// stream is a request with its buffers.
const (
	mostFallbacks = score.OrderLength - 1
	mostStreams   = 1_000_000
)

// mostCacheMiB bounds the cache of token ids.
const mostCacheMiB = 64 << 10

// mostAssumed bounds the tokens that a cache may be assumed to hold.
const mostAssumed = 1 << 25

// Validate returns all that is wrong with the configuration, each problem with its
// key, and with file and line when it stands in a file.
func (c *Config) Validate(custom []score.CustomWeight) error {
	_, err := c.EngineWeights(custom)
	ms, s := time.Millisecond, time.Second
	problems := []error{
		between("intervals.podReportIntervalMs", c.Intervals.PodReportMs, ms, leastInterval),
		between("intervals.scrapeMs", c.Intervals.ScrapeMs, ms, leastInterval),
		between("intervals.probeMs", c.Intervals.ProbeMs, ms, leastInterval),
		between("staleness.metricsSeconds", c.Staleness.MetricsSeconds, s, leastInterval),
		between("probes.intervalSeconds", c.Probes.IntervalSeconds, s, leastProbe),
		between("probes.timeoutSeconds", c.Probes.TimeoutSeconds, s, leastInterval),
		between("scorerDeadlineMs", c.ScorerDeadlineMs, ms, leastDeadline),
		between("extproc.bodyTimeoutSeconds", c.Extproc.BodyTimeoutSeconds, s, leastInterval),
		between("extproc.idleTimeoutSeconds", c.Extproc.IdleTimeoutSeconds, s, leastInterval),
		between("extproc.endTimeoutSeconds", c.Extproc.EndTimeoutSeconds, s, leastInterval),
		within("extproc.fallbacks", c.Extproc.Fallbacks, 0, mostFallbacks),
		within("extproc.maxStreams", c.Extproc.MaxStreams, 1, mostStreams),
		within("blockSize", c.BlockSize, 1, 1024),
		between("events.limitSeconds", c.Events.LimitSeconds, s, leastInterval),
		within("assume.tokens", c.Assume.Tokens, 1, mostAssumed),
		between("tokens.timeoutMs", c.Tokens.TimeoutMs, ms, leastInterval),
		within("tokens.cacheMiB", c.Tokens.CacheMiB, 1, mostCacheMiB),
		c.Tokens.validate(),
	}
	if c.Staleness.ReportsSeconds != 0 {
		problems = append(problems, between("staleness.reportsSeconds", c.Staleness.ReportsSeconds, s, leastInterval))
	}
	problems = append(append(problems, c.Events.validate()...), c.validateModels()...)
	return errors.Join(err, c.from.place(errors.Join(problems...)))
}

func (t *Tokens) validate() error {
	if t.RenderURL != "" {
		if err := tokens.CheckURL(t.RenderURL); err != nil {
			return fmt.Errorf("tokens.renderURL: %w", err)
		}
	}
	switch source := tokens.Source(t.Source); source {
	case tokens.SourceAuto, tokens.SourceEngine, tokens.SourceApproximate:
		return nil
	case tokens.SourceRender:
		if t.RenderURL != "" {
			return nil
		}
		return errors.New("tokens.source: render needs tokens.renderURL")
	}
	return errors.New("tokens.source: must be auto, engine, render or approximate")
}

// between checks a duration that is written as a number of units.
func between(key string, v float64, unit, least time.Duration) error {
	from, to := least.Seconds()/unit.Seconds(), day.Seconds()/unit.Seconds()
	if v >= from && v <= to {
		return nil
	}
	return fmt.Errorf("%s: must be between %s and %s (a day), got %v", key, plainNumber(from), plainNumber(to), v)
}

// within checks a count.
func within(key string, v, from, to int) error {
	if v >= from && v <= to {
		return nil
	}
	return fmt.Errorf("%s: must be between %d and %d, got %d", key, from, to, v)
}

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

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
