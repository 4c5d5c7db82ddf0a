package explain

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// topPods is how many pods a text shows unless it is wide.
const topPods = 5

// Text renders the report for people.
func (r *Report) Text(w io.Writer, opt TextOptions) error {
	p := newPage(opt)
	r.writeVerdict(p)
	p.blank()
	if r.Versus != nil {
		r.Versus.write(p)
		p.blank()
	}
	r.writeRequest(p)
	p.blank()
	r.writeCandidates(p)
	p.blank()
	r.writeExcluded(p)
	p.blank()
	r.writeFlips(p)
	if r.Conversation != nil {
		p.blank()
		r.Conversation.write(p)
	}
	if r.Ladder != nil && (p.opt.Wide || r.Ladder.lossy()) {
		p.blank()
		r.Ladder.write(p)
	}
	p.blank()
	r.writeWeights(p)
	p.blank()
	r.writeOutcome(p)
	return p.writeTo(w)
}

func (r *Report) writeVerdict(p *page) {
	p.row(Strong, "", r.Verdict)
	for i := range r.Notes {
		n := &r.Notes[i]
		if benign(n.Cause) {
			p.row(Plain, "- ", n.Text)
		} else {
			p.row(Warn, "! ", n.Text)
		}
		for _, e := range n.Evidence {
			p.row(Faint, "  ", shortID(e.RequestID)+": "+e.Text)
		}
	}
}

func (r *Report) writeRequest(p *page) {
	id := r.RequestID
	if r.RequestIDReplaced {
		id += " (made by the picker: the client's could not be kept)"
	}
	p.fact(Plain, "request", id)
	p.fact(Plain, "decision", r.DecisionID)
	at := r.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	if r.TimeScale != 1 && r.TimeScale != 0 {
		at += fmt.Sprintf(" (simulated: %s seconds pass in one)", number(r.TimeScale))
	}
	p.fact(Plain, "time", at)
	r.writeOrigin(p)
	p.fact(Plain, "model", r.modelText())
	p.fact(Plain, "prompt", r.promptText())
	r.writeGateway(p)
}

func (r *Report) modelText() string {
	text, served := r.Model, r.Model
	if r.Rewrite != nil {
		text, served = r.Rewrite.text(r.Model), r.Rewrite.To
	}
	if r.BaseModel != served {
		text += ", resolved to " + r.BaseModel
	}
	if r.Adapter != "" {
		text += ", adapter " + r.Adapter
	}
	switch {
	case r.ModelUnchecked && r.Rewrite != nil:
		text += " (not checked: no list of models has it)"
	case r.ModelUnchecked:
		text += " (not checked: no list of models was available)"
	}
	return text
}

func (r *Report) promptText() string {
	text := count(r.PromptTokens, "token")
	if r.Origin != nil {
		text = "not in the log"
	}
	switch r.TokensFrom {
	case "approximate":
		text += " (approximate)"
	case "ids":
		text += " (exact)"
	case "engine":
		text += " (exact, by the server's tokeniser)"
	case "render":
		text += " (exact, by a render server)"
	case "joined":
		text += " (by the server's tokeniser, in two parts)"
	}
	if r.Prompts > 1 {
		text += fmt.Sprintf(" in %d prompts, routed by one of %d tokens", r.Prompts, r.PrefixTokens)
	}
	switch {
	case r.NoPrefix != "":
		text += ", no prefix: " + r.NoPrefix
	case r.BlockSize > 0:
		text += fmt.Sprintf(", %s of %d", count(r.Blocks, "full block"), r.BlockSize)
	}
	if r.Path != "" {
		text += "; " + r.Path
	}
	if r.Stream {
		text += ", streamed"
	}
	return text
}

