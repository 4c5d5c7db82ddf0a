package metricview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/internal/cli"
)

// maxRows is how many models, adapters and pods a table has; -o wide has all.
const maxRows = 20

// Write writes the document as tables.
func (d *Document) Write(p cli.Printer) error {
	w := &writer{Printer: p, d: d}
	w.head()
	if d.Maker == Engine {
		w.engines()
		return w.err
	}
	w.checks()
	w.routing()
	w.distribution("CACHE MATCH", cacheMatch.name, d.CacheMatch)
	w.distribution("COMPOSITE SCORE", compositeScore.name, d.CompositeScore)
	w.distribution("SCORING LATENCY, µs", scoringLatency.name, d.ScoringLatencyUs)
	w.podTable()
	w.adapters()
	w.missing()
	return w.err
}

// writer keeps the first error of standard output.
type writer struct {
	cli.Printer
	d   *Document
	err error
}

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) line(text string) {
	_, err := fmt.Fprintln(w.Streams.Out, text)
	w.keep(err)
}

// wrapped breaks a text where a terminal is narrow.
func (w *writer) wrapped(indent, text string) {
	if w.Streams.OutIsTerminal && w.Streams.Width > 20 {
		text = ansi.Wordwrap(text, w.Streams.Width-len(indent), "")
	}
	w.line(indent + strings.ReplaceAll(text, "\n", "\n"+indent))
}

// prose writes a text from elsewhere.
func (w *writer) prose(indent, text string) { w.wrapped(indent, cli.Sanitize(text)) }

// heading starts a section, with what is in it in one line.
func (w *writer) heading(name, rest string) {
	w.line("")
	text := w.Streams.Paint(cli.Strong, name)
	if rest != "" {
		text += "  " + rest
	}
	w.wrapped("", text)
}

func (w *writer) wide() bool { return w.Format == cli.FormatWide }

// source is the family that a section is made of, for -o wide.
func (w *writer) source(question string) string {
	if family := w.d.Families[question]; w.wide() && family != "" {
		return "  (" + family + ")"
	}
	return ""
}

func (w *writer) head() {
	what := string(w.d.Maker)
	switch n := len(w.d.Pages); {
	case w.d.Maker == Engine && n > 1:
		what = fmt.Sprintf("%d engines", n)
	case w.d.Maker == Engine:
		what = "engine"
	case n > 1:
		what = fmt.Sprintf("%d %s pickers", n, w.d.Maker)
	}
	when := "since the start"
	seconds := w.d.Window.Seconds
	switch {
	case w.d.Window.Kind == "scrapes" && seconds != nil:
		when = "in the last " + span(*seconds)
	case seconds != nil:
		when += ", " + span(*seconds) + " ago"
	}
	if w.d.Maker == Engine {
		w.prose("", what+" "+when)
	} else {
		w.line(what + " " + when + ": " + w.Streams.Paint(toneOf(w.d.Status), string(w.d.Status)))
	}
	for _, page := range w.d.Pages {
		w.prose("  ", page.Source)
	}
	for _, failed := range w.d.Failed {
		w.prose("  ", failed.Source+": "+failed.Error)
	}
	for _, note := range w.d.Notes {
		w.prose("", "note: "+note)
	}
}

func (w *writer) checks() {
	w.line("")
	t := w.Table(cli.Column{Name: "CHECK"}, cli.Column{Name: "STATUS"}, cli.Column{Name: "SAW", Min: 16}, cli.Column{Name: "ALERT", Min: 6, Priority: 1})
	for _, c := range w.d.Checks {
		status, alert := string(c.Status), c.Alert
		if c.Status == Unknown {
			status = cli.Unknown
		}
		if alert == "" {
			alert = "-"
		}
		t.Cells(cli.Cell{Text: c.Code}, cli.Cell{Text: status, Tone: toneOf(c.Status)}, cli.Cell{Text: c.Saw + c.seen()}, cli.Cell{Text: alert, Tone: cli.Faint})
	}
	w.keep(t.Flush())
}

// seen says for how long an alert was seen that asks for a duration.
func (c *Check) seen() string {
	switch {
	case c.Status != Warn || c.ForSeconds == 0:
		return ""
	case c.SeenSeconds == 0:
		return ", seen once"
	}
	return ", seen for " + span(c.SeenSeconds)
}

