package tui

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/eppctl/eppctl/explain"
)

// Color is how much colour a screen has.
type Color uint8

// The amounts of colour. The zero value has none: words alone.
const (
	NoColor    Color = iota
	Attributes       // bold, faint and reverse
	FullColor
)

// Look says how a screen is drawn.
type Look struct {
	Color Color
	Light bool // the terminal's background is light
	ASCII bool // nothing beyond ASCII
}

// tone is what a piece of text means. The words say it too.
type tone uint8

const (
	plain tone = iota
	strong
	faint
	accent // a measure, and what may be done
	warn
	bad
	numTones
)

// The palette goes from blue by orange to reverse, which all can tell apart, on a
// dark and on a light background.
var palette = [numTones]struct{ dark, light string }{
	faint:  {"245", "242"},
	accent: {"75", "25"},
	warn:   {"214", "130"},
	bad:    {"214", "130"},
}

// tones maps the tones of an explanation.
var tones = map[explain.Tone]tone{
	explain.Plain: plain, explain.Strong: strong, explain.Faint: faint,
	explain.Good: accent, explain.Warn: warn, explain.Bad: bad,
}

// styles draws text in the look of a screen.
type styles struct {
	look   Look
	glyphs *glyphs
	code   [numTones][2]string // what stands before and after
}

func newStyles(look Look) *styles {
	st := &styles{look: look, glyphs: &blocks}
	if look.ASCII {
		st.glyphs = &letters
	}
	if look.Color == NoColor {
		return st
	}
	for t := plain + 1; t < numTones; t++ {
		before, after, _ := strings.Cut(st.style(t).Render("x"), "x")
		st.code[t] = [2]string{before, after}
	}
	return st
}

func (st *styles) style(t tone) lipgloss.Style {
	s := lipgloss.NewStyle()
	switch t {
	case strong, warn:
		s = s.Bold(true)
	case bad:
		s = s.Bold(true).Reverse(true)
	case faint:
		s = s.Faint(st.look.Color == Attributes)
	case plain, accent, numTones:
	}
	if c := palette[t]; c.dark != "" && st.look.Color == FullColor {
		s = s.Foreground(lipgloss.LightDark(!st.look.Light)(lipgloss.Color(c.light), lipgloss.Color(c.dark)))
	}
	return s
}

// dimmed draws all in the faint tone: what is shown is not the present.
func (st *styles) dimmed() *styles {
	dim := *st
	for t := range dim.code {
		dim.code[t] = st.code[faint]
	}
	return &dim
}

func (st *styles) paint(t tone, text string) string {
	if text == "" || st.code[t][0] == "" {
		return text
	}
	return st.code[t][0] + text + st.code[t][1]
}

// paintExplained is the Paint of an explanation.
func (st *styles) paintExplained(t explain.Tone, text string) string { return st.paint(tones[t], text) }

// glyphs are the few characters beyond letters.
type glyphs struct {
	bar              []string // parts of a cell, from little to full
	spark            []string // from low to high
	rest             string   // of a bar
	live, hold, gone string
	unknown          string
	cut              string // where text was left out
	separator        string
	wall             string // between panes
	up, down         string
}

var blocks = glyphs{
	bar:   []string{"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"},
	spark: []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
	rest:  "·", live: "●", hold: "‖", gone: "▲", unknown: "–", cut: "…", separator: "·", wall: "│", up: "↑", down: "↓",
}

var letters = glyphs{
	bar:   []string{"-", "=", "#"},
	spark: []string{"_", ".", "-", "=", "#"},
	rest:  ".", live: "*", hold: "=", gone: "!", unknown: "-", cut: "~", separator: "|", wall: "|", up: "^", down: "v",
}
