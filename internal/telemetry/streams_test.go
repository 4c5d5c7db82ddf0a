package telemetry

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
)

// What a pod holds is not known before it was once connected, and then no blocks
// are shown for it: zero is for a pod that is empty by its events.
func TestBlocksOfSilentPods(t *testing.T) {
	full := kvfeed.Stats{Connections: 1}
	full.Tiers[kvevent.GPU], full.Tiers[kvevent.CPU] = 4, 2
	registry := prometheus.NewRegistry()
	registry.MustRegister(newStreamCollector(func() []PodStreams {
		return []PodStreams{
			{"silent", []kvfeed.Stats{{}, {Rank: 1}}},
			{"empty", []kvfeed.Stats{{Connections: 1}}},
			{"full", []kvfeed.Stats{{}, full}},
		}
	}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "epp_kv_blocks" {
			continue
		}
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
		}
	}
	if want := map[string]float64{"empty gpu": 0, "full gpu": 4, "full cpu": 2}; !maps.Equal(got, want) {
		t.Errorf("blocks %v, want %v", got, want)
	}
}
