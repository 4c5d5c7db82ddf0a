package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// ask opens the line for a filter ('/') or a command (':').
func (m *Model) ask(what rune, text string) tea.Cmd {
	m.inputFor = what
	m.input.set(text)
	return nil
}

// edit takes a key into the line. A filter works while it is typed.
func (m *Model) edit(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.PasteMsg:
		m.input.insert(msg.Content)
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c":
			return tea.Quit
		case "esc":
			if m.inputFor == '/' {
				m.setFilter("")
			}
			m.inputFor = 0
			return nil
		case "enter":
			what, text := m.inputFor, strings.TrimSpace(m.input.value())
			m.inputFor = 0
			if what == ':' {
				return m.command(text)
			}
			return nil
		}
		m.input.key(msg)
	}
	if m.inputFor == '/' {
		m.setFilter(strings.TrimSpace(m.input.value()))
	}
	return nil
}

func (m *Model) setFilter(text string) {
	if text != m.pods.filter {
		m.pods.filter = text
		m.resort()
	}
}

// order is a command of the command line.
type order struct {
	name, arg, help string
	do              func(m *Model, arg string) tea.Cmd
}

// orders are made by a function, since they refer to what refers to them.
func orders() []order {
	return []order{
		{"goto", "ID", "explain the decision with this request or decision ID", (*Model).orderGoto},
		{"pod", "NAME", "put the cursor on a pod", (*Model).orderPod},
		{"pool", "NAME", "go to another pool of the cluster: NAME or NAMESPACE/NAME", (*Model).orderPool},
		{"ns", "NAME", "go to the only pool of a namespace", func(m *Model, name string) tea.Cmd { return m.goTo(name, "") }},
		{"filter", "WORDS", "as the key /", func(m *Model, arg string) tea.Cmd { m.setFilter(arg); return nil }},
		{"interval", "2s", "ask this often", (*Model).orderInterval},
		{"window", "5s, 60s or 5m", "figures of this time", (*Model).orderWindow},
		{"sort", "COLUMN", "sort by a column", (*Model).orderSort},
		{"save", "", "save a report", func(m *Model, _ string) tea.Cmd {
			if why := m.noSave(); why != "" {
				m.say(why)
				return nil
			}
			return m.save()
		}},
		{"help", "", "the help page", func(m *Model, _ string) tea.Cmd { m.open, m.scroll = paneHelp, 0; return nil }},
		{"quit", "", "quit", func(*Model, string) tea.Cmd { return tea.Quit }},
	}
}

// command does what a line says. The beginning of a name is enough.
func (m *Model) command(text string) tea.Cmd {
	name, arg, _ := strings.Cut(text, " ")
	arg = strings.TrimSpace(arg)
	if name == "" {
		return nil
	}
	all := orders()
	at := slices.IndexFunc(all, func(o order) bool { return strings.HasPrefix(o.name, name) })
	switch {
	case at < 0:
		var names []string
		for _, o := range all {
			names = append(names, o.name)
		}
		m.say(fmt.Sprintf("no command %s: there are %s", name, strings.Join(names, ", ")))
	case all[at].arg != "" && arg == "" && all[at].name != "filter":
		m.say(all[at].name + " needs " + all[at].arg)
	default:
		return all[at].do(m, arg)
	}
	return nil
}

func (m *Model) orderGoto(id string) tea.Cmd {
	m.open = paneWhy
	return m.askWhy(id)
}

func (m *Model) orderPod(name string) tea.Cmd {
	best := -1
	for k, i := range m.pods.order {
		pod := m.snap.Pods[i].Pod
		if pod == name {
			best = k
			break
		}
		if best < 0 && strings.Contains(strings.ToLower(pod), strings.ToLower(name)) {
			best = k
		}
	}
	if best < 0 {
		m.say("no pod " + name + " is shown")
		return nil
	}
	m.pods.cursor, m.focus, m.open = m.pods.ids[best], panePods, paneNone
	return nil
}

func (m *Model) orderPool(name string) tea.Cmd {
	namespace, pool, both := strings.Cut(name, "/")
	if !both {
		namespace, pool = "", name
	}
	return m.goTo(namespace, pool)
}

// goTo looks at the picker of another pool.
func (m *Model) goTo(namespace, pool string) tea.Cmd {
	other := m.asks.other
	if other == nil {
		m.say("there are pools in a cluster alone: start with --pool")
		return nil
	}
	m.say("looking for it" + m.st.glyphs.cut)
	return func() tea.Msg {
		where, err := other(namespace, pool)
		return otherMsg{where, err}
	}
}

func (m *Model) orderInterval(text string) tea.Cmd {
	d, err := time.ParseDuration(text)
	if err != nil || d < MinInterval || d > MaxInterval {
		m.say(fmt.Sprintf("interval: %s is none; it is from %s to %s", text, MinInterval, MaxInterval))
		return nil
	}
	return m.setInterval(d)
}

func (m *Model) orderWindow(text string) tea.Cmd {
	d, err := time.ParseDuration(text)
	for i := range m.snap.Windows {
		if s := m.snap.Windows[i].Seconds; err == nil && time.Duration(s)*time.Second == d || text == fmt.Sprint(s) {
			return m.setWindow(i)
		}
	}
	m.say("window: there are 5s, 60s and 5m")
	return nil
}

func (m *Model) orderSort(name string) tea.Cmd {
	names := sortable()
	at := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, strings.ToUpper(name)) })
	if at < 0 {
		m.say(fmt.Sprintf("sort: no column %s; there are %s", name, strings.Join(names, ", ")))
		return nil
	}
	m.pods.sort, m.pods.reverse = names[at], false
	m.resort()
	return nil
}

// renderInput is the line that is typed into, in place of the footer.
func renderInput(m *Model, w int, st *styles) []string {
	text := string(m.inputFor) + m.input.value()
	hint := "enter keeps it, esc clears it"
	if m.inputFor == ':' {
		hint = "goto ID, pod NAME, interval 2s, window 5m, sort COLUMN, save, quit"
	}
	line := []span{{text: " "}, {strong, text}}
	return []string{st.draw(w, append(line, span{faint, "   " + hint})...)}
}

// wheel moves by three lines.
func (m *Model) wheel(msg tea.MouseWheelMsg) tea.Cmd {
	const lines = 3
	switch msg.Button {
	case tea.MouseWheelUp:
		m.move(-lines)
	case tea.MouseWheelDown:
		m.move(lines)
	default: // a wheel that goes sideways
	}
	return nil
}

// click puts the cursor where it was clicked; a second click opens.
func (m *Model) click(msg tea.MouseClickMsg) {
	if msg.Button != tea.MouseLeft || m.open != paneNone {
		return
	}
	for _, r := range layout(m.plan) {
		line := msg.Y - r.y - 1 // below the header
		if msg.X < r.x || msg.X >= r.x+r.w || line < 0 || line >= r.h-1 {
			continue
		}
		switch r.pane {
		case panePods:
			m.focus = panePods
			if k := m.pods.top + line; k < len(m.pods.ids) && line < m.pods.page {
				m.pods.cursor = m.pods.ids[k]
			}
		case paneFeed:
			m.focus = paneFeed
			if k := m.feed.top + line; k < len(m.feed.shown) {
				m.feed.cursor = m.feed.shown[k].DecisionID
			}
		case paneWhy, paneWhatIf:
			m.focus = r.pane
		default:
		}
	}
}
