package tui

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/explain"
)

// maxMarks is how many combining marks may follow one another.
const maxMarks = 3

// maxText bounds the bytes of what is drawn on one line, so that none is slow to draw.
const maxText = 4096

// clean makes text from elsewhere safe to draw on one line.
func (st *styles) clean(text string) string {
	text = text[:min(len(text), maxText)]
	printable := true
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			printable = false
			break
		}
	}
	switch {
	case printable:
		return text
	case st.look.ASCII:
		return quote(text)
	}
	safe := fewMarks(explain.Sanitize(text))
	if ansi.StringWidth(safe) != ansi.StringWidthWc(safe) {
		return quote(text) // terminals don't agree how wide it is
	}
	return safe
}

// quote writes all but ASCII as escapes.
func quote(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// fewMarks leaves out combining marks that would pile up over other lines.
func fewMarks(text string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.Is(unicode.M, r) {
			marks = 0
			return r
		}
		if marks++; marks > maxMarks {
			return -1
		}
		return r
	}, text)
}

// span is a piece of a line. Its text is cleaned when it is drawn.
type span struct {
	tone tone
	text string
}

// draw joins spans to a line of at most so many cells.
func (st *styles) draw(width int, spans ...span) string {
	var b strings.Builder
	left := width
	for _, s := range spans {
		text := st.clean(s.text)
		n := ansi.StringWidth(text)
		if n > left {
			text = ansi.Truncate(text, max(left, 0), st.glyphs.cut)
			n = ansi.StringWidth(text)
		}
		if left -= n; n > 0 {
			b.WriteString(st.paint(s.tone, text))
		}
		if left <= 0 {
			break
		}
	}
	return b.String()
}

// between draws a line with one part at its left end and one at its right. When
// there is no room for both, the right one stays.
func (st *styles) between(width int, left, right []span) string {
	r := st.draw(width, right...)
	room := width - ansi.StringWidth(r)
	l := st.draw(max(room-2, 0), left...)
	return l + strings.Repeat(" ", max(room-ansi.StringWidth(l), 0)) + r
}

// fit cuts text in its middle, or fills it up, to so many cells.
func (st *styles) fit(text string, width int, right bool) string {
	text = st.cutMiddle(st.clean(text), width)
	fill := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return fill + text
	}
	return text + fill
}

// cutMiddle keeps the ends of a name, which tell pods apart.
func (st *styles) cutMiddle(text string, width int) string {
	total := ansi.StringWidth(text)
	if total <= width {
		return text
	}
	if width < 4 {
		return ansi.Truncate(text, max(width, 0), "")
	}
	right := (width - 1) / 2
	return ansi.Truncate(text, width-1-right, "") + st.glyphs.cut + ansi.TruncateLeft(text, total-right, "")
}

// fill makes a pane of its height, and no line longer than its width.
func fill(lines []string, width, height int) []string {
	for len(lines) < height {
		lines = append(lines, "")
	}
	lines = lines[:max(height, 0)]
	for i, line := range lines {
		if ansi.StringWidth(line) > width {
			lines[i] = ansi.Truncate(line, width, "")
		}
	}
	return lines
}

// bar draws a part of 1 in so many cells; nil is a bar of nothing.
func (st *styles) bar(part *float64, cells int) string {
	if part == nil || !finite(*part) {
		return strings.Repeat(st.glyphs.rest, cells)
	}
	steps := len(st.glyphs.bar)
	n := int(math.Round(min(max(*part, 0), 1) * float64(cells*steps)))
	if n == 0 && *part > 0 {
		n = 1 // a little is not nothing
	}
	text := strings.Repeat(st.glyphs.bar[steps-1], n/steps)
	if n%steps > 0 {
		text += st.glyphs.bar[n%steps-1]
	}
	return text + strings.Repeat(st.glyphs.rest, max(cells-(n+steps-1)/steps, 0))
}

// spark draws the newest values in so many cells, the newest at the right. Values
// that were not known leave a gap.
func (st *styles) spark(values []float32, cells int) string {
	values = values[max(len(values)-cells, 0):]
	top := float32(0)
	for _, v := range values {
		if finite(float64(v)) {
			top = max(top, v)
		}
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", cells-len(values)))
	for _, v := range values {
		steps := len(st.glyphs.spark)
		switch {
		case !finite(float64(v)):
			b.WriteByte(' ')
		case top == 0:
			b.WriteString(st.glyphs.spark[0])
		default:
			b.WriteString(st.glyphs.spark[min(int(max(v, 0)/top*float32(steps)), steps-1)])
		}
	}
	return b.String()
}
