package score_test

import (
	"math"
	"testing"

	"github.com/eppctl/eppctl/score"
)

// pod is a candidate in the notation of the worked examples: cache match ratio
// of eight blocks, load, queue, health, and whether the adapter is loaded.
func pod(name string, cache, load, queue, health, adapter float64) score.PodState {
	p := score.NewPod(name, name+":8000")
	p.Cache = score.Read(cache*8, score.SourceReport)
	p.Utilization = score.Read(load, score.SourceDCGM)
	p.Waiting = score.Read(queue, score.SourceMetrics)
	p.Health = score.Read(health, score.SourceProbe)
	p.AdapterState = score.Known
	if adapter == 1 {
		p.Adapters = []string{"fr"}
	}
	return p
}

var (
	withAdapter = &score.InferenceRequest{Blocks: 8, Adapter: "fr"}
	plain       = &score.InferenceRequest{Blocks: 8}
)

func decide(req *score.InferenceRequest, pods []score.PodState, w score.Weights) *score.Decision {
	var d score.Decision
	score.Decide(&d, req, pods, nil, &w, 1)
	return &d
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12 }

// The worked examples of the seed's §9.
func TestWorkedExamples(t *testing.T) {
	for _, tc := range []struct {
		name   string
		req    *score.InferenceRequest
		pods   []score.PodState
		scores []float64
		winner string
	}{
		{
			"cold start", plain,
			[]score.PodState{pod("a", 0, .35, 2, 1, 1), pod("b", 0, .10, 0, 1, 1), pod("c", 0, .60, 5, 1, 1)},
			[]float64{.32, .38, .255},
			"b",
		},
		{
			"hot pod under load", plain,
			[]score.PodState{pod("a", 1, .85, 12, 1, 1), pod("b", .25, .30, 1, 1, 1), pod("c", 0, .05, 0, 1, 1)},
			[]float64{.77, .485, .39},
			"a",
		},
		{
			"LoRA breaks the tie", withAdapter,
			[]score.PodState{pod("a", .5, .40, 3, 1, 0), pod("b", .5, .40, 3, 1, 1), pod("c", .5, .55, 3, .8, 1)},
			[]float64{.555, .605, .565},
			"b",
		},
		{
			"fifth turn of a conversation", plain,
			[]score.PodState{pod("a", .875, .70, 8, 1, 1), pod("b", .125, .30, 2, 1, 1), pod("c", 0, .10, 0, 1, 1)},
			[]float64{.745, .405, .38},
			"a",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(tc.req, tc.pods, score.Default())
			for i, want := range tc.scores {
				if got := d.Results[i].Score; !near(got, want) {
					t.Errorf("score of %s = %v, want %v", tc.pods[i].Pod, got, want)
				}
			}
			if got := tc.pods[d.Winner].Pod; got != tc.winner {
				t.Errorf("winner = %s, want %s", got, tc.winner)
			}
		})
	}
}

