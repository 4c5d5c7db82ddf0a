package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Labels of vLLM's adapter family.
const (
	runningAdapters = "running_lora_adapters"
	waitingAdapters = "waiting_lora_adapters"
	maxAdapterLabel = "max_lora"
)

// readAdapters fills in the adapters. The family's value is the unix time of
// the last update, and each combination of labels that ever was stays on the
// page as a series of its own: the newest is the present state. Series of the
// same newest time (a simulator counts whole seconds) all count, since an
// adapter that ran within that second is still loaded.
func readAdapters(families familySet, d dialect, p *Page) {
	if d.lora == "" {
		p.AdaptersState = unknown("", d.engine+" does not say on its page which adapters are loaded")
		return
	}
	f := families[d.lora]
	if f == nil {
		p.AdaptersState = Value{Known: true, Reason: "no LoRA"}
		return
	}
	newest := newestByRank(f, d.rank)
	if len(newest) == 0 {
		p.AdaptersState = unknown(d.lora, d.lora+" has no series with a time")
		return
	}
	names := make(map[string]bool)
	for _, metrics := range newest {
		for _, m := range metrics {
			addNames(names, m, runningAdapters)
			addNames(names, m, waitingAdapters)
			n, _ := labelNumber(maxAdapterLabel)(m)
			if n > float64(p.MaxAdapters) && n <= math.MaxInt32 {
				p.MaxAdapters = int(n)
			}
		}
	}
	if len(names) > maxAdapters {
		p.AdaptersState = unknown(d.lora, fmt.Sprintf("%s names more than %d adapters", d.lora, maxAdapters))
		return
	}
	p.Adapters = slices.Sorted(maps.Keys(names))
	p.AdaptersState = Value{V: float64(len(names)), Known: true, Series: d.lora}
}

// newestByRank returns each rank's series of the largest finite value.
func newestByRank(f *dto.MetricFamily, rankLabel string) map[string][]*dto.Metric {
	newest := make(map[string][]*dto.Metric, 1)
	times := make(map[string]float64, 1)
	for _, m := range f.GetMetric() {
		t, ok := scalar(m)
		if !ok || math.IsNaN(t) || math.IsInf(t, 0) {
			continue
		}
		rank, _ := label(m, rankLabel)
		last, seen := times[rank]
		switch {
		case !seen || t > last:
			times[rank] = t
			newest[rank] = append(newest[rank][:0], m)
		case t == last:
			newest[rank] = append(newest[rank], m)
		}
	}
	return newest
}

func addNames(names map[string]bool, m *dto.Metric, labelName string) {
	list, _ := label(m, labelName)
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = true
		}
	}
}
