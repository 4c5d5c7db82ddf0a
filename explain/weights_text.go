package explain

import (
	"fmt"
	"math"
	"strings"
)

// writeWeights tells the weights and what follows from them.
func (r *Report) writeWeights(p *page) {
	if r.Origin != nil {
		r.writeOriginWeights(p)
		return
	}
	w := &r.Weights
	parts := []string{
		"cache " + weightText(w.Cache), "load " + weightText(w.Load), "queue " + weightText(w.Queue),
		"health " + weightText(w.Health), "adapter " + weightText(w.Adapter),
	}
	for _, c := range w.Custom {
		parts = append(parts, c.Name+" "+weightText(c.Weight))
	}
	p.fact(Plain, "weights", fmt.Sprintf("%s; maxQueue %d, maxUtilization %s, saturation %s, generation %d",
		strings.Join(parts, ", "), w.MaxQueue, number(w.MaxUtilization), w.Saturation, w.Generation))
	if r.Analysis == nil {
		return
	}
	p.fact(Plain, "dominance", r.Analysis.Dominance.Text())
	if p.opt.Wide {
		r.Analysis.write(p)
	}
}

// Text says in words when cache decides alone.
func (d *Dominance) Text() string {
	switch {
	case d.WithCutoff == nil:
		return "cache never dominates: it has no weight"
	case d.Never:
		return fmt.Sprintf("cache never dominates: its lead would have to be above %s, and 1 is all there is",
			decimal(*d.WithCutoff, 4))
	}
	// Rounded up, so that what is printed does win.
	lead := math.Ceil(*d.WithCutoff*1000) / 10
	return fmt.Sprintf("a lead of more than %s points in cache match always wins between eligible pods", decimal(lead, 1))
}

// write shows the analysis, a line a factor.
func (a *Analysis) write(p *page) {
	p.row(Strong, "", "what the weights mean:")
	column := 0
	for _, s := range a.Sensitivity {
		column = max(column, width(p.safe(s.Factor)))
	}
	for i, s := range a.Sensitivity {
		p.row(Plain, "  "+pad(p.safe(s.Factor), column)+"  ", a.meaning(i))
	}
}

// meaning says what the weight of the i-th factor means.
func (a *Analysis) meaning(i int) string {
	s := &a.Sensitivity[i]
	text := "moves the score by up to " + number4(s.Full)
	if s.Eligible != s.Full {
		text += " (" + number4(s.Eligible) + " between eligible pods)"
	}
	if i < len(a.Gradient) {
		text += ", " + signed(a.Gradient[i].PerUnit) + " per " + a.Gradient[i].Unit
	}
	if e := a.equivalent(s.Factor); e != nil {
		text += "; " + e.text()
	}
	return text
}

func (a *Analysis) equivalent(factor string) *Equivalent {
	for i := range a.Equivalents {
		if a.Equivalents[i].Factor == factor {
			return &a.Equivalents[i]
		}
	}
	return nil
}

func (e *Equivalent) text() string {
	if e.Change == nil {
		return "can't make up for any lead in cache match"
	}
	text := signed(*e.Change) + " makes up for 0.10 of cache match"
	if !e.Possible {
		text += " (impossible: out of its range)"
	}
	return text
}

// number4 is v with up to four decimals.
func number4(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(decimal(v, 4), "0"), ".")
}

func signed(v float64) string {
	if v > 0 {
		return "+" + number4(v)
	}
	return number4(v)
}
