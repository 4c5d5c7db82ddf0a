package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

func TestCauseIsTheGravest(t *testing.T) {
	for name, want := range map[string]string{
		"clear-win":    explain.CauseAsDesigned,
		"tie-seed":     explain.CauseTieRandom,
		"relaxed":      explain.CauseSaturated,
		"refused-429":  explain.CauseSaturated,
		"adapter":      explain.CauseEvicted,
		"excluded":     explain.CauseOwnerQueueFull,
		"retried":      explain.CauseRetried,
		"damaged":      explain.CauseReplay,
		"deeper-queue": explain.CauseDeeperQueue,
		"no-prefix":    explain.CauseNoReuse,
		"hostile":      explain.CauseOwnerUnhealthy,
		"envoy-moved":  explain.CauseServedElsewhere,
		"envoy-subset": explain.CauseSubsetUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			r := explain.Explain(recordOf(name, scenes()[name]), explain.Options{})
			if r.Cause != want {
				t.Errorf("cause %s of %+v, want %s", r.Cause, r.Notes, want)
			}
		})
	}
}

// turns are two requests of which the second begins with the first: the one that
// the owner served, and a later one.
func turns(second scene) (first, then *explain.Record) {
	first = scene{req: plain, weights: score.Default(), pods: []score.PodState{pod("owner", 0, .1, 0), pod("other", 0, .2, 0)}}.record()
	first.DecisionID, first.RequestID = "0d3c9f60-9a35-4f0e-8f57-1d2f6d1c9e11", "turn-1"
	then = second.record()
	then.Time = first.Time.Add(time.Minute)
	for _, rec := range []*explain.Record{first, then} {
		for i := range explain.ChainLength(rec.Request.Blocks, rec.Request.BlockSize) {
			rec.Request.Chain = append(rec.Request.Chain, strings.Repeat("0", i))
		}
		rec.Seal()
	}
	return first, then
}

func TestCausesOfALostPrefix(t *testing.T) {
	elsewhere := func(rec *explain.Record) { rec.Outcome.CachedTokens, rec.Outcome.PredictedCached = new(0), new(0) }
	unknown := with(pod("owner", 0, .5, 1), func(p *score.PodState) { p.Cache = score.Reading{} })
	for _, tc := range []struct {
		name  string
		pods  []score.PodState
		edit  func(first, then *explain.Record)
		cause string
	}{
		{"the owner dropped it", []score.PodState{pod("owner", 2, .5, 1), pod("other", 0, .1, 0)}, nil, explain.CauseEvictedSeen},
		{"the owner left the pool", []score.PodState{pod("other", 0, .1, 0), pod("new", 0, .2, 0)}, nil, explain.CauseOwnerRemoved},
		{"another pod has it", []score.PodState{pod("owner", 0, .5, 1), pod("other", 195, .1, 0)}, nil, explain.CauseAsDesigned},
		{"what the owner has is not known", []score.PodState{unknown, pod("other", 0, .1, 0)}, nil, explain.CauseInputMissing},
		{
			"nobody knows that the owner ever had it",
			[]score.PodState{pod("owner", 0, .5, 1), pod("other", 0, .1, 0)},
			func(first, _ *explain.Record) { first.Outcome.Status = 500 }, explain.CauseAsDesigned,
		},
		{
			"the first has only just ended",
			[]score.PodState{pod("owner", 0, .5, 1), pod("other", 0, .1, 0)},
			func(first, _ *explain.Record) { first.Outcome.DurationSeconds = new(59.5) }, explain.CauseAsDesigned,
		},
		{
			"the engine had it after all",
			[]score.PodState{pod("owner", 0, .5, 1), pod("other", 0, .1, 0)},
			func(_, then *explain.Record) { then.Outcome.CachedTokens = new(3104) }, explain.CauseAsDesigned,
		},
		{
			"the prompts differ from the first block on",
			[]score.PodState{pod("owner", 0, .5, 1), pod("other", 0, .1, 0)},
			func(first, _ *explain.Record) { first.Request.Chain[0] = "x" }, explain.CauseNoReuse,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, then := turns(scene{req: plain, weights: score.Default(), pods: tc.pods, edit: elsewhere})
			if tc.edit != nil {
				tc.edit(first, then)
			}
			r := explain.Explain(then, explain.Options{Earlier: []*explain.Record{then, first}})
			if r.Cause != tc.cause {
				t.Fatalf("cause %s of %+v, want %s", r.Cause, r.Notes, tc.cause)
			}
			lost := tc.cause == explain.CauseEvictedSeen || tc.cause == explain.CauseOwnerRemoved
			if lost && (len(r.Notes[0].Evidence) != 1 || r.Notes[0].Evidence[0].RequestID != "turn-1") {
				t.Errorf("evidence %+v", r.Notes[0].Evidence)
			}
		})
	}
}

func TestOwnerOfUnknownScore(t *testing.T) {
	down := with(pod("owner", 190, .5, 0), func(p *score.PodState) {
		p.Health, p.Waiting = score.Read(0, score.SourceProbe), score.Reading{}
	})
	r := explain.Explain(scene{req: plain, weights: score.Default(), pods: []score.PodState{down, pod("other", 20, .1, 0)}}.record(), explain.Options{})
	if r.Cause != explain.CauseOwnerUnhealthy || !strings.Contains(r.Notes[0].Text, "held more of the prompt") {
		t.Errorf("cause %s of %+v", r.Cause, r.Notes)
	}
}

