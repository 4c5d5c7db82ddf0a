package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// renderHelp is the help page: the keys by group, the commands, and what the columns
// mean.
func renderHelp(scroll, w, h int, st *styles) []string {
	lines := []string{st.heading("HELP", true, w, span{faint, "esc closes it"})}
	all := actions()
	for _, group := range groups {
		lines = append(lines, st.paint(strong, " "+group))
		for i := range all {
			if all[i].group == group {
				lines = append(lines, st.term(st.arrows(all[i].Help().Key), all[i].Help().Desc, 11, w)...)
			}
		}
	}
	lines = append(lines, st.paint(strong, " Commands, after :"))
	for _, o := range orders() {
		lines = append(lines, st.term(strings.TrimSpace(o.name+" "+o.arg), o.help, 22, w)...)
	}
	lines = append(lines, st.paint(strong, " Columns"))
	for i := range columns {
		lines = append(lines, st.term(columns[i].Name, columns[i].Help, 11, w)...)
	}
	lines = append(lines, st.paint(strong, " Words"))
	for _, word := range glossary {
		lines = append(lines, st.term(word[0], word[1], 11, w)...)
	}
	return scrolled(lines, scroll, w, h)
}

// glossary is what the words of the other panes mean.
var glossary = [][2]string{
	{"pick", "the time of the picker itself for a decision: half of them took less, and 99 in 100"},
	{"shed", "requests that were refused, since no pod could take them"},
	{"match", "share of a prompt's blocks that the picked pod held; higher is better"},
	{"stale", "share of the picks for a cache that was gone; lower is better"},
	{"TTFT", "time to the first token"},
	{"MARGIN", "score of the picked pod above the second; near 0 anything could have tipped it"},
	{"DECIDED BY", "the factor that put the picked pod ahead of the second; a tie says how it was settled"},
	{"pending", "requests that were sent there and that the engine's last figures can't show"},
	{"gap", "events that were lost on the way; the stream is then replayed"},
	{"orphan", "an event of a block whose parent is not known: part of the picture is missing"},
}

// term is a word and what it means, continued below its meaning.
func (st *styles) term(word, meaning string, column, w int) []string {
	room := max(w-column-4, 16)
	var lines []string
	for i, line := range strings.Split(ansi.Wordwrap(st.clean(meaning), room, ""), "\n") {
		head := strings.Repeat(" ", column+2)
		if i == 0 {
			head = "  " + st.paint(accent, st.fit(word, column, false))
		}
		lines = append(lines, head+" "+line)
	}
	return lines
}

// Columns are the columns of the pods table, for help pages and lists.
func Columns() []Column { return append([]Column(nil), columns...) }
