package tui

import (
	"strings"

	"github.com/eppctl/eppctl/explain"
)

// whyState is the decision that is explained.
type whyState struct {
	asked  int    // number of the last question; older answers are dropped
	id     string // of the decision
	rec    *explain.Record
	err    error
	scroll int

	// What was drawn last, and of what: an explanation is made once a size.
	drawn     []string
	drawnFor  *explain.Record
	drawnWith *styles
	drawnW    int
}

// text is the explanation in lines, by the very renderer of 'eppctl explain'.
func (s *whyState) text(w int, st *styles) []string {
	if s.drawnFor == s.rec && s.drawnWith == st && s.drawnW == w {
		return s.drawn
	}
	var b strings.Builder
	opt := explain.TextOptions{Width: w, ASCII: st.look.ASCII, Sanitize: st.clean, Paint: st.paintExplained}
	// A strings.Builder takes all that is written to it.
	_ = explain.Explain(s.rec, explain.Options{}).Text(&b, opt)
	s.drawn = strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	s.drawnFor, s.drawnWith, s.drawnW = s.rec, st, w
	return s.drawn
}

// renderWhy draws the explanation of a decision.
func renderWhy(s *whyState, focused bool, w, h int, st *styles) []string {
	lines := []string{st.heading("WHY", focused, w)}
	switch {
	case s.err != nil:
		lines = append(lines, st.draw(w, span{warn, " " + s.err.Error()}))
	case s.rec == nil && s.id != "":
		lines = append(lines, st.draw(w, span{faint, " asking for " + s.id}))
	case s.rec == nil:
		lines = append(lines, st.draw(w, span{faint, " e explains the newest decision for a pod, or the one that is selected"}))
	default:
		text := s.text(w-1, st)
		s.scroll = max(min(s.scroll, len(text)-(h-1)), 0)
		for _, line := range text[s.scroll:min(s.scroll+h-1, len(text))] {
			lines = append(lines, " "+line)
		}
		lines[0] = st.heading("WHY", focused, w, s.position(len(text), h-1)...)
	}
	return fill(lines, w, h)
}

// position says which part of a text is shown.
func (s *whyState) position(all, shown int) []span {
	if all <= shown {
		return nil
	}
	return []span{{faint, amount(float64(s.scroll+1)) + "-" + amount(float64(min(s.scroll+shown, all))) + " of " + amount(float64(all))}}
}

// heading is the first line of a pane that opens.
func (st *styles) heading(name string, focused bool, w int, right ...span) string {
	t := faint
	if focused {
		t = strong
	}
	return st.between(w, []span{{t, " " + name}}, right)
}
