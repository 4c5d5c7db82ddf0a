package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// finder looks for what is remarkable about a decision.
type finder struct {
	*Report
	in     *replayed
	priors []prior
}

// notes lists what it found, the gravest first.
func (f *finder) notes() []Note {
	out := []Note{}
	add := func(cause, text string, evidence ...Evidence) {
		if text != "" {
			out = append(out, Note{Cause: cause, Text: text, Evidence: append([]Evidence{}, evidence...)})
		}
	}
	if !f.Replay.Identical {
		add(CauseReplay, "the replay differs from the record: "+f.Replay.Difference)
	}
	if f.Origin != nil {
		f.foreignNotes(add)
		return out
	}
	add(CauseServedElsewhere, f.servedElsewhere())
	add(CauseRetried, f.retried())
	add(CauseSubsetUnknown, f.strangers())
	add(CauseSaturated, f.saturated())
	add(f.kept())
	add(f.foundLess())
	if cause, text, evidence := f.lost(); cause != "" {
		add(cause, text, evidence)
	}
	add(CauseBlockSize, f.otherBlockSize())
	add(CauseTokensApproximate, f.miscounted())
	add(CauseDeeperQueue, f.deeperQueue())
	add(CauseAdapterAbsent, f.adapterAbsent())
	add(CauseWeights, f.otherWeights())
	out = append(out, f.missing()...)
	if f.Ties != nil && f.DecidedBy == score.ByTieSeed.Name(nil) {
		add(CauseTieRandom, "equal in everything, so the seed chose one of "+names(f.Ties.Pods))
	}
	add(CauseNoReuse, f.noReuse())
	slices.SortStableFunc(out, func(a, b Note) int {
		x, _ := causeOf(a.Cause)
		y, _ := causeOf(b.Cause)
		return cmp.Compare(x, y)
	})
	return out
}

func (f *finder) saturated() string {
	switch {
	case f.Relaxed:
		return "every queue is full, so the queue limit was relaxed for this request"
	case f.Refused == score.Saturated.String():
		return "every queue is full, and the configuration says to refuse then"
	}
	return ""
}

func (r *Report) retried() string {
	if len(r.Attempts) < 2 || r.moved() {
		return ""
	}
	var failed []string
	for _, a := range r.Attempts {
		if a.Error != "" {
			failed = append(failed, a.Pod+": "+a.Error)
		}
	}
	last := r.Attempts[len(r.Attempts)-1]
	return fmt.Sprintf("%s %s, after %s failed (%s)",
		last.Pod, r.Outcome.attempt(&last), count(len(r.Attempts)-1, "attempt"), strings.Join(failed, "; "))
}

// attempt says how an attempt ended: an attempt without an error of its own has
// answered only if the outcome says so.
func (o *ReportOutcome) attempt(a *Attempt) string {
	switch {
	case a.Error != "":
		return "failed: " + a.Error
	case o.ServedEndpoint != nil && *o.ServedEndpoint == a.Endpoint:
		return "answered"
	case o.State == OutcomePending:
		return "has not answered yet"
	case o.State == OutcomeUnknown:
		return "was tried"
	case o.Error != "":
		return "did not answer: " + o.Error
	}
	return "did not answer"
}

// deeperQueue marks a pick whose queue is clearly deeper than the runner-up's
// although it has no better cache: the load outweighed the queue.
func (r *Report) deeperQueue() string {
	if !r.byScores() || len(r.Candidates) < 2 {
		return ""
	}
	winner, second := &r.Candidates[0], &r.Candidates[1]
	a, b := winner.factorNamed("queueDepth"), second.factorNamed("queueDepth")
	if a == nil || b == nil || a.Missing() || b.Missing() {
		return ""
	}
	deep, shallow := depthOf(a), depthOf(b)
	if deep-shallow < clearly*float64(r.Weights.MaxQueue) || winner.factorNamed("cacheMatch").Contribution > second.factorNamed("cacheMatch").Contribution {
		return ""
	}
	return fmt.Sprintf("winner has the deeper queue: %s requests against %s on %s; other factors outweigh it",
		number(deep), number(shallow), second.Pod)
}

func depthOf(f *Factor) float64 {
	depth, _ := f.depth()
	return depth
}

func (r *Report) adapterAbsent() string {
	if r.Adapter == "" || len(r.Candidates) == 0 {
		return ""
	}
	for i := range r.Candidates {
		if f := r.Candidates[i].factorNamed("adapterMatch"); f == nil || f.Value == nil || *f.Value > 0 {
			return ""
		}
	}
	return "adapter " + r.Adapter + " is loaded on no eligible pod: the engine has to load it"
}
