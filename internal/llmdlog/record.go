package llmdlog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/explain"
)

// records makes the records of a request's runs, or lets them wait for weights.
func (p *Parser) records(r *request) {
	for _, run := range r.runs {
		if !run.whole() {
			continue
		}
		g := p.groupOf(r.proc, run)
		g.learn(run)
		g.held = append(g.held, heldRun{r, run})
		if !g.settled && len(g.held) >= maxHeld {
			g.solve(true)
			g.settled = true
		}
		if g.settled {
			p.release(g)
		}
	}
}

// record makes the record of one run.
func (p *Parser) record(r *request, run *run, g *group) {
	rec := &explain.Record{
		APIVersion: explain.APIVersion, Kind: explain.KindDecision,
		DecisionID: decisionID(r, run), RequestID: r.id, Time: run.start, TimeScale: 1,
		Policy:  policyOf(run.picker),
		Request: explain.Request{Model: r.model, Base: r.target, Stream: r.streamed},
		Weights: explain.Weights{MaxQueue: math.MaxInt32, MaxUtilization: 1, Saturation: "relax"}, // limits that never bind
		Origin: &explain.Origin{
			Kind: "llm-d", Version: r.proc.version, Profile: run.profile, Primary: r.primary(run), Picker: run.picker,
			WeightsFrom: g.from, Targets: []string{}, Log: r.proc.source,
		},
		Outcome: r.outcome(),
	}
	if r.began {
		rec.Time = r.arrived
	}
	if run.usesAdapter(r.target) {
		rec.Request.Adapter = r.target
	}
	for i, scorer := range g.scorers {
		rec.Weights.Custom = append(rec.Weights.Custom, explain.CustomWeight{Name: plain(scorer), Weight: g.weights[i]})
	}
	if err := rec.Conclude(run.fill(rec, g.scorers)); err != nil {
		p.stats.Malformed++ // a value that no record can hold
		return
	}
	if run.gaps(g.scorers) {
		if check, _, _ := explain.Replay(rec); !check.Identical {
			p.stats.Torn++
			p.fates.lose(r.id, r.unseen())
			return
		}
	}
	p.stats.Records++
	p.ready = append(p.ready, rec)
}

// fill writes the run's candidates, targets and times, and tells which of the
// candidates was picked.
func (r *run) fill(rec *explain.Record, scorers []string) (pick int) {
	for i, pod := range r.pods {
		if pod.key() == r.targets[0] {
			pick = i
		}
		rec.Candidates = append(rec.Candidates, pod.candidate(r, &rec.Request, scorers))
	}
	for _, key := range r.targets {
		rec.Origin.Targets = append(rec.Origin.Targets, r.byKey[key].endpoint())
	}
	if !r.end.IsZero() {
		rec.Timings.Total = max(r.end.Sub(r.start).Seconds(), 0)
	}
	if !r.scored.IsZero() {
		rec.Timings.Scorers = max(r.scored.Sub(r.scoring).Seconds(), 0)
	}
	return pick
}

// decisionID is a UUID made of what tells this run from all others, so that reading
// the log again gives the same.
func decisionID(r *request, run *run) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "llm-d\x00%s\x00%s\x00%s\x00%d", r.proc.source, r.id, run.profile, run.start.UnixNano()))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8: of our own making
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// policyOf is what picked among the scored: the scores, or a plugin that does more
// than to take the best.
func policyOf(picker string) string {
	switch kind := typeOf(picker); kind {
	case "max-score-picker", "":
		return explain.PolicyScores
	default:
		return strings.TrimSuffix(kind, "-picker")
	}
}

// primary reports whether the request went where this run said: its targets are
// those of 'Request handled'. Without that line it is the first profile that ran.
func (r *request) primary(run *run) bool {
	if !r.done {
		return r.runs[0] == run
	}
	var endpoints []string
	for _, key := range run.targets {
		endpoints = append(endpoints, run.byKey[key].endpoint())
	}
	return strings.Join(endpoints, ",") == r.endpoint
}

