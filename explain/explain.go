package explain

import (
	"cmp"
	"slices"

	"github.com/eppctl/eppctl/score"
)

// Options say how much an explanation looks into.
type Options struct {
	// Flips is for how many pods behind the winner "what would have flipped it"
	// is computed; 0 means the runner-up alone, below 0 none. Up to as many
	// excluded pods that would have scored more than the winner are added.
	Flips int
	// Earlier are decisions of before that may have shared the prompt's prefix, in
	// any order; what is of no use is passed over. Without them nothing is said of
	// what a pod used to hold.
	Earlier []*Record
}

// Explain makes the report of a decision. It replays the decision, so factor
// values and contributions are the engine's; scores, pick, margin and what
// decided are those of the record, and [Report.Replay] says whether the two
// agree. It never fails: what a damaged record doesn't tell is left out.
func Explain(rec *Record, opt Options) *Report {
	r := replay(rec)
	report := header(rec)
	report.Replay = r.check
	order := r.order()
	report.Candidates = make([]Standing, 0, len(order))
	for _, i := range order {
		report.Candidates = append(report.Candidates, r.standing(i))
	}
	r.markTies(report.Candidates, order)
	report.Excluded = []Exclusion{}
	for i := range rec.Candidates {
		if rec.Candidates[i].Reason != "" {
			report.Excluded = append(report.Excluded, r.exclusion(i))
		}
	}
	slices.SortStableFunc(report.Excluded, byWouldScore)
	report.Ties = tiesOf(report)
	if len(report.Candidates) > 1 && rec.Result.Margin != nil {
		report.RunnerUp = report.Candidates[1].pick()
	}
	report.Flips = r.flips(order, opt)
	if r.in != nil && rec.Origin == nil {
		report.Analysis = Analyse(r.in.Weights)
	}
	report.Outcome = outcomeOf(rec)
	report.Ladder = LadderOf(rec, opt.Earlier)
	f := finder{Report: report, in: r, priors: priorsOf(rec, opt.Earlier)}
	report.Notes = f.notes()
	report.Cause = mainCause(report.Notes)
	report.Verdict = verdict(report)
	return report
}

// byWouldScore puts the pods first that an operator misses most, and those
// last of which it isn't known.
func byWouldScore(a, b Exclusion) int {
	if a.WouldScore == nil || b.WouldScore == nil {
		return cmp.Compare(boolRank(a.WouldScore == nil), boolRank(b.WouldScore == nil))
	}
	return cmp.Compare(*b.WouldScore, *a.WouldScore)
}

func boolRank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// header copies what needs no computing.
func header(rec *Record) *Report {
	q := &rec.Request
	r := &Report{
		APIVersion: APIVersion, Kind: KindExplanation,
		RequestID: rec.RequestID, RequestIDReplaced: rec.RequestIDReplaced, DecisionID: rec.DecisionID,
		Time: rec.Time, TimeScale: rec.TimeScale,
		Path: q.Path, Stream: q.Stream, Model: q.Model, ModelUnchecked: q.ModelUnchecked,
		BaseModel: q.Base, Adapter: q.Adapter, Rewrite: q.Rewrite,
		PromptTokens: q.PromptTokens, Prompts: q.Prompts, TokensFrom: q.TokensFrom, PrefixTokens: q.PrefixTokens,
		BlockSize: q.BlockSize, Blocks: q.Blocks, NoPrefix: q.NoPrefix,
		Policy: rec.Policy, Gateway: rec.Gateway, Origin: rec.Origin, DecidedBy: rec.Result.DecidedBy, Seed: rec.Seed,
		Relaxed: rec.Result.Relaxed, Refused: rec.Result.Refused,
		Attempts: slices.Clone(rec.Attempts), Timings: rec.Timings, Weights: rec.Weights,
		Margin: finite(rec.Result.Margin),
	}
	if r.Attempts == nil {
		r.Attempts = []Attempt{}
	}
	if rec.Result.Refused == "" {
		r.Picked = &Pick{Pod: rec.Result.Pod, Endpoint: rec.Result.Endpoint, Score: rec.Result.Score}
	}
	return r
}

// order lists the eligible candidates, best first: the recorded order, and
// behind it those that the record has no place for.
func (r *replayed) order() []int {
	candidates := r.rec.Candidates
	seen := make([]bool, len(candidates))
	order := make([]int, 0, len(candidates))
	add := func(i int) {
		if i >= 0 && i < len(candidates) && !seen[i] && candidates[i].Reason == "" {
			seen[i] = true
			order = append(order, i)
		}
	}
	if r.rec.Result.Refused != "" {
		return order
	}
	for _, i := range r.rec.Result.Order {
		add(i)
	}
	if r.d != nil {
		for _, rank := range r.d.FullOrder(r.in.Pods, r.in.Weights, r.in.Seed) {
			add(rank.Pod)
		}
	}
	rest := make([]int, len(candidates))
	for i := range rest {
		rest[i] = i
	}
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(candidates[b].Score, candidates[a].Score) })
	for _, i := range rest {
		add(i)
	}
	return order
}

func (r *replayed) standing(i int) Standing {
	c := &r.rec.Candidates[i]
	return Standing{
		Pod: c.Pod, Endpoint: c.Endpoint, Score: c.Score, Factors: r.factors(i), Picked: i == r.rec.Result.Index,
		Reported: r.rec.reported(i),
	}
}

func (s *Standing) pick() *Pick { return &Pick{Pod: s.Pod, Endpoint: s.Endpoint, Score: s.Score} }

// markTies says how neighbours of equal score were told apart. A record that
// does not replay has an order of its own, which the engine can't account for.
func (r *replayed) markTies(standings []Standing, order []int) {
	if !r.check.Identical {
		return
	}
	for at, rank := range r.d.FullOrder(r.in.Pods, r.in.Weights, r.in.Seed) {
		if at < len(order) && order[at] == rank.Pod && rank.Tie != score.ByNothing {
			standings[at].Tie = rank.Tie.Name(r.in.Weights)
		}
	}
}

func tiesOf(r *Report) *Ties {
	if len(r.Candidates) < 2 || r.Candidates[1].Tie == "" {
		return nil
	}
	ties := &Ties{By: r.Candidates[1].Tie}
	for i := range r.Candidates {
		if r.Candidates[i].Score != r.Candidates[0].Score {
			break
		}
		ties.Pods = append(ties.Pods, r.Candidates[i].Pod)
	}
	ties.Tied = len(ties.Pods)
	return ties
}

// standing finds a candidate by its place in the pool: pod and endpoint.
func (r *Report) standingOf(p *Pick) *Standing {
	for i := range r.Candidates {
		if s := &r.Candidates[i]; p != nil && s.Pod == p.Pod && s.Endpoint == p.Endpoint {
			return s
		}
	}
	return nil
}

// byScores reports whether the scores decided, and not another policy.
func (r *Report) byScores() bool { return byScores(r.Policy) }

func byScores(policy string) bool { return policy == "" || policy == PolicyScores }

// factorNamed finds a factor by name, or nil.
func (s *Standing) factorNamed(name string) *Factor {
	for i := range s.Factors {
		if s.Factors[i].Name == name {
			return &s.Factors[i]
		}
	}
	return nil
}