func (w *writer) routing() {
	r := w.d.Routing
	if r == nil {
		return
	}
	rate := ""
	if r.PerSecond != nil {
		rate = Number(*r.PerSecond) + " decisions a second"
	}
	w.heading("ROUTING", rate+w.source(decisions.name))
	if len(r.Models) == 0 {
		w.line("no decisions yet")
		return
	}
	t := w.Table(
		cli.Column{Name: "MODEL", Min: 12},
		cli.Column{Name: "RATE/S", Right: true}, cli.Column{Name: "SHARE", Right: true},
		cli.Column{Name: "DECISIONS", Right: true}, cli.Column{Name: "TOTAL", Right: true, Priority: 1},
	)
	for _, m := range w.d.shownModels(w.wide()) {
		t.Row(named(m.Model), or(m.PerSecond, Number), or(m.Share, Percent), Number(m.Decisions), Number(m.Total))
	}
	w.keep(t.Flush())
	w.more(len(r.Models))
}

func (d *Document) shownModels(all bool) []Model {
	return d.Routing.Models[:shown(len(d.Routing.Models), all)]
}

// named is a label's value; pickers write none as an empty one.
func named(label string) string {
	if label == "" {
		return "none"
	}
	return label
}

func shown(n int, all bool) int {
	if all {
		return n
	}
	return min(n, maxRows)
}

// more says that rows were left out.
func (w *writer) more(n int) {
	if left := n - shown(n, w.wide()); left > 0 {
		w.line(fmt.Sprintf("and %d more, see -o wide", left))
	}
}

func (w *writer) distribution(name, question string, d *Distribution) {
	if d == nil {
		return
	}
	if d.P50 == nil {
		w.heading(name, "no observations"+w.source(question))
		return
	}
	w.heading(name, fmt.Sprintf("p10 %s  p50 %s  p90 %s  p99 %s  mean %s  of %s%s",
		d.quantile("p10", d.P10), d.quantile("p50", d.P50), d.quantile("p90", d.P90), d.quantile("p99", d.P99),
		or(d.Mean, Number), Number(d.Count), w.source(question)))
	t := w.Table(cli.Column{Name: "RANGE", Right: true}, cli.Column{Name: "COUNT", Right: true}, cli.Column{Name: "SHARE", Right: true}, cli.Column{Name: "HISTOGRAM", Priority: 1})
	most := 0.0
	for _, b := range d.Buckets {
		most = max(most, b.Count)
	}
	first, last := d.filled()
	for i, b := range d.Buckets {
		if w.wide() || i >= first && i <= last {
			t.Cells(
				cli.Cell{Text: b.text()}, cli.Cell{Text: Number(b.Count)}, cli.Cell{Text: Percent(b.Count / d.Count)},
				cli.Cell{Text: bar(b.Count / most), Tone: cli.Good},
			)
		}
	}
	w.keep(t.Flush())
}

// filled are the first and the last bucket that have observations.
func (d *Distribution) filled() (first, last int) {
	has := func(b Bin) bool { return b.Count > 0 }
	first, last = slices.IndexFunc(d.Buckets, has), len(d.Buckets)-1
	for last > first && !has(d.Buckets[last]) {
		last--
	}
	return first, last
}

func (b Bin) text() string {
	switch {
	case b.UpTo == nil:
		return "> " + or(b.Above, bound)
	case b.Above == nil && *b.UpTo <= 0:
		return bound(*b.UpTo)
	case b.Above == nil:
		return "0–" + bound(*b.UpTo)
	}
	return bound(*b.Above) + "–" + bound(*b.UpTo)
}

// bound writes a bucket's bound: 0.55, 100,000.
func bound(v float64) string {
	if v >= 1000 {
		return Number(v)
	}
	return fmt.Sprintf("%.6g", v)
}