func TestInlineCases(t *testing.T) {
	two := func(a, b score.PodState) *score.Decision {
		return decide(plain, []score.PodState{a, b}, score.Default())
	}
	contribution := func(d *score.Decision, f, i int) float64 {
		w := score.Default()
		return d.Contribution(f, i, nil, &w)
	}
	t.Run("80% load with full match against idle and cold", func(t *testing.T) {
		d := two(pod("a", 1, .8, 0, 1, 1), pod("b", 0, 0, 0, 1, 1))
		for i, want := range []float64{.64, .20} {
			got := contribution(d, score.CacheMatch, i) + contribution(d, score.Load, i)
			if !near(got, want) {
				t.Errorf("cache + load of pod %d = %v, want %v", i, got, want)
			}
		}
	})
	t.Run("each queued request costs .05 of the factor and .005 of the score", func(t *testing.T) {
		d := two(pod("a", 0, 0, 3, 1, 1), pod("b", 0, 0, 4, 1, 1))
		if got := d.Results[0].Values[score.QueueDepth] - d.Results[1].Values[score.QueueDepth]; !near(got, .05) {
			t.Errorf("one request costs %v of the factor, want .05", got)
		}
		if !near(d.Margin, .005) {
			t.Errorf("one request costs %v of the score, want .005", d.Margin)
		}
	})
	t.Run("health at the threshold costs .035 and is eligible", func(t *testing.T) {
		d := two(pod("a", 0, 0, 0, 1, 1), pod("b", 0, 0, 0, .3, 1))
		if d.Eligible != 2 || !near(d.Margin, .035) {
			t.Errorf("eligible %d, margin %v; want 2, .035", d.Eligible, d.Margin)
		}
	})
	t.Run("health below the threshold is out with score 0", func(t *testing.T) {
		d := two(pod("a", 1, 0, 0, .29, 1), pod("b", 0, 1, 19, .3, 1))
		r := d.Results[0]
		if d.Winner != 1 || r.Reason != score.Unhealthy || r.Score != 0 || !near(r.WouldScore, .9645) {
			t.Errorf("winner %d, %+v; want b, a unhealthy with score 0 that would be .9645", d.Winner, r)
		}
	})
	t.Run("a hot pod with 19 queued wins, with 20 it is out", func(t *testing.T) {
		if d := two(pod("a", 1, .9, 19, 1, 1), pod("b", 0, 0, 0, 1, 1)); d.Winner != 0 {
			t.Errorf("with 19 queued the winner is %d, want the hot pod", d.Winner)
		}
		d := two(pod("a", 1, .9, 20, 1, 1), pod("b", 0, 0, 0, 1, 1))
		if d.Winner != 1 || d.Results[0].Reason != score.QueueFull || d.DecidedBy != score.ByOnlyCandidate {
			t.Errorf("with 20 queued: %+v", d)
		}
	})
	t.Run("80%/0 against 40%/10: the deeper queue wins with default weights", func(t *testing.T) {
		a, b := pod("a", 0, .8, 0, 1, 1), pod("b", 0, .4, 10, 1, 1)
		d := two(a, b)
		if d.Winner != 1 || !near(d.Results[0].Score, .24) || !near(d.Results[1].Score, .27) {
			t.Errorf("scores %v and %v, winner %d; want .24, .27, b", d.Results[0].Score, d.Results[1].Score, d.Winner)
		}
		w := score.Default() // a wins once w_queue > .8 · w_load
		w.Load, w.Queue = .16, .14
		if d := decide(plain, []score.PodState{a, b}, w); d.Winner != 0 {
			t.Error("with queue .14 against load .16 the empty queue must win")
		}
	})
	t.Run("an advantage of 0.40 in cache does not always win", func(t *testing.T) {
		d := decide(withAdapter, []score.PodState{pod("hot", .5, 1, 19, .3, 0), pod("cold", 0, 0, 0, 1, 1)}, score.Default())
		if d.Winner != 1 {
			t.Errorf("the counter-example's winner is %d, want the cold pod", d.Winner)
		}
	})
	t.Run("a perfect pod under api-gateway is not cut to 1", func(t *testing.T) {
		w, err := score.Preset("api-gateway")
		if err != nil {
			t.Fatal(err)
		}
		d := decide(plain, []score.PodState{pod("a", 1, 0, 0, 1, 1)}, w)
		if got := d.Results[0].Score; got != 1.0000000000000002 {
			t.Errorf("score = %v, want 1.0000000000000002", got)
		}
	})
}

