package config

import (
	"errors"
	"fmt"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

// Events say how the KV events of the servers are listened to. The ports are those
// of servers that do not tell theirs.
type Events struct {
	Enabled    bool   `yaml:"enabled" json:"enabled"`
	Port       int    `yaml:"port" json:"port"`
	ReplayPort int    `yaml:"replayPort" json:"replayPort"` // 0 = none
	Topic      string `yaml:"topic" json:"topic"`
	OnGap      string `yaml:"onGap" json:"onGap"`
	// Tiers are where a block counts as cached.
	Tiers        []string `yaml:"tiers" json:"tiers"`
	LimitSeconds float64  `yaml:"limitSeconds" json:"limitSeconds"`
}

// The values of [Events.OnGap].
const (
	gapKeep  = "keep"
	gapClear = "clear"
)

// tiers are the names of [Events.Tiers].
var tiers = map[string]kvevent.Tier{
	kvevent.GPU.String(): kvevent.GPU, kvevent.CPU.String(): kvevent.CPU,
	kvevent.Disk.String(): kvevent.Disk, kvevent.External.String(): kvevent.External,
}

const maxPort = 65535

func (e *Events) validate() []error {
	problems := []error{
		within("events.port", e.Port, 1, maxPort),
		within("events.replayPort", e.ReplayPort, 0, maxPort),
	}
	if e.ReplayPort == e.Port {
		problems = append(problems, fmt.Errorf("events.replayPort: must be another than events.port, got %d", e.Port))
	}
	if e.OnGap != gapKeep && e.OnGap != gapClear {
		problems = append(problems, fmt.Errorf("events.onGap: must be %s or %s, got %q", gapKeep, gapClear, e.OnGap))
	}
	if len(e.Tiers) == 0 {
		problems = append(problems, errors.New("events.tiers: must not be empty; switch events off with events.enabled"))
	}
	for i, t := range e.Tiers {
		if _, ok := tiers[t]; !ok {
			problems = append(problems, fmt.Errorf("events.tiers[%d]: must be gpu, cpu, disk or external, got %q", i, t))
		}
	}
	return problems
}

// Feeds are the settings of KV events in the form of their package.
func (e *Events) Feeds() kvfeed.Config {
	c := kvfeed.Config{Port: e.Port, ReplayPort: e.ReplayPort, Topic: e.Topic}
	if e.OnGap == gapClear {
		c.OnGap = kvindex.Clear
	}
	for _, t := range e.Tiers {
		c.Counted |= kvindex.Tiers(tiers[t])
	}
	return c
}
