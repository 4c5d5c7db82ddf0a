package score_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/score"
)

func bits(v float64) uint64 { return math.Float64bits(v) }

func TestPermutationOfPodsDoesNotChangeThePick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		at := make([]int, len(in.Pods))
		for i := range at {
			at[i] = i
		}
		at = rapid.Permutation(at).Draw(t, "permutation")
		other := *in
		other.Pods, other.Extra = nil, nil
		for _, i := range at {
			other.Pods = append(other.Pods, in.Pods[i])
		}
		for _, x := range in.Extra {
			moved := score.FactorValues{Name: x.Name}
			for _, i := range at {
				moved.Values = append(moved.Values, x.Values[i])
			}
			other.Extra = append(other.Extra, moved)
		}
		var a, b score.Decision
		in.Decide(&a)
		other.Decide(&b)
		if names(in, a.Order) != names(&other, b.Order) || a.DecidedBy != b.DecidedBy || bits(a.Margin) != bits(b.Margin) {
			t.Fatalf("order %s by %v, permuted %s by %v", names(in, a.Order), a.DecidedBy, names(&other, b.Order), b.DecidedBy)
		}
	})
}

func names(in *score.Inputs, order []score.Rank) string {
	out := ""
	for _, r := range order {
		out += in.Pods[r.Pod].Pod + " "
	}
	return out
}

func TestScoresAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		sum := 0.0
		for f := range in.Weights.Factors() {
			sum += in.Weights.Weight(f)
		}
		const ulp = 1.0 / (1 << 52)
		var d score.Decision
		in.Decide(&d)
		for i, r := range d.Results {
			if !(r.WouldScore >= 0 && r.WouldScore <= sum+4*ulp) || !(r.Score >= 0 && r.Score <= r.WouldScore) {
				t.Fatalf("pod %d: score %v, would score %v, the weights sum up to %v", i, r.Score, r.WouldScore, sum)
			}
			for f, v := range r.Values {
				if !(v >= 0 && v <= 1) || (!r.States[f].Usable() && r.States[f] != score.NotApplicable && v != 0) {
					t.Fatalf("pod %d: factor %d is %v and %v", i, f, v, r.States[f])
				}
			}
		}
	})
}

// A better input never lowers its factor, nor the score, nor costs the pod its win.
func TestImprovingAnInputNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		i := rapid.IntRange(0, len(in.Pods)-1).Draw(t, "pod")
		f := rapid.IntRange(0, in.Weights.Factors()-1).Draw(t, "factor")
		worse := rapid.Float64Range(0, 24).Draw(t, "worse")
		better := rapid.Float64Range(worse, 25).Draw(t, "better")
		if f == score.Load || f == score.QueueDepth { // less is better
			worse, better = better, worse
		}
		before, after := in.Change(i, f, worse), in.Change(i, f, better)
		var a, b score.Decision
		before.Decide(&a)
		after.Decide(&b)
		if f < score.NumFactors && b.Results[i].Values[f] < a.Results[i].Values[f] {
			t.Fatalf("factor %d fell from %v to %v", f, a.Results[i].Values[f], b.Results[i].Values[f])
		}
		if b.Results[i].WouldScore < a.Results[i].WouldScore || b.Results[i].Score < a.Results[i].Score {
			t.Fatalf("the score fell from %v to %v", a.Results[i].Score, b.Results[i].Score)
		}
		if a.Winner == i && b.Winner != i {
			t.Fatalf("pod %d won with %v and not with %v", i, worse, better)
		}
	})
}

// Health and queue exclude a pod only by what is known of them. // case M8
func TestOnlyKnownInputsExclude(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		var d score.Decision
		in.Decide(&d)
		for i, r := range d.Results {
			p := &in.Pods[i]
			known := func(reading score.Reading) bool {
				return reading.State.Usable() && reading.Value >= 0 && !math.IsInf(reading.Value, 0)
			}
			depth := float64(p.Pending + p.PeerPending)
			if known(p.Waiting) {
				depth += p.Waiting.Value
			}
			full := depth >= float64(in.Weights.MaxQueue) && !d.Relaxed
			sick := known(p.Health) && p.Health.Value < score.HealthCutoff
			want := p.Excluded
			switch {
			case want != score.Eligible:
			case sick:
				want = score.Unhealthy
			case full:
				want = score.QueueFull
			}
			if r.Reason != want {
				t.Fatalf("pod %d: reason %q, want %q", i, r.Reason, want)
			}
		}
	})
}