// usesAdapter reports whether the model is an adapter: some pod has or waits for it.
func (r *run) usesAdapter(model string) bool {
	return model != "" && slices.ContainsFunc(r.pods, func(p *pod) bool {
		_, active := p.ActiveModels[model]
		_, waiting := p.WaitingModels[model]
		return active || waiting
	})
}

// candidate is the pod as the record has it: what its engine reported is kept to be
// looked at, and the scorers' answers count.
func (p *pod) candidate(run *run, q *explain.Request, scorers []string) explain.Candidate {
	c := explain.Candidate{
		Pod: p.pod(), Endpoint: p.endpoint(), Reason: p.excluded,
		Cache: unknown("not in the log"), Health: unknown("not in the log"),
		Custom: make([]explain.CustomValue, len(scorers)),
	}
	if c.Reason == "" && math.IsNaN(p.total) {
		c.Reason = "no total in the log"
	}
	if c.Reason == "" {
		c.Score = p.total
	}
	for i, scorer := range scorers {
		c.Custom[i] = explain.CustomValue{Name: plain(scorer), State: "unknown", Detail: "no score in the log"}
		if i < len(p.scores) && !math.IsNaN(p.scores[i]) {
			c.Custom[i] = answer(plain(scorer), p.scores[i])
		}
	}
	p.reported(&c, run, q)
	return c
}

// answer is a scorer's value: what is beyond 0…1 is cut, as the picker does.
func answer(name string, v float64) explain.CustomValue {
	out := explain.CustomValue{Name: name, Value: &v, State: "known"}
	switch {
	case v > 1:
		out.State = "clamped"
	case v < 0:
		out.State, out.Detail = "clamped", fmt.Sprintf("%v in the log", v)
		v = 0
	}
	return out
}

// reported copies what the pod's engine said, with its age when the scorers saw it.
// A pod whose page was never read said nothing, though the log prints zeros.
func (p *pod) reported(c *explain.Candidate, run *run, q *explain.Request) {
	const never = "its metrics were never read"
	c.Waiting, c.Load, c.Adapters = unknown(never), unknown(never), explain.Adapters{State: "unknown", Detail: never}
	if p.UpdateTime.IsZero() {
		return
	}
	at := run.scoring
	if p.excluded != "" {
		at = run.start
	}
	age := max(at.Sub(p.UpdateTime).Seconds(), 0)
	c.Waiting = input(p.WaitingQueueSize, "metrics", age)
	c.Load = input(p.KVCacheUsagePercent, "kv-usage", age)
	c.Running = p.RunningRequestsSize
	c.Adapters = explain.Adapters{State: "known", Loaded: len(p.ActiveModels), Waiting: new(len(p.WaitingModels))}
	if p.MaxActiveModels != nil {
		c.Adapters.Max = *p.MaxActiveModels
	}
	_, c.Adapters.Match = p.ActiveModels[q.Adapter]
}

func unknown(why string) explain.Input { return explain.Input{State: "unknown", Detail: why} }

func input(v *float64, source string, age float64) explain.Input {
	if v == nil {
		return unknown("not in the log")
	}
	return explain.Input{Value: v, State: "known", Source: source, AgeSeconds: age}
}

// outcome is what the answer's lines tell: that it ended, never how.
func (r *request) outcome() explain.Outcome {
	out := explain.Outcome{State: explain.OutcomeUnknown, Error: r.upstream, Detail: "the log has no line of its end: cancelled, still running, or cut off"}
	switch {
	case r.shared:
		out.Detail = "another request of the same ID was open, and the log does not say which of them ended"
		return out
	case r.rejection != "":
		out.Error, out.Detail = "picker-error", "after the pick the picker gave up: "+r.rejection
	case !r.end.IsZero():
		out.Detail = "it ended; the log has no status"
	}
	if r.began && r.streamed {
		out.TTFTSeconds = new(max(r.first.Sub(r.arrived).Seconds(), 0))
	}
	if r.began && !r.end.IsZero() {
		out.DurationSeconds = new(max(r.end.Sub(r.arrived).Seconds(), 0))
	}
	return out
}
