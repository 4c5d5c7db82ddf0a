package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MarshalJSON writes null for what a foreign picker's log doesn't tell.
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	if r.Origin == nil {
		return json.Marshal((*plain)(r))
	}
	type stages struct {
		Body    *float64 `json:"bodySeconds"`
		Parse   *float64 `json:"parseSeconds"`
		Lookup  *float64 `json:"lookupSeconds"`
		Scorers float64  `json:"scorersSeconds"`
		Decide  *float64 `json:"decideSeconds"`
		Total   float64  `json:"totalSeconds"`
	}
	return json.Marshal(struct {
		*plain
		PromptTokens *int   `json:"promptTokens"`
		Prompts      *int   `json:"prompts"`
		PrefixTokens *int   `json:"prefixTokens"`
		BlockSize    *int   `json:"blockSize"`
		Blocks       *int   `json:"blocks"`
		Timings      stages `json:"timings"`
	}{plain: (*plain)(r), Timings: stages{Scorers: r.Timings.Scorers, Total: r.Timings.Total}})
}

// writeOrigin says whose decision it is and what became of it.
func (r *Report) writeOrigin(p *page) {
	o := r.Origin
	if o == nil {
		return
	}
	text := o.Kind
	if o.Version != "" {
		text += " " + o.Version
	}
	if o.Log != "" {
		text += ", " + o.Log
	}
	p.fact(Plain, "picker", text+", read from its log")
	text = cmp.Or(o.Profile, "not known") + ", picks by " + cmp.Or(o.Picker, "a plugin that is not known")
	tone := Plain
	if !o.Primary {
		tone, text = Warn, text+"; not where the request went, but where a part of the work did"
	}
	p.fact(tone, "profile", text)
	if len(o.Targets) > 1 {
		p.fact(Plain, "picked", strings.Join(o.Targets, ", ")+", in the order of preference")
	}
}

// writeOriginWeights tells a foreign picker's weights and where they are from.
func (r *Report) writeOriginWeights(p *page) {
	parts := make([]string, len(r.Weights.Custom))
	for i, c := range r.Weights.Custom {
		parts[i] = c.Name + " " + weightText(c.Weight)
	}
	p.fact(Plain, "weights", cmp.Or(strings.Join(parts, ", "), "none: no scorer ran"))
	p.fact(Plain, "weights from", r.Origin.WeightsFrom)
}

// writeOriginOutcome tells what a foreign picker's log tells of the answer.
func (r *Report) writeOriginOutcome(p *page) {
	p.fact(Warn, "outcome", r.Outcome.text())
	if r.Timings.Total > 0 {
		p.fact(Plain, "profile took", fmt.Sprintf("%s ms by its log (scorers %s)", millis(r.Timings.Total), millis(r.Timings.Scorers)))
	}
	tone, text := Good, "identical: the weights and scores give the logged totals"
	switch {
	case !r.Replay.Identical:
		tone, text = Bad, "first difference: "+r.Replay.Difference
	case r.byScores():
		text += ", and the pick has the best"
	}
	p.fact(tone, "replay", text)
}

// text is what the pod reported, in a line.
func (s *Reported) text() string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, one := range []struct {
		name string
		v    *float64
	}{{"waiting", s.Waiting}, {"running", s.Running}} {
		text := "unknown"
		if one.v != nil {
			text = number(*one.v)
		}
		parts = append(parts, one.name+" "+text)
	}
	kv := "unknown"
	if s.KVUsage != nil {
		kv = number(*s.KVUsage*100) + "%"
	}
	parts = append(parts, "KV cache "+kv)
	if s.Adapters != nil {
		parts = append(parts, s.adaptersText())
	}
	text := strings.Join(parts, ", ")
	if s.AgeSeconds != nil {
		text += " (" + ageText(*s.AgeSeconds) + " old)"
	}
	return text
}

func (s *Reported) adaptersText() string {
	text := "adapters " + strconv.Itoa(*s.Adapters)
	if s.MaxAdapters != nil {
		text += " of " + strconv.Itoa(*s.MaxAdapters)
	}
	if s.WaitingAdapters != nil && *s.WaitingAdapters > 0 {
		text += fmt.Sprintf(" and %d waiting", *s.WaitingAdapters)
	}
	switch {
	case s.Adapter == nil:
		return text
	case *s.Adapter:
		return text + ", this one loaded"
	}
	return text + ", this one not loaded"
}

// drawn says of a foreign tie that it can't be explained.
func (r *Report) drawn() string {
	return "; " + r.Origin.Kind + " draws among equals, and its log does not say how"
}

// oldFigures names the pods whose figures were older than the age from which a
// stock picker calls them stale.
func (r *Report) oldFigures() string {
	const stale = 2.0 // seconds, the default of --metrics-staleness-threshold
	var pods []string
	worst := 0.0
	for i := range r.Candidates {
		if s := r.Candidates[i].Reported; s != nil && s.AgeSeconds != nil && *s.AgeSeconds > stale {
			pods = append(pods, r.Candidates[i].Pod)
			worst = max(worst, *s.AgeSeconds)
		}
	}
	if len(pods) == 0 {
		return ""
	}
	const named = 3
	who := strings.Join(pods[:min(named, len(pods))], ", ")
	if more := len(pods) - named; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return "the figures of " + who + " were up to " + ageText(worst) + " old"
}

// otherReasons counts the reasons that are in words.
func (r *Report) otherReasons() []string {
	var reasons []string
	counts := map[string]int{}
	for i := range r.Excluded {
		reason := r.Excluded[i].Reason
		if counts[reason]++; counts[reason] == 1 {
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(reasons)
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d by %s", counts[reason], reason)
	}
	return reasons
}

// foreignNotes are what can be said of a foreign decision.
func (f *finder) foreignNotes(add func(cause, text string, evidence ...Evidence)) {
	add(CauseInputStale, f.oldFigures())
	if f.Ties != nil && f.byScores() {
		add(CauseTieRandom, "equal in every weighted sum: drawn from "+names(f.Ties.Pods))
	}
}
