package explain_test

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

func TestVerdicts(t *testing.T) {
	for name, want := range map[string]string{
		"clear-win":    "went to sim-2: score 0.84, ahead of sim-0 by 0.27, decided by cacheMatch (0.96 against 0.41)",
		"tie-seed":     "went to sim-1: score 0.38, the same as sim-2 and 1 more; load and queue are the same too, so the seed 42 chose",
		"tie-load":     "went to sim-1: score 0.56, the same as sim-0, won by the lower load (25% against 50%)",
		"only-one":     "went to sim-0: score 0.37, the only pod of the pool",
		"refused-429":  "was refused with 429: the queue is full on all 2 pods",
		"refused-503":  "was refused with 503: no pod was eligible (1 not-ready, 1 unhealthy)",
		"no-pods":      "was refused with 503: the pool has no pods",
		"policy":       "went to sim-1 by policy random: score 0.39; the scores would have picked sim-2 (0.84)",
		"unreplayable": "went to sim-2: score 0.84, ahead of sim-0 by 0.27, decided by cacheMatch",
	} {
		t.Run(name, func(t *testing.T) {
			r := explain.Explain(recordOf(name, scenes()[name]), explain.Options{})
			if !strings.Contains(r.Verdict, want) {
				t.Errorf("verdict = %q, want %q in it", r.Verdict, want)
			}
		})
	}
}

func TestTieByQueue(t *testing.T) {
	s := scene{req: plain, weights: score.Default(), pods: []score.PodState{score.NewPod("a", "a:1"), score.NewPod("b", "b:1")}}
	s.pods[0].Pending, s.pods[1].Pending = 4, 3
	r := explain.Explain(s.record(), explain.Options{})
	want := "won by the shorter queue (3 pending, waiting unknown against 4 pending, waiting unknown)"
	if !strings.HasSuffix(r.Verdict, want) {
		t.Errorf("verdict = %q, want it to end with %q", r.Verdict, want)
	}
}

func TestNotes(t *testing.T) {
	for name, want := range map[string][]string{
		"clear-win":    {},
		"damaged":      {explain.CauseReplay},
		"retried":      {explain.CauseRetried},
		"relaxed":      {explain.CauseSaturated},
		"excluded":     {explain.CauseOwnerQueueFull},
		"deeper-queue": {explain.CauseDeeperQueue, explain.CauseNoReuse},
		"adapter":      {explain.CauseEvicted},
		"custom":       {explain.CauseInputMissing},
		"hostile":      {explain.CauseOwnerUnhealthy, explain.CauseAdapterAbsent},
		"missing": {
			explain.CauseInputStale, explain.CauseInputMissing, explain.CauseInputMissing,
			explain.CauseInputMissing, explain.CauseInputMissing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			for _, n := range explain.Explain(recordOf(name, scenes()[name]), explain.Options{}).Notes {
				got = append(got, n.Cause)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}

// The seed document's counter-intuitive case carries its mark.
func TestDeeperQueueIsMarked(t *testing.T) {
	r := explain.Explain(scenes()["deeper-queue"].record(), explain.Options{})
	if len(r.Notes) == 0 || !strings.HasPrefix(r.Notes[0].Text, "winner has the deeper queue: 10 requests against 0 on sim-a") {
		t.Errorf("notes = %+v", r.Notes)
	}
}

func TestContributionsAddUpToTheScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := explain.Explain(drawScene(t).record(), explain.Options{Flips: -1})
		for _, c := range r.Candidates {
			sum := 0.0
			for _, f := range c.Factors {
				sum += f.Contribution
			}
			if math.Float64bits(sum) != math.Float64bits(c.Score) {
				t.Fatalf("%s: the contributions add up to %v, the score is %v", c.Pod, sum, c.Score)
			}
		}
		for i := 1; i < len(r.Candidates); i++ {
			if r.Candidates[i].Score > r.Candidates[i-1].Score {
				t.Fatalf("candidate %d has more than the one before it", i)
			}
		}
		if r.Picked != nil && (r.Picked.Pod != r.Candidates[0].Pod || !r.Candidates[0].Picked) {
			t.Fatalf("picked %v is not the first candidate", r.Picked)
		}
		if !r.Replay.Identical {
			t.Fatalf("replay: %s", r.Replay.Difference)
		}
	})
}

