package explain

import (
	"fmt"
	"strconv"
)

// document is the comparison without a layout, in the order of [Comparison.Text].
func (c *Comparison) document(opt DocumentOptions) *document {
	d := &document{title: "eppctl: what if, " + shortID(c.RequestID), raw: c}
	d.add(verdictBlock(c.Verdict), paragraph{Faint, c.Scope})
	d.add(facts{{key: "request", text: c.RequestID}, {key: "decision", text: c.DecisionID}})
	changed := &table{columns: columns("what was changed", "how", "and what it did")}
	for i := range c.Changes {
		a := &c.Changes[i]
		changed.rows = append(changed.rows, tableRow{cells: cells(a.Key, a.text(), c.effect(i))})
	}
	if len(c.Changes) > 0 {
		d.section("Changes", changed)
	}
	sides := &table{columns: columns("", "as it was", "with the changes")}
	for _, line := range c.sideLines() {
		sides.rows = append(sides.rows, tableRow{cells: cells(line[:]...)})
	}
	d.section("The pick", sides)
	d.section("Pods, as they were and with the changes", c.podTable(opt.All)...)
	return d
}

func (c *Comparison) podTable(all bool) []block {
	if len(c.Pods) == 0 {
		return nil
	}
	t := &table{columns: columns("", "pod", "place", "terms that differ")}
	more := 0
	for i := range c.Pods {
		pod := &c.Pods[i]
		if !all && i >= topPods && !c.took(pod) {
			more++
			continue
		}
		rank, tone, remark := c.standing(pod)
		terms := cell{}
		for k := range pod.Terms {
			terms.below = append(terms.below, pod.Terms[k].Before.Name+" "+pod.Terms[k].text())
		}
		place := cell{text: pod.places(), below: nonEmpty(remark)}
		t.rows = append(t.rows, tableRow{tone, []cell{{text: rank}, {text: pod.Pod, below: nonEmpty(pod.Endpoint)}, place, terms}})
	}
	out := []block{t}
	if more > 0 {
		out = append(out, paragraph{Faint, fmt.Sprintf("and %d more", more)})
	}
	return out
}

// document is the window without a layout, in the order of [Window.Text].
func (w *Window) document() *document {
	d := &document{title: "eppctl: " + w.span(), raw: w}
	d.add(verdictBlock(w.Verdict))
	d.add(facts{{key: "time", text: w.span()}, {key: "time to first token", text: w.ttftText()}})
	t := &table{columns: columns("", "question", "answer", "figures")}
	for i := range w.Checks {
		tone, answer := w.Checks[i].answer()
		if tone == Warn {
			tone = Strong
		}
		t.rows = append(t.rows, tableRow{tone, cells(strconv.Itoa(i+1), w.Checks[i].Question, answer, w.Checks[i].Text)})
	}
	d.section("What has changed", t)
	if w.Adapters != nil {
		d.section("Adapters", w.Adapters.list())
	}
	if w.Ladder != nil {
		d.section("Cached tokens, step by step", w.Ladder.blocks()...)
	}
	return d
}

func (a *AdapterUse) list() list {
	top := item{text: a.Text, tone: a.tone()}
	for i := range a.Top {
		if t := &a.Top[i]; t.Loads > 0 {
			top.below = append(top.below, t.text())
		}
	}
	return list{top}
}
