package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/eppctl/eppctl/explain"
)

// What the keys do, and why they can't.

func (m *Model) noPod() string {
	if m.pods.pod(m.snap) == nil {
		return "no pod is there"
	}
	return ""
}

// subject is the decision that a key is about: the one that is selected, or the
// newest for the pod; with neither, the newest of all.
func (m *Model) subject() *explain.Row {
	if m.active() == paneFeed {
		if k := m.feed.at(); k >= 0 {
			return m.feed.shown[k]
		}
		if len(m.feed.shown) > 0 {
			return m.feed.shown[0]
		}
		return nil
	}
	if p := m.pods.pod(m.snap); p != nil {
		return m.feed.newest(p.Pod)
	}
	return nil
}

func (m *Model) noDecision() string {
	if m.subject() != nil {
		return ""
	}
	if m.decisionsUnknown() {
		return "decisions are not known here"
	}
	if p := m.pods.pod(m.snap); p != nil && m.active() != paneFeed {
		return "no decision for " + p.Pod + " is known yet"
	}
	return "no decision yet"
}

// decisionsUnknown: the source tells figures alone.
func (m *Model) decisionsUnknown() bool { return m.snap.FromOutside() }

func (m *Model) explain() tea.Cmd {
	row := m.subject()
	if row == nil {
		m.say(m.noDecision())
		return nil
	}
	if m.open == paneNone && m.full() {
		m.focus = paneWhy
	} else {
		m.open = paneWhy
	}
	return m.askWhy(row.DecisionID)
}

func (m *Model) noWeights() string {
	if len(m.whatIf.knobs) == 0 {
		return "the weights are not known here"
	}
	return ""
}

func (m *Model) whatIfOpen() tea.Cmd {
	if m.open == paneNone && m.full() {
		m.focus = paneWhatIf
	} else {
		m.open = paneWhatIf
	}
	return m.askRecent()
}

func (m *Model) turn(steps int) tea.Cmd {
	turn(m.whatIf.knobs, m.whatIf.at, steps)
	if m.whatIf.records == nil {
		return m.askRecent()
	}
	return m.askTrial()
}

// untry goes back to the weights in force, and to the newest decisions.
func (m *Model) untry() tea.Cmd {
	for i := range m.whatIf.knobs {
		m.whatIf.knobs[i].try = m.whatIf.knobs[i].now
	}
	return m.askRecent()
}

func (m *Model) noVerdict() string {
	if v := &m.snap.Verdict; v.Code == "" || v.Code == explain.VerdictOK {
		return "there is nothing to prove"
	}
	return ""
}

// prove goes to the pod of the verdict, and does what its key does.
func (m *Model) prove() tea.Cmd {
	v := &m.snap.Verdict
	m.open, m.focus = paneNone, panePods
	for k, i := range m.pods.order {
		if m.snap.Pods[i].Pod == v.Pod {
			m.pods.cursor = m.pods.ids[k]
		}
	}
	switch v.Key {
	case "e":
		return m.explain()
	case "enter":
		return m.openPane(paneDetail)
	case "i":
		return m.openPane(paneIndex)
	case "l":
		return m.openPane(paneAdapters)
	case "s":
		m.pods.sort, m.pods.reverse = "QUEUE", false
		m.resort()
		return nil
	}
	return m.openPane(paneHelp)
}

// openPane opens a pane in place of the overview, or closes it.
func (m *Model) openPane(p pane) tea.Cmd {
	m.scroll = 0
	if m.open == p {
		return m.back()
	}
	m.open = p
	return nil
}

// back closes what is open, then clears the filter, then goes to the pods.
func (m *Model) back() tea.Cmd {
	switch {
	case m.open != paneNone:
		m.open = paneNone
	case m.pods.filter != "":
		m.pods.filter = ""
		m.resort()
	case m.feed.cursor != "" && m.active() == paneFeed:
		m.feed.cursor = "" // follow the newest again
	default:
		m.focus = panePods
	}
	return nil
}

// nextPane goes through what is on the screen, or through what can be opened.
func (m *Model) nextPane(by int) tea.Cmd {
	ring, at := []pane{panePods, paneFeed, paneWhy, paneWhatIf}, &m.focus
	if m.open != paneNone {
		ring, at = []pane{paneDetail, paneWhy, paneWhatIf, paneAdapters, paneIndex}, &m.open
		m.scroll = 0
	} else {
		rects := layout(m.plan)
		ring = slices.DeleteFunc(ring, func(p pane) bool { _, there := find(rects, p); return !there })
	}
	if len(ring) > 0 {
		k := max(slices.Index(ring, *at), 0)
		*at = ring[(k+by+len(ring))%len(ring)]
	}
	if *at == paneWhatIf && m.whatIf.records == nil && m.noWeights() == "" {
		return m.askRecent()
	}
	return nil
}

