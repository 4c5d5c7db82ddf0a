package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
)

var looks = map[string]Look{
	"plain": {},
	"bold":  {Color: Attributes},
	"dark":  {Color: FullColor},
	"light": {Color: FullColor, Light: true},
	"ascii": {ASCII: true},
}

var sizes = [][2]int{{160, 50}, {120, 36}, {100, 28}, {80, 24}, {40, 8}}

// visible writes escapes so that a golden file is text.
func visible(lines []string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\x1b", "␛") + "\n"
}

func TestScreens(t *testing.T) {
	for _, size := range sizes {
		for name, look := range looks {
			t.Run(fmt.Sprintf("hot-%dx%d-%s", size[0], size[1], name), func(t *testing.T) {
				golden.Equal(t, "testdata/"+strings.TrimPrefix(t.Name(), "TestScreens/")+".txt", visible(still(size[0], size[1], look, hot()).screen()))
			})
		}
		for name, snap := range map[string]*explain.Snapshot{
			"pods-0": fleet(0), "pods-1": fleet(1), "pods-8": fleet(8), "pods-300": fleet(300), "states": everyState(), "nothing": nil,
		} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				golden.Equal(t, "testdata/"+strings.TrimPrefix(t.Name(), "TestScreens/")+".txt", visible(still(size[0], size[1], Look{}, snap).screen()))
			})
		}
	}
}

// Each pane that opens, on a small and on a large screen.
func TestOpenPanes(t *testing.T) {
	rec := records(t)[3]
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		for name, open := range map[string]pane{
			"why": paneWhy, "whatif": paneWhatIf, "detail": paneDetail, "adapters": paneAdapters, "index": paneIndex, "help": paneHelp,
		} {
			t.Run(fmt.Sprintf("open-%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				m := still(size[0], size[1], Look{}, hot())
				m.Update(decisionMsg{m.why.asked, rec, nil})
				m.whatIf.records = records(t)
				turn(m.whatIf.knobs, 2, 8)
				m.whatIf.result = try(m.whatIf.records, m.whatIf.knobs)
				m.open = open
				golden.Equal(t, "testdata/"+strings.TrimPrefix(t.Name(), "TestOpenPanes/")+".txt", visible(m.screen()))
			})
		}
	}
}

// The router is gone: the last figures are dimmed, with their age and the next try.
func TestUnreachableScreen(t *testing.T) {
	for name, look := range map[string]Look{"plain": {}, "dark": {Color: FullColor}} {
		m := still(80, 24, look, hot())
		now := noon
		m.opt.Now = func() time.Time { return now }
		m.Update(Update{Err: fmt.Errorf("connection refused"), Retry: 2 * time.Second})
		now = now.Add(7 * time.Second)
		m.Update(Update{Err: fmt.Errorf("connection refused"), Retry: 2 * time.Second})
		golden.Equal(t, "testdata/unreachable-"+name+".txt", visible(m.screen()))
		m.Update(Update{Snapshot: hot()})
		if got := m.screen()[2]; !strings.Contains(got, "chat-2 takes 31%") {
			t.Errorf("when it is back the verdict line is %q", got)
		}
	}
	m := still(80, 24, Look{}, nil)
	m.Update(Update{Err: fmt.Errorf("connection refused"), Retry: 2 * time.Second})
	golden.Equal(t, "testdata/unreachable-from-the-start.txt", visible(m.screen()))
}

// At no size does a line reach the last cell, or anything panic, whatever is open.
func TestEverySizeFits(t *testing.T) {
	rec := records(t)[3]
	m := still(80, 24, Look{Color: FullColor}, everyState())
	m.why.rec = rec
	m.whatIf.result = try(records(t), m.whatIf.knobs)
	for open := paneNone; open <= paneHelp; open++ {
		if open > paneNone && open < paneWhy {
			continue
		}
		for w := 1; w <= 200; w += 1 + w/25 {
			for h := 1; h <= 60; h += 1 + h/12 {
				m.open = open
				m.Update(tea.WindowSizeMsg{Width: w, Height: h})
				lines := m.screen()
				if len(lines) != h {
					t.Fatalf("pane %d at %dx%d: %d lines", open, w, h, len(lines))
				}
				for i, line := range lines {
					if n := ansi.StringWidth(line); n > w-1 && n > 0 {
						t.Fatalf("pane %d at %dx%d: line %d is %d cells wide: %q", open, w, h, i, n, line)
					}
				}
			}
		}
	}
}

