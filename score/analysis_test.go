package score_test

import (
	"math"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/score"
)

func preset(t *testing.T, name string) *score.Weights {
	t.Helper()
	w, err := score.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return &w
}

func TestGradient(t *testing.T) {
	want := [score.NumFactors]score.Slope{
		{Factor: "cacheMatch", PerUnit: .60, Unit: "match ratio"},
		{Factor: "load", PerUnit: -.20, Unit: "load ratio"},
		{Factor: "queueDepth", PerUnit: -.005, Unit: "request"},
		{Factor: "health", PerUnit: .05, Unit: "health score"},
		{Factor: "adapterMatch", PerUnit: .05, Unit: "adapter loaded"},
	}
	for f, got := range score.Gradient(preset(t, "default")) {
		if got.Factor != want[f].Factor || got.Unit != want[f].Unit || !near(got.PerUnit, want[f].PerUnit) {
			t.Errorf("slope %d = %+v, want %+v", f, got, want[f])
		}
	}
}

func TestGradientOfNoWeightIsNothing(t *testing.T) {
	for _, slope := range score.Gradient(&score.Weights{Cache: 1, MaxQueue: 1}) {
		if math.Signbit(slope.PerUnit) {
			t.Errorf("%s: %v", slope.Factor, slope.PerUnit)
		}
	}
}

// The gradient is what the engine does, not only what the formula says.
func TestGradientIsTheEnginesOwn(t *testing.T) {
	w := score.Default()
	slopes := score.Gradient(&w)
	base := pod("a", .5, .5, 10, .5, 0)
	at := func(p score.PodState) float64 { return decide(withAdapter, []score.PodState{p}, w).Results[0].Score }
	for f, step := range map[int]struct {
		pod   score.PodState
		units float64
	}{
		score.CacheMatch:   {pod("a", .625, .5, 10, .5, 0), .125},
		score.Load:         {pod("a", .5, .75, 10, .5, 0), .25},
		score.QueueDepth:   {pod("a", .5, .5, 11, .5, 0), 1},
		score.Health:       {pod("a", .5, .5, 10, .75, 0), .25},
		score.AdapterMatch: {pod("a", .5, .5, 10, .5, 1), 1},
	} {
		if got := at(step.pod) - at(base); !near(got, slopes[f].PerUnit*step.units) {
			t.Errorf("factor %d: %v units move the score by %v, the slope is %v", f, step.units, got, slopes[f].PerUnit)
		}
	}
	t.Run("0 beyond maxQueue", func(t *testing.T) {
		if a, b := at(pod("a", .5, .5, 21, .5, 0)), at(pod("a", .5, .5, 22, .5, 0)); a != b {
			t.Errorf("21 and 22 queued score %v and %v", a, b)
		}
	})
	t.Run("50 to 60 percent of cache match is worth 0.06", func(t *testing.T) {
		if got := at(pod("a", .6, .5, 10, .5, 0)) - at(base); !near(got, .06) {
			t.Errorf("it is worth %v", got)
		}
	})
}

