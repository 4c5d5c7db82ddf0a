package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
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
func readAdapters(f families, d dialect, p *Page) {
	if d.lora == "" {
		p.AdaptersState = unknown("", d.engine+" does not say on its page which adapters are loaded")
		return
	}
	samples := f.of(d.lora)
	if len(samples) == 0 {
		p.AdaptersState = Value{Known: true, Reason: "no LoRA"}
		return
	}
	newest := newestByRank(samples, d.rank)
	if len(newest) == 0 {
		p.AdaptersState = unknown(d.lora, d.lora+" has no series with a time")
		return
	}
	names := make(map[string]bool)
	for _, samples := range newest {
		for i := range samples {
			addNames(names, samples[i].label(runningAdapters))
			addNames(names, samples[i].label(waitingAdapters))
		}
		p.MaxAdapters = max(p.MaxAdapters, largest(samples, labelNumber(maxAdapterLabel)))
	}
	if len(names) > maxAdapters {
		p.AdaptersState = unknown(d.lora, fmt.Sprintf("%s names more than %d adapters", d.lora, maxAdapters))
		return
	}
	p.Adapters = slices.Sorted(maps.Keys(names))
	p.AdaptersState = Value{V: float64(len(names)), Known: true, Series: d.lora}
}

// newestByRank returns each rank's series of the largest finite value.
func newestByRank(samples []sample, rankLabel string) map[string][]sample {
	newest := make(map[string][]sample, 1)
	for i := range samples {
		s := &samples[i]
		if math.IsNaN(s.value) || math.IsInf(s.value, 0) {
			continue
		}
		rank := s.label(rankLabel)
		last := newest[string(rank)]
		if len(last) > 0 && s.value > last[0].value {
			last = last[:0]
		}
		if len(last) == 0 || s.value == last[0].value {
			newest[string(rank)] = append(last, *s)
		}
	}
	return newest
}

// addNames adds the names of a list that is separated by commas.
func addNames(names map[string]bool, list []byte) {
	for name := range bytes.SplitSeq(list, []byte(",")) {
		if name = bytes.TrimSpace(name); len(name) > 0 {
			names[string(name)] = true
		}
	}
}
