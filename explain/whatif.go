package explain

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eppctl/eppctl/score"
)

// KindWhatIf is the Kind of a [Comparison].
const KindWhatIf = "WhatIf"

// ErrReplay is the error for a record that does not replay: what is computed from
// it would not be about the decision that was taken.
var ErrReplay = errors.New("the record does not replay")

// Comparison is a decision beside the same one with something changed: the
// document of 'eppctl explain --set … -o json'.
type Comparison struct {
	APIVersion   string    `json:"apiVersion"` // eppctl/v1
	Kind         string    `json:"kind"`       // WhatIf
	RequestID    string    `json:"requestID"`
	DecisionID   string    `json:"decisionID"`
	Time         time.Time `json:"time"`
	Model        string    `json:"model"`
	PromptTokens *int      `json:"promptTokens"` // null when another picker's log does not tell
	// Verdict is the result in one sentence, Scope what it holds for.
	Verdict string `json:"verdict"`
	Scope   string `json:"scope"`

	Changes     []Applied `json:"changes"`
	PickChanges bool      `json:"pickChanges"`
	// Policy is what really picked; with another than scores, Before is what the
	// scores would have picked.
	Policy string        `json:"policy"`
	Before Side          `json:"before"`
	After  Side          `json:"after"`
	Pods   []PodCompared `json:"pods"` // those that could win, best first as changed; then the excluded

	after *Report
}

// Applied is one change that was made.
type Applied struct {
	Key string `json:"key"`
	// From and To are numbers, strings or booleans, as the key has it; null when
	// there was none.
	From any `json:"from"`
	To   any `json:"to"`
	// Mattered: without this change, and all others made, the pick is another, which
	// is PickWithout (null when refused). The weights of a picker that wants them to
	// sum to 1 are left out together.
	Mattered    bool  `json:"mattered"`
	PickWithout *Pick `json:"pickWithout"`

	unit int // changes of one unit are left out together
}

// Side is one of the two decisions.
type Side struct {
	Picked    *Pick    `json:"picked"` // null when refused
	RunnerUp  *Pick    `json:"runnerUp"`
	Margin    *float64 `json:"margin"`
	DecidedBy string   `json:"decidedBy"`
	Ties      *Ties    `json:"ties"`
	Relaxed   bool     `json:"relaxed"`
	Refused   string   `json:"refused,omitempty"`
	Weights   Weights  `json:"weights"`
}

// PodCompared is one pod in both decisions.
type PodCompared struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	Before   Place  `json:"before"`
	After    Place  `json:"after"`
	Terms    []Term `json:"terms"` // those that differ
}

// Place is how a pod came out.
type Place struct {
	Rank   int      `json:"rank,omitempty"`   // 1 is the best; not there when excluded
	Score  *float64 `json:"score"`            // null when excluded
	Reason string   `json:"reason,omitempty"` // why it was excluded
	Detail string   `json:"detail,omitempty"`
}

// Term is one factor in both decisions.
type Term struct {
	Before Factor `json:"before"`
	After  Factor `json:"after"`
}

// WhatIf takes the recorded decision again with changes. The result is exact for
// this pick alone. It fails with [ErrReplay] for a record that does not replay,
// and for an edit that makes no sense, saying which and what would.
func WhatIf(rec *Record, edits []Edit) (*Comparison, error) {
	if check, _, _ := Replay(rec); !check.Identical {
		return nil, fmt.Errorf("%w: %s", ErrReplay, check.Difference)
	}
	changes, err := readEdits(rec, edits)
	if err != nil {
		return nil, err
	}
	changed := changedBy(rec, changes)
	if err := checkWeights(changed, changes); err != nil {
		return nil, err
	}
	if err := changed.decide(); err != nil {
		return nil, err
	}
	original := changedBy(rec, nil)
	if err := original.decide(); err != nil {
		return nil, err
	}
	before, after := Explain(original, Options{Flips: -1}), Explain(changed, Options{Flips: -1})
	c := &Comparison{
		APIVersion: APIVersion, Kind: KindWhatIf, RequestID: rec.RequestID, DecisionID: rec.DecisionID, Time: rec.Time,
		Model: rec.Request.Model, PromptTokens: rec.promptTokens(), Policy: rec.Policy, Scope: scope(rec),
		Before: before.side(), After: after.side(), PickChanges: original.Result.Index != changed.Result.Index,
		Pods: comparePods(replay(original), replay(changed)), after: after,
	}
	if c.Changes, err = dropOne(rec, changes, changed.Result.Index); err != nil {
		return nil, err
	}
	c.Verdict = c.verdict()
	return c, nil
}

