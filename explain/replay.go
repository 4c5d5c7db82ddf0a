package explain

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eppctl/eppctl/score"
)

// Inputs rebuilds what the engine was given. It fails on a record that can't
// have been written by a picker, naming the place.
func (r *Record) Inputs() (*score.Inputs, error) {
	w, err := r.Weights.engine()
	if err != nil {
		return nil, err
	}
	in := &score.Inputs{
		Request: &score.InferenceRequest{
			ID: r.RequestID, Model: r.Request.Base, Adapter: r.Request.Adapter, Count: r.Request.PromptTokens,
			Blocks: r.Request.Blocks, NoPrefix: r.Request.NoPrefix, Arrival: r.Time,
		},
		Pods:    make([]score.PodState, len(r.Candidates)),
		Extra:   make([]score.FactorValues, len(w.Custom)),
		Weights: w,
		Seed:    r.Seed,
	}
	for k := range in.Extra {
		in.Extra[k] = score.FactorValues{Name: w.Custom[k].Name, Values: make([]score.Result, len(r.Candidates))}
	}
	for i := range r.Candidates {
		fill := r.Candidates[i].fill
		if r.Origin != nil {
			fill = r.Candidates[i].fillForeign
		}
		if err := fill(in, i); err != nil {
			return nil, fmt.Errorf("candidates[%d] %q: %w", i, r.Candidates[i].Pod, err)
		}
	}
	return in, nil
}

func (w *Weights) engine() (*score.Weights, error) {
	saturation, err := score.ParseSaturation(w.Saturation)
	if err != nil {
		return nil, fmt.Errorf("weights.%w", err)
	}
	out := &score.Weights{
		Cache: w.Cache, Load: w.Load, Queue: w.Queue, Health: w.Health, Adapter: w.Adapter,
		MaxQueue: w.MaxQueue, MaxUtilization: w.MaxUtilization, Saturation: saturation, Generation: w.Generation,
	}
	for _, c := range w.Custom {
		out.Custom = append(out.Custom, score.CustomWeight{Name: c.Name, Weight: c.Weight})
	}
	if out.MaxQueue < 1 || !(out.MaxUtilization > 0) {
		return nil, fmt.Errorf("weights: maxQueue %d and maxUtilization %v must be above 0", out.MaxQueue, out.MaxUtilization)
	}
	return out, nil
}

// RecordWeights is the record's form of the weights.
func RecordWeights(w *score.Weights) Weights {
	out := Weights{
		Cache: w.Cache, Load: w.Load, Queue: w.Queue, Health: w.Health, Adapter: w.Adapter,
		MaxQueue: w.MaxQueue, MaxUtilization: w.MaxUtilization, Saturation: w.Saturation.String(), Generation: w.Generation,
	}
	for _, c := range w.Custom {
		out.Custom = append(out.Custom, CustomWeight(c))
	}
	return out
}

func (c *Candidate) fill(in *score.Inputs, i int) error {
	p := score.NewPod(c.Pod, c.Endpoint)
	reason, ok := score.ParseReason(c.Reason)
	if !ok {
		return fmt.Errorf("reason: unknown reason %q", c.Reason)
	}
	if reason < score.Unhealthy { // the last two follow from the inputs
		p.Excluded = reason
	}
	var notes score.Notes
	for _, input := range []struct {
		factor int
		from   *Input
		to     *score.Reading
	}{
		{score.CacheMatch, &c.Cache, &p.Cache},
		{score.Load, &c.Load, &p.Utilization},
		{score.QueueDepth, &c.Waiting, &p.Waiting},
		{score.Health, &c.Health, &p.Health},
	} {
		var err error
		if *input.to, err = input.from.reading(); err != nil {
			return fmt.Errorf("%s: %w", inputNames[input.factor], err)
		}
		notes[input.factor] = input.from.Detail
	}
	for _, part := range c.Cache.Tiers {
		p.CacheTiers = append(p.CacheTiers, score.TierBlocks(part))
	}
	p.Pending, p.PeerPending, p.InFlight = c.Pending, c.PeerPending, c.InFlight
	if p.AdapterState, ok = score.ParseState(c.Adapters.State); !ok {
		return fmt.Errorf("adapters: unknown state %q", c.Adapters.State)
	}
	notes[score.AdapterMatch] = c.Adapters.Detail
	p.Adapters, p.MaxAdapters = c.Adapters.names(in.Request.Adapter), c.Adapters.Max
	if notes != (score.Notes{}) {
		p.Notes = &notes
	}
	in.Pods[i] = p
	return c.fillCustom(in, i)
}

