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
	const layout = "2006-01-02T15:04:05Z07:00"
	p.fact(Plain, "time", fmt.Sprintf("%s until %s: %s (%d in the time before, as long)",
		w.Since.Format(layout), w.Until.Format(layout), count(w.Decisions, "decision"), w.DecisionsBefore))
	p.fact(Plain, "time to first token", "p50 "+change(&w.TTFT, p50, seconds3)+", p99 "+change(&w.TTFT, p99, seconds3))
	p.blank()
	for i := range w.Checks {
		c := &w.Checks[i]
		tone, answer := Plain, "no"
		switch {
		case c.Measured.Now.Count == 0 || c.Measured.Before.Count == 0:
			answer = "not known"
		case c.Moved:
			tone, answer = Warn, "yes"
		}
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

func (a *AdapterUse) write(p *page) {
	tone := Plain
	if a.Pattern != "none" {
		tone = Warn
	}
	p.row(tone, "adapters: ", a.Text)
	for i := range a.Top {
		if t := &a.Top[i]; t.Loads > 0 {
			p.row(Plain, "  ", fmt.Sprintf("%s: %s for %s, on %s", t.Adapter, count(t.Loads, "load"), count(t.Requests, "request"), count(t.Pods, "pod")))
		}
	}
}