func (m *Model) zoom() tea.Cmd {
	if m.open != paneNone {
		m.focus, m.open = m.open, paneNone
		if _, there := find(layout(m.plan), m.focus); !there {
			m.focus = panePods
		}
		return nil
	}
	m.open = m.active()
	return nil
}

// move moves the cursor of the active pane, or scrolls it.
func (m *Model) move(by int) {
	switch m.active() {
	case panePods:
		m.pods.move(m.snap, by)
	case paneFeed:
		m.feed.move(by)
	case paneWhy:
		m.why.scroll = max(m.why.scroll+by, 0) // bounded where it is drawn
	case paneWhatIf:
		m.whatIf.at = min(max(m.whatIf.at+by, 0), max(len(m.whatIf.knobs)-1, 0))
	default:
		m.scroll = min(max(m.scroll+by, 0), maxRows)
	}
}

// page is how many lines the active pane shows.
func (m *Model) page() int {
	if r, ok := find(layout(m.plan), m.active()); ok {
		return r.h - 2
	}
	return 1
}

func (m *Model) resort() { m.pods.sortAt(m.snap.Pods, m.window, m.opt.Now(), true) }

func (m *Model) sortNext(by int) tea.Cmd {
	names := sortable()
	k := max(slices.Index(names, m.pods.by()), 0) // else by name, which is the first
	m.pods.sort = names[(k+by+len(names))%len(names)]
	m.pods.reverse = false
	m.resort()
	m.say("sorted by " + m.pods.sort)
	return nil
}

func (m *Model) setWindow(i int) tea.Cmd {
	m.window = i
	m.resort()
	return nil
}

func (m *Model) setInterval(d time.Duration) tea.Cmd {
	m.opt.Interval = min(max(d, MinInterval), MaxInterval)
	m.pace.Set(m.opt.Interval)
	m.say("asks every " + m.opt.Interval.String())
	return nil
}

// pause holds the screen; what comes meanwhile is shown when it goes on.
func (m *Model) pause() tea.Cmd {
	if m.play != nil { // the past stands still by itself
		play, speed := m.asks.play, m.resume
		if m.play.Speed > 0 {
			speed = 0
		}
		return func() tea.Msg { play(speed); return nil }
	}
	if m.paused.IsZero() {
		m.paused = m.opt.Now()
		return nil
	}
	m.paused = time.Time{}
	if m.held != nil {
		m.show(m.held.Snapshot)
		m.held = nil
	}
	return nil
}

func (m *Model) noPlayer() string {
	if m.asks.step == nil {
		return "only a recording can be stepped through (--replay FILE)"
	}
	return ""
}

// The speeds of a replay.
const slowest, fastest = 1.0 / 16, 1024.0

func (m *Model) speed(by float64) tea.Cmd {
	play, speed := m.asks.play, min(max(m.resume*by, slowest), fastest)
	m.resume = speed
	return func() tea.Msg { play(speed); return nil }
}

func (m *Model) noCopy() string {
	if text, _ := m.copied(); text == "" {
		return "there is nothing to copy"
	}
	return ""
}

// copied is what y copies, and what that is.
func (m *Model) copied() (text, what string) {
	switch m.active() {
	case paneWhatIf:
		if len(m.whatIf.knobs) > 0 {
			return configLine(m.whatIf.knobs), "the tried weights, for the configuration"
		}
	case paneWhy:
		if m.why.rec != nil && m.opt.Command != nil {
			return m.opt.Command(m.why.rec.RequestID), "the command"
		}
	case paneFeed:
		if row := m.subject(); row != nil {
			return row.RequestID, "the request ID"
		}
	default:
		if p := m.pods.pod(m.snap); p != nil {
			return p.Pod, "the pod's name"
		}
	}
	return "", ""
}

// copy goes by the terminal (OSC 52), so that it works over SSH. IDs come from
// clients: they are cleaned before somebody pastes them into a shell.
func (m *Model) copy() tea.Cmd {
	text, what := m.copied()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = m.st.clean(lines[i])
	}
	m.say("copied " + what)
	return tea.SetClipboard(strings.Join(lines, "\n"))
}

func (m *Model) noSave() string {
	if m.asks.save == nil {
		return "reports can't be saved here"
	}
	return ""
}

func (m *Model) save() tea.Cmd {
	snap, recent, save := m.snap, m.asks.recent, m.asks.save
	m.say("saving a report" + m.st.glyphs.cut)
	return func() tea.Msg {
		records, err := recent(maxTried)
		path, saveErr := save(snap, records)
		if saveErr == nil && err != nil {
			saveErr = fmt.Errorf("saved to %s without decisions: %w", path, err)
		}
		return savedMsg{path, saveErr}
	}
}
