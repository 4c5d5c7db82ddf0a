package tune

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/score"
)

// DefaultRequests is how many recorded arrivals the closed loop runs, unless told
// otherwise.
const DefaultRequests = 4000

// Options say how advice is made. The zero value is usable.
type Options struct {
	Profile  *simulate.Profile // of the simulated fleet; nil: the one nearest to the model
	Pods     string            // of the simulated fleet, as "8" or "a100=8"; "": as recorded
	Requests int               // that are simulated at most; 0: [DefaultRequests]
	Seed     uint64
	Parallel int
	Progress func() // see [simulate.Config]
}

// Advice is the result.
type Advice struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Traffic    Summary         `json:"traffic"`
	Weights    explain.Weights `json:"weights"` // in force at the newest decision
	Resembles  Resemblance     `json:"resembles"`
	Findings   []*Finding      `json:"findings"`
	// Verdict is the result in one sentence.
	Verdict string `json:"verdict"`
	// Suggestion is null when the weights are best kept.
	Suggestion *Suggestion `json:"suggestion"`
	// Confident: nothing speaks against acting on it. Doubts are what does.
	Confident bool     `json:"confident"`
	Doubts    []string `json:"doubts"`
	// ClosedLoop is null when there was nothing to try.
	ClosedLoop *ClosedLoop `json:"closedLoop"`
}

// Summary is the traffic that was looked at.
type Summary struct {
	Decisions         int       `json:"decisions"`
	Replayed          int       `json:"replayed"` // to the same picks: all of them
	Since             time.Time `json:"since"`
	Until             time.Time `json:"until"`
	Hours             float64   `json:"hours"`
	RequestsPerSecond float64   `json:"requestsPerSecond"`
	Pods              int       `json:"pods"`
	Adapters          int       `json:"adapters"`
	PromptTokensP50   int       `json:"promptTokensP50"`
	OutputTokensP50   *int      `json:"outputTokensP50"` // null when no engine told
	// Reuse is the share of the prompts' tokens that an earlier prompt had.
	Reuse         float64  `json:"reuse"`
	CacheHitRatio *float64 `json:"cacheHitRatio"`  // by the engines' counts
	TTFTP50       *float64 `json:"ttftP50Seconds"` // as recorded
}

// Suggestion is a move that is worth it.
type Suggestion struct {
	Move    *Move           `json:"move"`
	Text    string          `json:"text"`
	For     string          `json:"for"` // code of the finding
	Risk    string          `json:"risk"`
	Weights explain.Weights `json:"weights"` // with the move made
	// PodReportIntervalMs is the interval that is suggested; null when it stays.
	PodReportIntervalMs *float64        `json:"podReportIntervalMs"`
	WhatIf              *Counterfactual `json:"whatIf"`
	Trial               *Trial          `json:"trial"`
}

