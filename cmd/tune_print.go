package cmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/tune"
)

// writeSensitivity prints what follows from weights.
func writeSensitivity(p cli.Printer, d *tune.Sensitivity) error {
	if p.Format != cli.FormatText {
		return p.Document(d)
	}
	t := p.Table(
		cli.Column{Name: "FACTOR"}, cli.Column{Name: "PER UNIT", Right: true}, cli.Column{Name: "UNIT"},
		cli.Column{Name: "WORST TO BEST", Right: true}, cli.Column{Name: "ELIGIBLE", Right: true}, cli.Column{Name: "10 POINTS OF CACHE"},
	)
	for i, g := range d.Gradient {
		worth := none
		for _, e := range d.Equivalents {
			switch {
			case e.Factor != g.Factor:
			case e.Change == nil:
				worth = "nothing is"
			case !e.Possible:
				worth = signedFigure(*e.Change) + " (impossible)"
			default:
				worth = signedFigure(*e.Change)
			}
		}
		t.Row(g.Factor, signedFigure(g.PerUnit), g.Unit, plainFigure(d.Sensitivity[i].Full), plainFigure(d.Sensitivity[i].Eligible), worth)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Streams.Out, "\ndominance: %s\n", d.DominanceText)
	return err
}

// plainFigure has up to four decimals.
func plainFigure(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 4, 64), "0"), ".")
}

func signedFigure(v float64) string {
	if v > 0 {
		return "+" + plainFigure(v)
	}
	return plainFigure(v)
}

// adviceWriter prints advice for people.
type adviceWriter struct {
	cli.Printer
	a     *tune.Advice
	width int
}

func writeAdvice(p cli.Printer, a *tune.Advice) error {
	if p.Format != cli.FormatText {
		return p.Document(a)
	}
	w := adviceWriter{Printer: p, a: a, width: pipeColumns}
	if p.Streams.OutIsTerminal && p.Streams.Width > 0 {
		w.width = p.Streams.Width
	}
	w.traffic()
	w.findings()
	if err := w.loop(); err != nil {
		return err
	}
	return w.suggestion()
}

// say writes text that is folded, its further lines indented.
func (w *adviceWriter) say(first, indent, text string) {
	line := first
	for i, word := range strings.Fields(cli.Sanitize(text)) {
		switch {
		case i > 0 && len([]rune(line))+1+len([]rune(word)) > w.width:
			fmt.Fprintln(w.Streams.Out, line)
			line = indent + word
		case i > 0:
			line += " " + word
		default:
			line += word
		}
	}
	fmt.Fprintln(w.Streams.Out, line)
}

func (w *adviceWriter) traffic() {
	t := &w.a.Traffic
	w.say("", "  ", w.a.Verdict)
	fmt.Fprintln(w.Streams.Out)
	w.say("traffic: ", "  ", fmt.Sprintf("%d decisions from %s to %s (%s a second) for %d pods",
		t.Decisions, t.Since.Format(rowTimeFormat), t.Until.Format(rowTimeFormat), strconv.FormatFloat(t.RequestsPerSecond, 'f', 1, 64), t.Pods))
	w.say("replay: ", "  ", fmt.Sprintf("identical, all %d were picked as recorded", t.Replayed))
	force := w.a.Resembles.InForce
	if force == "" {
		force = "weights of its own"
	}
	w.say("resembles: ", "  ", fmt.Sprintf("%s (in force: %s): %s", w.a.Resembles.Preset, force, strings.Join(w.a.Resembles.Because, "; ")))
	k := &w.a.Weights
	all := []string{fmt.Sprintf("cache %v, load %v, queue %v, health %v, adapter %v", k.Cache, k.Load, k.Queue, k.Health, k.Adapter)}
	for _, c := range k.Custom {
		all = append(all, fmt.Sprintf("%s %v", c.Name, c.Weight))
	}
	w.say("weights: ", "  ", fmt.Sprintf("%s; maxQueue %d", strings.Join(all, ", "), k.MaxQueue))
}

func (w *adviceWriter) findings() {
	out := w.Streams.Out
	if len(w.a.Findings) == 0 {
		fmt.Fprintln(out, "findings: none")
		return
	}
	fmt.Fprintln(out, "\nfindings:")
	for _, f := range w.a.Findings {
		w.say("  "+f.Code+": ", "    ", f.Text)
		var figures []string
		for _, e := range f.Evidence {
			figures = append(figures, e.Name+" "+evidence(e))
		}
		w.say("    evidence  ", "              ", strings.Join(figures, ", "))
		w.say("    do        ", "              ", f.Do)
		if f.Risk != "" {
			w.say("    risk      ", "              ", f.Risk)
		}
		if f.WhatIf != nil {
			w.say("    what if   ", "              ", whatIfText(f.WhatIf))
		}
	}
}

