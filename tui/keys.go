package tui

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// action is a key and what it does. The footer, the help page and the dispatch are
// all made of these.
type action struct {
	key.Binding
	group  string
	short  string // in the footer
	footer int    // its place there, from 1; 0 for none
	panes  []pane // where it works; none means everywhere
	// blocked says why it does not work now; "" when it does.
	blocked func(*Model) string
	do      func(*Model) tea.Cmd
}

// bind names the keys, as Bubble Tea calls them, and how they are shown.
func bind(shown, help string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, help))
}

// The groups of the help page, in its order.
var groups = []string{"Look", "Move", "Order and time", "What if", "Replay", "Leave"}

// actions are made by a function, since they refer to what refers to them.
func actions() []action {
	return slices.Concat(lookKeys(), moveKeys(), orderKeys(), whatIfKeys(), replayKeys(), leaveKeys())
}

func lookKeys() []action {
	return []action{
		{
			Binding: bind("/", "show the pods and decisions with these words only; esc clears", "/"), short: "filter", footer: 1, group: "Look",
			do: func(m *Model) tea.Cmd { return m.ask('/', m.pods.filter) },
		},
		{
			Binding: bind("enter", "all that is known of the pod", "enter"), short: "pod", footer: 3, group: "Look",
			panes: []pane{panePods}, blocked: (*Model).noPod, do: func(m *Model) tea.Cmd { return m.openPane(paneDetail) },
		},
		{Binding: bind("enter", "explain the decision", "enter"), group: "Look", panes: []pane{paneFeed}, blocked: (*Model).noDecision, do: (*Model).explain},
		{
			Binding: bind("e", "explain the decision, or the newest one for the pod", "e"), short: "explain", footer: 4, group: "Look",
			blocked: (*Model).noDecision, do: (*Model).explain,
		},
		{
			Binding: bind("w", "try other weights on the recorded decisions", "w"), short: "what-if", footer: 5, group: "Look",
			blocked: (*Model).noWeights, do: (*Model).whatIfOpen,
		},
		{
			Binding: bind("v", "go to the pod of the verdict, and to what it rests on", "v"), group: "Look",
			blocked: (*Model).noVerdict, do: (*Model).prove,
		},
		{Binding: bind("l", "which pods have which LoRA adapter", "l"), group: "Look", do: func(m *Model) tea.Cmd { return m.openPane(paneAdapters) }},
		{Binding: bind("i", "the cache index, and the events that feed it", "i"), group: "Look", do: func(m *Model) tea.Cmd { return m.openPane(paneIndex) }},
		{
			Binding: bind("m", "the next figure for the history of the pods", "m"), group: "Look",
			do: func(m *Model) tea.Cmd { m.metric = (m.metric + 1) % len(metrics); return nil },
		},
		{Binding: bind("y", "copy the pod, the request ID, the command, or the tried weights", "y"), group: "Look", blocked: (*Model).noCopy, do: (*Model).copy},
		{Binding: bind("ctrl-s", "save a report: the snapshot and the decisions, as JSON Lines", "ctrl+s"), group: "Look", blocked: (*Model).noSave, do: (*Model).save},
		{
			Binding: bind(":", "a command: goto ID, pod NAME, interval 2s, window 5m, sort COLUMN", ":"), group: "Look",
			do: func(m *Model) tea.Cmd { return m.ask(':', "") },
		},
		{Binding: bind("?", "this page", "?"), short: "help", footer: 7, group: "Look", do: func(m *Model) tea.Cmd { return m.openPane(paneHelp) }},
	}
}

