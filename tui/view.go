package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/explain"
)

// View draws the screen.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen, v.ReportFocus = true, true
	v.WindowTitle = m.st.clean(strings.TrimSpace("eppctl top " + m.snap.Router.Models))
	if m.opt.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	if r, ok := find(layout(m.plan), paneFooter); ok && m.inputFor != 0 {
		cursor := 2 + ansi.StringWidth(m.st.clean(string(m.input.text[:m.input.at])))
		v.Cursor = tea.NewCursor(min(cursor, m.w-1), r.y)
		v.Cursor.Blink = false
	}
	return v
}

// screen is all lines of the screen.
func (m *Model) screen() []string {
	lines := make([]string, max(m.h, 1))
	rects := layout(m.plan)
	for _, r := range rects {
		for i, line := range fill(m.draw(r), r.w, r.h) {
			lines[r.y+i] = m.beside(lines[r.y+i], r, line)
		}
	}
	return lines
}

// beside puts a line of a pane where the pane stands.
func (m *Model) beside(line string, r rect, text string) string {
	if r.x == 0 {
		return text
	}
	const wall = 2 // its cell before the pane
	line += strings.Repeat(" ", max(r.x-wall-ansi.StringWidth(line), 0))
	return line + m.st.paint(faint, m.st.glyphs.wall) + " " + text
}

// draw draws one pane. While nobody answers the figures are dimmed.
func (m *Model) draw(r rect) []string {
	st := m.st
	if m.err != nil {
		st = st.dimmed()
	}
	focused := m.active() == r.pane
	if m.snap.Router.Silence != nil && m.tellsSilence(r.pane) {
		return renderSilence(m.head(r.w), r.w, m.st)
	}
	switch r.pane {
	case paneTitle:
		return renderTitle(m.head(r.w), r.w, m.st)
	case paneRates:
		return renderRates(m.head(r.w), r.w, st)
	case paneVerdict:
		return renderVerdict(m.head(r.w), r.w, m.st)
	case panePods:
		return renderPods(m.podsData(focused), r.w, r.h, st)
	case paneFeed:
		return renderFeed(feedData{rows: m.feed.shown, top: m.feed.top, cursor: m.feed.at(), focused: focused, known: !m.decisionsUnknown()}, r.w, r.h, st)
	case paneEvents:
		return renderEvents(m.snap.Events, r.w, r.h, st)
	case paneFooter:
		if m.inputFor != 0 {
			return renderInput(m, r.w, m.st)
		}
		return renderFooter(m, r.w, m.st)
	case paneWhy:
		return renderWhy(&m.why, focused, r.w, r.h, m.st)
	case paneWhatIf:
		return renderWhatIf(&m.whatIf, focused, r.w, r.h, m.st)
	default:
		return m.drawOpen(r, st)
	}
}

// drawOpen draws what opens in place of the overview.
func (m *Model) drawOpen(r rect, st *styles) []string {
	switch r.pane {
	case paneDetail:
		d := m.podsData(true)
		return renderDetail(m.pods.pod(m.snap), &d, r.w, r.h, st)
	case paneAdapters:
		return renderAdapters(m.snap, m.scroll, r.w, r.h, st)
	case paneIndex:
		return renderIndex(m.snap, m.scroll, r.w, r.h, st)
	case paneHelp:
		return renderHelp(m.scroll, r.w, r.h, m.st)
	case paneTooSmall:
		return fill([]string{m.st.draw(r.w, span{strong, fmt.Sprintf("%dx%d needed", leastWidth, leastHeight)}, span{text: fmt.Sprintf(", %dx%d here", m.w, m.h)})}, r.w, r.h)
	default:
		return nil
	}
}

// tellsSilence reports whether a pane tells that there is no news from the cluster: its
// own, or on small screens the rates, or a verdict that tells nothing.
func (m *Model) tellsSilence(p pane) bool {
	rects, at := layout(m.plan), paneVerdict
	for _, better := range []pane{paneRates, paneCluster} {
		if _, there := find(rects, better); there {
			at = better
		}
	}
	return p == at && (p != paneVerdict || m.err == nil && m.snap.Verdict.Code == explain.VerdictOK)
}

func (m *Model) head(w int) headData {
	d := headData{
		snap: m.snap, window: m.window, now: m.opt.Now(), got: m.got, err: m.err, failed: m.failed, retry: m.retry,
		paused: m.paused, every: m.pace.Interval(), play: m.play, history: &m.history, wide: w >= fullWidth-1,
	}
	if m.noVerdict() == "" {
		d.verdict = "v shows it "
		if p := m.pods.pod(m.snap); p != nil && p.Pod == m.snap.Verdict.Pod && m.snap.Verdict.Key == "e" {
			d.verdict = "e why "
		}
	}
	return d
}

func (m *Model) podsData(focused bool) podsData {
	return podsData{
		snap: m.snap, order: m.pods.order, top: m.pods.top, cursor: m.pods.at(m.snap), focused: focused, window: m.window,
		sort: m.pods.sort, reverse: m.pods.reverse, filter: m.pods.filter, metric: m.metric, history: &m.history, strip: m.strip(),
	}
}
