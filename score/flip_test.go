package score_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/score"
)

// Applying a flip makes its pod win, and half of it does not.
func TestFlipsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		var d score.Decision
		in.Decide(&d)
		winner := d.Winner
		i := rapid.IntRange(0, len(in.Pods)-1).Draw(t, "pod")
		wins := func(f int, v float64) bool {
			in.Change(i, f, v).Decide(&d)
			return d.Winner == i
		}
		for _, flip := range in.Flips(i) {
			name := in.Weights.FactorName(flip.Factor)
			if !flip.Possible {
				if flip.Why == "" {
					t.Fatalf("%s is impossible without a reason", name)
				}
				if flip.FromState != score.NotApplicable && wins(flip.Factor, best(in, flip.Factor)) {
					t.Fatalf("%s is called impossible (%s) and wins with %v", name, flip.Why, best(in, flip.Factor))
				}
				continue
			}
			if !wins(flip.Factor, flip.To) {
				t.Fatalf("%s: %v does not win", name, flip.To)
			}
			from := flip.From
			if !flip.FromState.Usable() {
				from = worst(in, flip.Factor)
			}
			if i == winner && flip.FromState.Usable() && flip.To != flip.From {
				t.Fatalf("%s: the winner needs %v instead of %v", name, flip.To, flip.From)
			}
			if half := halfway(flip.Factor, from, flip.To); from != flip.To && half != flip.To && wins(flip.Factor, half) {
				t.Fatalf("%s: %v wins, and so does %v, half way from %v", name, flip.To, half, from)
			}
		}
	})
}

func best(in *score.Inputs, f int) float64 {
	switch f {
	case score.CacheMatch:
		return float64(in.Request.Blocks)
	case score.Load, score.QueueDepth:
		return 0
	}
	return 1
}

func worst(in *score.Inputs, f int) float64 {
	switch f {
	case score.Load:
		return in.Weights.MaxUtilization
	case score.QueueDepth:
		return float64(in.Weights.MaxQueue)
	}
	return 0
}

// halfway is half of the change; of whole numbers half, rounded down.
func halfway(f int, from, to float64) float64 {
	half := (to - from) / 2
	switch f {
	case score.CacheMatch, score.QueueDepth, score.AdapterMatch:
		half = math.Trunc(half)
	}
	return from + half
}

// The next float64 towards the old value does not win: To is the turning point.
func TestFlipIsTheTurningPoint(t *testing.T) {
	in := &score.Inputs{
		Request: plain, Seed: 1, Weights: new(score.Default()),
		Pods: []score.PodState{pod("a", .5, .4, 3, 1, 0), pod("b", .5, .7, 3, 1, 0)},
	}
	flip := in.Flips(1)[score.Load]
	if !flip.Possible || flip.From != .7 || !(flip.To <= .4) {
		t.Fatalf("flip = %+v, want one down to at most .4", flip)
	}
	var d score.Decision
	in.Change(1, score.Load, flip.To).Decide(&d)
	if d.Winner != 1 {
		t.Error("the value itself does not win")
	}
	in.Change(1, score.Load, math.Nextafter(flip.To, 1)).Decide(&d)
	if d.Winner != 0 {
		t.Error("the next value towards the old one wins too")
	}
}

func TestFlipsOfAPodThatCannotWin(t *testing.T) {
	w := score.Default()
	in := &score.Inputs{Request: plain, Weights: &w, Pods: []score.PodState{
		pod("a", 0, .5, 3, 1, 0), pod("gone", 1, 0, 0, 1, 0), pod("sick", 1, 0, 0, .2, 0), pod("full", 1, .9, 25, 1, 0),
	}}
	in.Pods[1].Excluded = score.Terminating
	t.Run("excluded by the pool", func(t *testing.T) {
		for _, flip := range in.Flips(1) {
			if flip.Possible || flip.Why != "the pod was excluded: terminating" {
				t.Errorf("%+v", flip)
			}
		}
	})
	t.Run("only health helps a sick pod", func(t *testing.T) {
		for f, flip := range in.Flips(2) {
			if flip.Possible != (f == score.Health) {
				t.Errorf("%+v", flip)
			}
			if f == score.Health && flip.To != score.HealthCutoff {
				t.Errorf("health %v, want the cutoff itself", flip.To)
			}
		}
	})
	t.Run("only room in the queue helps a full pod", func(t *testing.T) {
		for f, flip := range in.Flips(3) {
			if flip.Possible != (f == score.QueueDepth) {
				t.Errorf("%+v", flip)
			}
			if f == score.QueueDepth && (flip.From != 25 || flip.To != 19) {
				t.Errorf("queue %v to %v, want 25 to 19", flip.From, flip.To)
			}
		}
	})
}

// Numbers of no sensible size end the search all the same.
func TestFlipsEndWithHugeNumbers(t *testing.T) {
	for _, change := range []func(*score.Inputs){
		func(in *score.Inputs) { in.Request = &score.InferenceRequest{Blocks: 1 << 62} },
		func(in *score.Inputs) { in.Weights.MaxQueue = 1 << 62 },
		func(in *score.Inputs) { in.Pods[1].Waiting.Value = 1e300 },
		func(in *score.Inputs) { in.Pods[1].Utilization.Value = math.MaxFloat64 },
	} {
		in := &score.Inputs{Request: plain, Weights: new(score.Default()), Pods: []score.PodState{pod("a", .5, .4, 3, 1, 0), pod("b", 0, .7, 3, 1, 0)}}
		change(in)
		if flips := in.Flips(1); len(flips) != score.NumFactors {
			t.Errorf("%d flips", len(flips))
		}
	}
}

func TestChangeLeavesTheInputsAlone(t *testing.T) {
	w := score.Default()
	w.Custom = []score.CustomWeight{{Name: "cost", Weight: .05}}
	in := &score.Inputs{
		Request: withAdapter, Weights: &w, Pods: []score.PodState{pod("a", .5, .4, 3, 1, 0)},
		Extra: []score.FactorValues{{Name: "cost", Values: []score.Result{score.Scored(.5, "")}}},
	}
	var before, after score.Decision
	in.Decide(&before)
	for f := range w.Factors() {
		in.Change(0, f, 1)
	}
	in.Decide(&after)
	if bits(before.Results[0].Score) != bits(after.Results[0].Score) {
		t.Errorf("score %v before, %v after", before.Results[0].Score, after.Results[0].Score)
	}
}