func moveKeys() []action {
	step := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { m.move(n); return nil }
	}
	page := func(sign int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { m.move(sign * max(m.page(), 1)); return nil }
	}
	const all = 1 << 30
	return []action{
		{Binding: bind("↓ j", "down", "down", "j"), group: "Move", do: step(1)},
		{Binding: bind("↑ k", "up", "up", "k"), group: "Move", do: step(-1)},
		{Binding: bind("ctrl-f", "a page down", "ctrl+f", "pgdown"), group: "Move", do: page(1)},
		{Binding: bind("ctrl-b", "a page up", "ctrl+b", "pgup"), group: "Move", do: page(-1)},
		{Binding: bind("g", "to the first", "g", "home"), group: "Move", do: step(-all)},
		{Binding: bind("G", "to the last", "G", "end"), group: "Move", do: step(all)},
		{Binding: bind("tab", "to the next pane, shift-tab back", "tab"), group: "Move", do: func(m *Model) tea.Cmd { return m.nextPane(1) }},
		{Binding: bind("shift-tab", "to the pane before", "shift+tab"), group: "Move", do: func(m *Model) tea.Cmd { return m.nextPane(-1) }},
		{Binding: bind("f", "the pane alone, and back", "f"), group: "Move", do: (*Model).zoom},
	}
}

func orderKeys() []action {
	window := func(i int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { return m.setWindow(i) }
	}
	short := func(i int) func(*Model) string {
		return func(m *Model) string {
			if i >= len(m.snap.Windows) {
				return "that window is not known here"
			}
			return ""
		}
	}
	return []action{
		{
			Binding: bind("s", "sort by the next column", "s"), short: "sort", footer: 2, group: "Order and time", panes: []pane{panePods},
			do: func(m *Model) tea.Cmd { return m.sortNext(1) },
		},
		{
			Binding: bind("S", "sort by the column before", "S"), group: "Order and time", panes: []pane{panePods},
			do: func(m *Model) tea.Cmd { return m.sortNext(-1) },
		},
		{Binding: bind("r", "the other way round", "r"), group: "Order and time", panes: []pane{panePods}, do: func(m *Model) tea.Cmd {
			m.pods.reverse = !m.pods.reverse
			m.resort()
			return nil
		}},
		{Binding: bind("space", "hold the screen, and go on", "space"), short: "pause", footer: 6, group: "Order and time", do: (*Model).pause},
		{Binding: bind("1", "the last 5 seconds", "1"), group: "Order and time", blocked: short(0), do: window(0)},
		{Binding: bind("2", "the last minute", "2"), group: "Order and time", blocked: short(1), do: window(1)},
		{Binding: bind("3", "the last 5 minutes", "3"), group: "Order and time", blocked: short(2), do: window(2)},
		{Binding: bind("+", "ask more often", "+", "="), group: "Order and time", do: func(m *Model) tea.Cmd { return m.setInterval(m.opt.Interval / 2) }},
		{Binding: bind("-", "ask less often", "-"), group: "Order and time", do: func(m *Model) tea.Cmd { return m.setInterval(m.opt.Interval * 2) }},
		{Binding: bind("ctrl-r", "ask now", "ctrl+r"), group: "Order and time", do: func(m *Model) tea.Cmd { m.pace.Hurry(); return nil }},
	}
}

func whatIfKeys() []action {
	turn := func(steps int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { return m.turn(steps) }
	}
	in := []pane{paneWhatIf}
	return []action{
		{Binding: bind("↓ ↑", "choose a weight", "down", "j", "up", "k"), group: "What if", panes: in, do: nil},
		{Binding: bind("→", "more of it; the others give in proportion", "right", "+", "="), short: "more", footer: 2, group: "What if", panes: in, blocked: (*Model).noWeights, do: turn(1)},
		{Binding: bind("←", "less of it", "left", "-"), short: "less", footer: 1, group: "What if", panes: in, blocked: (*Model).noWeights, do: turn(-1)},
		{Binding: bind("0", "all as they are", "0"), short: "as now", footer: 3, group: "What if", panes: in, do: (*Model).untry},
	}
}