// inputNames are the kinds of a candidate's inputs, as they stand in the record.
var inputNames = [score.NumFactors]string{"cache", "load", "waiting", "health", "adapters"}

// names stands in for the names of the loaded adapters, which a record does not
// keep: only their number and whether the requested one is among them.
func (a *Adapters) names(asked string) []string {
	names := make([]string, 0, max(0, min(a.Loaded, 1<<10)))
	if a.Match && asked != "" {
		names = append(names, asked)
	}
	for len(names) < min(a.Loaded, 1<<10) {
		names = append(names, "")
	}
	return names
}

func (c *Candidate) fillCustom(in *score.Inputs, i int) error {
	if len(c.Custom) != len(in.Extra) {
		return fmt.Errorf("custom: %d values for %d custom weights", len(c.Custom), len(in.Extra))
	}
	for k, v := range c.Custom {
		state, ok := score.ParseState(v.State)
		if !ok {
			return fmt.Errorf("custom[%d]: unknown state %q", k, v.State)
		}
		if v.Value == nil && state.Usable() {
			return fmt.Errorf("custom[%d]: state %s without a value", k, v.State)
		}
		in.Extra[k].Values[i] = score.Result{Value: deref(v.Value), State: state, Detail: v.Detail}
	}
	return nil
}

func (in *Input) reading() (score.Reading, error) {
	state, ok := score.ParseState(in.State)
	if !ok {
		return score.Reading{}, fmt.Errorf("unknown state %q", in.State)
	}
	source, ok := score.ParseSource(in.Source)
	if !ok && in.Source != "" {
		return score.Reading{}, fmt.Errorf("unknown source %q", in.Source)
	}
	age := time.Duration(in.AgeSeconds * float64(time.Second))
	if in.Value == nil && state.Usable() {
		return score.Reading{}, fmt.Errorf("state %s without a value", in.State)
	}
	return score.Reading{Value: deref(in.Value), State: state, Source: source, Age: age}, nil
}

// RecordInput is the record's form of a reading. A value that JSON can't hold
// becomes null and unknown, with what it was as the detail.
func RecordInput(r score.Reading, detail string) Input {
	in := Input{State: r.State.String(), AgeSeconds: r.Age.Seconds(), Detail: detail}
	if r.Source != score.SourceNone {
		in.Source = r.Source.String()
	}
	switch {
	case math.IsNaN(r.Value) || math.IsInf(r.Value, 0):
		in.State = score.Unknown.String()
		if in.Detail == "" {
			in.Detail = fmt.Sprint(r.Value)
		}
	case r.State != score.Unknown:
		in.Value = new(r.Value)
	}
	return in
}

