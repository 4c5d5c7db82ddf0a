package score_test

import (
	"math"
	"testing"
	"time"

	"github.com/eppctl/eppctl/score"
)

func TestCacheByTier(t *testing.T) {
	part := func(tier string, blocks int, weight float64) score.TierBlocks {
		return score.TierBlocks{Tier: tier, Blocks: blocks, Weight: weight}
	}
	for _, tc := range []struct {
		name   string
		parts  []score.TierBlocks
		value  float64
		detail string
	}{
		{"the GPU alone", nil, 12, "12 of 20 blocks"},
		{"and the CPU", []score.TierBlocks{part("gpu", 12, 1), part("cpu", 6, .5)}, 15, "15 of 20 blocks: 12 on GPU, 6 more on CPU × 0.5"},
		{"a fraction", []score.TierBlocks{part("gpu", 12, 1), part("cpu", 7, .35)}, 14.45, "14.45 of 20 blocks: 12 on GPU, 7 more on CPU × 0.35"},
		{"a long fraction", []score.TierBlocks{part("gpu", 1, 1), part("cpu", 1, 1.0/3)}, 4.0 / 3, "1.33 of 20 blocks: 1 on GPU, 1 more on CPU × 0.3333333333333333"},
		{"three weights", []score.TierBlocks{part("gpu+cpu", 4, 1), part("external", 8, .5), part("disk", 4, .25)}, 9, "9 of 20 blocks: 4 on GPU+CPU, 8 more on external × 0.5, 4 more on disk × 0.25"},
		{"nothing on the GPU", []score.TierBlocks{part("cpu", 20, .5)}, 10, "10 of 20 blocks: 20 on CPU × 0.5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := score.NewPod("a", "a:1")
			p.Cache, p.CacheTiers = score.Read(tc.value, score.SourceEvents), tc.parts
			if tc.parts != nil && score.TierValue(tc.parts) != tc.value {
				t.Errorf("TierValue = %v, want %v", score.TierValue(tc.parts), tc.value)
			}
			w := score.Default()
			got := score.Builtins(&w)[score.CacheMatch].Score(t.Context(), &score.InferenceRequest{Blocks: 20}, &p, nil)
			if want := tc.value / 20; got.Detail != tc.detail || math.Abs(got.Value-want) > 0 {
				t.Errorf("%v by %q, want %v by %q", got.Value, got.Detail, want, tc.detail)
			}
			p.Cache.State, p.Cache.Age = score.Stale, 40*time.Second
			if got := score.Builtins(&w)[score.CacheMatch].Score(t.Context(), &score.InferenceRequest{Blocks: 20}, &p, nil); got.Detail != tc.detail+", 40s old" {
				t.Errorf("stale: %q", got.Detail)
			}
		})
	}
}

// What would have flipped it is a match on the GPU, in whole blocks.
func TestFlipOfTiers(t *testing.T) {
	a, b := score.NewPod("a", "a:1"), score.NewPod("b", "b:1")
	a.Cache, b.Cache = score.Read(17, score.SourceEvents), score.Read(0, score.SourceEvents)
	b.CacheTiers = []score.TierBlocks{{Tier: "gpu", Blocks: 12, Weight: 1}, {Tier: "cpu", Blocks: 7, Weight: .5}}
	b.Cache.Value = score.TierValue(b.CacheTiers)
	in := score.Inputs{Request: &score.InferenceRequest{Blocks: 20}, Pods: []score.PodState{a, b}, Weights: new(score.Default())}
	flip := in.Flips(1)[score.CacheMatch]
	if !flip.Possible || flip.From != 15.5 || flip.To != 17 && flip.To != 18 {
		t.Fatalf("%+v, want from 15.5 to 17 or 18", flip)
	}
	if changed := in.Change(1, score.CacheMatch, flip.To).Pods[1]; changed.CacheTiers != nil || changed.Cache.Value != flip.To {
		t.Errorf("the changed pod holds %v by %v", changed.Cache.Value, changed.CacheTiers)
	}
	if in.Pods[1].CacheTiers == nil {
		t.Error("the pod itself was changed")
	}
}