func (w *writer) podTable() {
	d := w.d
	if len(d.Pods) == 0 {
		return
	}
	var parts []string
	if d.CandidatePods != nil {
		parts = append(parts, Number(*d.CandidatePods)+" candidates")
	}
	if d.MaxQueue != nil {
		parts = append(parts, "maxQueue "+Number(*d.MaxQueue))
	}
	w.heading("PODS", strings.Join(parts, ", ")+w.source(queueDepth.name))
	t := w.Table(
		cli.Column{Name: "POD", Min: 8},
		cli.Column{Name: "STATE"}, cli.Column{Name: "HEALTH", Right: true},
		cli.Column{Name: "QUEUE", Right: true}, cli.Column{Name: "FULL", Right: true},
		cli.Column{Name: "PICKS", Right: true, Priority: 2}, cli.Column{Name: "SHARE", Right: true, Priority: 1},
		cli.Column{Name: "LOAD", Right: true, Wide: true}, cli.Column{Name: "IN FLIGHT", Right: true, Wide: true},
	)
	pods := slices.Clone(d.Pods)
	slices.SortStableFunc(pods, func(a, b Pod) int { return b.urgency() - a.urgency() })
	for _, pod := range pods[:shown(len(pods), w.wide())] {
		state, full := pod.State, cli.Plain
		if state == StateUnknown {
			state = cli.Unknown
		}
		if pod.QueueShare != nil && *pod.QueueShare > queueAlert {
			full = cli.Bad
		}
		t.Cells(
			cli.Cell{Text: pod.Pod}, cli.Cell{Text: state, Tone: toneOfState(pod.State)}, cli.Cell{Text: or(pod.Health, ratio)},
			cli.Cell{Text: or(pod.Queue, Number)}, cli.Cell{Text: or(pod.QueueShare, Percent), Tone: full},
			cli.Cell{Text: or(pod.Picks, Number)}, cli.Cell{Text: or(pod.PicksShare, Percent)},
			cli.Cell{Text: or(pod.Utilization, Percent)}, cli.Cell{Text: or(pod.InFlight, Number)},
		)
	}
	w.keep(t.Flush())
	w.more(len(pods))
}

// urgency orders pods: those that need a look come first.
func (p *Pod) urgency() int {
	switch {
	case p.State == StateOut:
		return 3
	case p.QueueShare != nil && *p.QueueShare > queueAlert:
		return 2
	case p.State == StateDegraded:
		return 1
	}
	return 0
}

func (w *writer) adapters() {
	list := w.d.Adapters
	if len(list) == 0 {
		return
	}
	w.heading("ADAPTER LOADS", strings.TrimSpace(w.source(adapterLoads.name)))
	t := w.Table(cli.Column{Name: "ADAPTER", Min: 12}, cli.Column{Name: "A MINUTE", Right: true}, cli.Column{Name: "LOADS", Right: true}, cli.Column{Name: "TOTAL", Right: true})
	for _, a := range list[:shown(len(list), w.wide())] {
		t.Row(named(a.Adapter), or(a.PerMinute, Number), Number(a.Loads), Number(a.Total))
	}
	w.keep(t.Flush())
	w.more(len(list))
}

func (w *writer) missing() {
	if len(w.d.Missing) == 0 {
		return
	}
	w.heading("NOT ON THE PAGE", "")
	for _, m := range w.d.Missing {
		text := m.Question + ": " + m.Reason
		if w.wide() {
			text += " (" + strings.Join(m.Families, " or ") + ")"
		}
		w.prose("", text)
	}
}

func (w *writer) engines() {
	w.line("")
	t := w.Table(
		cli.Column{Name: "ENGINE"}, cli.Column{Name: "RANK"},
		cli.Column{Name: "WAITING", Right: true}, cli.Column{Name: "RUNNING", Right: true},
		cli.Column{Name: "KV USED", Right: true}, cli.Column{Name: "PREFIX HITS", Right: true},
		cli.Column{Name: "LORA", Min: 8}, cli.Column{Name: "BLOCKS", Right: true, Wide: true}, cli.Column{Name: "BLOCK SIZE", Right: true, Wide: true},
		cli.Column{Name: "PAGE", Wide: true},
	)
	for i := range w.d.Engines {
		e := &w.d.Engines[i]
		for j, r := range e.Ranks {
			lora, blocks, size := "-", "-", "-"
			if j == len(e.Ranks)-1 { // these are of all ranks
				lora, blocks, size = e.lora(), count64(e.Blocks), count64(e.BlockSize)
			}
			t.Row(e.Engine, r.Rank, or(r.Waiting, Number), or(r.Running, Number), or(r.KVUsage, Percent), or(r.PrefixHitRatio, Percent), lora, blocks, size, e.Source)
		}
	}
	w.keep(t.Flush())
	for i := range w.d.Engines {
		for _, reason := range w.d.Engines[i].Unknown {
			w.prose("", w.d.Engines[i].Source+": "+reason)
		}
	}
}

func (e *EngineState) lora() string {
	if e.Adapters == nil {
		return cli.Unknown
	}
	text := strings.Join(e.Adapters, ",")
	if text == "" {
		text = "none"
	}
	if e.MaxAdapters != nil {
		text += fmt.Sprintf(" (%d of %d)", len(e.Adapters), *e.MaxAdapters)
	}
	return text
}

func count64(n *int) string {
	if n == nil {
		return cli.Unknown
	}
	return Number(float64(*n))
}
