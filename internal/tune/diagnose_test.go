package tune

import (
	"slices"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// Each symptom has its finding and its lever, and those that no weight helps have none.
func TestDiagnosis(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(*diagnosis)
		code  string
		lever string
	}{
		{"healthy", func(*diagnosis) {}, "", ""},
		{"no reuse", func(d *diagnosis) { d.ideal, d.kept, d.available, d.predicted = 10, 10, 10, 10 }, CodeNoReuse, ""},
		{"evicted", func(d *diagnosis) { d.kept, d.available, d.predicted = 300, 300, 300 }, CodeCacheEvicted, ""},
		{"owners full", func(d *diagnosis) { d.full = 100 }, CodeOwnerFull, KeyMaxQueue},
		{"outweighed", func(d *diagnosis) { d.predicted, d.outweighed["queueDepth"] = 300, 200 }, CodeCacheOutweighed, "cache"},
		{"hot pod", func(d *diagnosis) {
			d.pods["a"] = &podTally{picks: 60, seen: 100, load: 95}
			d.pods["b"] = &podTally{picks: 40, seen: 100, load: 20}
			d.pods["c"] = &podTally{picks: 0, seen: 100, load: 10}
		}, CodeHotPods, "load"},
		{"deep queues", func(d *diagnosis) { d.deep = 5 }, CodeDeepQueues, "queue"},
		{"all queues deep", func(d *diagnosis) { d.deepEverywhere = 30 }, CodeDeepEverywhere, ""},
		{"one adapter", func(d *diagnosis) { d.adapt(8, 100) }, CodeThrashConcentrated, "adapter"},
		{"many adapters", func(d *diagnosis) { d.adapt(8, 10) }, CodeThrashSpread, "adapter"},
		{"20 adapters on 4 pods", func(d *diagnosis) { d.adapt(20, 10) }, CodeThrashTooMany, ""},
		{"degraded", func(d *diagnosis) { d.sick = 6 }, CodeDegraded, "health"},
		{"stale by reports", func(d *diagnosis) { d.stale, d.judged, d.staleBy["report"], d.interval = 4, 100, 4, 2000 }, CodeStale, KeyReportInterval},
		{"stale by events", func(d *diagnosis) { d.stale, d.judged, d.staleBy["events"] = 6, 100, 6 }, CodeStale, ""},
		{"2.9 % stale", func(d *diagnosis) { d.stale, d.judged = 29, 1000 }, "", ""},
		{"maxQueue 4", func(d *diagnosis) { d.w.MaxQueue = 4 }, CodeMaxQueue, KeyMaxQueue},
		{"maxQueue 60", func(d *diagnosis) { d.w.MaxQueue = 60 }, CodeMaxQueue, KeyMaxQueue},
		{"no load", func(d *diagnosis) { d.candidates, d.unknown[score.Load] = 100, 80 }, CodeInputMissing, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := healthy()
			c.set(d)
			found := d.run()
			var codes []string
			for _, f := range found {
				codes = append(codes, f.Code)
			}
			if c.code == "" {
				if len(codes) > 0 {
					t.Errorf("findings %v, want none", codes)
				}
				return
			}
			i := slices.Index(codes, c.code)
			if i < 0 || len(codes) > 1 {
				t.Fatalf("findings %v, want %s alone", codes, c.code)
			}
			f := found[i]
			if f.Lever != c.lever || (f.Lever == "") != (f.Risk == "") || f.Do == "" || len(f.Evidence) == 0 {
				t.Errorf("lever %q, risk %q, do %q, %d figures; want lever %q", f.Lever, f.Risk, f.Do, len(f.Evidence), c.lever)
			}
			for _, m := range f.moves {
				if err := m.Apply(d.w).Validate(); err != nil {
					t.Errorf("%s: %v", m.Text(), err)
				}
			}
			if (c.lever != "") != (len(f.moves) > 0) {
				t.Errorf("%d moves for lever %q", len(f.moves), c.lever)
			}
		})
	}
}

