package explain_test

import (
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// scene is a decision to be recorded, with what happened around it.
type scene struct {
	req     score.InferenceRequest
	pods    []score.PodState
	extra   []score.FactorValues
	weights score.Weights
	seed    uint64
	edit    func(*explain.Record)
}

// record takes the decision and records it, as a picker would.
func (s scene) record() *explain.Record {
	in := &score.Inputs{Request: &s.req, Pods: s.pods, Extra: s.extra, Weights: &s.weights, Seed: s.seed}
	var d score.Decision
	in.Decide(&d)
	rec := &explain.Record{
		APIVersion: explain.APIVersion, Kind: explain.KindDecision,
		DecisionID: "5b0c3f60-9a35-4f0e-8f57-1d2f6d1c9e11", RequestID: "91c2f0a7-3a4e-4f2b-9f67-0c2a51c0ee01",
		Time: time.Date(2026, 11, 30, 14, 23, 7, 120e6, time.UTC), TimeScale: 1, Policy: explain.PolicyScores,
		Request: explain.Request{
			Path: "/v1/chat/completions", Model: "llama-3.1-8b", Base: "llama-3.1-8b", Adapter: s.req.Adapter,
			PromptTokens: 3128, Prompts: 1, TokensFrom: "approximate", BlockSize: 16, Blocks: s.req.Blocks,
			PrefixTokens: 3128, Stream: true, NoPrefix: s.req.NoPrefix,
		},
		Weights: explain.RecordWeights(&s.weights), Seed: s.seed, Result: explain.ResultOf(in, &d),
		Timings: explain.Timings{Parse: 21e-6, Tokens: new(30e-6), Lookup: 2.4e-6, Decide: 0.9e-6, Total: 61.3e-6},
		Outcome: explain.Outcome{
			State: explain.OutcomeDone, Status: 200, ServedEndpoint: explain.ResultOf(in, &d).Endpoint,
			TTFTSeconds: new(0.0412), DurationSeconds: new(1.904), PromptTokens: new(3128),
			CachedTokens: new(2992), OutputTokens: new(120), PredictedCached: new(2992),
		},
	}
	for i := range s.pods {
		rec.Candidates = append(rec.Candidates, s.candidate(i, &d.Results[i]))
	}
	if s.edit != nil {
		s.edit(rec)
	}
	rec.Seal()
	return rec
}

func (s scene) candidate(i int, r *score.PodResult) explain.Candidate {
	p := &s.pods[i]
	var notes score.Notes
	if p.Notes != nil {
		notes = *p.Notes
	}
	c := explain.Candidate{
		Pod: p.Pod, Endpoint: p.Endpoint, Reason: r.Reason.String(), Score: r.Score,
		Cache:   explain.RecordInput(p.Cache, notes[score.CacheMatch]),
		Load:    explain.RecordInput(p.Utilization, notes[score.Load]),
		Waiting: explain.RecordInput(p.Waiting, notes[score.QueueDepth]),
		Health:  explain.RecordInput(p.Health, notes[score.Health]),
		Pending: p.Pending, PeerPending: p.PeerPending, InFlight: p.InFlight,
		Adapters: explain.Adapters{
			State: p.AdapterState.String(), Match: p.HasAdapter(s.req.Adapter), Loaded: len(p.Adapters),
			Max: p.MaxAdapters, Detail: notes[score.AdapterMatch],
		},
	}
	for _, t := range p.CacheTiers {
		c.Cache.Tiers = append(c.Cache.Tiers, explain.TierBlocks(t))
	}
	for k, w := range s.weights.Custom {
		raw := score.Result{}
		if k < len(s.extra) && i < len(s.extra[k].Values) {
			raw = s.extra[k].Values[i]
		}
		v := explain.CustomValue{Name: w.Name, State: raw.State.String(), Detail: raw.Detail}
		if raw.State != score.Unknown {
			v.Value = new(raw.Value)
		}
		c.Custom = append(c.Custom, v)
	}
	return c
}

// pod is a healthy candidate with fresh readings.
func pod(name string, blocks, load, waiting float64) score.PodState {
	p := score.NewPod(name, "10.0.0."+name[len(name)-1:]+":8000")
	reading := func(v float64, from score.Source, age time.Duration) score.Reading {
		return score.Reading{Value: v, State: score.Known, Source: from, Age: age}
	}
	p.Cache = reading(blocks, score.SourceReport, 400*time.Millisecond)
	p.Utilization = reading(load, score.SourceDCGM, 200*time.Millisecond)
	p.Waiting = reading(waiting, score.SourceMetrics, 200*time.Millisecond)
	p.Health = reading(1, score.SourceProbe, time.Second)
	p.AdapterState = score.Known
	return p
}

func with(p score.PodState, change func(*score.PodState)) score.PodState {
	change(&p)
	return p
}

func excluded(p score.PodState, reason score.Reason) score.PodState {
	p.Excluded = reason
	return p
}

var plain = score.InferenceRequest{Blocks: 195}

// scenes are the decisions that the golden files and the fact tests look at.
func scenes() map[string]scene {
	return map[string]scene{
		"clear-win":    clearWin(),
		"tie-seed":     {req: plain, weights: score.Default(), seed: 42, pods: []score.PodState{pod("sim-0", 0, .1, 0), pod("sim-1", 0, .1, 0), pod("sim-2", 0, .1, 0)}, edit: cold},
		"tie-load":     tieLoad(),
		"only-one":     {req: plain, weights: score.Default(), pods: []score.PodState{pod("sim-0", 12, .3, 2)}},
		"relaxed":      {req: plain, weights: score.Default(), pods: []score.PodState{pod("sim-0", 100, .9, 20), pod("sim-1", 0, .5, 31)}},
		"refused-429":  refused429(),
		"refused-503":  {req: plain, weights: score.Default(), pods: []score.PodState{excluded(pod("sim-0", 9, .9, 2), score.NotReady), sick("sim-1")}, edit: failed(503)},
		"no-pods":      noPods(),
		"missing":      missing(),
		"adapter":      adapter(),
		"custom":       custom(),
		"excluded":     excludedAll(),
		"retried":      retried(),
		"all-failed":   allFailed(),
		"gateway":      gateway(),
		"envoy":        envoy(),
		"envoy-moved":  envoyMoved(),
		"envoy-silent": envoySilent(),
		"envoy-subset": envoySubset(),
		"policy":       policy(),
		"damaged":      damaged(),
		"unreplayable": unreplayable(),
		"deeper-queue": {req: plain, weights: score.Default(), pods: []score.PodState{pod("sim-a", 0, .8, 0), pod("sim-b", 0, .4, 10)}, edit: cold},
		"no-prefix":    noPrefix(),
		"many":         many(),
		"hostile":      hostile(),
		"markup":       markup(),
		"tiers":        tiers(),
	}
}

func clearWin() scene {
	return scene{req: plain, weights: score.Default(), seed: 7, pods: []score.PodState{
		pod("sim-0", 80, .35, 1),
		with(pod("sim-2", 187, .55, 3), func(p *score.PodState) { p.Pending, p.InFlight = 2, 9 }),
		pod("sim-1", 0, .05, 0),
	}}
}

func cold(rec *explain.Record) {
	rec.Outcome.PredictedCached, rec.Outcome.CachedTokens = new(0), new(0)
}

func failed(status int) func(*explain.Record) {
	return func(rec *explain.Record) {
		rec.Outcome = explain.Outcome{State: explain.OutcomeDone, Status: status}
	}
}

func tieLoad() scene {
	return scene{
		req: score.InferenceRequest{Blocks: 8}, pods: []score.PodState{pod("sim-0", 4, .5, 5), pod("sim-1", 4, .25, 10)},
		weights: score.Weights{Cache: .5, Load: .25, Queue: .25, MaxQueue: 20, MaxUtilization: 1},
		edit:    func(rec *explain.Record) { rec.Outcome = explain.Outcome{State: explain.OutcomePending} },
	}
}

func refused429() scene {
	w := score.Default()
	w.Saturation = score.Reject
	return scene{
		req: plain, weights: w, pods: []score.PodState{pod("sim-0", 100, .9, 20), pod("sim-1", 0, .5, 31)}, edit: failed(429),
	}
}

func sick(name string) score.PodState {
	return with(pod(name, 0, .1, 0), func(p *score.PodState) {
		p.Health.Value = .1
		p.Notes = &score.Notes{score.Health: "probe failed 4 times: connection refused"}
	})
}

func noPods() scene {
	return scene{req: plain, weights: score.Default(), edit: failed(503)}
}

func missing() scene {
	return scene{req: plain, weights: score.Default(), pods: []score.PodState{
		with(pod("sim-0", 150, .5, 0), func(p *score.PodState) {
			p.Waiting = score.Reading{}
			p.Pending = 3
			p.Notes = &score.Notes{score.QueueDepth: "HTTP 404 on port 8000"}
		}),
		with(pod("sim-1", 195, 0, 9), func(p *score.PodState) {
			p.Waiting.State, p.Waiting.Age = score.Stale, 7*time.Second
			p.Utilization = score.Reading{}
		}),
		with(pod("sim-2", 300, 1.25, 30), func(p *score.PodState) {
			p.Waiting.State, p.Health.Value = score.Stale, 1.5
			p.Waiting.Age = 75 * time.Second
		}),
		score.NewPod("sim-3", "10.0.0.3:8000"),
	}, edit: func(rec *explain.Record) {
		rec.Outcome = explain.Outcome{State: explain.OutcomeUnknown, PredictedCached: new(2400)}
	}}
}

func adapter() scene {
	loaded := func(p score.PodState, names ...string) score.PodState {
		p.Adapters, p.MaxAdapters = names, 4
		return p
	}
	return scene{
		req: score.InferenceRequest{Blocks: 8, Adapter: "fr"}, weights: score.Default(),
		pods: []score.PodState{
			loaded(pod("sim-a", 4, .4, 3), "de"), loaded(pod("sim-b", 4, .4, 3), "de", "fr"),
			with(loaded(pod("sim-c", 4, .55, 3), "fr"), func(p *score.PodState) { p.Health.Value = .8 }),
		},
		edit: func(rec *explain.Record) {
			rec.Request.Model, rec.Request.TokensFrom, rec.Request.PromptTokens = "support-fr", "ids", 130
			rec.Outcome.PredictedCached, rec.Outcome.CachedTokens = new(64), new(16)
		},
	}
}

func custom() scene {
	w := score.Default()
	w.Cache, w.Custom = .5, []score.CustomWeight{{Name: "cost", Weight: .06}, {Name: "residency", Weight: .04}}
	return scene{
		req: plain, weights: w, pods: []score.PodState{pod("sim-0", 100, .5, 1), pod("sim-1", 90, .5, 1)},
		extra: []score.FactorValues{
			{Name: "cost", Values: []score.Result{score.Scored(0, "$3.67/h"), score.Scored(1, "$0.38/h, 5.1 points less cache")}},
			{Name: "residency", Values: []score.Result{score.NotKnown("deadline of 1ms exceeded"), {Value: 3, State: score.Known, Detail: "zone eu-1"}}},
		},
		edit: func(rec *explain.Record) {
			rec.Outcome.CachedTokens, rec.Outcome.PredictedCached = new(1600), new(1440)
		},
	}
}

func excludedAll() scene {
	return scene{req: plain, weights: score.Default(), pods: []score.PodState{
		pod("sim-0", 10, .2, 0),
		excluded(pod("sim-1", 0, .2, 0), score.NotReady), excluded(pod("sim-2", 0, .2, 0), score.Terminating),
		excluded(pod("sim-3", 0, .2, 0), score.NotInPool),
		with(excluded(pod("sim-4", 0, .2, 0), score.NotInSubset), func(p *score.PodState) { p.Utilization = score.Reading{} }),
		excluded(pod("sim-5", 0, .2, 0), score.ModelNotServed), sick("sim-6"),
		with(pod("sim-7", 195, .9, 17), func(p *score.PodState) { p.Pending = 3 }),
	}}
}

func retried() scene {
	s := clearWin()
	s.edit = func(rec *explain.Record) {
		rec.Attempts = []explain.Attempt{
			{Pod: "sim-2", Endpoint: "10.0.0.2:8000", Error: "connection refused"},
			{Pod: "sim-0", Endpoint: "10.0.0.0:8000"},
		}
		rec.Outcome.ServedEndpoint, rec.Outcome.CachedTokens = "10.0.0.0:8000", new(1280)
	}
	return s
}

func allFailed() scene {
	s := retried()
	edit := s.edit
	s.edit = func(rec *explain.Record) {
		edit(rec)
		rec.Outcome = explain.Outcome{
			State: explain.OutcomeDone, Status: 502, Error: "upstream-error", DurationSeconds: new(75.5), PredictedCached: nil,
		}
	}
	return s
}

func policy() scene {
	s := clearWin()
	s.edit = func(rec *explain.Record) {
		rec.Policy = "random"
		c := &rec.Candidates[2]
		rec.Result.Index, rec.Result.Pod, rec.Result.Endpoint, rec.Result.Score = 2, c.Pod, c.Endpoint, c.Score
		rec.Outcome.ServedEndpoint = c.Endpoint
		cold(rec)
	}
	return s
}

// damaged is a record that was changed after it was sealed.
func damaged() scene {
	s := clearWin()
	s.edit = func(rec *explain.Record) { rec.Timings.Scorers = 1 } // marks it, see recordOf
	return s
}

func unreplayable() scene {
	s := clearWin()
	s.edit = func(rec *explain.Record) { rec.Candidates[1].Load.State = "fuzzy" }
	return s
}

func noPrefix() scene {
	return scene{
		req:     score.InferenceRequest{NoPrefix: "/v1/embeddings has no prompt prefix"},
		weights: score.Default(), pods: []score.PodState{pod("sim-0", 0, .5, 0), pod("sim-1", 0, .6, 0)},
		edit: func(rec *explain.Record) {
			rec.Request.Path, rec.Request.Stream, rec.Request.ModelUnchecked = "/v1/embeddings", false, true
			rec.RequestID, rec.RequestIDReplaced, rec.TimeScale = "embed-7", true, 20
			rec.Outcome.PredictedCached, rec.Outcome.CachedTokens = nil, nil
		},
	}
}

func many() scene {
	s := scene{req: plain, weights: score.Default()}
	for i := range 9 {
		p := pod("vllm-llama3-8b-instruct-7f9c6d5b8-x2k4"+string(rune('0'+i)), float64(20*i), .5, 2)
		if i%4 == 3 {
			p.Excluded = score.NotReady
		}
		s.pods = append(s.pods, p)
	}
	return s
}