// The fused path of Decide against the obvious one: each factor by its Scorer,
// a plain sum and a sort.
func TestFusedPathEqualsInterfacePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		var d score.Decision
		in.Decide(&d)
		sums := make([]float64, len(in.Pods))
		set := score.Summarize(in.Request, in.Pods, in.Weights)
		for i := range in.Pods {
			for f, scorer := range score.Builtins(in.Weights) {
				r := scorer.Score(t.Context(), in.Request, &in.Pods[i], &set)
				if bits(r.Value) != bits(d.Results[i].Values[f]) || r.State != d.Results[i].States[f] {
					t.Fatalf("pod %d, factor %d: %v %v, fused %v %v", i, f, r.Value, r.State, d.Results[i].Values[f], d.Results[i].States[f])
				}
				sums[i] += float64(in.Weights.Weight(f) * r.Value)
			}
			for k := range in.Weights.Custom {
				sums[i] += float64(in.Weights.Custom[k].Weight * score.CustomResult(in.Extra, k, i).Value)
			}
			if bits(sums[i]) != bits(d.Results[i].WouldScore) {
				t.Fatalf("pod %d: %v, fused %v", i, sums[i], d.Results[i].WouldScore)
			}
		}
		want := sorted(in, &d, sums)
		if got := indices(d.FullOrder(in.Pods, in.Weights, in.Seed)); !slices.Equal(got, want) {
			t.Fatalf("full order %v, want %v", got, want)
		}
		if got := indices(d.Order); !slices.Equal(got, want[:min(len(want), score.OrderLength)]) {
			t.Fatalf("order %v, want the first of %v", got, want)
		}
	})
}

func indices(order []score.Rank) []int {
	out := []int{}
	for _, r := range order {
		out = append(out, r.Pod)
	}
	return out
}

// sorted is the order of the eligible pods by the rules as they are written
// down: score, load ratio, queue depth (unknown last), hash.
func sorted(in *score.Inputs, d *score.Decision, sums []float64) []int {
	type place struct {
		pod  int
		keys [5]float64 // ascending
		hash uint64
	}
	places := []place{}
	for i := range in.Pods {
		if d.Results[i].Reason != score.Eligible {
			continue
		}
		p := &in.Pods[i]
		place := place{pod: i, hash: mixed(in.Seed&(1<<53-1) ^ score.NameHash(p.Pod, p.Endpoint))}
		place.keys[0] = -sums[i]
		u := p.Utilization
		if u.State.Usable() && u.Value >= 0 && !math.IsInf(u.Value, 0) {
			place.keys[2] = min(u.Value/in.Weights.MaxUtilization, 1)
		} else {
			place.keys[1] = 1
		}
		depth, known := p.QueueDepth()
		if place.keys[4] = depth; !known {
			place.keys[3] = 1
		}
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := slices.Compare(a.keys[:], b.keys[:]); c != 0 {
			return c
		}
		if a.hash < b.hash {
			return -1
		}
		return 1
	})
	out := []int{}
	for _, p := range places {
		out = append(out, p.pod)
	}
	return out
}

// mixed is splitmix64's finalizer, written down a second time.
func mixed(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// What the decision says of itself follows from its results.
func TestDecisionIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw{t: t}.inputs()
		var d score.Decision
		in.Decide(&d)
		eligible, tied, best := 0, 0, -1.0
		for _, r := range d.Results {
			if r.Reason != score.Eligible {
				if r.Score != 0 {
					t.Fatalf("an excluded pod has score %v", r.Score)
				}
				continue
			}
			eligible++
			best = max(best, r.Score)
		}
		for _, r := range d.Results {
			if r.Reason == score.Eligible && r.Score == best {
				tied++
			}
		}
		if eligible == 0 {
			if d.Winner != -1 || d.Refused == score.Picked || len(d.Order) != 0 {
				t.Fatalf("nothing is eligible: winner %d, refused %v", d.Winner, d.Refused)
			}
			return
		}
		if d.Eligible != eligible || d.Tied != tied || d.Results[d.Winner].Score != best || d.Refused != score.Picked {
			t.Fatalf("eligible %d, tied %d, winner's score %v; want %d, %d, %v", d.Eligible, d.Tied, d.Results[d.Winner].Score, eligible, tied, best)
		}
		if (d.RunnerUp == -1) != (eligible == 1) || d.DecidedBy.Tie() != (tied > 1) || d.Margin < 0 {
			t.Fatalf("runner-up %d of %d, tied %d, by %v, margin %v", d.RunnerUp, eligible, tied, d.DecidedBy, d.Margin)
		}
	})
}
