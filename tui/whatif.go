package tui

import (
	"fmt"

	"github.com/eppctl/eppctl/explain"
)

// maxTried is how many recorded decisions are tried again.
const maxTried = 500

// whatIfState is what is tried, and what came of it.
type whatIfState struct {
	knobs   []knob
	at      int // the knob that the keys turn
	scroll  int // of the changes
	records []*explain.Record
	asked   int // number of the last question; older answers are dropped
	waiting bool
	err     error
	result  *trialResult
}

// sync takes the weights in force from a snapshot, as long as nothing is tried.
func (s *whatIfState) sync(w *explain.Weights) {
	if changed(s.knobs) {
		return
	}
	if next := knobsOf(w); len(next) > 0 {
		s.knobs, s.at = next, min(s.at, len(next)-1)
	}
}

// renderWhatIf draws the weights, and what other ones would have picked.
func renderWhatIf(s *whatIfState, focused bool, w, h int, st *styles) []string {
	right := []span{}
	if s.waiting {
		right = append(right, span{faint, "trying" + st.glyphs.cut})
	}
	lines := []string{st.heading("WHAT IF", focused, w, right...)}
	if len(s.knobs) == 0 {
		lines = append(lines, st.draw(w, span{faint, " the weights are not known here"}))
		return fill(lines, w, h)
	}
	lines = append(lines, st.draw(w, span{faint, "               NOW     TRY"}))
	for i := range s.knobs {
		lines = append(lines, st.draw(w, s.knobSpans(i, focused, st)...))
	}
	switch {
	case s.err != nil:
		lines = append(lines, "", st.draw(w, span{warn, " " + s.err.Error()}))
	case s.result == nil:
		lines = append(lines, "", st.draw(w, span{faint, " w tries other weights on the recorded decisions"}))
	default:
		lines = append(lines, "")
		lines = append(lines, s.result.lines(s, w, h-len(lines), st)...)
	}
	return fill(lines, w, h)
}

func (s *whatIfState) knobSpans(i int, focused bool, st *styles) []span {
	k := &s.knobs[i]
	mark, t := "  ", plain
	if i == s.at && focused {
		mark, t = "> ", strong
	}
	decimals := 2
	if k.whole {
		decimals = 0
	}
	spans := []span{
		{strong, mark},
		{t, st.fit(k.key, 10, false)},
		{text: " " + st.fit(st.decimal(&k.now, decimals), 6, true) + "  "},
	}
	tried := accent
	if k.try == k.now {
		tried = plain
	}
	spans = append(spans, span{tried, st.fit(st.decimal(&k.try, decimals), 6, true) + "  "})
	if !k.whole && !k.free {
		spans = append(spans, span{tried, st.bar(&k.try, 20)})
	}
	return spans
}

// lines are the picks that would have been others.
func (r *trialResult) lines(s *whatIfState, w, h int, st *styles) []string {
	over := "no decision can be taken again"
	if r.decisions > 0 {
		over = fmt.Sprintf("of %s in %s", count(r.decisions, "recorded pick"), ago(r.till.Sub(r.from)))
	}
	first := []span{
		{strong, fmt.Sprintf(" %d would change (%s)", len(r.changes), st.percent(ratio(len(r.changes), r.decisions)))},
		{text: " " + over},
	}
	if r.unfit > 0 {
		first = append(first, span{faint, fmt.Sprintf(", %d left out: they do not replay, or no scores decided", r.unfit)})
	}
	lines := []string{
		st.draw(w, first...),
		st.draw(w, span{faint, " exact for each pick alone; queues and caches would have filled otherwise"}),
	}
	for _, p := range r.pods[:min(len(r.pods), 4)] {
		if p.now != p.try {
			lines = append(lines, st.draw(w, span{text: "   " + st.fit(orRefused(p.pod), 16, false)},
				span{text: st.fit(amount(float64(p.now)), 6, true) + " to "}, span{accent, amount(float64(p.try))}))
		}
	}
	if len(r.changes) == 0 {
		return lines
	}
	lines = append(lines, st.draw(w, span{faint, "   TIME     REQUEST       NOW           TRY           MARGIN"}))
	room := max(h-len(lines), 0)
	s.scroll = max(min(s.scroll, len(r.changes)-room), 0)
	for _, c := range r.changes[s.scroll:min(s.scroll+room, len(r.changes))] {
		lines = append(lines, st.draw(w,
			span{faint, "   " + c.at.UTC().Format("15:04:05") + " "}, span{text: st.fit(c.id, 12, false) + "  "},
			span{text: st.fit(orRefused(c.now), 12, false) + "  "}, span{accent, st.fit(orRefused(c.try), 12, false) + "  "},
			span{text: st.signed(c.margin)}))
	}
	return lines
}

func orRefused(pod string) string {
	if pod == "" {
		return "refused"
	}
	return pod
}
