package explain

import (
	"fmt"
	"math"
	"slices"

	"github.com/eppctl/eppctl/score"
)

// Versus is the answer to "why not that pod": the pod that was picked against
// another, factor by factor.
type Versus struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	Verdict  string `json:"verdict"`
	Winner   *Pick  `json:"winner"` // null when the request was refused
	// Reason is why the pod was excluded, "" when it could win.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Score is the pod's; of an excluded one, what it would have been, null when an
	// input is missing.
	Score *float64 `json:"score"`
	// Difference is the winner's score less the pod's. The differences of the terms
	// and Rounding, added in this order, are exactly it.
	Difference  *float64     `json:"difference"`
	Differences []Difference `json:"differences"`
	Rounding    float64      `json:"rounding"`
	// DecidedBy is the factor with the largest difference; tieLoad, tieQueue or
	// tieSeed between equal scores; the policy when it is not the scores that picked.
	DecidedBy string `json:"decidedBy"`
	// LetIn says of a pod that the pool kept out that Changes are those that it would
	// have needed besides; WouldWin that it would have needed none.
	LetIn    bool     `json:"letIn"`
	WouldWin bool     `json:"wouldWin"`
	Changes  []Change `json:"changes"` // empty when no score decided between the two

	drawn bool // among equals, by another picker
}

// Difference is one factor of both pods.
type Difference struct {
	Factor     string  `json:"factor"`
	Winner     Factor  `json:"winner"`
	Pod        Factor  `json:"pod"`
	Difference float64 `json:"difference"` // the winner's contribution less the pod's
}

// WhyNot explains why a pod, given by name or endpoint, was not picked. It fails
// with [ErrReplay] for a record that does not replay, and for a pod that was not
// there or was picked.
func WhyNot(rec *Record, pod string) (*Versus, error) {
	i, err := rec.find(pod)
	if err != nil {
		return nil, err
	}
	r := replay(rec)
	if !r.check.Identical {
		return nil, fmt.Errorf("%w: %s", ErrReplay, r.check.Difference)
	}
	winner := rec.Result.Index
	if i == winner {
		return nil, fmt.Errorf("%s was picked; name a pod that was not%s", rec.Candidates[i].Pod, r.secondText())
	}
	c, result := &rec.Candidates[i], &r.d.Results[i]
	v := &Versus{
		Pod: c.Pod, Endpoint: c.Endpoint, Reason: c.Reason,
		Differences: []Difference{}, Changes: []Change{},
	}
	if c.Reason != "" {
		v.Detail = r.exclusionDetail(i)
	}
	if c.Reason == "" || result.WouldScoreKnown {
		v.Score = new(result.WouldScore)
	}
	if winner >= 0 {
		v.Winner = &Pick{rec.Result.Pod, rec.Result.Endpoint, rec.Result.Score}
		v.compare(r, winner, i)
	}
	if byScores(rec.Policy) && !v.drawn {
		v.change(r, i)
	}
	v.Verdict = v.verdict()
	return v, nil
}

// secondText suggests the runner-up.
func (r *replayed) secondText() string {
	if order := r.order(); len(order) > 1 {
		return ": " + r.rec.Candidates[order[1]].Pod
	}
	return ""
}

// compare sets the factors of both pods side by side.
func (v *Versus) compare(r *replayed, winner, pod int) {
	a, b := r.factors(winner), r.factors(pod)
	sum, most := 0.0, math.Inf(-1)
	for f := range a {
		d := Difference{a[f].Name, a[f], b[f], a[f].Contribution - b[f].Contribution}
		v.Differences = append(v.Differences, d)
		sum += d.Difference
		if d.Difference > most {
			v.DecidedBy, most = d.Factor, d.Difference
		}
	}
	if v.Score != nil {
		v.Difference = new(v.Winner.Score - *v.Score)
		v.Rounding = *v.Difference - sum
	}
	switch {
	case !byScores(r.rec.Policy):
		v.DecidedBy = r.rec.Policy
	case v.Reason == "" && *v.Difference == 0:
		v.DecidedBy, v.drawn = r.duel(winner, pod), r.rec.foreign()
	}
}

// duel says by what one pod comes before the other when there are only these.
func (r *replayed) duel(a, b int) string {
	in := *r.in
	in.Pods = slices.Clone(r.in.Pods)
	for i := range in.Pods {
		if i != a && i != b {
			in.Pods[i].Excluded = score.NotInPool
		}
	}
	var d score.Decision
	in.Decide(&d)
	return d.DecidedBy.Name(in.Weights)
}

// change finds what would have made the pod win. One that the pool kept out is
// let in first.
func (v *Versus) change(r *replayed, i int) {
	if r.in.Pods[i].Excluded != score.Eligible {
		in := *r.in
		in.Pods = slices.Clone(r.in.Pods)
		in.Pods[i].Excluded = score.Eligible
		let := *r
		let.in, let.d = &in, new(score.Decision)
		in.Decide(let.d)
		r, v.LetIn, v.WouldWin = &let, true, let.d.Winner == i
	}
	if !v.WouldWin {
		v.Changes = r.podChanges(i).Changes
	}
}
