package explain_test

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// tiers has pods with parts of the prompt on the CPU and on a disk.
func tiers() scene {
	return scene{req: score.InferenceRequest{Blocks: 20}, weights: score.Default(), pods: []score.PodState{
		pod("sim-0", 12, .3, 1),
		inTiers(pod("sim-1", 0, .3, 1), score.TierBlocks{Tier: "gpu", Blocks: 12, Weight: 1}, score.TierBlocks{Tier: "cpu", Blocks: 7, Weight: .5}),
		inTiers(pod("sim-2", 0, .3, 1), score.TierBlocks{Tier: "cpu+disk", Blocks: 20, Weight: .25}),
	}, edit: func(rec *explain.Record) {
		rec.Request.PromptTokens, rec.Request.PrefixTokens = 328, 328
		rec.Outcome.PredictedCached, rec.Outcome.CachedTokens, rec.Outcome.PromptTokens = new(304), new(304), new(328)
	}}
}

func inTiers(p score.PodState, parts ...score.TierBlocks) score.PodState {
	p.CacheTiers = parts
	p.Cache.Value, p.Cache.Source = score.TierValue(parts), score.SourceEvents
	return p
}

// A match that its parts do not come to is not what was recorded, sealed or not.
func TestReplayAddsTiersUp(t *testing.T) {
	rec := tiers().record()
	rec.Check = nil
	for i := range rec.Candidates {
		rec.Candidates[i].Check = ""
	}
	if v, _, _ := explain.Replay(rec); !v.Identical {
		t.Fatalf("unchanged: %s", v.Difference)
	}
	rec.Candidates[1].Cache.Tiers[1].Weight = 0.75
	v, _, _ := explain.Replay(rec)
	if want := "sim-1: recorded cache 15.5, replayed 17.25 of its tiers"; v.Difference != want {
		t.Errorf("difference %q, want %q", v.Difference, want)
	}
}

func TestFlipFromAFraction(t *testing.T) {
	s := tiers()
	s.pods[0].Cache.Value = 17
	var text strings.Builder
	if err := explain.Explain(s.record(), explain.Options{}).Text(&text, explain.TextOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if want := "at least 18 blocks held (was 15.5)"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}