// Bytes from the wire do not act on the terminal, wherever they come in.
func TestHostileText(t *testing.T) {
	const evil = "\x1b]0;owned\a\x1b[31mA\u202eB\u200bC\r\n\x9bD" + "e\u0301\u0301\u0301\u0301\u0301\u0301"
	snap := hot()
	for i := range snap.Pods {
		p := &snap.Pods[i]
		p.Pod, p.Endpoint, p.Reason, p.State = evil+p.Pod, evil, evil, evil
		p.Adapters.Loaded, p.Signals, p.LoadSource, p.CacheSource = []string{evil}, []string{evil}, evil, evil
		p.DecidedBy = map[string]int{evil: 3}
		if p.Stream != nil {
			p.Stream.Degraded = evil
		}
	}
	snap.Router.Models, snap.Router.Pool, snap.Router.Server = evil, evil, evil
	snap.Verdict.Message, snap.Verdict.Evidence = evil, []string{evil}
	snap.Events = []explain.FleetEvent{{Time: noon, Pod: evil, Code: evil, Text: evil}}
	rows := someRows(20)
	for i := range rows {
		rows[i].RequestID, rows[i].Picked, rows[i].Over, rows[i].DecidedBy, rows[i].Flags = evil, evil, evil, evil, []string{evil}
	}
	rec := records(t)[3]
	rec.RequestID, rec.Request.Model, rec.Candidates[0].Pod = evil, evil, evil
	for _, look := range []Look{{}, {ASCII: true}} {
		for open := paneNone; open <= paneHelp; open++ {
			m := still(160, 50, look, nil)
			m.Update(Update{Snapshot: snap, Rows: rows})
			m.Update(decisionMsg{m.why.asked, rec, nil})
			m.open = open
			text := strings.Join(m.screen(), "") + m.View().WindowTitle
			for _, r := range text {
				if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e || r == 0x200b || look.ASCII && r > 0x7e {
					t.Fatalf("pane %d draws %q in %q", open, r, text)
				}
			}
			if strings.Contains(text, strings.Repeat("\u0301", maxMarks+1)) {
				t.Errorf("pane %d draws a pile of marks", open)
			}
		}
	}
}

// What terminals take for different widths is not drawn: it would push the rest of the
// line out of its place. Nor is what no line has room for.
func TestTextOfUncertainWidth(t *testing.T) {
	st := newStyles(Look{})
	for text, want := range map[string]string{
		strings.Repeat("M", 1<<20): strings.Repeat("M", maxText),

		"宽 한 é":  "宽 한 é",
		"🇩🇪":     "🇩🇪",
		"🏳️":     "🏳" + `\ufe0f`,
		"👍🏽":     `\U0001f44d\U0001f3fd`,
		"क्षि":   `\u0915\u094d\u0937\u093f`,
		"\u3164": `\u3164`,
	} {
		if got := st.clean(text); got != want {
			t.Errorf("clean(%q) = %q, want %q", text, got, want)
		}
	}
}

// No number, however absurd, breaks the screen, or is drawn as none.
func TestHostileNumbers(t *testing.T) {
	for _, v := range []float64{-1, 1e308, -1e308, 1e39, 1e18, 5e-324, 0} {
		snap := fleet(8)
		for i := range snap.Pods {
			p := &snap.Pods[i]
			p.Load, p.Health, p.PicksShare, p.CacheHitRatio, p.KVUsage = &v, &v, &v, &v, &v
			p.Running, p.TTFTP95, p.AgeSeconds, p.Queue.Waiting = &v, &v, &v, &v
			p.Picks, p.Queue.Pending, p.Queue.Max, p.CachedBlocks = []int{-1}, -9e15, -1, new(-5)
		}
		for open := paneNone; open <= paneHelp; open++ {
			m := still(250, 50, Look{}, nil)
			m.open = open
			for metric := range metrics {
				m.metric = metric
				m.Update(Update{Snapshot: snap, Rows: someRows(3)})
				if text := strings.Join(m.screen(), "\n"); strings.Contains(text, "Inf") || strings.Contains(text, "NaN") {
					t.Errorf("pane %d with %v draws no number:\n%s", open, v, text)
				}
			}
		}
	}
}