func evidence(e tune.Figure) string {
	switch e.Unit {
	case "share":
		return figure(e.Value, "%", true)
	case "count", "pods":
		return figure(e.Value, "#", true)
	}
	return strconv.FormatFloat(e.Value, 'f', -1, 64) + " " + e.Unit
}

// whatIfText tells what a move would have done to the picks.
func whatIfText(c *tune.Counterfactual) string {
	parts := []string{fmt.Sprintf("%s: %d of %d picks change", c.Move, c.Changed, c.Decisions)}
	if c.Decisions < c.Of {
		parts[0] += fmt.Sprintf(" (evenly spread, of %d)", c.Of)
	}
	for _, d := range []struct {
		of         *tune.Direction
		more, less string
	}{
		{&c.Cached, "to more cache", "to less"},
		{&c.Queue, "to a deeper queue", "to a shorter"},
		{&c.Load, "to more load", "to less"},
	} {
		if d.of.More+d.of.Less > 0 {
			parts = append(parts, fmt.Sprintf("%d %s, %d %s", d.of.More, d.more, d.of.Less, d.less))
		}
	}
	if n := int(c.Adapter.Net); n != 0 {
		parts = append(parts, fmt.Sprintf("%+d adapter loads", n))
	}
	if a, b := c.MarginBefore.P50, c.MarginAfter.P50; a != nil && b != nil {
		parts = append(parts, fmt.Sprintf("median margin %s, was %s", plainFigure(*b), plainFigure(*a)))
	}
	return strings.Join(parts, "; ")
}

// loop is the table before and after.
func (w *adviceWriter) loop() error {
	c := w.a.ClosedLoop
	if c == nil {
		return nil
	}
	fmt.Fprintln(w.Streams.Out)
	w.say("", "", fmt.Sprintf("%d of %d recorded arrivals again, on %d simulated pods (%s):", c.Requests, c.Of, c.Pods, c.Profile))
	t := w.Table(
		cli.Column{Name: "WEIGHTS"}, cli.Column{Name: "CACHED", Right: true}, cli.Column{Name: "TTFT MEAN", Right: true},
		cli.Column{Name: "P50", Right: true, Priority: 2}, cli.Column{Name: "P90", Right: true, Priority: 1}, cli.Column{Name: "P99", Right: true, Priority: 1},
		cli.Column{Name: "QUEUE", Right: true, Priority: 3}, cli.Column{Name: "LOADS", Right: true, Priority: 4},
		cli.Column{Name: "CHANGE", Right: true}, cli.Column{Name: "95%"},
	)
	row := func(name string, o *tune.Outcome, change, interval string) {
		t.Row(name, figure(o.CacheHitRatio, "%", true), shortTime(o.TTFTMean), shortTime(o.TTFTP50), shortTime(o.TTFTP90), shortTime(o.TTFTP99),
			strconv.Itoa(o.QueueMax), strconv.Itoa(o.AdapterLoads), change, interval)
	}
	row("as they are", &c.Before, none, none)
	for i := range c.Trials {
		r := &c.Trials[i]
		name := r.Move.Key + " " + plainFigure(r.Move.To)
		if d := r.Move.TakenFrom; d != nil {
			name += " < " + d.Key
		}
		row(name, &r.After, inPercent(r.Change), inPercent(r.Low)+" to "+inPercent(r.High))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	w.say("", "", fmt.Sprintf("the best of other stretches of time, on each of the %d: %s on average", len(c.Folds), inPercent(c.HeldOut)))
	return nil
}

func inPercent(v float64) string { return fmt.Sprintf("%+.1f%%", 100*v) }

func (w *adviceWriter) suggestion() error {
	s := w.a.Suggestion
	if s == nil {
		return nil
	}
	fmt.Fprintln(w.Streams.Out)
	w.say("suggestion: ", "  ", s.Text+", for "+s.For)
	w.say("  risk: ", "    ", s.Risk)
	w.say("  picks: ", "    ", whatIfText(s.WhatIf))
	for _, doubt := range w.a.Doubts {
		w.say("  not confident: ", "    ", doubt)
	}
	w.say("  ", "  ", "These are times of a simulated fleet: yours will have others. Move, wait a day, and compare.")
	_, err := io.WriteString(w.Streams.Out, "next: 'eppctl tune --emit config' for a file, or --apply --yes for a running picker\n")
	return err
}