func TestSaturation(t *testing.T) {
	full := []score.PodState{pod("a", .5, .9, 20, 1, 1), pod("b", 0, .1, 25, 1, 1), pod("sick", 1, 0, 0, .1, 1)}
	t.Run("relaxed", func(t *testing.T) {
		d := decide(plain, full, score.Default())
		if !d.Relaxed || d.Winner != 0 || d.Eligible != 2 {
			t.Errorf("relaxed %v, winner %d of %d; want a of 2", d.Relaxed, d.Winner, d.Eligible)
		}
		for i := range 2 {
			if v := d.Results[i].Values[score.QueueDepth]; v != 0 {
				t.Errorf("queue value of pod %d = %v, want 0", i, v)
			}
		}
		if d.Results[2].Reason != score.Unhealthy {
			t.Errorf("the sick pod's reason = %v", d.Results[2].Reason)
		}
	})
	t.Run("rejected", func(t *testing.T) {
		w := score.Default()
		w.Saturation = score.Reject
		if d := decide(plain, full, w); d.Refused != score.Saturated || d.Winner != -1 || d.Results[0].Reason != score.QueueFull {
			t.Errorf("refused %v, winner %d, reason %v", d.Refused, d.Winner, d.Results[0].Reason)
		}
	})
	t.Run("nothing left", func(t *testing.T) { // case P3
		gone := full[2:]
		if d := decide(plain, gone, score.Default()); d.Refused != score.NoEndpoint {
			t.Errorf("refused %v, want no endpoint", d.Refused)
		}
		if d := decide(plain, nil, score.Default()); d.Refused != score.NoEndpoint || d.Winner != -1 {
			t.Errorf("no pods at all: %v", d.Refused)
		}
	})
}

func TestMissingIsNeverZero(t *testing.T) {
	unknown := pod("a", 0, 0, 0, 1, 1)
	unknown.Waiting = score.Reading{State: score.Unknown}
	t.Run("an unknown queue does not win as idle", func(t *testing.T) { // case M5
		d := decide(plain, []score.PodState{unknown, pod("b", 0, 0, 3, 1, 1)}, score.Default())
		if d.Winner != 1 || d.Results[0].States[score.QueueDepth] != score.Unknown {
			t.Errorf("winner %d, state %v", d.Winner, d.Results[0].States[score.QueueDepth])
		}
	})
	t.Run("unknown never excludes", func(t *testing.T) {
		blind := score.NewPod("a", "a:8000")
		d := decide(plain, []score.PodState{blind}, score.Default())
		if d.Winner != 0 || d.Results[0].WouldScoreKnown {
			t.Errorf("winner %d, wouldScore known %v", d.Winner, d.Results[0].WouldScoreKnown)
		}
	})
	t.Run("pending alone fills a queue nobody reports", func(t *testing.T) {
		herd := unknown
		herd.Pending = 20
		d := decide(plain, []score.PodState{herd, pod("b", 0, 1, 19, .3, 1)}, score.Default())
		if d.Results[0].Reason != score.QueueFull || d.Winner != 1 {
			t.Errorf("reason %v, winner %d", d.Results[0].Reason, d.Winner)
		}
	})
	t.Run("NaN, infinity and negative values are unknown", func(t *testing.T) { // case M8
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
			p := pod("a", 0, 0, 0, 1, 1)
			p.Cache.Value, p.Utilization.Value, p.Waiting.Value, p.Health.Value = v, v, v, v
			d := decide(plain, []score.PodState{p}, score.Default())
			for f := range score.AdapterMatch {
				if d.Results[0].States[f] != score.Unknown || d.Results[0].Values[f] != 0 {
					t.Errorf("%v as input %d: state %v, value %v", v, f, d.Results[0].States[f], d.Results[0].Values[f])
				}
			}
			if d.Winner != 0 {
				t.Errorf("%v excluded the pod", v)
			}
		}
	})
	t.Run("values above their range are clamped", func(t *testing.T) {
		d := decide(plain, []score.PodState{pod("a", 2, 1.5, 30, 3, 1)}, score.Default())
		want := [score.NumFactors]float64{1, 0, 0, 1, 1}
		if d.Results[0].Values != want || !d.Relaxed {
			t.Errorf("values %v, want %v", d.Results[0].Values, want)
		}
		for f := range score.AdapterMatch {
			if d.Results[0].States[f] != score.Clamped {
				t.Errorf("state of input %d = %v, want clamped", f, d.Results[0].States[f])
			}
		}
	})
	t.Run("the fresh pod is preferred to the stale one", func(t *testing.T) { // case M6
		stale := pod("a", 0, 0, 0, 1, 1)
		stale.Utilization.State, stale.Waiting.State = score.Stale, score.Stale
		if d := decide(plain, []score.PodState{stale}, score.Default()); d.Winner != 0 || d.Results[0].States[score.QueueDepth] != score.Stale {
			t.Errorf("the only pod must serve although it is stale, and be marked: %+v", d.Results[0])
		}
		if d := decide(plain, []score.PodState{stale, pod("b", 0, .2, 1, 1, 1)}, score.Default()); d.Winner != 1 {
			t.Error("the fresh pod must win")
		}
	})
	t.Run("shorter than one block is not applicable", func(t *testing.T) {
		d := decide(&score.InferenceRequest{}, []score.PodState{pod("a", 1, 0, 0, 1, 1)}, score.Default())
		if d.Results[0].States[score.CacheMatch] != score.NotApplicable || d.Results[0].Values[score.CacheMatch] != 0 {
			t.Errorf("state %v", d.Results[0].States[score.CacheMatch])
		}
	})
}

