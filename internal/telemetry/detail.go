package telemetry

import (
	"log/slog"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// received is the DEBUG event of a request's arrival.
func (o *Observer) received(e *record.Entry) {
	req := e.Inputs.Request
	attrs := append(ids(e),
		slog.String(logkey.Path, clip(e.Path)),
		slog.String(logkey.Model, clip(e.Model)),
		slog.Int(logkey.InputTokens, req.Count),
		slog.String(logkey.TokensFrom, e.TokensFrom),
		slog.Bool(logkey.Stream, e.Stream),
	)
	if req.Adapter != "" {
		attrs = append(attrs, slog.String(logkey.Adapter, clip(req.Adapter)))
	}
	o.event(slog.LevelDebug, MsgRequestReceived, attrs...)
}

// scored is the DEBUG event of a decision, with all candidates, what the prefix
// tree found, the stages' times and the record that replays it; and the two of
// TRACE.
func (o *Observer) scored(e *record.Entry) {
	d := e.Decision
	attrs := append(ids(e),
		slog.Any(logkey.Candidates, candidates(e)),
		slog.Int(logkey.Eligible, d.Eligible),
		slog.Int(logkey.Blocks, e.Inputs.Request.Blocks),
		slog.Int(logkey.BlockSize, e.BlockSize),
	)
	if d.RunnerUp >= 0 {
		attrs = append(attrs, slog.Float64(logkey.Margin, d.Margin))
	}
	if by := d.DecidedBy.Name(e.Inputs.Weights); by != "" {
		attrs = append(attrs, slog.String(logkey.DecidedBy, by))
	}
	attrs = append(attrs, timings(&e.Timings)...)
	var chain []string
	if o.render != nil {
		if rec := o.render(e); rec != nil {
			attrs = append(attrs, slog.Any(logkey.Record, rec))
			chain = rec.Request.Chain
		}
	}
	o.event(slog.LevelDebug, MsgScoringComplete, attrs...)
	if o.enabled(LevelTrace) {
		o.walked(e, chain)
		o.weighted(e)
	}
}

// scoredPod is a candidate in the log. What is not known is null.
type scoredPod struct {
	Pod     string              `json:"pod"`
	Reason  string              `json:"reason,omitempty"` // why it could not win
	Score   *float64            `json:"score"`
	Matched *float64            `json:"matchedBlocks"`
	Factors map[string]*float64 `json:"factors"`
}

// candidates are all pods: the eligible ones in their order as far as the
// decision kept it, then the rest as the engine saw them.
func candidates(e *record.Entry) []scoredPod {
	d := e.Decision
	listed := make([]bool, len(d.Results))
	pods := make([]scoredPod, 0, len(d.Results))
	for _, rank := range d.Order {
		listed[rank.Pod] = true
		pods = append(pods, scoredAt(e, rank.Pod))
	}
	for i := range d.Results {
		if !listed[i] {
			pods = append(pods, scoredAt(e, i))
		}
	}
	return pods
}

func scoredAt(e *record.Entry, i int) scoredPod {
	result := &e.Decision.Results[i]
	p := scoredPod{
		Pod: e.Inputs.Pods[i].Pod, Reason: result.Reason.String(), Matched: matched(e, i),
		Factors: make(map[string]*float64, e.Inputs.Weights.Factors()),
	}
	if result.Reason == score.Eligible {
		p.Score = new(result.Score)
	}
	for f := range e.Inputs.Weights.Factors() {
		value, state := factor(e, f, i)
		var known *float64
		if state.Usable() || state == score.NotApplicable {
			known = new(value)
		}
		p.Factors[e.Inputs.Weights.FactorName(f)] = known
	}
	return p
}

// factor is the value of factor f for pod i, and how it is known.
func factor(e *record.Entry, f, i int) (float64, score.State) {
	if f < score.NumFactors {
		result := &e.Decision.Results[i]
		return result.Values[f], result.States[f]
	}
	custom := score.CustomResult(e.Inputs.Extra, f-score.NumFactors, i)
	return custom.Value, custom.State
}

// matched is how many of the prompt's blocks pod i holds, by the weight of their
// tiers; nil when not known.
func matched(e *record.Entry, i int) *float64 {
	if !e.Decision.Results[i].States[score.CacheMatch].Usable() {
		return nil
	}
	return new(e.Inputs.Pods[i].Cache.Value)
}

// walked is the TRACE event of the walk over the prompt's blocks. The chain's
// ids are keyed: hashes of guessed prompts can't be compared with them.
func (o *Observer) walked(e *record.Entry, chain []string) {
	found := make(map[string]*float64, len(e.Inputs.Pods))
	for i := range e.Inputs.Pods {
		found[e.Inputs.Pods[i].Endpoint] = matched(e, i)
	}
	o.event(LevelTrace, MsgPrefixWalk, append(ids(e),
		slog.Int(logkey.Blocks, e.Inputs.Request.Blocks),
		slog.Int(logkey.BlockSize, e.BlockSize),
		slog.Any(logkey.Chain, chain),
		slog.Any(logkey.MatchedBlocks, found),
	)...)
}

// contributions are a pod's factor values times their weights.
type contributions struct {
	Pod     string             `json:"pod"`
	Factors map[string]float64 `json:"contributions"`
	Sum     float64            `json:"wouldScore"` // the formula with all cutoffs off
}

// weighted is the TRACE event of what the scores were summed from.
func (o *Observer) weighted(e *record.Entry) {
	w := e.Inputs.Weights
	weights := make(map[string]float64, w.Factors())
	for f := range w.Factors() {
		weights[w.FactorName(f)] = w.Weight(f)
	}
	pods := make([]contributions, len(e.Inputs.Pods))
	for i := range pods {
		pods[i] = contributions{e.Inputs.Pods[i].Pod, make(map[string]float64, w.Factors()), e.Decision.Results[i].WouldScore}
		for f := range w.Factors() {
			pods[i].Factors[w.FactorName(f)] = e.Decision.Contribution(f, i, e.Inputs.Extra, w)
		}
	}
	o.event(LevelTrace, MsgWeightedFactors, append(ids(e),
		slog.Uint64(logkey.Generation, w.Generation),
		slog.Any(logkey.Weights, weights),
		slog.Any(logkey.Candidates, pods),
	)...)
}

// timings are the stages; tokenising only when it was one of its own.
func timings(t *record.Timings) []slog.Attr {
	attrs := []slog.Attr{slog.Float64(logkey.ParseUs, micros(t.Parse))}
	if t.Tokens > 0 {
		attrs = append(attrs, slog.Float64(logkey.TokensUs, micros(t.Tokens)))
	}
	return append(attrs,
		slog.Float64(logkey.LookupUs, micros(t.Lookup)),
		slog.Float64(logkey.ScorersUs, micros(t.Scorers)),
		slog.Float64(logkey.DecideUs, micros(t.Decide)),
		slog.Float64(logkey.TotalUs, micros(t.Total)),
	)
}
