package explain

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// verdict is the result of a comparison in one sentence.
func (c *Comparison) verdict() string {
	r, was := c.after, c.Before.Picked
	text := "request " + shortID(c.RequestID) + " (" + r.about() + ") would "
	switch {
	case r.Refused != "" && was == nil:
		return text + "have been refused all the same, " + r.refusal()
	case r.Refused != "":
		return text + "have been refused " + r.refusal() + ", not sent to " + was.Pod
	case !c.PickChanges:
		text += "still have gone to " + r.Picked.Pod
	case was == nil:
		text += "have gone to " + r.Picked.Pod + ", not been refused"
	default:
		text += "have gone to " + r.Picked.Pod + ", not to " + was.Pod
	}
	if !byScores(c.Policy) {
		text += " by the scores (policy " + c.Policy + " picked, not they)"
	}
	return text + ": score " + hundredths(r.Picked.Score) + r.because()
}

// Text renders the comparison for people.
func (c *Comparison) Text(w io.Writer, opt TextOptions) error {
	p := newPage(opt)
	p.row(Strong, "", c.Verdict)
	p.row(Faint, "", c.Scope)
	p.blank()
	p.fact(Plain, "request", c.RequestID)
	p.fact(Plain, "decision", c.DecisionID)
	p.blank()
	c.writeChanges(p)
	p.blank()
	c.writeSides(p)
	p.blank()
	c.writePods(p)
	return p.writeTo(w)
}

func (c *Comparison) writeChanges(p *page) {
	if len(c.Changes) == 0 {
		p.row(Strong, "", "nothing was changed")
		return
	}
	p.row(Strong, "", "changed:")
	column := 0
	for i := range c.Changes {
		column = max(column, width(p.safe(c.Changes[i].Key)))
	}
	for i := range c.Changes {
		a := &c.Changes[i]
		text := a.text()
		if effect := c.effect(i); effect != "" {
			text += " (" + effect + ")"
		}
		p.row(Plain, "  "+pad(p.safe(a.Key), column)+"  ", text)
	}
}

func (a *Applied) text() string {
	switch {
	case a.Key == "without" || a.Key == "preset":
		return valueText(a.To)
	case a.From == nil:
		return "unknown → " + valueText(a.To)
	}
	return valueText(a.From) + " → " + valueText(a.To)
}

func valueText(v any) string {
	switch v := v.(type) {
	case float64:
		return number9(v)
	case string:
		return cmp.Or(v, "none")
	}
	return fmt.Sprint(v)
}

// effect says what the pick is without change i. Changes that are left out
// together share one answer, which stands with the last of them.
func (c *Comparison) effect(i int) string {
	a, others := &c.Changes[i], 0
	for k := range c.Changes {
		if k != i && c.Changes[k].unit == a.unit {
			others++
			if k > i {
				return ""
			}
		}
	}
	without := "without it"
	if others > 0 {
		without = "without the " + strconv.Itoa(others+1) + " changes of weights"
	}
	switch {
	case !a.Mattered:
		return "does not matter: " + without + " the pick is the same"
	case a.PickWithout == nil:
		return "matters: " + without + " the request is refused"
	}
	return "matters: " + without + " the pick is " + a.PickWithout.Pod
}

// writeSides shows the two results in two columns.
func (c *Comparison) writeSides(p *page) {
	const label, most, least = 12, 40, 12
	cell := most
	if p.opt.Width > 0 {
		cell = max(least, min(most, (p.opt.Width-label)/2-gap))
	}
	line := func(tone Tone, name, before, after string) {
		p.cells(tone, []int{label, cell + gap, cell}, [][]string{{name}, fold(p.safe(before), cell), fold(p.safe(after), cell)})
	}
	line(Strong, "", "as it was", "with the changes")
	for _, l := range c.sideLines() {
		line(Plain, l[0], l[1], l[2])
	}
}

// sideLines are name, as it was, with the changes.
func (c *Comparison) sideLines() [][3]string {
	a, b := &c.Before, &c.After
	return [][3]string{
		{"picked", a.pickText(), b.pickText()},
		{"ahead of", a.marginText(), b.marginText()},
		{"decided by", cmp.Or(a.DecidedBy, a.Refused), cmp.Or(b.DecidedBy, b.Refused)},
	}
}

