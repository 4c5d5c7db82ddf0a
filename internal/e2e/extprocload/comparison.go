package main

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/benchpage"
	"github.com/eppctl/eppctl/internal/cli"
)

// figure is one line of the comparison. Values are sorted, one a pair.
type figure struct {
	work, name string
	by         relation
	ours, noop []float64
	counts     []float64 // what is compared with the limit
	most       float64   // 0: no limit
	unit       string    // of the limit: "×" for ratios
	note       string
}

// comparison is what is printed.
type comparison struct {
	count   int
	figures []figure
}

// add compares the pairs of a row, each run with the one beside it, so that what
// slows the machine down for a while cancels out.
func (c *comparison) add(r *row, pairs []pair) {
	for _, check := range r.checks {
		f := figure{work: r.name, name: check.figure, by: check.by, most: check.most, note: check.note}
		if check.by == timesNoop {
			f.unit = "×"
		}
		for _, p := range pairs {
			ours, noop := check.of(p.ours), check.of(p.noop)
			if ours != nil {
				f.ours = append(f.ours, *ours)
			}
			if noop != nil {
				f.noop = append(f.noop, *noop)
			}
			if v := check.by.value(ours, noop); v != nil {
				f.counts = append(f.counts, *v)
			}
		}
		c.figures = append(c.figures, f.sorted())
	}
	client := shownFigure(r.name, "client's CPU ms per request", nil)
	for _, p := range pairs {
		if ms := p.ours.Client.CPUMsPerRequest; ms != nil {
			client.ours = append(client.ours, *ms)
		}
		if ms := p.noop.Client.CPUMsPerRequest; ms != nil {
			client.noop = append(client.noop, *ms)
		}
	}
	client.counts = client.ours
	c.figures = append(c.figures, client.sorted())
}

// value is the number that counts; nil when it is not known.
func (r relation) value(ours, noop *float64) *float64 {
	switch {
	case ours == nil:
		return nil
	case r == alone:
		return ours
	case noop == nil:
		return nil
	case r == beyondNoop:
		return new(*ours - *noop)
	case *noop == 0:
		return nil
	default:
		return new(*ours / *noop)
	}
}

func (f figure) sorted() figure {
	for _, values := range [][]float64{f.ours, f.noop, f.counts} {
		slices.Sort(values)
	}
	return f
}

func shownFigure(work, name string, values []float64) figure {
	return figure{work: work, name: name, by: alone, ours: values, counts: values}
}

func holdName(streams int) string {
	return fmt.Sprintf("%d streams with half of 400 KB", streams)
}

// hold adds what unfinished bodies need. The collector lets the heap grow to twice
// of what is alive before it runs, and pieces that are refused are there once more.
func (c *comparison) hold(name string, h *held) {
	const mb = 1 << 20
	one := func(figure string, v, most float64, note string) {
		c.figures = append(c.figures, limited(name, figure, v, most, note))
	}
	one("bodies held, MiB", float64(h.HeldBytes)/mb, bodyMemory/mb, "the picker's limit")
	if h.Holding.HeapBytes != nil && h.Before.HeapBytes != nil {
		one("heap beyond idle, MiB", (*h.Holding.HeapBytes-*h.Before.HeapBytes)/mb, 3*bodyMemory/mb, "three times the limit: with what was refused and not yet collected")
	}
	if h.Holding.RSSBytes != nil && h.Before.RSSBytes != nil {
		one("RSS beyond idle, MiB", float64(*h.Holding.RSSBytes-*h.Before.RSSBytes)/mb, 0, "")
	}
	status, _, _ := strings.Cut(h.First, " {") // the error's document is too long for a cell
	one("streams refused", float64(h.Refused), 0, status)
}

func limited(work, name string, v, most float64, note string) figure {
	f := shownFigure(work, name, []float64{v})
	f.most, f.note = most, note
	return f
}

// keeps reports whether the median is within factor times the limit. What could
// not be measured keeps no limit.
func (f *figure) keeps(factor float64) bool {
	return f.most == 0 || len(f.counts) > 0 && benchpage.Median(f.counts) <= f.most*factor
}

func (f *figure) verdict() string {
	switch {
	case len(f.counts) == 0:
		return "missing"
	case f.most == 0:
		return "shown"
	case f.keeps(1):
		return "ok"
	default:
		return "OVER"
	}
}

// failure is the error of a comparison in which something is over its limit by
// more than the factor.
func (c *comparison) failure(factor float64) error {
	var problems []error
	for _, f := range c.figures {
		if !f.keeps(factor) {
			problems = append(problems, fmt.Errorf("%s: %s: %s, the limit %s", f.work, f.name, f.counted(), f.limit()))
		}
	}
	return cli.WithHint(errors.Join(problems...), cli.ExitFindings, "the limits stand in internal/e2e/extprocload/rows.go")
}

func (f *figure) counted() string {
	if len(f.counts) == 0 {
		return cli.Unknown
	}
	return benchpage.Number(benchpage.Median(f.counts)) + f.unit
}

func (f *figure) limit() string {
	text := cli.Unknown
	if f.most != 0 {
		text = "≤ " + benchpage.Number(f.most) + f.unit
	}
	if f.note != "" {
		text += " (" + f.note + ")"
	}
	return text
}

// cells are a line: the relation and its range stand in their own columns, since
// a ratio is not the ratio of the medians.
func (f *figure) cells() []string {
	middle := func(values []float64) string {
		if len(values) == 0 {
			return cli.Unknown
		}
		return benchpage.Number(benchpage.Median(values))
	}
	relation, spread := cli.Unknown, cli.Unknown
	if len(f.counts) > 0 {
		switch f.by {
		case timesNoop:
			relation = f.counted()
		case beyondNoop:
			if relation = f.counted(); relation[0] != '-' {
				relation = "+" + relation
			}
		case alone:
		}
		spread = benchpage.Number(f.counts[0]) + " … " + benchpage.Number(f.counts[len(f.counts)-1])
	}
	return []string{f.work, f.name, middle(f.ours), middle(f.noop), relation, spread, f.limit(), f.verdict()}
}

var headers = []string{"WORK", "FIGURE", "OURS", "NO-OP", "PAIRS", "RANGE", "MUST BE", "VERDICT"}

func (c *comparison) summary() string {
	return fmt.Sprintf("medians of %d interleaved pairs, 100 pods, load client and picker on the same %d processors, %s %s/%s",
		c.count, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (c *comparison) text() string {
	var out bytes.Buffer
	columns := make([]cli.Column, len(headers))
	for i, name := range headers {
		columns[i] = cli.Column{Name: name, Right: i >= 2 && i <= 4}
	}
	table := cli.Printer{Streams: &cli.Streams{Out: &out}}.Table(columns...)
	for _, f := range c.figures {
		table.Row(f.cells()...)
	}
	// A bytes.Buffer takes all that is written to it.
	_ = table.Flush()
	return c.summary() + "\n\n" + out.String()
}

func (c *comparison) markdown() string {
	var b strings.Builder
	b.WriteString(c.summary() + "\n\n")
	b.WriteString("| work | figure | ours | no-op | pairs | range | must be | verdict |\n|---|---|---:|---:|---:|---|---|---|\n")
	for _, f := range c.figures {
		b.WriteString("| " + strings.Join(f.cells(), " | ") + " |\n")
	}
	return b.String()
}
