package tui

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// maxInput bounds what can be typed, in characters.
const maxInput = 200

// editor is one line that is typed into.
type editor struct {
	text []rune
	at   int // the cursor, in characters
}

func (e *editor) set(text string) {
	e.text = []rune(text)
	e.at = len(e.text)
}

func (e *editor) value() string { return string(e.text) }

// insert puts text at the cursor; what can't be shown is left out.
func (e *editor) insert(text string) {
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
	runes = runes[:min(len(runes), maxInput-len(e.text))]
	e.text = slices.Insert(e.text, e.at, runes...)
	e.at += len(runes)
}

// key edits as shells do.
func (e *editor) key(k tea.KeyPressMsg) {
	switch k.String() {
	case "left", "ctrl+b":
		e.at = max(e.at-1, 0)
	case "right", "ctrl+f":
		e.at = min(e.at+1, len(e.text))
	case "home", "ctrl+a":
		e.at = 0
	case "end", "ctrl+e":
		e.at = len(e.text)
	case "backspace", "ctrl+h":
		e.cut(max(e.at-1, 0), e.at)
	case "delete", "ctrl+d":
		e.cut(e.at, min(e.at+1, len(e.text)))
	case "ctrl+u":
		e.cut(0, e.at)
	case "ctrl+k":
		e.cut(e.at, len(e.text))
	case "ctrl+w", "alt+backspace":
		start := len([]rune(strings.TrimRight(string(e.text[:e.at]), " ")))
		for start > 0 && e.text[start-1] != ' ' {
			start--
		}
		e.cut(start, e.at)
	default:
		e.insert(k.Text)
	}
}

func (e *editor) cut(from, to int) {
	e.text = slices.Delete(e.text, from, to)
	e.at = from
}
