package vllm

import (
	"slices"
	"time"
)

// adapters are the LoRA slots of an engine.
type adapters struct {
	loadable map[string]time.Duration // name → load time
	slots    int
	loaded   []string // least recently used first
}

func newAdapters(list []Adapter, slots int) adapters {
	a := adapters{loadable: make(map[string]time.Duration, len(list)), slots: slots}
	for _, adapter := range list {
		a.loadable[adapter.Name] = adapter.loadTime()
	}
	return a
}

func (a *adapters) known(name string) bool {
	_, ok := a.loadable[name]
	return ok || name == ""
}

// canUse says whether a sequence for name could start beside the running ones.
func (a *adapters) canUse(name string, running []*Sequence) bool {
	return name == "" || slices.Contains(a.loaded, name) || len(a.loaded) < a.slots || a.victim(running) >= 0
}

// victim is the least recently used adapter that no running sequence needs.
func (a *adapters) victim(running []*Sequence) int {
	return slices.IndexFunc(a.loaded, func(name string) bool {
		return !slices.ContainsFunc(running, func(s *Sequence) bool { return s.Adapter == name })
	})
}

// use marks name as used last, loads it if need be, and says how long that takes.
func (a *adapters) use(name string, running []*Sequence) time.Duration {
	if name == "" {
		return 0
	}
	if i := slices.Index(a.loaded, name); i >= 0 {
		a.loaded = append(slices.Delete(a.loaded, i, i+1), name)
		return 0
	}
	if len(a.loaded) == a.slots {
		i := a.victim(running)
		a.loaded = slices.Delete(a.loaded, i, i+1)
	}
	a.loaded = append(a.loaded, name)
	return a.loadable[name]
}

// dropIdle unloads those that no running sequence needs.
func (a *adapters) dropIdle(running []*Sequence) {
	for i := a.victim(running); i >= 0; i = a.victim(running) {
		a.loaded = slices.Delete(a.loaded, i, i+1)
	}
}

func (a *adapters) names() []string { return slices.Sorted(slices.Values(a.loaded)) }

// adaptersOf lists the adapters that sequences use, each once.
func adaptersOf(sequences []*Sequence) []string {
	var names []string
	for _, s := range sequences {
		if s.Adapter != "" && !slices.Contains(names, s.Adapter) {
			names = append(names, s.Adapter)
		}
	}
	slices.Sort(names)
	return names
}