func (r *Report) writeCandidates(p *page) {
	if len(r.Candidates) == 0 {
		p.row(Strong, "", "no pod could win")
		return
	}
	title := count(len(r.Candidates), "pod") + " could win"
	if len(r.Candidates) > 1 {
		title += ", best first"
	}
	p.row(Strong, "", title+":")
	shown := r.shown(p.opt.All)
	rows := make([]podRow, len(shown))
	for k, i := range shown {
		rows[k] = r.candidateRow(i)
	}
	r.writePods(p, rows)
	p.more(len(r.Candidates) - len(shown))
}

// more says that pods are left out.
func (p *page) more(pods int) {
	if pods > 0 {
		p.row(Faint, "", fmt.Sprintf("… and %d more (--all)", pods))
	}
}

func (r *Report) candidateRow(i int) podRow {
	s := &r.Candidates[i]
	row := podRow{
		rank: strconv.Itoa(i + 1), pod: s.Pod, endpoint: s.Endpoint, score: decimal(s.Score, 4), factors: s.Factors,
		reported: s.Reported.text(),
	}
	switch {
	case s.Picked:
		row.remark, row.tone = "picked", Strong
	case s.Tie != "" && r.Origin != nil && s.Score == r.Candidates[0].Score:
		row.remark = "same score, not drawn"
	case s.Tie != "" && r.Origin == nil:
		row.remark = "same score, behind by " + s.Tie
	case i > 0:
		row.remark = points(r.Candidates[0].Score-s.Score) + " behind"
	}
	if !s.Picked && i == r.holder() {
		row.remark = strings.TrimPrefix(row.remark+", holds most of the prompt", ", ")
	}
	return row
}

func (r *Report) writeExcluded(p *page) {
	if len(r.Excluded) == 0 {
		return
	}
	p.row(Strong, "", fmt.Sprintf("%s excluded (%s):", count(len(r.Excluded), "pod"), r.reasons()))
	if !r.oneByOne(p.opt.All) {
		for _, g := range r.grouped() {
			p.row(Plain, "- ", g.text())
		}
		return
	}
	for i := range r.Excluded {
		x := &r.Excluded[i]
		p.row(Plain, "- ", x.text())
		if p.opt.Wide && r.Origin == nil {
			p.writeFactors("    ", x.Factors)
		}
	}
}

func (x *Exclusion) text() string {
	return x.Pod + " (" + x.Endpoint + ") " + x.Reason + ": " + x.Detail + "; " + x.wouldText()
}

func (x *Exclusion) wouldText() string {
	if x.Reported != nil {
		return x.Reported.text()
	}
	if x.WouldScore != nil {
		return "would have scored " + decimal(*x.WouldScore, 4)
	}
	var missing []string
	for i := range x.Factors {
		if f := &x.Factors[i]; f.Missing() {
			missing = append(missing, f.Name+" "+f.State)
		}
	}
	if len(missing) == 0 {
		return "what it would have scored is not known"
	}
	return "what it would have scored is not known (" + strings.Join(missing, ", ") + ")"
}

func (r *Report) writeFlips(p *page) {
	if len(r.Flips) == 0 {
		return
	}
	p.row(Strong, "", "what would have flipped it, one input changed and all else as it was:")
	for i := range r.Flips {
		pod := &r.Flips[i]
		writeChanges(p, pod.Pod+" would have won with", pod.Changes)
	}
}

// writeChanges lists what would have made a pod win, a line a factor.
func writeChanges(p *page, title string, changes []Change) {
	p.row(Plain, "  ", title)
	column := 0
	for k := range changes {
		column = max(column, width(p.safe(changes[k].Factor)))
	}
	for k := range changes {
		c := &changes[k]
		p.row(Plain, "    "+pad(p.safe(c.Factor), column)+"  ", c.text())
	}
}

// text says the change in words. Numbers are rounded towards flipping.
func (c *Change) text() string {
	if !c.Possible {
		return "impossible: " + c.Why
	}
	from, to := c.printed()
	if c.Unit == "blocks" {
		to = plural(to, "block")
	}
	was := " (was " + from + ")"
	if c.From == nil {
		was = " (was " + c.FromState + ")"
	}
	switch c.Unit {
	case "blocks":
		return "at least " + to + " held" + was
	case "utilization":
		return "a utilization of at most " + to + was
	case "requests":
		return "at most " + to + " requests waiting or pending" + was
	case "adapter loaded":
		return "the adapter loaded"
	}
	return "a " + c.Unit + " of at least " + to + was
}