func TestOtherWeightsWouldHavePickedTheOwner(t *testing.T) {
	gateway, err := score.Preset("api-gateway")
	if err != nil {
		t.Fatal(err)
	}
	pods := []score.PodState{pod("owner", 100, .6, 7), pod("other", 0, .1, 0)}
	r := explain.Explain(scene{req: plain, weights: gateway, pods: pods}.record(), explain.Options{})
	if r.Picked.Pod != "other" || r.Cause != explain.CauseWeights || !strings.Contains(r.Notes[0].Text, "it wins (batch, chatbot, default") {
		t.Errorf("%s by %s of %+v", r.Picked.Pod, r.Cause, r.Notes)
	}
	r = explain.Explain(scene{req: plain, weights: score.Default(), pods: pods}.record(), explain.Options{})
	if r.Picked.Pod != "owner" || r.Cause != explain.CauseAsDesigned {
		t.Errorf("%s by %s of %+v", r.Picked.Pod, r.Cause, r.Notes)
	}
	// With the weights of rag alone it would be the owner's.
	pods = []score.PodState{pod("owner", 60, .95, 5), pod("other", 0, .1, 0)}
	r = explain.Explain(scene{req: plain, weights: score.Default(), pods: pods}.record(), explain.Options{})
	if r.Picked.Pod != "other" || r.Cause != explain.CauseAsDesigned {
		t.Errorf("%s by %s of %+v", r.Picked.Pod, r.Cause, r.Notes)
	}
}

func TestDeeperQueueIsClearlyDeeper(t *testing.T) {
	for depth, want := range map[float64]string{4: explain.CauseNoReuse, 5: explain.CauseDeeperQueue} { // of 20
		pods := []score.PodState{pod("sim-a", 0, .8, 0), pod("sim-b", 0, .4, depth)}
		r := explain.Explain(scene{req: plain, weights: score.Default(), pods: pods, edit: cold}.record(), explain.Options{})
		if r.Picked.Pod != "sim-b" || r.Cause != want {
			t.Errorf("depth %g: %s by %s of %+v, want %s", depth, r.Picked.Pod, r.Cause, r.Notes, want)
		}
	}
}

func TestMissingInputIsACauseOnlyWhereItMatters(t *testing.T) {
	blind := func(p score.PodState) score.PodState {
		return with(p, func(p *score.PodState) { p.Waiting = score.Reading{} })
	}
	for _, tc := range []struct {
		name  string
		pods  []score.PodState
		cause string
	}{
		{"it would have won", []score.PodState{pod("a", 100, .1, 2), blind(pod("b", 99, .1, 0))}, explain.CauseInputMissing},
		{"it would have lost anyway", []score.PodState{pod("a", 100, .1, 0), blind(pod("b", 1, .1, 0))}, explain.CauseAsDesigned},
		{"the winner's", []score.PodState{blind(pod("a", 190, .1, 0)), pod("b", 1, .1, 0)}, explain.CauseAsDesigned},
		{"nobody's is known", []score.PodState{blind(pod("a", 100, .1, 0)), blind(pod("b", 99, .1, 0))}, explain.CauseAsDesigned},
	} {
		r := explain.Explain(scene{req: plain, weights: score.Default(), pods: tc.pods}.record(), explain.Options{})
		if r.Cause != tc.cause {
			t.Errorf("%s: cause %s of %+v, want %s", tc.name, r.Cause, r.Notes, tc.cause)
		}
	}
}

func TestApproximateTokensAreACauseWhenTheEngineCountsOthers(t *testing.T) {
	for counted, want := range map[int]string{3128: explain.CauseAsDesigned, 3200: explain.CauseTokensApproximate} {
		s := clearWin()
		edit := s.edit
		s.edit = func(rec *explain.Record) {
			if edit != nil {
				edit(rec)
			}
			rec.Outcome.PromptTokens = new(counted)
		}
		if r := explain.Explain(s.record(), explain.Options{}); r.Cause != want {
			t.Errorf("%d tokens counted: cause %s of %+v, want %s", counted, r.Cause, r.Notes, want)
		}
	}
}

func TestOtherBlockSizeIsACause(t *testing.T) {
	other := with(pod("b", 0, .1, 0), func(p *score.PodState) {
		p.Cache, p.Notes = score.Reading{}, &score.Notes{score.CacheMatch: "unknown: block size 24"}
	})
	r := explain.Explain(scene{req: plain, weights: score.Default(), pods: []score.PodState{pod("a", 10, .1, 0), other}}.record(), explain.Options{})
	if r.Cause != explain.CauseBlockSize || !strings.Contains(r.Notes[0].Text, "have 24 tokens, the picker's 16") {
		t.Errorf("cause %s of %+v", r.Cause, r.Notes)
	}
}

func TestEachCauseIsExplainedOnce(t *testing.T) {
	var codes []string
	for _, c := range explain.Causes() {
		if slices.Contains(codes, c.Code) || c.Means == "" || c.Do == "" {
			t.Errorf("cause %+v", c)
		}
		codes = append(codes, c.Code)
	}
	if last := codes[len(codes)-1]; last != explain.CauseAsDesigned {
		t.Errorf("the last cause is %s", last)
	}
}
