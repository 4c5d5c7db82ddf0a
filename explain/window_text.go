package explain

import (
	"fmt"
	"io"
)

// Text renders the window for people.
func (w *Window) Text(out io.Writer, opt TextOptions) error {
	p := newPage(opt)
	p.row(Strong, "", w.Verdict)
	p.blank()
	p.fact(Plain, "time", w.span())
	p.fact(Plain, "time to first token", w.ttftText())
	p.blank()
	for i := range w.Checks {
		c := &w.Checks[i]
		tone, answer := c.answer()
		p.row(tone, fmt.Sprintf("%d. ", i+1), c.Question+" "+answer+": "+c.Text)
	}
	if w.Adapters != nil {
		p.blank()
		w.Adapters.write(p)
	}
	if w.Ladder != nil {
		p.blank()
		w.Ladder.write(p)
	}
	return p.writeTo(out)
}

// span is the time, with what is known of it.
func (w *Window) span() string {
	const layout = "2006-01-02T15:04:05Z07:00"
	return fmt.Sprintf("%s until %s: %s (%d in the time before, as long)",
		w.Since.Format(layout), w.Until.Format(layout), count(w.Decisions, "decision"), w.DecisionsBefore)
}

func (w *Window) ttftText() string {
	return "p50 " + change(&w.TTFT, p50, seconds3) + ", p99 " + change(&w.TTFT, p99, seconds3)
}

func (c *Check) answer() (Tone, string) {
	switch {
	case c.Measured.Now.Count == 0 || c.Measured.Before.Count == 0:
		return Plain, "not known"
	case c.Moved:
		return Warn, "yes"
	}
	return Plain, "no"
}

func (a *AdapterUse) write(p *page) {
	p.row(a.tone(), "adapters: ", a.Text)
	for i := range a.Top {
		if t := &a.Top[i]; t.Loads > 0 {
			p.row(Plain, "  ", t.text())
		}
	}
}

func (a *AdapterUse) tone() Tone {
	if a.Pattern != "none" {
		return Warn
	}
	return Plain
}

func (a *AdapterLoad) text() string {
	return fmt.Sprintf("%s: %s for %s, on %s", a.Adapter, count(a.Loads, "load"), count(a.Requests, "request"), count(a.Pods, "pod"))
}
