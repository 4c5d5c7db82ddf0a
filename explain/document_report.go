package explain

import (
	"fmt"
	"strconv"
	"strings"
)

// document is the report without a layout, in the order of [Report.Text].
func (r *Report) document(opt DocumentOptions) *document {
	d := &document{title: "eppctl: " + shortID(r.RequestID), raw: r}
	d.add(verdictBlock(r.Verdict))
	if len(r.Notes) > 0 {
		d.add(r.noteList())
	}
	if r.Versus != nil {
		d.section("Why not "+r.Versus.Pod, r.Versus.blocks()...)
	}
	d.section("Request", factsOf(r.writeRequest))
	d.section("Pods that could win", r.candidateTable(opt.All)...)
	d.section("Excluded pods", r.excludedBlocks(opt.All)...)
	d.section("What would have flipped it", r.flipTables()...)
	if r.Conversation != nil {
		d.section("Conversation", r.Conversation.blocks()...)
	}
	if r.Ladder != nil {
		d.section("Cached tokens, step by step", r.Ladder.blocks()...)
	}
	d.section("Weights", r.weightBlocks()...)
	if r.Origin != nil {
		d.section("Outcome", factsOf(r.writeOriginOutcome))
		return d
	}
	d.section("Outcome", append(factsOf(r.writeAnswer), factsOf(r.writeReplay)...))
	d.section("Timings", r.timingBlocks()...)
	return d
}

func (r *Report) noteList() list {
	var out list
	for i := range r.Notes {
		n := &r.Notes[i]
		one := item{text: n.Text, code: n.Cause}
		if !benign(n.Cause) {
			one.tone = Warn
		}
		for _, e := range n.Evidence {
			one.below = append(one.below, shortID(e.RequestID)+": "+e.Text)
		}
		out = append(out, one)
	}
	return out
}

// candidateTable has a row a pod and a column a factor. The bars of the factors are
// drawn to one scale, so that their lengths can be compared; those of the scores to
// the best.
func (r *Report) candidateTable(all bool) []block {
	if len(r.Candidates) == 0 {
		return []block{paragraph{Warn, "no pod could win"}}
	}
	scale := r.longestFactor()
	t := &table{columns: columns("", "pod", ">score")}
	for i := range r.Candidates[0].Factors {
		f := &r.Candidates[0].Factors[i]
		t.columns = append(t.columns, column{name: f.Name, below: "× " + weightText(f.Weight)})
	}
	shown := r.shown(all)
	for _, i := range shown {
		row := r.candidateRow(i)
		pod := cell{text: row.pod, below: nonEmpty(row.endpoint, row.remark, row.reported)}
		cells := []cell{{text: row.rank}, pod, {text: row.score, bar: partOf(r.Candidates[i].Score, r.Candidates[0].Score)}}
		for k := range row.factors {
			f := &row.factors[k]
			cells = append(cells, cell{
				text: f.valueText() + " → " + decimal(f.Contribution, 4), below: nonEmpty(f.rawText()),
				bar: partOf(f.Contribution, scale),
			})
		}
		t.rows = append(t.rows, tableRow{row.tone, cells[:min(len(cells), len(t.columns))]})
	}
	out := []block{t}
	if more := len(r.Candidates) - len(shown); more > 0 {
		out = append(out, paragraph{Faint, fmt.Sprintf("and %d more", more)})
	}
	return out
}

// longestFactor is the largest contribution to any score.
func (r *Report) longestFactor() (most float64) {
	for i := range r.Candidates {
		for k := range r.Candidates[i].Factors {
			most = max(most, r.Candidates[i].Factors[k].Contribution)
		}
	}
	return most
}

// partOf is a part of a whole, 0 when there is none.
func partOf(part, whole float64) float64 {
	if !(part > 0 && whole > 0) {
		return 0
	}
	return min(part/whole, 1)
}