func replayKeys() []action {
	step := func(frames int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd {
			do := m.asks.step
			return func() tea.Msg { do(frames); return nil }
		}
	}
	return []action{
		{Binding: bind("→", "a step on", "right"), short: "step", footer: 2, group: "Replay", blocked: (*Model).noPlayer, do: step(1)},
		{Binding: bind("←", "a step back", "left"), group: "Replay", blocked: (*Model).noPlayer, do: step(-1)},
		{Binding: bind("]", "twice as fast", "]"), group: "Replay", blocked: (*Model).noPlayer, do: func(m *Model) tea.Cmd { return m.speed(playFaster) }},
		{Binding: bind("[", "half as fast", "["), group: "Replay", blocked: (*Model).noPlayer, do: func(m *Model) tea.Cmd { return m.speed(1 / playFaster) }},
	}
}

func leaveKeys() []action {
	return []action{
		{Binding: bind("esc", "back; clears the filter", "esc"), group: "Leave", short: "back", do: (*Model).back},
		{Binding: bind("ctrl-z", "suspend", "ctrl+z"), group: "Leave", do: func(*Model) tea.Cmd { return tea.Suspend }},
		{Binding: bind("q", "quit; ctrl-c too", "q", "ctrl+c"), short: "quit", footer: 8, group: "Leave", do: func(*Model) tea.Cmd { return tea.Quit }},
	}
}

// here reports whether an action is for a pane.
func (a *action) here(p pane) bool { return len(a.panes) == 0 || slices.Contains(a.panes, p) }

// press finds the action of a key: one of the active pane comes before one that
// works everywhere.
func (m *Model) press(msg tea.KeyPressMsg) tea.Cmd {
	if m.inputFor != 0 {
		return m.edit(msg)
	}
	m.flash = ""
	at, all := m.active(), actions()
	slices.SortStableFunc(all, func(a, b action) int { return cmp.Compare(len(b.panes), len(a.panes)) })
	for i := range all {
		a := &all[i]
		if !key.Matches(msg, a.Binding) || !a.here(at) || a.do == nil {
			continue
		}
		if a.blocked != nil {
			if why := a.blocked(m); why != "" {
				m.say(a.Help().Key + ": " + why)
				return nil
			}
		}
		return a.do(m)
	}
	if m.elsewhere(msg) {
		m.say(msg.String() + " works in another pane; ? lists the keys")
	} else {
		m.say("no key " + msg.String() + "; ? lists them")
	}
	return nil
}

func (m *Model) elsewhere(msg tea.KeyPressMsg) bool {
	return slices.ContainsFunc(actions(), func(a action) bool { return key.Matches(msg, a.Binding) })
}

// renderFooter is the keys that work now.
func renderFooter(m *Model, w int, st *styles) []string {
	if m.flash != "" {
		return []string{st.draw(w, span{strong, " " + m.flash})}
	}
	at := m.active()
	var shown []action
	for _, a := range actions() {
		works := a.here(at) && (a.blocked == nil || a.blocked(m) == "")
		if a.footer > 0 && works && !(len(a.panes) == 0 && at == paneHelp && a.footer < 7) {
			shown = append(shown, a)
		}
	}
	slices.SortStableFunc(shown, func(a, b action) int { return cmp.Compare(a.footer, b.footer) })
	var line []span
	if m.open != paneNone {
		line = append(line, span{accent, " esc"}, span{text: " back"})
	}
	for _, a := range shown {
		part := []span{{accent, "  " + st.arrows(a.Help().Key)}, {text: " " + a.short}}
		if len(line) == 0 {
			part[0].text = part[0].text[1:]
		}
		if spansWidth(line)+spansWidth(part) > w {
			continue
		}
		line = append(line, part...)
	}
	return []string{st.draw(w, line...)}
}

// arrows spells arrow keys where there are none.
func (st *styles) arrows(keys string) string {
	if !st.look.ASCII {
		return keys
	}
	return strings.NewReplacer("↓", "down", "↑", "up", "→", "right", "←", "left").Replace(keys)
}
