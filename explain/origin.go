package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/eppctl/eppctl/score"
)

// Origin says which other picker took a decision that was read from its log. Its
// scorers stand as custom factors, under their own names and with its own weights,
// which need not sum to 1. The built-in factors have no weight and no part in the
// decision: its cutoffs are none, and its ties are drawn. A candidate that one of
// its filters took out has that for a reason, in words.
type Origin struct {
	Kind    string `json:"kind"`              // llm-d
	Version string `json:"version,omitempty"` // as its build names itself; "" when the log does not tell
	// Profile is the scheduling profile that picked, "" when the log does not tell.
	// Primary: this profile's pick is where the request went; another's is for a
	// part of the work, such as the prefill.
	Profile string `json:"profile"`
	Primary bool   `json:"primary"`
	Picker  string `json:"picker"` // the plugin that picked among the scored, as name/type
	// WeightsFrom says in words where the weights were taken from.
	WeightsFrom string `json:"weightsFrom"`
	// Targets are the endpoints that were picked, in the order of preference.
	Targets []string `json:"targets"`
	// Log names the process by the prefix of its lines, "" without one.
	Log string `json:"log,omitempty"`
}

// Reported is what a pod said of itself, as a foreign picker had it. What is not
// known is null.
type Reported struct {
	Waiting         *float64 `json:"waiting"` // requests
	Running         *float64 `json:"running"` // requests
	KVUsage         *float64 `json:"kvUsage"` // 0 to 1
	Adapters        *int     `json:"adapters"`
	WaitingAdapters *int     `json:"waitingAdapters"`
	MaxAdapters     *int     `json:"maxAdapters"`
	// Adapter: the model that the request asks for is among the adapters; null when
	// it is no adapter.
	Adapter    *bool    `json:"adapter"`
	AgeSeconds *float64 `json:"ageSeconds"`
}

// reported collects what stands with a candidate of a foreign record.
func (r *Record) reported(i int) *Reported {
	if r.Origin == nil {
		return nil
	}
	c := &r.Candidates[i]
	out := &Reported{Waiting: finite(c.Waiting.Value), Running: finite(c.Running), KVUsage: finite(c.Load.Value)}
	if c.Waiting.Value != nil {
		out.AgeSeconds = finite(&c.Waiting.AgeSeconds)
	}
	if state, _ := score.ParseState(c.Adapters.State); state.Usable() {
		out.Adapters, out.WaitingAdapters, out.MaxAdapters = new(c.Adapters.Loaded), c.Adapters.Waiting, new(c.Adapters.Max)
		if r.Request.Adapter != "" {
			out.Adapter = new(c.Adapters.Match)
		}
	}
	return out
}

// fillForeign is fill for a foreign candidate: its raw inputs are there to be
// looked at, and only its scorers' answers count.
func (c *Candidate) fillForeign(in *score.Inputs, i int) error {
	p := score.NewPod(c.Pod, c.Endpoint)
	if c.Reason != "" {
		p.Excluded = score.NotInSubset
	}
	in.Pods[i] = p
	return c.fillCustom(in, i)
}

// sameReason reports whether the i-th candidate is excluded as the engine says. Of
// a foreign reason the engine knows only that there is one.
func (r *Record) sameReason(i int, got score.Reason) bool {
	if r.Origin != nil {
		return (r.Candidates[i].Reason == "") == (got == score.Eligible)
	}
	return r.Candidates[i].Reason == got.String()
}

// Conclude writes the result of a foreign decision: pick is the candidate that the
// log names. The totals stay those of the log. Among equals the log does not say
// why this one was picked, so Conclude looks for a seed that draws it, by which a
// replay comes to the same pick. Where the log can't be accounted for (a total that
// is not the weighted sum, a pick that is not the best), the result is as logged
// and a replay says what differs.
func (r *Record) Conclude(pick int) error {
	in, err := r.Inputs()
	if err != nil {
		return err
	}
	best := &r.Candidates[pick]
	if byScores(r.Policy) {
		in.Seed = r.drawing(pick, in)
	}
	var d score.Decision
	in.Decide(&d)
	r.Seed, r.Result = in.Seed, ResultOf(in, &d)
	if byScores(r.Policy) && d.Winner != pick || !r.accounts(&d) {
		r.Result.Order = r.byTotals(pick)
		r.Result.Margin = nil
		if order := r.Result.Order; len(order) > 1 {
			r.Result.Margin = new(r.Candidates[order[0]].Score - r.Candidates[order[1]].Score)
		}
	}
	r.Result.Index, r.Result.Pod, r.Result.Endpoint, r.Result.Score = pick, best.Pod, best.Endpoint, best.Score
	return nil
}

// accounts reports whether the engine comes to the logged totals.
func (r *Record) accounts(d *score.Decision) bool {
	for i := range r.Candidates {
		if math.Float64bits(r.Candidates[i].Score) != math.Float64bits(d.Results[i].Score) {
			return false
		}
	}
	return true
}

// drawing is a seed by which the pick wins against those of its own score; 0 when
// none is needed or none is found soon.
func (r *Record) drawing(pick int, in *score.Inputs) uint64 {
	tied, at := score.Inputs{Request: in.Request, Weights: &score.Weights{MaxQueue: 1, MaxUtilization: 1}}, -1
	for i := range r.Candidates {
		if r.Candidates[i].Reason == "" && r.Candidates[i].Score == r.Candidates[pick].Score {
			if i == pick {
				at = len(tied.Pods)
			}
			tied.Pods = append(tied.Pods, in.Pods[i])
		}
	}
	if len(tied.Pods) < 2 {
		return 0
	}
	// A seed draws any of n pods with the chance 1/n, so that this many all miss
	// with a chance of e^-16.
	const patience = 16
	var d score.Decision
	for tied.Seed = range uint64(patience * len(tied.Pods)) {
		if tied.Decide(&d); d.Winner == at {
			return tied.Seed
		}
	}
	return 0
}

// byTotals orders the eligible candidates by their totals, the pick before its equals.
func (r *Record) byTotals(pick int) []int {
	order := []int{}
	for i := range r.Candidates {
		if r.Candidates[i].Reason == "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Candidates[b].Score, r.Candidates[a].Score), boolRank(a != pick)-boolRank(b != pick))
	})
	return order[:min(len(order), score.OrderLength)]
}
