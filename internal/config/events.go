package config

import (
	"fmt"
	"net"
	"strconv"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

// Events say how the KV events of the servers are listened to. The ports are those
// of servers that do not tell theirs.
type Events struct {
	Enabled    bool   `yaml:"enabled" json:"enabled"`
	Listen     string `yaml:"listen" json:"listen"` // host:port where engines connect to; "" = nowhere
	Port       int    `yaml:"port" json:"port"`
	ReplayPort int    `yaml:"replayPort" json:"replayPort"` // 0 = none
	Topic      string `yaml:"topic" json:"topic"`
	OnGap      string `yaml:"onGap" json:"onGap"`
	// TierWeights are how much a block counts as cached by where it is.
	TierWeights  TierWeights `yaml:"tierWeights" json:"tierWeights"`
	LimitSeconds float64     `yaml:"limitSeconds" json:"limitSeconds"`
}

// TierWeights are what a block is worth by its tier, from 0 to 1; on the GPU it is
// always 1.
type TierWeights struct {
	GPU      float64 `yaml:"gpu" json:"gpu"`
	CPU      float64 `yaml:"cpu" json:"cpu"`
	Disk     float64 `yaml:"disk" json:"disk"`
	External float64 `yaml:"external" json:"external"`
}

// The values of [Events.OnGap].
const (
	gapKeep  = "keep"
	gapClear = "clear"
)

const maxPort = 65535

func (e *Events) validate() []error {
	problems := []error{
		within("events.port", e.Port, 1, maxPort),
		within("events.replayPort", e.ReplayPort, 0, maxPort),
	}
	if e.ReplayPort == e.Port {
		problems = append(problems, fmt.Errorf("events.replayPort: must be another than events.port, got %d", e.Port))
	}
	if err := checkListen(e.Listen); err != nil {
		problems = append(problems, err)
	}
	if e.OnGap != gapKeep && e.OnGap != gapClear {
		problems = append(problems, fmt.Errorf("events.onGap: must be %s or %s, got %q", gapKeep, gapClear, e.OnGap))
	}
	return append(problems, e.TierWeights.validate()...)
}

// checkListen checks an address that engines connect to; "" is none.
func checkListen(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("events.listen: must be HOST:PORT, such as 0.0.0.0:5557, got %q", address)
	}
	return nil
}

func (w *TierWeights) validate() (problems []error) {
	if w.GPU != 1 {
		problems = append(problems, fmt.Errorf(
			"events.tierWeights.gpu: must be 1, got %v: the others are relative to it; switch events off with events.enabled", w.GPU))
	}
	for tier, v := range w.byTier() {
		if tier := kvevent.Tier(tier); tier != kvevent.GPU && !(v >= 0 && v <= 1) {
			problems = append(problems, fmt.Errorf("events.tierWeights.%s: must be between 0 and 1, got %v", tier, v))
		}
	}
	return problems
}

// byTier are the weights in the form of their package.
func (w *TierWeights) byTier() *kvindex.TierWeights {
	return &kvindex.TierWeights{kvevent.GPU: w.GPU, kvevent.CPU: w.CPU, kvevent.Disk: w.Disk, kvevent.External: w.External}
}

// Feeds are the settings of KV events in the form of their package.
func (e *Events) Feeds() kvfeed.Config {
	c := kvfeed.Config{Port: e.Port, ReplayPort: e.ReplayPort, Topic: e.Topic, Levels: e.TierWeights.byTier().Levels()}
	if e.OnGap == gapClear {
		c.OnGap = kvindex.Clear
	}
	return c
}