// scope says what the comparison can't know.
func scope(rec *Record) string {
	text := "exact for this pick alone: other picks would have filled other queues and caches"
	if len(rec.Weights.Custom) > 0 {
		text += "; custom factors keep the answers that were recorded"
	}
	if rec.foreign() {
		text += "; among equals that picker draws"
	}
	return text
}

// changedBy is a copy of the record with the edits made, not decided yet. It has
// no checksums, and the scores decide.
func changedBy(rec *Record, edits []edit) *Record {
	c := *rec
	c.Check, c.Policy = nil, PolicyScores
	c.Weights.Custom = slices.Clone(rec.Weights.Custom)
	c.Candidates = slices.Clone(rec.Candidates)
	for i := range c.Candidates {
		c.Candidates[i].Check = ""
		c.Candidates[i].Custom = slices.Clone(rec.Candidates[i].Custom)
	}
	for _, e := range edits {
		e.apply(&c)
	}
	return &c
}

// decide takes the decision anew and writes down its result.
func (r *Record) decide() error {
	in, err := r.Inputs()
	if err != nil {
		return err
	}
	var d score.Decision
	in.Decide(&d)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Score = d.Results[i].Score; !r.foreign() { // whose reasons are its own
			c.Reason = d.Results[i].Reason.String()
		}
	}
	r.Result = ResultOf(in, &d)
	return nil
}

// dropOne leaves out each change in turn and says whether the pick depends on it.
func dropOne(rec *Record, changes []edit, pick int) ([]Applied, error) {
	out := make([]Applied, len(changes))
	units := unitsOf(rec, changes)
	for k, c := range changes {
		var rest []edit
		for j, other := range changes {
			if units[j] != units[k] {
				rest = append(rest, other)
			}
		}
		without := changedBy(rec, rest)
		if err := without.decide(); err != nil {
			return nil, err
		}
		result := &without.Result
		out[k] = Applied{Key: c.key, From: c.from, To: c.to, Mattered: result.Index != pick, unit: units[k]}
		if result.Index >= 0 {
			out[k].PickWithout = &Pick{result.Pod, result.Endpoint, result.Score}
		}
	}
	return out, nil
}

// unitsOf numbers the changes; those that only make sense together have the same
// number.
func unitsOf(rec *Record, changes []edit) []int {
	units, weights := make([]int, len(changes)), -1
	for k, c := range changes {
		units[k] = k
		if c.weights && !rec.foreign() {
			if weights < 0 {
				weights = k
			}
			units[k] = weights
		}
	}
	return units
}

// foreign reports whether another picker took the decision: none of the built-in
// factors counts, and its weights follow no rule.
func (r *Record) foreign() bool { return r.Origin != nil }

// promptTokens are those of all prompts; nil when that is not known.
func (r *Record) promptTokens() *int {
	if r.foreign() {
		return nil
	}
	return new(r.Request.PromptTokens)
}

func (r *Report) side() Side {
	return Side{
		Picked: r.Picked, RunnerUp: r.RunnerUp, Margin: r.Margin, DecidedBy: r.DecidedBy, Ties: r.Ties,
		Relaxed: r.Relaxed, Refused: r.Refused, Weights: r.Weights,
	}
}

// comparePods lists all pods: those that could win with the changes, those that
// could without, and the rest.
func comparePods(before, after *replayed) []PodCompared {
	places := func(r *replayed) (order []int, places []Place) {
		order, places = r.order(), make([]Place, len(r.rec.Candidates))
		for rank, i := range order {
			places[i] = Place{Rank: rank + 1, Score: finite(&r.rec.Candidates[i].Score)}
		}
		for i := range places {
			if reason := r.rec.Candidates[i].Reason; reason != "" {
				places[i] = Place{Reason: reason, Detail: r.exclusionDetail(i)}
			}
		}
		return order, places
	}
	was, from := places(before)
	order, to := places(after)
	for _, i := range was {
		if to[i].Rank == 0 {
			order = append(order, i)
		}
	}
	out := []PodCompared{}
	add := func(i int) {
		c := &before.rec.Candidates[i]
		out = append(out, PodCompared{c.Pod, c.Endpoint, from[i], to[i], compareTerms(before.factors(i), after.factors(i))})
	}
	for _, i := range order {
		add(i)
	}
	for i := range to {
		if from[i].Rank == 0 && to[i].Rank == 0 {
			add(i)
		}
	}
	return out
}

// compareTerms keeps the factors that differ in what they add, or why.
func compareTerms(before, after []Factor) []Term {
	out := []Term{}
	for f := range before {
		a, b := &before[f], &after[f]
		if a.Weight != b.Weight || a.Contribution != b.Contribution || a.State != b.State || deref(a.Value) != deref(b.Value) {
			out = append(out, Term{*a, *b})
		}
	}
	return out
}