// healthy is traffic with nothing to find.
func healthy() *diagnosis {
	w := score.Default()
	c := newTally()
	c.picks, c.prompt, c.kept, c.available, c.predicted = 100, 1000, 500, 500, 495
	for _, name := range []string{"a", "b", "c", "d"} {
		c.pods[name] = &podTally{picks: 25, seen: 100, load: 40}
	}
	return &diagnosis{tally: &c, w: &w, ideal: 510, tokens: 1000, minutes: 1}
}

// adapt gives traffic n adapters, of which the first is loaded so often and the others
// ten times each.
func (d *diagnosis) adapt(n, first int) {
	for i := range n {
		a := &adapterTally{requests: 100, loads: 10}
		if i == 0 {
			a.loads = first
		}
		d.adapters[string(rune('a'+i))] = a
		d.loads += a.loads
	}
}

// Which preset traffic is like.
func TestResemblance(t *testing.T) {
	answers := func(n int) *int { return &n }
	for _, c := range []struct {
		name     string
		s        Summary
		adapters int
		want     string
	}{
		{"twelve adapters", Summary{Reuse: 0.5, PromptTokensP50: 800}, 12, "multi-lora"},
		{"long shared documents", Summary{Reuse: 0.8, PromptTokensP50: 6000}, 0, "rag"},
		{"conversations", Summary{Reuse: 0.8, PromptTokensP50: 900}, 2, "chatbot"},
		{"short calls", Summary{Reuse: 0.1, PromptTokensP50: 200, OutputTokensP50: answers(20)}, 0, "api-gateway"},
		{"long answers without reuse", Summary{Reuse: 0.05, PromptTokensP50: 900, OutputTokensP50: answers(600)}, 0, "batch"},
	} {
		if got := resemble(&c.s, c.adapters); got.Preset != c.want || len(got.Because) < 2 {
			t.Errorf("%s: %s because of %q, want %s", c.name, got.Preset, got.Because, c.want)
		}
	}
}

// Of many decisions evenly spread ones are kept, within the bound.
func TestSampledKeepsEvenlySpreadDecisions(t *testing.T) {
	s := sampled{stride: 1}
	in := &score.Inputs{Pods: make([]score.PodState, 1000)}
	const n = 5000
	for range n {
		s.add(in, 16)
	}
	if s.podStates > maxPodStates || s.podStates != len(s.list)*1000 || s.seen != n || len(s.list) != (n+s.stride-1)/s.stride {
		t.Errorf("%d of %d decisions with %d pod states, every %d", len(s.list), s.seen, s.podStates, s.stride)
	}
}

// A day of traffic on a fleet that the simulated one is like leaves no doubt.
func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Advice, *Traffic)
		want  int
	}{
		{"a day", func(*Advice, *Traffic) {}, 0},
		{"23 hours", func(a *Advice, _ *Traffic) { a.Traffic.Hours = 23 }, 1},
		{"few decisions", func(a *Advice, _ *Traffic) { a.Traffic.Decisions = 400 }, 1},
		{"a simulated clock", func(_ *Advice, t *Traffic) { t.newest.TimeScale = 20 }, 1},
		{"other weights before", func(_ *Advice, t *Traffic) { t.under = map[string]int{setOf(explain.Weights{Cache: 1}): 7} }, 1},
		{"the same weights put in force again", func(_ *Advice, t *Traffic) { t.under = map[string]int{setOf(explain.Weights{Generation: 7}): 7} }, 0},
		{"engines that do not tell", func(a *Advice, _ *Traffic) { a.Traffic.CacheHitRatio = nil }, 1},
		{"other hits", func(a *Advice, _ *Traffic) { a.ClosedLoop.Before.CacheHitRatio = 0.4 }, 1},
		{"other times", func(a *Advice, _ *Traffic) { a.ClosedLoop.Before.TTFTP50 = 0.05 }, 1},
	} {
		a := &Advice{
			Traffic:    Summary{Hours: 24, Decisions: 5000, CacheHitRatio: new(0.6), TTFTP50: new(0.2)},
			ClosedLoop: &ClosedLoop{Before: Outcome{CacheHitRatio: 0.65, TTFTP50: 0.15}},
		}
		traffic := &Traffic{newest: &explain.Record{TimeScale: 1}}
		c.spoil(a, traffic)
		if got := a.doubts(traffic); len(got) != c.want {
			t.Errorf("%s: doubts %q, want %d", c.name, got, c.want)
		}
	}
}
