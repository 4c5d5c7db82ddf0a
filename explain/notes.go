package explain

import (
	"fmt"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// notes lists what is remarkable about a decision, the gravest first.
func notes(r *Report) []Note {
	out := []Note{}
	add := func(cause, text string) {
		if text != "" {
			out = append(out, Note{cause, text})
		}
	}
	if !r.Replay.Identical {
		add(CauseReplay, "the replay differs from the record: "+r.Replay.Difference)
	}
	add(CauseServedElsewhere, r.servedElsewhere())
	add(CauseRetried, r.retried())
	add(CauseSubsetUnknown, r.strangers())
	if r.Relaxed {
		add(CauseSaturated, "every queue is full, so the queue limit was relaxed for this request")
	}
	out = append(out, r.owners()...)
	if r.Outcome.Cache == CacheStale {
		add(CauseEvicted, fmt.Sprintf("stale cache: the engine had %d cached tokens, %d were predicted",
			*r.Outcome.CachedTokens, *r.Outcome.PredictedCachedTokens))
	}
	add(CauseDeeperQueue, r.deeperQueue())
	add(CauseAdapterAbsent, r.adapterAbsent())
	return append(out, r.missing()...)
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

// owners names the best of the excluded pods that would have beaten the winner.
func (r *Report) owners() []Note {
	var best *Exclusion
	for i := range r.Excluded {
		x := &r.Excluded[i]
		if x.WouldScore != nil && (best == nil || *x.WouldScore > *best.WouldScore) {
			best = x
		}
	}
	if best == nil || len(r.Candidates) == 0 || *best.WouldScore <= r.Candidates[0].Score {
		return nil
	}
	cause := CauseOwnerRemoved
	switch best.Reason {
	case score.QueueFull.String():
		cause = CauseOwnerQueueFull
	case score.Unhealthy.String():
		cause = CauseOwnerUnhealthy
	case score.NotInSubset.String():
		cause = CauseSubset
	}
	text := fmt.Sprintf("%s would have won with %s, but was excluded: %s (%s)",
		best.Pod, points(*best.WouldScore), best.Reason, best.Detail)
	return []Note{{cause, text}}
}

// deeperQueue marks a pick whose queue is deeper than the runner-up's although
// it has no better cache: the load outweighed the queue.
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
	if deep <= shallow || winner.factorNamed("cacheMatch").Contribution > second.factorNamed("cacheMatch").Contribution {
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

// missing names the inputs that were stale or unknown, one note a factor and
// state.
func (r *Report) missing() []Note {
	var out []Note
	if len(r.Candidates) == 0 {
		return out
	}
	for f := range r.Candidates[0].Factors {
		for _, s := range []score.State{score.Stale, score.Unknown} {
			if text := r.missingIn(f, s.String()); text != "" {
				cause := CauseInputMissing
				if s == score.Stale {
					cause = CauseInputStale
				}
				out = append(out, Note{cause, text})
			}
		}
	}
	return out
}

func (r *Report) missingIn(f int, state string) string {
	var pods []string
	for i := range r.Candidates {
		if r.Candidates[i].Factors[f].State == state {
			pods = append(pods, r.Candidates[i].Pod)
		}
	}
	name, total := r.Candidates[0].Factors[f].Name, len(r.Candidates)
	const named = 3
	switch {
	case len(pods) == 0:
		return ""
	case len(pods) == total && total > 1:
		return name + " is " + state + " for every eligible pod, so it could not change the order"
	case len(pods) > named:
		return fmt.Sprintf("%s is %s for %d of %d eligible pods and counts 0 there", name, state, len(pods), total)
	}
	return name + " is " + state + " for " + strings.Join(pods, ", ") + " and counts 0 there"
}