func nonEmpty(texts ...string) []string {
	var out []string
	for _, text := range texts {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

func (r *Report) excludedBlocks(all bool) []block {
	if len(r.Excluded) == 0 {
		return nil
	}
	if r.oneByOne(all) {
		t := &table{columns: columns("pod", "reason", "detail", "score")}
		for i := range r.Excluded {
			x := &r.Excluded[i]
			pod := cell{text: x.Pod, below: nonEmpty(x.Endpoint)}
			t.rows = append(t.rows, tableRow{cells: []cell{pod, {text: x.Reason}, {text: x.Detail}, {text: x.wouldText()}}})
		}
		return []block{t}
	}
	t := &table{columns: columns(">pods", "reason", "which", "the first of them")}
	for _, g := range r.grouped() {
		best := cell{text: g.best.Detail, below: nonEmpty(g.best.wouldText())}
		t.rows = append(t.rows, tableRow{cells: []cell{{text: strconv.Itoa(len(g.pods))}, {text: g.reason}, {text: names(g.pods)}, best}})
	}
	return []block{t}
}

func (r *Report) flipTables() []block {
	var out []block
	for i := range r.Flips {
		pod := &r.Flips[i]
		out = append(out, paragraph{text: pod.Pod + " would have won with one of these, all else as it was:"}, changeTable(pod.Changes))
	}
	return out
}

func changeTable(changes []Change) *table {
	t := &table{columns: columns("factor", "what it would have taken")}
	for i := range changes {
		row := tableRow{cells: cells(changes[i].Factor, changes[i].text())}
		if !changes[i].Possible {
			row.tone = Faint
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (v *Versus) blocks() []block {
	out := []block{paragraph{Strong, v.Verdict}}
	if len(v.Differences) > 0 {
		t := &table{columns: columns("factor", ">winner", ">"+v.Pod, ">difference", "from")}
		for i := range v.Differences {
			d := &v.Differences[i]
			t.rows = append(t.rows, tableRow{cells: cells(d.Factor,
				decimal(d.Winner.Contribution, 4), decimal(d.Pod.Contribution, 4), lead4(d.Difference), d.raw())})
		}
		if v.Difference != nil {
			t.rows = append(t.rows, tableRow{Strong, cells("together", decimal(v.Winner.Score, 4), decimal(*v.Score, 4), lead4(*v.Difference), "")})
		}
		out = append(out, t)
	}
	out = append(out, paragraph{text: v.changesText()})
	if len(v.Changes) > 0 {
		out = append(out, changeTable(v.Changes))
	}
	return out
}

func (c *Conversation) blocks() []block {
	t := &table{}
	for _, head := range conversationColumns {
		t.columns = append(t.columns, column{name: strings.ToLower(head.name), right: head.right})
	}
	for i := range c.Turns {
		turn := &c.Turns[i]
		row := tableRow{c.tone(i), cells(turn.cells(i)...)}
		if row.tone == Warn { // the words below say it
			row.tone = Plain
		}
		if turn.Why != "" {
			row.cells[podColumn].below = []string{turn.whyText(c.before(i))}
		}
		t.rows = append(t.rows, row)
	}
	return []block{paragraph{text: c.title()}, t}
}

func (l *Ladder) blocks() []block {
	t := &table{columns: columns("step", "", ">tokens", ">share", "lost since the step before")}
	for i := range l.Steps {
		s := &l.Steps[i]
		tokens, part := cell{text: "unknown"}, ""
		if s.Unknown < l.Requests {
			tokens = cell{text: strconv.Itoa(s.Tokens), bar: partOf(float64(s.Tokens), float64(l.PromptTokens))}
			part = l.share(s)
		}
		var lost []string
		for k := range s.Lost {
			lost = append(lost, s.Lost[k].text())
		}
		last := cell{below: lost}
		if len(lost) > 0 {
			last = cell{text: lost[0], below: lost[1:]}
		}
		t.rows = append(t.rows, tableRow{cells: []cell{{text: s.Name}, {text: s.text(l.Requests)}, tokens, {text: part}, last}})
	}
	return []block{paragraph{text: l.title()}, t}
}

func (r *Report) weightBlocks() []block {
	out := []block{factsOf(r.writeWeights)}
	if r.Analysis == nil {
		return out
	}
	t := &table{columns: columns("factor", "what its weight means")}
	for i, s := range r.Analysis.Sensitivity {
		t.rows = append(t.rows, tableRow{cells: cells(s.Factor, r.Analysis.meaning(i))})
	}
	return append(out, t)
}

func (r *Report) timingBlocks() []block {
	t := &table{columns: columns("stage", ">ms", ">of the picker's time")}
	for _, s := range r.stages() {
		row := cells(s.name, millis(s.seconds), "")
		if part := partOf(s.seconds, r.Timings.Total); s.picker {
			row[2] = cell{text: shareText(part), bar: part}
		}
		t.rows = append(t.rows, tableRow{cells: row})
	}
	t.rows = append(t.rows, tableRow{Strong, cells("picker, in all", millis(r.Timings.Total), "")})
	out := []block{t}
	if text := r.outsideText(); text != "" {
		out = append(out, paragraph{text: "outside the engine: " + text})
	}
	return out
}
