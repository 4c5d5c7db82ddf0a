package cli

import (
	"fmt"
	"strings"
)

// ColorMode is the value of --color.
type ColorMode string

// The values of --color. The zero value means ColorAuto.
const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// ParseColorMode reads the value of --color.
func ParseColorMode(text string) (ColorMode, error) {
	switch mode := ColorMode(text); mode {
	case ColorAuto, ColorAlways, ColorNever:
		return mode, nil
	case "":
		return ColorAuto, nil
	default:
		return "", WithHint(fmt.Errorf("unknown colour mode %q for --color", text), ExitUsage,
			"use auto, always or never")
	}
}

// Tone is what a piece of text means to the reader. Meaning is never carried
// by tone alone: the words say it too.
type Tone uint8

// The tones. Warn and Bad differ in brightness as well as in hue, so that they
// are told apart without seeing red and green.
const (
	Plain  Tone = iota
	Strong      // what the eye should find first: headers, the winner
	Faint       // what may be skipped: units, old values
	Good        // as it should be
	Warn        // worth a look
	Bad         // broken
)

// colorDepth is how much of a [Tone] an output can show.
type colorDepth uint8

const (
	depthNone       colorDepth = iota // a pipe or a dumb terminal: text alone
	depthAttributes                   // NO_COLOR: bold, faint and reverse only
	depthColor
)

// sgr holds the terminal's code for each tone: attributes alone, then with
// colour. Blue, yellow (orange on many palettes) and reverse, not green and red.
var sgr = map[Tone][2]string{
	Plain:  {"", ""},
	Strong: {"1", "1"},
	Faint:  {"2", "2"},
	Good:   {"", "34"},
	Warn:   {"1", "33"},
	Bad:    {"1;7", "1;7;31"},
}

// Paint gives text the tone that out can show. The text must be safe already
// (see [Sanitize]): its bytes pass through.
func (s *Streams) Paint(tone Tone, text string) string {
	return paint(s.depth(s.OutIsTerminal), tone, text)
}

// PaintErr is Paint for standard error.
func (s *Streams) PaintErr(tone Tone, text string) string {
	return paint(s.depth(s.ErrIsTerminal), tone, text)
}

func paint(depth colorDepth, tone Tone, text string) string {
	code := ""
	switch depth {
	case depthNone:
	case depthAttributes:
		code = sgr[tone][0]
	case depthColor:
		code = sgr[tone][1]
	}
	if code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// depth decides, in this order: --color, NO_COLOR (https://no-color.org: set
// and not empty), CLICOLOR_FORCE (https://bixense.com/clicolors: set and not
// "0"), CLICOLOR=0, TERM=dumb, and whether a terminal is there at all.
func (s *Streams) depth(isTerminal bool) colorDepth {
	forced := s.env("CLICOLOR_FORCE")
	switch {
	case s.Color == ColorNever:
		return depthNone
	case s.Color == ColorAlways:
		return depthColor
	case s.env("NO_COLOR") != "" && isTerminal && !s.dumb():
		return depthAttributes
	case s.env("NO_COLOR") != "":
		return depthNone
	case forced != "" && forced != "0":
		return depthColor
	case !isTerminal || s.dumb():
		return depthNone
	case s.env("CLICOLOR") == "0":
		return depthAttributes
	default:
		return depthColor
	}
}

func (s *Streams) dumb() bool { return strings.EqualFold(s.env("TERM"), "dumb") }

func (s *Streams) env(name string) string {
	if s.Env == nil {
		return ""
	}
	return s.Env(name)
}
