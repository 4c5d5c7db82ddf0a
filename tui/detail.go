package tui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/explain"
)

// fact is a line "name  value" of a pane.
func (st *styles) fact(w int, name string, value ...span) string {
	return st.draw(w, append([]span{{faint, " " + st.fit(name, 16, false)}}, value...)...)
}

// renderDetail draws all that is known of one pod.
func renderDetail(p *explain.PodSnapshot, d *podsData, w, h int, st *styles) []string {
	if p == nil {
		return fill([]string{st.heading("POD", true, w), st.draw(w, span{text: " no pod is there"})}, w, h)
	}
	lines := []string{st.heading("POD "+st.clean(p.Pod), true, w, span{faint, p.Endpoint})}
	state := []span{{stateTone(p.State), p.State}}
	if p.Reason != "" {
		state = append(state, span{text: "  " + p.Reason})
	}
	lines = append(lines, st.fact(w, "state", state...))
	lines = append(lines, picksFacts(p, d, w, st)...)
	lines = append(lines, queueFacts(p, d.snap.FromOutside(), w, st)...)
	lines = append(lines, cacheFacts(p, w, st)...)
	lines = append(lines, healthFacts(p, d.snap.FromOutside(), w, st)...)
	for k := range metrics {
		lines = append(lines, st.draw(w, span{faint, " " + st.fit(strings.ToLower(metrics[k].name)+" history", 16, false)},
			span{accent, st.spark(d.history.of(p, k), min(max(w-18, 0), 60))}))
	}
	return fill(lines, w, h)
}

func picksFacts(p *explain.PodSnapshot, d *podsData, w int, st *styles) []string {
	var counts []string
	for i, n := range p.Picks {
		if i < len(d.snap.Windows) {
			counts = append(counts, fmt.Sprintf("%d in %s", n, windowName(d.snap.Windows[i].Seconds)))
		}
	}
	lines := []string{st.fact(w, "picks", span{text: st.percent(d.share(p)) + " of all  "}, span{faint, strings.Join(counts, ", ")})}
	if len(p.DecidedBy) == 0 {
		return lines
	}
	names := slices.Collect(maps.Keys(p.DecidedBy))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(-cmp.Compare(p.DecidedBy[a], p.DecidedBy[b]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %d", name, p.DecidedBy[name]))
	}
	return append(lines, st.fact(w, "decided by", span{text: strings.Join(parts, ", ")}))
}

// queueFacts puts what the picker has in flight beside what the engine says. From
// outside the picker's numbers are not known.
func queueFacts(p *explain.PodSnapshot, outside bool, w int, st *styles) []string {
	q := &p.Queue
	waiting := st.amountOf(q.Waiting) + " waiting"
	if q.Stale {
		waiting += " (too old to count)"
	}
	limit := st.glyphs.unknown
	if q.Max > 0 {
		limit = amount(float64(q.Max))
	}
	has := st.glyphs.unknown
	if q.Waiting != nil && p.Running != nil {
		has = amount(*q.Waiting + *p.Running)
	}
	number := func(v int) string {
		if outside {
			return st.glyphs.unknown
		}
		return fmt.Sprint(v)
	}
	pending := number(q.Pending) + " pending"
	if q.PeerPending > 0 {
		pending += fmt.Sprintf(" + %d by other replicas", q.PeerPending)
	}
	return []string{
		st.fact(w, "queue", span{text: fmt.Sprintf("%s, %s, limit %s", waiting, pending, limit)}),
		st.fact(w, "in flight", span{text: fmt.Sprintf("%s by the picker, %s by the engine (%s running)", number(q.InFlight), has, st.amountOf(p.Running))}),
		st.fact(w, "load", span{text: st.percent(p.Load)}, span{faint, " " + p.LoadSource}),
		st.fact(w, "last minute", span{text: fmt.Sprintf("%s ended, TTFT p95 %s", number(p.Served), st.latency(p.TTFTP95))}),
	}
}

func cacheFacts(p *explain.PodSnapshot, w int, st *styles) []string {
	lines := []string{st.fact(w, "cache",
		span{text: st.wholeOf(p.CachedBlocks) + " blocks known"}, span{faint, " (" + orUnknown(p.CacheSource, st) + ")"},
		span{text: ", hit ratio " + st.percent(p.CacheHitRatio) + ", engine's cache " + st.percent(p.KVUsage) + " full"})}
	s := p.Stream
	if s == nil {
		return append(lines, st.fact(w, "events", span{faint, "no stream"}))
	}
	t := plain
	if s.Connected < s.Ranks {
		t = bad
	}
	lines = append(lines, st.fact(w, "events", span{t, fmt.Sprintf("%d of %s connected", s.Connected, count(s.Ranks, "rank"))},
		span{text: fmt.Sprintf(", %s, last %s ago", st.rate(&s.EventsPerSecond), st.age(s.AgeSeconds))}))
	lines = append(lines, st.fact(w, "", span{text: fmt.Sprintf("gaps %d, orphans %d, not decoded %d, replays %d", s.Gaps, s.Orphans, s.DecodeErrors, s.Replays)}))
	if s.Degraded != "" {
		lines = append(lines, st.fact(w, "", span{warn, s.Degraded}))
	}
	return lines
}

func healthFacts(p *explain.PodSnapshot, outside bool, w int, st *styles) []string {
	health := []span{{text: st.decimal(p.Health, 2)}}
	if p.Flaps > 0 {
		health = append(health, span{warn, fmt.Sprintf("  out or back %d times in 5 minutes", p.Flaps)})
	}
	lines := []string{st.fact(w, "health", health...)}
	for _, signal := range p.Signals {
		lines = append(lines, st.fact(w, "", span{warn, signal}))
	}
	a := &p.Adapters
	loaded := st.glyphs.unknown
	if a.Loaded != nil {
		loaded = strings.Join(a.Loaded, ", ")
		if loaded == "" {
			loaded = "none"
		}
	}
	slots := fmt.Sprintf("  of %s slots", st.wholeOf(a.Max))
	if !outside {
		slots += fmt.Sprintf(", %d loaded by picks", a.Loads)
	}
	return append(lines,
		st.fact(w, "adapters", span{text: loaded}, span{faint, slots}),
		st.fact(w, "figures", span{text: st.age(p.AgeSeconds) + " old"}))
}
