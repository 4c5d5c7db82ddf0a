package tune

import (
	"math"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// What makes a single pick one of a kind.
const (
	deepQueue   = 4    // requests before the pick's pod …
	shallow     = 0.5  // … of which another pod had at most this part
	hotLoad     = 0.85 // of the pick's pod …
	coolLoad    = 0.5  // … and of another at most
	sickHealth  = 0.7  // below it …
	soundHealth = 0.9  // … while another had at least
)

// tally counts what the rules of a diagnosis go by.
type tally struct {
	picks, refused, relaxed int

	// Tokens of prompts that could be matched, and how many of them came how far, see
	// [explain.Ladder].
	prompt, kept, available, predicted, actual int
	actualKnown                                int // requests
	ladders                                    int
	outweighed                                 map[string]int // tokens that a pod had that was not picked, by what decided
	full                                       int            // tokens whose owner had a full queue
	enginePrompt, engineCached                 int            // of requests whose engine told

	deep, deepEverywhere, hot, sick int
	judged, stale                   int
	sources                         map[string]int // of what was known of the pick's cache
	staleBy                         map[string]int
	reportAge                       float64 // the highest, in seconds

	candidates int
	unknown    [score.NumFactors]int
	pods       map[string]*podTally
	adapters   map[string]*adapterTally
	loads      int // of adapters, by picks
	slots      int // of a pod; 0: not known

	prompts, outputs []int
	ttft             []float64
}

// podTally is what was seen of a pod as a candidate.
type podTally struct {
	picks, seen int
	load        float64 // sum over those seen
}

type adapterTally struct{ requests, loads int }

func newTally() tally {
	return tally{
		outweighed: map[string]int{}, sources: map[string]int{}, staleBy: map[string]int{},
		pods: map[string]*podTally{}, adapters: map[string]*adapterTally{},
	}
}

func (t *tally) see(rec *explain.Record, in *score.Inputs, d *score.Decision) {
	t.prompts = append(t.prompts, max(rec.Request.PrefixTokens, rec.Request.PromptTokens))
	t.inputs(in)
	if d.Winner < 0 {
		t.refused++
		return
	}
	t.picks++
	if d.Relaxed {
		t.relaxed++
	}
	t.ladder(rec)
	t.outcome(rec)
	t.pods[in.Pods[d.Winner].Pod].picks++
	t.adapter(in, d)
	t.pick(in, d)
}

// inputs counts what was known of the candidates.
func (t *tally) inputs(in *score.Inputs) {
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.Excluded != score.Eligible {
			continue
		}
		t.candidates++
		for f, s := range [score.NumFactors]score.State{
			p.Cache.State, p.Utilization.State, p.Waiting.State, p.Health.State, p.AdapterState,
		} {
			if s == score.Unknown || s == score.Stale {
				t.unknown[f]++
			}
		}
		pod := t.pods[p.Pod]
		if pod == nil {
			pod = new(podTally)
			t.pods[p.Pod] = pod
		}
		if p.Utilization.State.Usable() {
			pod.seen++
			pod.load += p.Utilization.Value
		}
		if p.Cache.Source == score.SourceReport && p.Cache.State.Usable() {
			t.reportAge = max(t.reportAge, p.Cache.Age.Seconds())
		}
		t.slots = max(t.slots, p.MaxAdapters)
	}
}

// ladder adds up how far the prompt's cached tokens came.
func (t *tally) ladder(rec *explain.Record) {
	l := explain.LadderOf(rec, nil)
	if l == nil {
		return
	}
	t.ladders++
	t.prompt += l.PromptTokens
	for i := range l.Steps {
		s := &l.Steps[i]
		switch s.Name {
		case explain.StepKept:
			t.kept += s.Tokens
		case explain.StepAvailable:
			t.available += s.Tokens
		case explain.StepPredicted:
			t.predicted += s.Tokens
		case explain.StepActual:
			t.actual += s.Tokens
			t.actualKnown += 1 - s.Unknown
		}
		for _, lost := range s.Lost {
			switch {
			case lost.Cause == explain.CauseOwnerQueueFull:
				t.full += lost.Tokens
			case s.Name == explain.StepPredicted:
				t.outweighed[strings.TrimPrefix(lost.Detail, "decided by ")] += lost.Tokens
			}
		}
	}
}

// outcome adds what the engine said.
func (t *tally) outcome(rec *explain.Record) {
	o := &rec.Outcome
	if o.PromptTokens != nil && o.CachedTokens != nil {
		t.enginePrompt += *o.PromptTokens
		t.engineCached += *o.CachedTokens
	}
	if o.OutputTokens != nil {
		t.outputs = append(t.outputs, *o.OutputTokens)
	}
	if o.TTFTSeconds != nil {
		t.ttft = append(t.ttft, *o.TTFTSeconds)
	}
	source := rec.Candidates[rec.Result.Index].Cache.Source
	t.sources[source]++
	if o.CachedTokens == nil || o.PredictedCached == nil || o.ServedEndpoint != rec.Result.Endpoint {
		return
	}
	t.judged++
	if *o.CachedTokens < *o.PredictedCached {
		t.stale++
		t.staleBy[source]++
	}
}

// adapter counts a pick of a pod that has to load the adapter first.
func (t *tally) adapter(in *score.Inputs, d *score.Decision) {
	name := in.Request.Adapter
	if name == "" {
		return
	}
	a := t.adapters[name]
	if a == nil {
		a = new(adapterTally)
		t.adapters[name] = a
	}
	a.requests++
	if loadsAdapter(in, d, d.Winner) {
		a.loads++
		t.loads++
	}
}

// loadsAdapter reports whether the pod is known not to have the adapter.
func loadsAdapter(in *score.Inputs, d *score.Decision, pod int) bool {
	return in.Request.Adapter != "" && in.Pods[pod].AdapterState == score.Known && d.Results[pod].Values[score.AdapterMatch] == 0
}

// pick compares the picked pod with the others that could be picked.
func (t *tally) pick(in *score.Inputs, d *score.Decision) {
	w := &in.Pods[d.Winner]
	depth, load, health := depthOf(w), valueOf(w.Utilization), valueOf(w.Health)
	least, cool, sound := math.Inf(1), math.Inf(1), 0.0
	for i := range in.Pods {
		if p := &in.Pods[i]; i != d.Winner && d.Results[i].Reason == score.Eligible {
			least = min(least, orInf(depthOf(p)))
			cool = min(cool, orInf(valueOf(p.Utilization)))
			sound = max(sound, valueOf(p.Health))
		}
	}
	switch {
	case depth < deepQueue:
	case least <= shallow*depth:
		t.deep++
	case !math.IsInf(least, 1):
		t.deepEverywhere++
	}
	if load >= hotLoad && cool <= coolLoad {
		t.hot++
	}
	if health >= 0 && health < sickHealth && sound >= soundHealth {
		t.sick++
	}
}

// depthOf is waiting and pending requests; −1 when not known.
func depthOf(p *score.PodState) float64 {
	if !p.Waiting.State.Usable() {
		return -1
	}
	return p.Waiting.Value + float64(p.Pending+p.PeerPending)
}

func valueOf(r score.Reading) float64 {
	if !r.State.Usable() {
		return -1
	}
	return r.Value
}

func orInf(v float64) float64 {
	if v < 0 {
		return math.Inf(1)
	}
	return v
}