// Missing is never zero: what is not known is null in the JSON.
func TestMissingIsNull(t *testing.T) {
	for name, s := range scenes() {
		document, err := json.Marshal(explain.Explain(recordOf(name, s), explain.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Candidates, Excluded []struct {
				Pod     string
				Factors []map[string]any
			}
			Outcome map[string]any
		}
		if err := json.Unmarshal(document, &report); err != nil {
			t.Fatal(err)
		}
		for _, c := range append(report.Candidates, report.Excluded...) {
			for _, f := range c.Factors {
				if err := missingIsNull(f); err != "" {
					t.Errorf("%s: %s of %s: %s", name, f["name"], c.Pod, err)
				}
			}
		}
	}
	t.Run("outcome", func(t *testing.T) {
		rec := clearWin().record()
		rec.Outcome = explain.Outcome{State: explain.OutcomePending}
		document, err := json.Marshal(explain.Explain(rec, explain.Options{}).Outcome)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"state":"pending","status":null,"servedEndpoint":null,"ttftSeconds":null,"durationSeconds":null,` +
			`"promptTokens":null,"cachedTokens":null,"outputTokens":null,"predictedCachedTokens":null,"cache":"notPredicted","attempts":null}`
		if string(document) != want {
			t.Errorf("outcome = %s, want %s", document, want)
		}
	})
}

// rawKeys are the fields that hold a factor's raw value.
var rawKeys = []string{"matchedBlocks", "utilization", "waiting", "score", "value", "loaded"}

func missingIsNull(f map[string]any) string {
	state, input := f["state"].(string), f["input"].(map[string]any)
	if (state == "unknown" || state == "stale") && f["value"] != nil {
		return "has a value although it is " + state
	}
	if state == "known" && f["value"] == nil {
		return "is known and has no value"
	}
	if input["state"] != "unknown" {
		return ""
	}
	for _, key := range append(rawKeys, "ageSeconds", "count", "max") {
		if v, there := input[key]; there && v != nil && (key != "max" || f["name"] == "adapterMatch") {
			return key + " is not null although the input is unknown"
		}
	}
	return ""
}

func TestEmbeddingsHaveNoCacheValue(t *testing.T) { // case B6
	r := explain.Explain(scenes()["no-prefix"].record(), explain.Options{})
	f := r.Candidates[0].Factors[score.CacheMatch]
	if f.Value != nil || f.Input.Cache.MatchedBlocks != nil || !strings.HasPrefix(f.Detail, "not applicable: ") {
		t.Errorf("cacheMatch = %+v, input %+v", f, f.Input.Cache)
	}
}

// A text of 2,048 pods shows the top few; the JSON has all.
func TestManyPods(t *testing.T) { // case P7
	s := scene{req: plain, weights: score.Default()}
	for i := range 2048 {
		p := pod("pod-"+strconv.Itoa(i), float64(i%190), .5, 2)
		if i%2 == 1 {
			p.Excluded = score.NotReady
		}
		s.pods = append(s.pods, p)
	}
	r := explain.Explain(s.record(), explain.Options{})
	if len(r.Candidates) != 1024 || len(r.Excluded) != 1024 {
		t.Errorf("%d candidates and %d excluded, want 1024 of each", len(r.Candidates), len(r.Excluded))
	}
	if n := strings.Count(textOf(t, r, explain.TextOptions{Width: 80}), "\n"); n > 90 {
		t.Errorf("the text has %d lines", n)
	}
	wide := textOf(t, r, explain.TextOptions{Width: 160, Wide: true})
	for _, p := range s.pods {
		if !strings.Contains(wide, p.Pod+" ") {
			t.Fatalf("the wide text has no %s", p.Pod)
		}
	}
}

// What the text prints as "would have won with" does win.
func TestPrintedFlipsFlip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		rec := s.record()
		_, in, d := explain.Replay(rec)
		for _, pod := range explain.Explain(rec, explain.Options{Flips: 3}).Flips {
			i := podIndex(rec, pod.Pod)
			for f, c := range pod.Changes {
				if !c.Possible {
					continue
				}
				if c.To == nil {
					t.Fatalf("%s of %s is possible without a value", c.Factor, pod.Pod)
				}
				to := explain.Printed(&c)
				if in.Change(i, f, to).Decide(d); d.Winner != i {
					t.Fatalf("%s of %s: %v is printed for %v and does not flip", c.Factor, pod.Pod, to, *c.To)
				}
			}
		}
	})
}

func podIndex(rec *explain.Record, name string) int {
	for i := range rec.Candidates {
		if rec.Candidates[i].Pod == name {
			return i
		}
	}
	return -1
}

func TestSummarize(t *testing.T) {
	for name, want := range map[string]struct {
		picked, over, by, refused string
		flags                     []string
	}{
		"clear-win":   {"sim-2", "sim-0", "cacheMatch", "", []string{}},
		"tie-seed":    {"sim-1", "sim-2", "tieSeed", "", []string{explain.FlagTie}},
		"only-one":    {"sim-0", "", "onlyCandidate", "", []string{}},
		"relaxed":     {"sim-0", "sim-1", "cacheMatch", "", []string{explain.FlagRelaxed}},
		"retried":     {"sim-2", "sim-0", "cacheMatch", "", []string{explain.FlagRetry}},
		"adapter":     {"sim-b", "sim-c", "load", "", []string{explain.FlagStale}},
		"refused-429": {"", "", "", "saturated", []string{explain.FlagRefused}},
		"policy":      {"sim-1", "", "random", "", []string{}},
		"envoy-moved": {"sim-2", "sim-0", "cacheMatch", "", []string{explain.FlagMoved, explain.FlagRetry}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := recordOf(name, scenes()[name])
			row := explain.Summarize(rec)
			if row.Picked != want.picked || row.Over != want.over || row.DecidedBy != want.by || row.Refused != want.refused {
				t.Errorf("row = %+v, want %+v", row, want)
			}
			if diff := cmp.Diff(want.flags, row.Flags); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
			if (row.Score == nil) != (want.refused != "") || (row.Margin == nil) != (want.over == "") {
				t.Errorf("score %v, margin %v", row.Score, row.Margin)
			}
			if row.Took != rec.Timings.Total || *row.Tokens != rec.Request.PromptTokens || row.Time != rec.Time {
				t.Errorf("row = %+v", row)
			}
		})
	}
	t.Run("an end that nobody saw has no status but that of an error", func(t *testing.T) {
		rec := envoySilent().record()
		for status, want := range map[int]*int{0: nil, 200: nil, 503: new(503)} {
			rec.Outcome.Status = status
			if row := explain.Summarize(rec); row.State != explain.OutcomeUnknown || !cmp.Equal(row.Status, want) {
				t.Errorf("headers with status %d: state %s, status %v", status, row.State, row.Status)
			}
		}
	})
	t.Run("an answer that was cut has its status and says so", func(t *testing.T) {
		for _, tt := range []struct {
			status int
			error  string
			cut    bool
		}{{200, "", false}, {200, "aborted", true}, {200, "client-gone", true}, {503, "upstream-error", false}, {0, "client-gone", false}} {
			rec := clearWin().record()
			rec.Outcome.Status, rec.Outcome.Error = tt.status, tt.error
			if got := slices.Contains(explain.Summarize(rec).Flags, explain.FlagCut); got != tt.cut {
				t.Errorf("status %d, error %q: cut is %v, want %v", tt.status, tt.error, got, tt.cut)
			}
		}
	})
	t.Run("a recorded order that points nowhere", func(t *testing.T) {
		rec := clearWin().record()
		rec.Result.Order = []int{7, -3}
		if row := explain.Summarize(rec); row.Over != "" {
			t.Errorf("over = %q", row.Over)
		}
	})
}

// Every class of a prediction that went wrong is told in words, after the counts.
func TestPredictionInWords(t *testing.T) {
	quiet := []string{"", explain.PredictionMet, explain.PredictionOtherPod, explain.PredictionUnknown}
	for _, class := range append(explain.Predictions(), "") {
		rec := clearWin().record()
		rec.Outcome.PredictedCached, rec.Outcome.CachedTokens, rec.Outcome.Prediction = new(64), new(16), class
		report := explain.Explain(rec, explain.Options{})
		if report.Outcome.Prediction != class {
			t.Errorf("%q becomes %q", class, report.Outcome.Prediction)
		}
		_, told, found := strings.Cut(textOf(t, report, explain.TextOptions{}), "fewer than predicted; ")
		if found == slices.Contains(quiet, class) || found && len(told) < 20 {
			t.Errorf("%q: told: %v", class, found)
		}
	}
}
