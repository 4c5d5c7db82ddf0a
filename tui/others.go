package tui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/explain"
)

// renderAdapters draws which pods have loaded which LoRA adapter.
func renderAdapters(snap *explain.Snapshot, scroll, w, h int, st *styles) []string {
	lines := []string{st.heading("ADAPTERS", true, w, span{faint, "loads by picks in the last minute: " + loads(snap)})}
	pods := map[string][]string{}
	unknown := 0
	for i := range snap.Pods {
		p := &snap.Pods[i]
		if p.Adapters.Loaded == nil {
			unknown++
		}
		for _, name := range p.Adapters.Loaded {
			pods[name] = append(pods[name], p.Pod)
		}
	}
	names := slices.Collect(maps.Keys(pods))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(-cmp.Compare(len(pods[a]), len(pods[b])), cmp.Compare(a, b))
	})
	if len(names) == 0 {
		lines = append(lines, st.draw(w, span{faint, " no adapter is loaded anywhere, as far as is known"}))
	} else {
		lines = append(lines, st.draw(w, span{faint, " " + st.fit("ADAPTER", 24, false) + "  PODS"}))
	}
	for _, name := range names {
		lines = append(lines, st.draw(w, span{strong, " " + st.fit(name, 24, false)},
			span{text: "  " + st.fit(amount(float64(len(pods[name]))), 4, true) + "  "}, span{text: strings.Join(pods[name], " ")}))
	}
	if unknown > 0 {
		lines = append(lines, st.draw(w, span{faint, fmt.Sprintf(" %s tell nothing of adapters", count(unknown, "pod"))}))
	}
	for i := range snap.Pods {
		if p := &snap.Pods[i]; p.Adapters.Loads > 0 {
			lines = append(lines, st.draw(w, span{text: fmt.Sprintf(" %s loaded %d", p.Pod, p.Adapters.Loads)}))
		}
	}
	return scrolled(lines, scroll, w, h)
}

func loads(snap *explain.Snapshot) string {
	if len(snap.Windows) < 2 || snap.FromOutside() {
		return "not known"
	}
	return amount(float64(snap.Windows[1].AdapterLoads))
}

// scrolled keeps the first line of a pane in place.
func scrolled(lines []string, scroll, w, h int) []string {
	if len(lines) > h && h > 1 {
		at := max(min(scroll, len(lines)-h), 0)
		lines = append(lines[:1], lines[1+at:]...)
	}
	return fill(lines, w, h)
}

// renderIndex draws the prefix tree and the streams that feed it.
func renderIndex(snap *explain.Snapshot, scroll, w, h int, st *styles) []string {
	x := &snap.Index
	lines := []string{st.heading("INDEX", true, w)}
	size := st.glyphs.unknown
	if x.Bytes != nil {
		size = amount(float64(*x.Bytes)) + "B"
	}
	heard := span{bad, "never"}
	if x.LastHeard != nil {
		heard = span{text: st.age(x.LastHeard) + " ago"}
		if *x.LastHeard > 30 {
			heard.tone = bad
		}
	}
	lines = append(lines,
		st.fact(w, "blocks", span{text: st.wholeOf(x.Blocks) + " in " + size}),
		st.fact(w, "last heard", heard),
		st.fact(w, "streams", span{text: fmt.Sprintf("%d of %d connected, %s", x.Connected, x.Streams, st.rate(x.EventsPerSecond))}),
		st.fact(w, "losses", span{text: fmt.Sprintf("%s, %s", count(int(x.Gaps), "gap"), count(int(x.Orphans), "orphan"))}))
	if snap.FromOutside() { // which tells nothing of what feeds the tree
		lines = lines[:2]
	}
	lines = append(lines, "",
		st.draw(w, span{faint, " " + st.fit("POD", 12, false) + "  BLOCKS BY      EVENTS LAST   GAPS ORPHANS REPLAYS STATE"}))
	for i := range snap.Pods {
		lines = append(lines, st.draw(w, indexSpans(&snap.Pods[i], st)...))
	}
	for _, what := range snap.Missing {
		lines = append(lines, st.draw(w, span{faint, " not known here: " + what}))
	}
	return scrolled(lines, scroll, w, h)
}

func indexSpans(p *explain.PodSnapshot, st *styles) []span {
	spans := []span{
		{strong, " " + st.fit(p.Pod, 12, false)},
		{text: "  " + st.fit(st.wholeOf(p.CachedBlocks), 6, true) + " " + st.fit(orUnknown(p.CacheSource, st), 7, false) + " "},
	}
	s := p.Stream
	if s == nil {
		return append(spans, span{faint, "no stream"})
	}
	spans = append(spans, span{text: fmt.Sprintf("%s %s %s %s %s ",
		st.fit(st.rate(&s.EventsPerSecond), 6, true), st.fit(st.age(s.AgeSeconds), 6, false), st.fit(amount(float64(s.Gaps)), 4, true),
		st.fit(amount(float64(s.Orphans)), 7, true), st.fit(amount(float64(s.Replays)), 7, true))})
	switch {
	case s.Connected < s.Ranks:
		return append(spans, span{bad, fmt.Sprintf("%d of %s", s.Connected, count(s.Ranks, "rank"))})
	case s.Degraded != "":
		return append(spans, span{warn, s.Degraded})
	}
	return append(spans, span{text: "whole"})
}
