package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/explain"
)

// feedData is what the list of decisions is drawn from.
type feedData struct {
	rows    []*explain.Row // those to show, newest first
	top     int
	cursor  int // −1 for none
	focused bool
	known   bool // the source tells decisions
}

// feedColumn is a column of the feed.
type feedColumn struct {
	name  string
	width int
	most  int // where there is room
	right bool
	leave int // the highest leaves first
	cell  func(*explain.Row, *styles) []span
}

var feedColumns = []feedColumn{
	{name: "TIME", width: 8, cell: func(r *explain.Row, _ *styles) []span {
		return []span{{faint, r.Time.UTC().Format("15:04:05")}}
	}},
	{name: "REQUEST", width: 8, most: 36, cell: func(r *explain.Row, _ *styles) []span { return []span{{text: r.RequestID}} }},
	{name: "TOKENS", width: 6, right: true, leave: 4, cell: feedTokens},
	{name: "PICKED", width: 9, most: 24, cell: feedPicked},
	{name: "SCORE", width: 5, right: true, leave: 2, cell: func(r *explain.Row, st *styles) []span {
		return []span{{text: st.decimal(r.Score, 2)}}
	}},
	{name: "MARGIN", width: 6, right: true, leave: 1, cell: feedMargin},
	{name: "DECIDED BY", width: 14, leave: 3, cell: feedBy},
	{name: "OVER", width: 8, most: 24, leave: 5, cell: func(r *explain.Row, st *styles) []span {
		return []span{{faint, orUnknown(r.Over, st)}}
	}},
	{name: "TOOK", width: 6, right: true, leave: 6, cell: func(r *explain.Row, st *styles) []span { return []span{{text: st.latency(&r.Took)}} }},
	{name: "TTFT", width: 6, right: true, leave: 7, cell: func(r *explain.Row, st *styles) []span { return []span{{text: st.latency(r.TTFTSeconds)}} }},
	{name: "FLAGS", width: 12, leave: 8, cell: func(r *explain.Row, _ *styles) []span { return []span{{warn, strings.Join(r.Flags, ",")}} }},
}

func orUnknown(text string, st *styles) string {
	if text == "" {
		return st.glyphs.unknown
	}
	return text
}

func feedTokens(r *explain.Row, st *styles) []span {
	if r.Tokens == nil {
		return []span{{text: st.glyphs.unknown}}
	}
	return []span{{text: amount(float64(*r.Tokens))}}
}

func feedPicked(r *explain.Row, _ *styles) []span {
	if r.Refused != "" {
		return []span{{bad, "REFUSED"}}
	}
	return []span{{strong, r.Picked}}
}

func feedMargin(r *explain.Row, st *styles) []span { return []span{{text: st.signed(r.Margin)}} }

// feedBy is what decided; a draw among equals says so.
func feedBy(r *explain.Row, st *styles) []span {
	switch r.DecidedBy {
	case "tieSeed":
		return []span{{warn, "tie, at random"}}
	case "tieLoad":
		return []span{{text: "tie, by load"}}
	case "tieQueue":
		return []span{{text: "tie, by queue"}}
	case "onlyCandidate":
		return []span{{faint, "only one"}}
	case "":
		return []span{{warn, orUnknown(r.Refused, st)}}
	}
	return []span{{text: r.DecidedBy}}
}

// fitFeed chooses the columns for a width.
func fitFeed(width int) []feedColumn {
	shown := append([]feedColumn(nil), feedColumns...)
	used := func() (n int) {
		for i := range shown {
			n += shown[i].width + gap
		}
		return n
	}
	for used() > width {
		first := 0
		for i := range shown {
			if shown[i].leave > shown[first].leave {
				first = i
			}
		}
		if shown[first].leave == 0 {
			break
		}
		shown = append(shown[:first], shown[first+1:]...)
	}
	for i := range shown {
		if c := &shown[i]; c.most > c.width {
			c.width += min(c.most-c.width, max(width-used(), 0))
		}
	}
	return shown
}

// renderFeed draws the decisions as they are taken, the newest first.
func renderFeed(d feedData, w, h int, st *styles) []string {
	shown := fitFeed(w)
	var b strings.Builder
	for i := range shown {
		b.WriteString(" " + st.paint(faint, st.fit(shown[i].name, shown[i].width, shown[i].right)))
	}
	if d.top > 0 {
		b.WriteString(st.paint(accent, "  "+amount(float64(d.top))+" newer"))
	}
	lines := []string{b.String()}
	switch {
	case !d.known:
		lines = append(lines, st.draw(w, span{faint, " decisions are not known here: this source tells figures alone"}))
	case len(d.rows) == 0:
		lines = append(lines, st.draw(w, span{faint, " no decision yet"}))
	}
	for k := d.top; k < min(d.top+h-1, len(d.rows)); k++ {
		lines = append(lines, d.row(shown, k, st))
	}
	return fill(lines, w, h)
}

func (d *feedData) row(shown []feedColumn, k int, st *styles) string {
	var b strings.Builder
	for i := range shown {
		mark := " "
		if i == 0 && k == d.cursor && d.focused {
			mark = st.paint(strong, ">")
		}
		b.WriteString(mark + st.cell(shown[i].cell(d.rows[k], st), shown[i].width, shown[i].right))
	}
	return b.String()
}

// renderEvents draws what happened: one after another in a line, or a line each.
func renderEvents(events []explain.FleetEvent, w, h int, st *styles) []string {
	part := func(e *explain.FleetEvent) []span {
		spans := []span{{faint, e.Time.UTC().Format("15:04:05") + " "}}
		if e.Pod != "" {
			spans = append(spans, span{strong, e.Pod + " "})
		}
		return append(spans, span{warn, strings.ToUpper(e.Code) + "  "}, span{text: e.Text})
	}
	if len(events) == 0 {
		return fill([]string{st.draw(w, span{faint, " no events"})}, w, h)
	}
	var lines []string
	if h > 1 {
		for i := range events[:min(h, len(events))] {
			lines = append(lines, st.draw(w, append([]span{{text: " "}}, part(&events[i])...)...))
		}
		return fill(lines, w, h)
	}
	line := append([]span{{text: " "}}, part(&events[0])...)
	for i := 1; i < len(events); i++ {
		more := append([]span{{faint, "   " + st.glyphs.separator + "   "}}, part(&events[i])...)
		if spansWidth(line)+spansWidth(more) > w {
			break
		}
		line = append(line, more...)
	}
	return fill([]string{st.draw(w, line...)}, w, h)
}

func spansWidth(spans []span) (n int) {
	for _, s := range spans {
		n += ansi.StringWidth(s.text)
	}
	return n
}