func (s *Side) pickText() string {
	switch {
	case s.Picked == nil:
		return "refused: " + s.Refused
	case s.Relaxed:
		return s.Picked.Pod + " with " + decimal(s.Picked.Score, 4) + ", every queue full"
	}
	return s.Picked.Pod + " with " + decimal(s.Picked.Score, 4)
}

func (s *Side) marginText() string {
	switch {
	case s.RunnerUp == nil || s.Margin == nil:
		return "nobody"
	case s.Ties != nil:
		return s.RunnerUp.Pod + " with the same score"
	}
	return s.RunnerUp.Pod + " by " + points(*s.Margin)
}

// writePods lists the pods by their places with the changes.
func (c *Comparison) writePods(p *page) {
	if len(c.Pods) == 0 {
		return
	}
	p.row(Strong, "", "pods, as they were and with the changes:")
	more := 0
	for i := range c.Pods {
		pod := &c.Pods[i]
		if !p.opt.All && i >= topPods && !c.took(pod) {
			more++
			continue
		}
		c.writePod(p, pod)
	}
	p.more(more)
}

// took reports whether the pod was picked in one of the decisions.
func (c *Comparison) took(pod *PodCompared) bool {
	return c.picked(c.Before, pod) || c.picked(c.After, pod)
}

func (*Comparison) picked(s Side, pod *PodCompared) bool {
	return s.Picked != nil && s.Picked.Pod == pod.Pod && s.Picked.Endpoint == pod.Endpoint
}

func (c *Comparison) writePod(p *page, pod *PodCompared) {
	rank, tone, remark := c.standing(pod)
	if rank != "-" {
		rank += "."
	}
	if remark != "" {
		remark = ", " + remark
	}
	p.row(tone, rank+" ", pod.Pod+" ("+pod.Endpoint+")  "+pod.places()+remark)
	column := 0
	for k := range pod.Terms {
		column = max(column, width(p.safe(pod.Terms[k].Before.Name)))
	}
	for k := range pod.Terms {
		t := &pod.Terms[k]
		p.row(Plain, "   "+pad(p.safe(t.Before.Name), column)+"  ", t.text())
	}
}

// standing is the pod's rank with the changes, and when it was picked.
func (c *Comparison) standing(pod *PodCompared) (rank string, tone Tone, remark string) {
	rank = "-"
	if pod.After.Rank > 0 {
		rank = strconv.Itoa(pod.After.Rank)
	}
	switch was, is := c.picked(c.Before, pod), c.picked(c.After, pod); {
	case is && was:
		return rank, Strong, "picked in both"
	case is:
		return rank, Strong, "picked now"
	case was:
		return rank, Plain, "picked before"
	}
	return rank, Plain, ""
}

// places are rank and score, or the reason, in both decisions.
func (pod *PodCompared) places() string {
	a, b := &pod.Before, &pod.After
	switch {
	case a.Rank == 0 && b.Rank == 0 && a.Reason == b.Reason:
		return "excluded in both: " + b.Reason
	case a.Rank == 0 || b.Rank == 0:
		return a.text() + " → " + b.text()
	}
	text := "score " + decimal(*a.Score, 4) + " → " + decimal(*b.Score, 4)
	if a.Rank != b.Rank {
		text += ", was number " + strconv.Itoa(a.Rank)
	}
	return text
}

func (pl *Place) text() string {
	if pl.Score == nil {
		return "excluded (" + pl.Reason + ")"
	}
	return "score " + decimal(*pl.Score, 4)
}

// text says what changed of a factor: value × weight = contribution, and the raw
// input when it is another.
func (t *Term) text() string {
	a, b := &t.Before, &t.After
	text := a.product() + " → " + b.product()
	if a.Detail != b.Detail {
		text += " (" + strings.TrimSpace(a.Detail) + " → " + strings.TrimSpace(b.Detail) + ")"
	}
	return text
}

func (f *Factor) product() string {
	return f.valueText() + " × " + weightText(f.Weight) + " = " + decimal(f.Contribution, 4)
}