func (r *Report) writeOutcome(p *page) {
	if r.Origin != nil {
		r.writeOriginOutcome(p)
		return
	}
	r.writeAnswer(p)
	r.writeTimings(p)
	r.writeReplay(p)
}

// writeAnswer tells how the request went.
func (r *Report) writeAnswer(p *page) {
	o := &r.Outcome
	tone := Plain
	if o.State == OutcomeUnknown {
		tone = Warn
	}
	p.fact(tone, "outcome", o.text())
	p.fact(Plain, "tokens", o.tokensText())
	tone = Plain
	if o.Cache == CacheStale {
		tone = Warn
	}
	p.fact(tone, "cached tokens", o.cacheText())
	r.writeAttempts(p)
}

func (r *Report) writeReplay(p *page) {
	tone, text := Good, "identical"
	if !r.Replay.Identical {
		tone, text = Bad, "first difference: "+r.Replay.Difference
	}
	if !r.Replay.Sealed {
		text += "; inputs are not sealed: the record carries no checksums of them"
	}
	p.fact(tone, "replay", text)
}

func millis(seconds float64) string { return decimal(seconds*1000, 3) }

func (o *ReportOutcome) text() string {
	text := "not known: " + cmp.Or(o.Detail, "nobody told how it ended")
	switch {
	case o.State == OutcomePending:
		return "still running"
	case o.State == OutcomeUnknown && o.Status != nil:
		text += "; the response's headers said status " + strconv.Itoa(*o.Status)
	case o.Status != nil:
		text = "status " + strconv.Itoa(*o.Status)
	case o.State == OutcomeDone:
		text = "ended without a status"
	}
	if o.ServedEndpoint != nil {
		text += " from " + *o.ServedEndpoint
	}
	if o.Error != "" {
		text += " (" + o.Error + ")"
	}
	if o.TTFTSeconds != nil {
		text += ", first byte after " + secondsText(*o.TTFTSeconds)
	}
	if o.DurationSeconds != nil {
		text += ", ended after " + secondsText(*o.DurationSeconds)
	}
	return text
}

func secondsText(s float64) string {
	if s < 1 {
		return decimal(s*1000, 1) + " ms"
	}
	if s < 60 {
		return decimal(s, 2) + " s"
	}
	return (time.Duration(s) * time.Second).String()
}

func (o *ReportOutcome) tokensText() string {
	if o.State == OutcomePending {
		return ""
	}
	return "prompt " + orNotReported(o.PromptTokens) + ", output " + orNotReported(o.OutputTokens) + " (the engine's counts)"
}

func orNotReported(n *int) string {
	if n == nil {
		return "not reported"
	}
	return strconv.Itoa(*n)
}

func (o *ReportOutcome) cacheText() string {
	predicted := "no prediction"
	if o.PredictedCachedTokens != nil {
		predicted = strconv.Itoa(*o.PredictedCachedTokens) + " predicted"
	}
	actual := "not reported by the engine"
	switch {
	case o.CachedTokens != nil:
		actual = strconv.Itoa(*o.CachedTokens) + " by the engine"
	case o.State == OutcomePending:
		actual = "the engine has not answered yet"
	}
	text := predicted + ", " + actual
	switch o.Cache {
	case CacheAsPredicted:
		text += ": as predicted"
	case CacheStale:
		text += ": stale cache, the engine had fewer than predicted"
	case CacheMore:
		text += ": the engine had more than predicted"
	case CacheOtherPod:
		text += ": another pod served than the prediction was for"
	}
	if why := predictionText(o.Prediction); why != "" {
		text += "; " + why
	}
	return text
}