// Advise makes advice of what was seen. Errors are a [*ReplayError] when decisions do
// not come out as recorded, those of the context, and others when there is nothing to go
// by.
func (t *Traffic) Advise(ctx context.Context, o Options) (*Advice, error) {
	if o.Requests == 0 {
		o.Requests = DefaultRequests
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	trace, err := t.records.Trace("recorded", 0)
	if err != nil {
		return nil, fmt.Errorf("the recorded arrivals: %w", err)
	}
	w := t.Weights()
	a := &Advice{APIVersion: APIVersion, Kind: KindAdvice, Weights: explain.RecordWeights(w), Doubts: []string{}}
	ideal, tokens := reuse(trace)
	a.Traffic = t.summary(ratio(ideal, tokens))
	a.Resembles = resemble(&a.Traffic, len(t.tally.adapters))
	a.Resembles.InForce = inForce(w)
	d := &diagnosis{
		tally: &t.tally, w: w, ideal: ideal, tokens: tokens,
		minutes: a.Traffic.Until.Sub(a.Traffic.Since).Minutes(), interval: t.interval(), out: []*Finding{},
	}
	a.Findings = d.run()
	moves := a.moves(t, w)
	if len(w.Custom) > 0 && len(moves) > 0 {
		a.keep("custom factors are not simulated, so no move can be tried")
		return a, nil
	}
	if len(moves) == 0 {
		a.keep(a.why())
		return a, nil
	}
	if a.ClosedLoop, err = t.try(ctx, trace, w, moves, &o); err != nil {
		return nil, err
	}
	a.conclude(t, w)
	return a, nil
}

// moves are those of all findings, each once, that would change a pick.
func (a *Advice) moves(t *Traffic, w *score.Weights) []*Move {
	var out []*Move
	seen := map[string]bool{}
	for _, f := range a.Findings {
		if len(f.moves) > 0 {
			f.WhatIf = t.kept.whatIf(w, f.moves[0])
		}
		for _, m := range f.moves {
			if !seen[m.Text()] && a.simulated(m) {
				seen[m.Text()], m.lever = true, f.Lever
				out = append(out, m)
			}
		}
	}
	return out
}

// simulated reports whether a simulated fleet has what the move is for: its pods are
// never degraded.
func (*Advice) simulated(m *Move) bool { return m.Key != "health" }

// why says why there is nothing to try.
func (a *Advice) why() string {
	if len(a.Findings) == 0 {
		return "no symptom was found"
	}
	for _, f := range a.Findings {
		if f.Lever == "health" {
			return "degraded pods are not simulated: see what the weight of health would change, try it, and compare"
		}
	}
	return "no weight is the lever for what was found"
}

func (a *Advice) keep(why string) { a.Verdict = "keep the weights: " + why }

// try runs the closed loop.
func (t *Traffic) try(ctx context.Context, trace *simulate.Trace, w *score.Weights, moves []*Move, o *Options) (*ClosedLoop, error) {
	l, err := setUp(t, trace, w, o)
	if err != nil {
		return nil, fmt.Errorf("the simulated fleet: %w", err)
	}
	all, err := l.run(ctx, moves)
	if err != nil {
		return nil, err
	}
	c := &ClosedLoop{
		Profile: l.profile.Name, Pods: len(l.pods), Seed: o.Seed, Requests: len(all[0].list), Of: len(trace.Requests),
		Before: all[0].outcome(), Trials: []Trial{}, Folds: []Fold{},
	}
	for i, m := range moves {
		c.Trials = append(c.Trials, trial(m, &all[0], &all[i+1], o.Seed))
	}
	c.validate(all)
	return c, nil
}

// conclude turns the closed loop into a verdict.
func (a *Advice) conclude(t *Traffic, w *score.Weights) {
	best, why := a.ClosedLoop.choose()
	if best == nil {
		a.keep("no evidence for another set: " + why)
		return
	}
	m := best.Move
	s := &Suggestion{Move: m, Text: m.Text(), Trial: best, WhatIf: t.kept.whatIf(w, m)}
	s.Weights = explain.RecordWeights(m.Apply(w))
	for _, f := range a.Findings {
		for _, own := range f.moves {
			if s.For == "" && own.Text() == m.Text() {
				s.For, s.Risk = f.Code, f.Risk
			}
		}
	}
	if m.Key == KeyReportInterval {
		s.PodReportIntervalMs = new(m.To)
	}
	a.Suggestion = s
	a.Doubts = a.doubts(t)
	a.Confident = len(a.Doubts) == 0
	a.Verdict = "move " + m.Text()
	if !a.Confident {
		a.Verdict += "; not confident"
	}
}

// What makes advice doubtful.
const (
	enoughHours  = 24
	unlikeHits   = 0.10 // difference of the hit ratios, simulated and recorded
	unlikeTTFT   = 2.0  // times, of the medians
	fewDecisions = 1000
)

func (a *Advice) doubts(t *Traffic) []string {
	out := []string{}
	s, c := &a.Traffic, a.ClosedLoop
	if s.Hours < enoughHours {
		out = append(out, fmt.Sprintf("%s of traffic: a day has hours of other kinds", hours(s.Hours)))
	}
	if s.Decisions < fewDecisions {
		out = append(out, fmt.Sprintf("only %d decisions", s.Decisions))
	}
	if n := t.underOthers(); n > 0 {
		out = append(out, fmt.Sprintf("%d decisions were made under other weights than are in force now: see --since", n))
	}
	if t.newest.TimeScale != 0 && t.newest.TimeScale != 1 {
		out = append(out, "the recorded fleet is itself a simulated one")
	}
	switch {
	case s.CacheHitRatio == nil:
		out = append(out, "no engine told how much it had cached: it is not known how like the simulated fleet is")
	case math.Abs(*s.CacheHitRatio-c.Before.CacheHitRatio) > unlikeHits:
		out = append(out, fmt.Sprintf("the simulated fleet is not like this one: %s of tokens cached, here %s",
			percent(c.Before.CacheHitRatio), percent(*s.CacheHitRatio)))
	}
	if s.TTFTP50 != nil && c.Before.TTFTP50 > 0 {
		if r := *s.TTFTP50 / c.Before.TTFTP50; r > unlikeTTFT || r < 1/unlikeTTFT {
			out = append(out, fmt.Sprintf("the simulated fleet is not like this one: half of the first tokens came within %.3gs, here %.3gs; see --profile",
				c.Before.TTFTP50, *s.TTFTP50))
		}
	}
	return out
}

func hours(h float64) string {
	if h < 1 {
		return fmt.Sprintf("%.0f minutes", 60*h)
	}
	return fmt.Sprintf("%.1f hours", h)
}