func deref(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// Verification is the result of replaying a record.
type Verification struct {
	Identical bool `json:"identical"`
	// Difference names the first difference; "" when identical.
	Difference string `json:"difference,omitempty"`
	// Sealed: the record carries checksums of its inputs, see [Record.Seal]. In one
	// without, identical means that the results follow from the inputs as they
	// stand there, whoever wrote them.
	Sealed bool `json:"sealed"`
}

// Replay takes the recorded decision again, and compares inputs with their
// checksums and results bit by bit.
func Replay(r *Record) (Verification, *score.Inputs, *score.Decision) {
	out := Verification{Sealed: r.sealed()}
	in, err := r.Inputs()
	if err != nil {
		out.Difference = "not replayable: " + err.Error()
		return out, nil, nil
	}
	d := new(score.Decision)
	in.Decide(d)
	if out.Difference = r.damage(); out.Difference == "" {
		out.Difference = r.compare(in, d)
	}
	out.Identical = out.Difference == ""
	return out, in, d
}

// compare names the first difference between the recorded and the replayed results.
func (r *Record) compare(in *score.Inputs, d *score.Decision) string {
	for i := range r.Candidates {
		c, got := &r.Candidates[i], d.Results[i]
		if sum := score.TierValue(in.Pods[i].CacheTiers); c.Cache.Value != nil && c.Cache.Tiers != nil && *c.Cache.Value != sum {
			return fmt.Sprintf("%s: recorded cache %v, replayed %v of its tiers", c.Pod, *c.Cache.Value, sum)
		}
		if !r.sameReason(i, got.Reason) {
			return fmt.Sprintf("%s: recorded reason %q, replayed %q", c.Pod, c.Reason, got.Reason)
		}
		if math.Float64bits(c.Score) != math.Float64bits(got.Score) {
			return fmt.Sprintf("%s: recorded score %v, replayed %v", c.Pod, c.Score, got.Score)
		}
	}
	order := make([]int, len(d.Order))
	for i, rank := range d.Order {
		order[i] = rank.Pod
	}
	if !slices.Equal(order, r.Result.Order) {
		return fmt.Sprintf("order: recorded %v, replayed %v", r.Result.Order, order)
	}
	return r.compareResult(in, d)
}

func (r *Record) compareResult(in *score.Inputs, d *score.Decision) string {
	got := ResultOf(in, d)
	want := r.Result
	if !byScores(r.Policy) && d.Winner >= 0 { // the policy picked, the engine only scored
		i := want.Index
		if !eligible(d, i) {
			return fmt.Sprintf("pick: recorded candidate %d, which is none that policy %q could pick", i, r.Policy)
		}
		got.Index, got.Pod, got.Endpoint, got.Score = i, in.Pods[i].Pod, in.Pods[i].Endpoint, d.Results[i].Score
	}
	switch {
	case want.Index != got.Index || want.Pod != got.Pod || want.Endpoint != got.Endpoint:
		return fmt.Sprintf("pick: recorded %q, replayed %q", want.Pod, got.Pod)
	case math.Float64bits(want.Score) != math.Float64bits(got.Score):
		return fmt.Sprintf("score of the pick: recorded %v, replayed %v", want.Score, got.Score)
	case (want.Margin == nil) != (got.Margin == nil) || math.Float64bits(deref(want.Margin)) != math.Float64bits(deref(got.Margin)):
		return fmt.Sprintf("margin: recorded %v, replayed %v", deref(want.Margin), deref(got.Margin))
	case want.DecidedBy != got.DecidedBy:
		return fmt.Sprintf("decided by: recorded %q, replayed %q", want.DecidedBy, got.DecidedBy)
	case want.Relaxed != got.Relaxed:
		return fmt.Sprintf("relaxed: recorded %v, replayed %v", want.Relaxed, got.Relaxed)
	case want.Refused != got.Refused:
		return fmt.Sprintf("refused: recorded %q, replayed %q", want.Refused, got.Refused)
	}
	return ""
}

// eligible reports whether the i-th candidate could win.
func eligible(d *score.Decision, i int) bool {
	return i >= 0 && i < len(d.Results) && d.Results[i].Reason == score.Eligible
}

// PolicyScores is the Policy of a decision that the scores took.
const PolicyScores = "scores"

// ResultOf is the record's form of a decision's result.
func ResultOf(in *score.Inputs, d *score.Decision) Result {
	out := Result{
		Index: d.Winner, DecidedBy: d.DecidedBy.Name(in.Weights), Relaxed: d.Relaxed,
		Refused: d.Refused.String(), Order: make([]int, len(d.Order)),
	}
	for i, rank := range d.Order {
		out.Order[i] = rank.Pod
	}
	if d.Winner >= 0 {
		out.Pod, out.Endpoint = in.Pods[d.Winner].Pod, in.Pods[d.Winner].Endpoint
		out.Score = d.Results[d.Winner].Score
	}
	if d.RunnerUp >= 0 {
		out.Margin = new(d.Margin)
	}
	return out
}
