package explain_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/score"
)

func TestVersus(t *testing.T) {
	for _, tc := range []struct{ scene, pod, want string }{
		{"clear-win", "sim-0", "sim-0 scored 0.5712, 0.27 less than sim-2 (0.8404); the largest difference is in cacheMatch (0.96 against 0.41)"},
		{"clear-win", "10.0.0.1:8000", "sim-1 scored 0.3900"},
		{"tie-seed", "sim-0", "the same as sim-1 (0.3800); load and queue are the same too, so the seed chose"},
		{"tie-load", "sim-0", "the same as sim-1 (0.5625), which had the lower load (25% against 50%)"},
		{"relaxed", "sim-1", "less than sim-0"},
		{"excluded", "sim-7", "sim-7 was excluded: queue-full (17 waiting + 3 pending of 20); it would have scored 0.7200, 0.33 more than sim-0"},
		{"excluded", "sim-1", "sim-1 was excluded: not-ready (the pod is not ready); it would have scored 0.3600, 0.03 less than sim-0"},
		{"excluded", "sim-4", "what it would have scored is not known (load unknown)"},
		{"excluded", "sim-6", "sim-6 was excluded: unhealthy (health 0.1 is below 0.3: probe failed 4 times: connection refused)"},
		{"refused-429", "sim-1", "sim-1 was excluded: queue-full (31 waiting + 0 pending of 20); it would have scored 0.2000"},
		{"missing", "sim-3", "sim-3 scored 0.0500"},
		{"custom", "sim-0", "the largest difference is in cost"},
		{"adapter", "sim-a", "the largest difference is in adapterMatch (1.00 against 0.00)"},
		{"policy", "sim-2", "more than sim-1 (0.3900); policy random picked, not the scores"},
		{"hostile", "x\x1b[2J6", "was excluded: unhealthy"},
		{"foreign", "vllm-1", "0.20 less than vllm-0 (2.7000); the largest difference is in prefix-cache-scorer (0.90 against 0.50)"},
	} {
		t.Run(tc.scene+" "+strings.Trim(tc.pod, "x\x1b"), func(t *testing.T) {
			rec := questioned(tc.scene)
			v, err := explain.WhyNot(rec, tc.pod)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(v.Verdict, tc.want) {
				t.Errorf("verdict = %q, want %q in it", v.Verdict, tc.want)
			}
			name := "versus-" + tc.scene + "-" + v.Endpoint[strings.LastIndex(v.Endpoint, ".")+1:strings.Index(v.Endpoint, ":")]
			golden.Equal(t, "testdata/"+name+".80.txt", explain.TextOf(v, explain.TextOptions{Width: 80}))
			golden.Equal(t, "testdata/"+name+".120.txt", explain.TextOf(v, explain.TextOptions{Width: 120}))
			if tc.scene != "clear-win" {
				return
			}
			document, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/"+name+".json", string(document)+"\n")
		})
	}
}

func TestVersusStandsInTheReport(t *testing.T) {
	rec := clearWin().record()
	v, err := explain.WhyNot(rec, "sim-0")
	if err != nil {
		t.Fatal(err)
	}
	report := explain.Explain(rec, explain.Options{})
	report.Versus = v
	for _, limit := range []int{40, 80, 120} {
		want := explain.TextOf(v, explain.TextOptions{Width: limit})
		if text := textOf(t, report, explain.TextOptions{Width: limit}); !strings.Contains(text, want) {
			t.Errorf("at %d: the text of the report has no\n%s", limit, want)
		}
	}
}

func TestVersusErrors(t *testing.T) {
	for pod, want := range map[string]string{
		"sim-2": "sim-2 was picked; name a pod that was not: sim-0",
		"sim_1": `no pod "sim_1" among the 3 pods of this decision: did you mean sim-1?`,
	} {
		if _, err := explain.WhyNot(clearWin().record(), pod); err == nil || err.Error() != want {
			t.Errorf("%s: error = %v, want %q", pod, err, want)
		}
	}
}

// The differences, added in their order, are the score difference to the last
// bit, and what is said to win wins.
func TestVersusAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := drawScene(t).record()
		for i := range rec.Candidates {
			if i == rec.Result.Index {
				continue
			}
			v, err := explain.WhyNot(rec, rec.Candidates[i].Pod)
			if err != nil {
				t.Fatal(err)
			}
			if v.Difference != nil {
				sum := 0.0
				for _, d := range v.Differences {
					sum += d.Difference
				}
				if sum += v.Rounding; math.Float64bits(sum) != math.Float64bits(*v.Difference) && sum != 0 {
					t.Fatalf("%s: the differences add up to %v, the scores differ by %v", v.Pod, sum, *v.Difference)
				}
				if *v.Difference != v.Winner.Score-*v.Score {
					t.Fatalf("difference %v of %v and %v", *v.Difference, v.Winner.Score, *v.Score)
				}
			}
			checkChanges(t, rec, i, v)
		}
	})
}

// checkChanges asks the engine.
func checkChanges(t *rapid.T, rec *explain.Record, i int, v *explain.Versus) {
	in, err := rec.Inputs()
	if err != nil {
		t.Fatal(err)
	}
	if (in.Pods[i].Excluded != score.Eligible) != v.LetIn {
		t.Fatalf("%s: excluded %v, let in %v", v.Pod, in.Pods[i].Excluded, v.LetIn)
	}
	in.Pods[i].Excluded = score.Eligible
	var d score.Decision
	if in.Decide(&d); v.WouldWin != (d.Winner == i) {
		t.Fatalf("%s: would win %v, the engine picks %d", v.Pod, v.WouldWin, d.Winner)
	}
	for f, c := range v.Changes {
		if !c.Possible {
			if c.Why == "" {
				t.Fatalf("%s %s: impossible without a reason", v.Pod, c.Factor)
			}
			continue
		}
		if in.Change(i, f, *c.To).Decide(&d); d.Winner != i {
			t.Fatalf("%s: %s at %v does not win", v.Pod, c.Factor, *c.To)
		}
	}
}
