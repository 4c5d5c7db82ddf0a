package explain

import (
	"math"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// verdict is the answer in one sentence.
func (v *Versus) verdict() string {
	if v.Reason != "" {
		return v.Pod + " was excluded: " + v.Reason + " (" + v.Detail + ")" + v.would()
	}
	text := v.Pod + " scored " + decimal(*v.Score, 4)
	if v.Winner == nil { // refused, although it could win: no picker does that
		return text
	}
	text += ", " + v.lead()
	if v.drawn {
		return text + "; it was drawn among equals"
	}
	switch v.DecidedBy {
	case score.ByTieLoad.Name(nil):
		return text + ", which had the lower load (" + v.tieText("load") + ")"
	case score.ByTieQueue.Name(nil):
		return text + ", which had the shorter queue (" + v.tieText("queueDepth") + ")"
	case score.ByTieSeed.Name(nil):
		return text + "; load and queue are the same too, so the seed chose"
	}
	if d := v.difference(v.DecidedBy); d != nil {
		return text + "; the largest difference is in " + d.Factor + " (" + against(&d.Winner, &d.Pod) + ")"
	}
	return text + "; policy " + v.DecidedBy + " picked, not the scores"
}

// would is what an excluded pod would have scored.
func (v *Versus) would() string {
	switch {
	case v.Score == nil:
		return "; what it would have scored is not known" + v.missing()
	case v.Winner == nil:
		return "; it would have scored " + decimal(*v.Score, 4)
	}
	return "; it would have scored " + decimal(*v.Score, 4) + ", " + v.lead()
}

func (v *Versus) missing() string {
	var missing []string
	for i := range v.Differences {
		if f := &v.Differences[i].Pod; f.Missing() {
			missing = append(missing, f.Name+" "+f.State)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return " (" + strings.Join(missing, ", ") + ")"
}

// lead is the pod's score against the winner's.
func (v *Versus) lead() string {
	winner := v.Winner.Pod + " (" + decimal(v.Winner.Score, 4) + ")"
	switch d := *v.Difference; {
	case d > 0:
		return points(d) + " less than " + winner
	case d < 0:
		return points(-d) + " more than " + winner
	}
	return "the same as " + winner
}

func (v *Versus) difference(factor string) *Difference {
	for i := range v.Differences {
		if v.Differences[i].Factor == factor {
			return &v.Differences[i]
		}
	}
	return nil
}

func (v *Versus) tieText(factor string) string {
	d := v.difference(factor)
	if factor == "load" {
		return percentOf(d.Winner.Input.Load) + " against " + percentOf(d.Pod.Input.Load)
	}
	return depthText(&d.Winner) + " against " + depthText(&d.Pod)
}

// write shows the terms and what would have made the pod win.
func (v *Versus) write(p *page) {
	p.row(Strong, "", "why not "+v.Pod+" ("+v.Endpoint+"):")
	p.row(Plain, "  ", v.Verdict)
	v.writeTerms(p)
	writeChanges(p, v.changesText(), v.Changes)
}

// changesText leads to the changes that would have made the pod win.
func (v *Versus) changesText() string {
	let := ""
	if v.LetIn {
		let = "let in, "
	}
	switch {
	case v.WouldWin:
		return let + "it would have won"
	case len(v.Changes) == 0:
		return "no input would have made it win: no score decided between the two"
	case slices.ContainsFunc(v.Changes, func(c Change) bool { return c.Possible }):
		return let + "it would have won with"
	}
	return let + "it would not have won by one input alone:"
}

// writeTerms shows winner - pod = difference, a line a factor, with what both
// come from.
func (v *Versus) writeTerms(p *page) {
	if len(v.Differences) == 0 {
		return
	}
	column := width("together")
	for i := range v.Differences {
		column = max(column, width(p.safe(v.Differences[i].Factor)))
	}
	for i := range v.Differences {
		d := &v.Differences[i]
		tone := Plain
		if d.Winner.Missing() || d.Pod.Missing() {
			tone = Warn
		}
		p.row(tone, "  "+pad(p.safe(d.Factor), column)+"  "+decimal(d.Winner.Contribution, 4)+" - "+
			decimal(d.Pod.Contribution, 4)+" = "+lead4(d.Difference)+"  ", d.raw())
	}
	if v.Difference != nil {
		p.row(Plain, "  ", pad("together", column)+"  "+decimal(v.Winner.Score, 4)+" - "+decimal(*v.Score, 4)+" = "+lead4(*v.Difference))
	}
}

// raw is what the two values come from.
func (d *Difference) raw() string {
	a, b := d.Winner.detailText(), d.Pod.detailText()
	if a == "" && b == "" {
		return d.Winner.valueText() + " against " + d.Pod.valueText()
	}
	if a == b {
		return "both " + a
	}
	return a + " against " + b
}

// lead4 is a difference with its sign and four decimals.
func lead4(v float64) string {
	text := decimal(math.Abs(v), 4)
	switch {
	case v > 0:
		return "+" + text
	case v < 0:
		return "-" + text
	}
	return " " + text
}