func TestSensitivity(t *testing.T) {
	w := preset(t, "default")
	w.Cache, w.Custom = .55, []score.CustomWeight{{Name: "cost", Weight: .05}}
	want := []score.Swing{
		{Factor: "cacheMatch", Full: .55, Eligible: .55},
		{Factor: "load", Full: .20, Eligible: .20},
		{Factor: "queueDepth", Full: .10, Eligible: .095},
		{Factor: "health", Full: .05, Eligible: .035},
		{Factor: "adapterMatch", Full: .05, Eligible: .05},
		{Factor: "cost", Full: .05, Eligible: .05},
	}
	got := score.Sensitivity(w)
	if len(got) != len(want) {
		t.Fatalf("%d swings, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Factor != want[i].Factor || !near(got[i].Full, want[i].Full) || !near(got[i].Eligible, want[i].Eligible) {
			t.Errorf("swing %d = %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestCacheDominance(t *testing.T) {
	for _, tc := range []struct {
		preset            string
		bound, withCutoff float64
		never             bool
	}{
		{"default", .385 / .60, .38 / .60, false},
		{"chatbot", .385 / .60, .38 / .60, false},
		{"api-gateway", .585 / .40, 1.3875, true},
		{"multi-lora", .535 / .45, .53 / .45, true},
		{"batch", .585 / .40, 1.453125, true},
		{"rag", .285 / .70, .2825 / .70, false},
	} {
		t.Run(tc.preset, func(t *testing.T) {
			d := score.CacheDominance(preset(t, tc.preset))
			if !near(d.Bound, tc.bound) || !near(d.WithCutoff, tc.withCutoff) || d.Never != tc.never {
				t.Errorf("dominance = %+v, want %+v", d, tc)
			}
		})
	}
	t.Run("the seed's numbers", func(t *testing.T) {
		d := score.CacheDominance(preset(t, "default"))
		if math.Abs(d.Bound-.641666) > 1e-6 || math.Abs(d.WithCutoff-.633333) > 1e-6 {
			t.Errorf("bounds %v and %v, want .641666… and .633333…", d.Bound, d.WithCutoff)
		}
	})
	t.Run("without a cache weight", func(t *testing.T) {
		d := score.CacheDominance(&score.Weights{Load: 1, MaxQueue: 20, MaxUtilization: 1})
		if !d.Never || !math.IsInf(d.Bound, 1) || !math.IsInf(d.WithCutoff, 1) {
			t.Errorf("dominance = %+v, want never", d)
		}
	})
	t.Run("custom scorers raise it", func(t *testing.T) {
		w := preset(t, "default")
		w.Load, w.Custom = .15, []score.CustomWeight{{Name: "cost", Weight: .05}}
		if d := score.CacheDominance(w); !near(d.WithCutoff, .38/.60) {
			t.Errorf("bound %v, want %v", d.WithCutoff, .38/.60)
		}
	})
}

// Just above the bound the better cached pod wins against the worst that can
// be, just below it does not.
func TestTheDominanceBoundIsExact(t *testing.T) {
	const blocks = 30000
	req := &score.InferenceRequest{Blocks: blocks, Adapter: "fr"}
	bound := score.CacheDominance(preset(t, "default")).WithCutoff
	for _, tc := range []struct {
		lead float64
		wins bool
	}{{bound + .001, true}, {bound - .001, false}} {
		hot, cold := pod("hot", 0, 1, 19, score.HealthCutoff, 0), pod("cold", 0, 0, 0, 1, 1)
		hot.Cache.Value = math.Round(tc.lead * blocks)
		if d := decide(req, []score.PodState{hot, cold}, score.Default()); (d.Winner == 0) != tc.wins {
			t.Errorf("a lead of %v wins: %v, want %v", tc.lead, d.Winner == 0, tc.wins)
		}
	}
}

func TestEquivalents(t *testing.T) {
	want := []score.Equivalent{
		{Factor: "load", Change: -.30, Possible: true},
		{Factor: "queueDepth", Change: -12, Possible: true},
		{Factor: "health", Change: 1.2, Possible: false},
		{Factor: "adapterMatch", Change: 1.2, Possible: false},
	}
	got := score.Equivalents(preset(t, "default"), .10)
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Factor != want[i].Factor || !near(got[i].Change, want[i].Change) || got[i].Possible != want[i].Possible {
			t.Errorf("row %d = %+v, want %+v", i, got[i], want[i])
		}
	}
	t.Run("a factor without weight makes up for nothing", func(t *testing.T) {
		for _, row := range score.Equivalents(&score.Weights{Cache: 1, MaxQueue: 20, MaxUtilization: 1}, .10) {
			if !math.IsInf(row.Change, 0) || row.Possible {
				t.Errorf("row = %+v", row)
			}
		}
	})
}

func TestPresets(t *testing.T) {
	names := score.PresetNames()
	if got := strings.Join(names, " "); got != "api-gateway batch chatbot default multi-lora rag" {
		t.Errorf("presets = %s", got)
	}
	for _, name := range names {
		if err := preset(t, name).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := score.Weights{Cache: .60, Load: .20, Queue: .10, Health: .05, Adapter: .05, MaxQueue: 20, MaxUtilization: 1}
	got := score.Default()
	if got.Cache != want.Cache || got.Load != want.Load || got.Queue != want.Queue || got.Health != want.Health ||
		got.Adapter != want.Adapter || got.MaxQueue != want.MaxQueue || got.MaxUtilization != want.MaxUtilization {
		t.Errorf("default = %+v, want %+v", got, want)
	}
	if _, err := score.Preset("fast"); err == nil || !strings.Contains(err.Error(), "the presets are api-gateway, batch") {
		t.Errorf("unknown preset: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*score.Weights)
		want   []string
	}{
		"as they are":          {func(*score.Weights) {}, nil},
		"within the tolerance": {func(w *score.Weights) { w.Cache += 9e-10 }, nil},
		"the sum with its parts": {
			func(w *score.Weights) { w.Cache, w.Custom = .55, []score.CustomWeight{{Name: "cost", Weight: .1}} },
			[]string{"weights: sum is 1.05 (cache 0.55 + load 0.2 + queue 0.1 + health 0.05 + adapter 0.05 + cost 0.1), must be 1"},
		},
		"just outside": {func(w *score.Weights) { w.Cache += 2e-9 }, []string{"weights: sum is 1.000000002"}},
		"negative": {
			func(w *score.Weights) { w.Cache, w.Load = .9, -.1 },
			[]string{"weights.load: must be between 0 and 1, got -0.1"},
		},
		"not a number": {
			func(w *score.Weights) { w.Queue = math.NaN() },
			[]string{"weights.queue: must be between 0 and 1, got NaN", "weights: sum is NaN"},
		},
		"a name twice": {
			func(w *score.Weights) {
				w.Cache, w.Custom = .5, []score.CustomWeight{{Name: "cost", Weight: .05}, {Name: "cost", Weight: .05}}
			},
			[]string{"weights.cost: the name is taken"},
		},
		"a built-in name": {
			func(w *score.Weights) { w.Cache, w.Custom = .5, []score.CustomWeight{{Name: "queueDepth", Weight: .1}} },
			[]string{"weights.queueDepth: the name is taken"},
		},
		"a built-in key": {
			func(w *score.Weights) { w.Cache, w.Custom = .5, []score.CustomWeight{{Name: "queue", Weight: .1}} },
			[]string{"weights.queue: the name is taken"},
		},
		"limits": {
			func(w *score.Weights) { w.MaxQueue, w.MaxUtilization = 0, math.Inf(1) },
			[]string{"maxQueue: must be at least 1, got 0", "maxUtilization: must be above 0, got +Inf"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := score.Default()
			tc.change(&w)
			err := w.Validate()
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("error = %v, want %v", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

func TestSetWeight(t *testing.T) {
	w := score.Default()
	w.Custom = []score.CustomWeight{{Name: "cost"}}
	for i, key := range []string{"cache", "load", "queue", "health", "adapter", "cost"} {
		v := float64(i+1) / 10
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
		if got := w.Weight(i); got != v {
			t.Errorf("%s = %v, want %v", key, got, v)
		}
	}
	if err := w.Set("cash", 1); err == nil || !strings.Contains(err.Error(), `"cash"`) || !strings.Contains(err.Error(), "cache, load, queue, health, adapter, cost") {
		t.Errorf("unknown key: %v", err)
	}
	c := w.Clone()
	c.Custom[0].Weight = 0
	if w.Custom[0].Weight == 0 {
		t.Error("the clone shares the custom weights")
	}
}

func TestSpellings(t *testing.T) {
	for s := score.Unknown; s <= score.NotApplicable; s++ {
		if back, ok := score.ParseState(s.String()); !ok || back != s {
			t.Errorf("state %d is spelled %q and read as %d", s, s, back)
		}
	}
	for s := score.SourceNone; s <= score.SourceManual; s++ {
		if back, ok := score.ParseSource(s.String()); !ok || back != s {
			t.Errorf("source %d is spelled %q and read as %d", s, s, back)
		}
	}
	for r := score.Eligible; r <= score.QueueFull; r++ {
		if back, ok := score.ParseReason(r.String()); !ok || back != r {
			t.Errorf("reason %d is spelled %q and read as %d", r, r, back)
		}
	}
	for _, s := range []score.Saturation{score.Relax, score.Reject} {
		if back, err := score.ParseSaturation(s.String()); err != nil || back != s {
			t.Errorf("saturation %d is spelled %q and read as %d", s, s, back)
		}
	}
	for _, name := range []string{"", "Known", "fuzzy"} {
		if _, ok := score.ParseState(name); ok {
			t.Errorf("%q is no state", name)
		}
	}
	if score.State(99).String() != "invalid" || score.Source(99).String() != "invalid" || score.Reason(99).String() != "invalid" {
		t.Error("values beyond the tables have a spelling")
	}
	if _, err := score.ParseSaturation("queue"); err == nil {
		t.Error("queue is no saturation")
	}
}