func TestTies(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b score.PodState
		by   score.DecidedBy
	}{
		// Dyadic values, so that two different sums are equal bits.
		{"load", pod("a", .5, .25, 10, 1, 1), pod("b", .5, .5, 5, 1, 1), score.ByTieLoad},
		{"queue", blindLoad("a", 2), blindLoad("b", 3), score.ByTieQueue},
		{"seed", pod("a", 0, 0, 0, 1, 1), pod("b", 0, 0, 0, 1, 1), score.ByTieSeed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := score.Weights{Cache: .5, Load: .25, Queue: .25, MaxQueue: 20, MaxUtilization: 1}
			if tc.by == score.ByTieQueue {
				w.Cache, w.Queue = .75, 0
			}
			d := decide(plain, []score.PodState{tc.b, tc.a}, w)
			if d.DecidedBy != tc.by || d.Margin != 0 || d.Tied != 2 || d.Order[1].Tie != tc.by {
				t.Errorf("decided by %v, margin %v, tied %d, order %v", d.DecidedBy, d.Margin, d.Tied, d.Order)
			}
			if tc.by != score.ByTieSeed && d.Winner != 1 {
				t.Errorf("winner %d, want a", d.Winner)
			}
		})
	}
	t.Run("seeds spread over names", func(t *testing.T) {
		pods := []score.PodState{pod("a", 0, 0, 0, 1, 1), pod("b", 0, 0, 0, 1, 1), pod("c", 0, 0, 0, 1, 1)}
		w, wins := score.Default(), make([]int, 3)
		var d score.Decision
		for seed := range uint64(3000) {
			score.Decide(&d, plain, pods, nil, &w, seed)
			wins[d.Winner]++
		}
		for i, n := range wins {
			if n < 850 || n > 1150 {
				t.Errorf("pod %d won %d of 3000, want about 1000", i, n)
			}
		}
	})
	t.Run("unknown sorts last but pending still counts", func(t *testing.T) { // case P1
		a, b := score.NewPod("a", "a:1"), score.NewPod("b", "b:1")
		a.Pending, b.Pending = 4, 3
		if d := decide(plain, []score.PodState{a, b}, score.Default()); d.Winner != 1 || d.DecidedBy != score.ByTieQueue {
			t.Errorf("winner %d by %v, want the pod with fewer pending", d.Winner, d.DecidedBy)
		}
	})
}

func blindLoad(name string, queue float64) score.PodState {
	p := pod(name, 0, 0, queue, 1, 1)
	p.Utilization = score.Reading{}
	return p
}

func TestDecideDoesNotAllocate(t *testing.T) {
	req, pods, w := benchInputs(100)
	var d score.Decision
	score.Decide(&d, req, pods, nil, &w, 7)
	if n := testing.AllocsPerRun(100, func() { score.Decide(&d, req, pods, nil, &w, 7) }); n != 0 {
		t.Errorf("Decide allocates %v times, want 0", n)
	}
}
