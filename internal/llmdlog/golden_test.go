package llmdlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

// table is what scorers said and what came of it, of records one after the other.
func table(t *testing.T, records []*explain.Record) string {
	t.Helper()
	var b strings.Builder
	for _, rec := range records {
		r := explain.Explain(rec, explain.Options{})
		o := r.Origin
		fmt.Fprintf(&b, "%s %s, profile %q primary %v, %s picked %s, targets %s\n", r.RequestID, r.Model, o.Profile, o.Primary, o.Picker, r.Picked.Pod, o.Targets)
		fmt.Fprintf(&b, "policy %s, decided by %s, weights: %s, identical %v\n", r.Policy, r.DecidedBy, o.WeightsFrom, r.Replay.Identical)
		for i := range r.Candidates {
			c := &r.Candidates[i]
			fmt.Fprintf(&b, "%d. %s %s %v %s\n", i+1, c.Pod, c.Endpoint, c.Score, encode(c.Reported))
			for _, f := range c.Factors {
				fmt.Fprintf(&b, "   %-27s %v x %v = %v\n", f.Name, *f.Value, f.Weight, f.Contribution)
			}
		}
		for i := range r.Excluded {
			fmt.Fprintf(&b, "-  %s %s %s %s\n", r.Excluded[i].Pod, r.Excluded[i].Endpoint, r.Excluded[i].Reason, encode(r.Excluded[i].Reported))
		}
		fmt.Fprintf(&b, "outcome %s\n\n", encode(rec.Outcome))
	}
	return b.String()
}

func TestScorersOfCapturedDecisions(t *testing.T) {
	t.Parallel()
	_, all := parse(llmdlog.Options{}, lines(t, "a.jsonl"))
	for name, id := range map[string]string{
		"clear": "conv-support-2-turn-2", "tie": "conv-support-1-turn-1", "adapter": "lora-5",
		"dead-pod": "afterkill-2-turn-1", "same-id": "same-id",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := slices.DeleteFunc(slices.Clone(all), func(rec *explain.Record) bool { return rec.RequestID != id })
			golden.Equal(t, "testdata/"+name+".txt", table(t, records))
		})
	}
}

func TestScorersOfOtherSetups(t *testing.T) {
	t.Parallel()
	profiles := newScript(threePods()...)
	profiles.plugins["decode"] = plugins{
		filters: []filter{{"decode-filter/by-label", []string{"pod-01", "pod-03"}}},
		scorers: []scorer{{cache, 3}, {lora, 0.35}}, picker: "best-two/max-score-picker",
	}
	profiles.plugins["prefill"] = plugins{
		filters: []filter{{"prefill-filter/by-label", []string{"pod-02"}}}, scorers: []scorer{{queue, 1.5}}, picker: best,
	}
	profiles.start()
	profiles.received("profiles")
	profiles.run("profiles", "decode", [][]float64{{0.25, 0.75}, {1, 0.5}}, 1, 0)
	profiles.run("profiles", "prefill", [][]float64{{1}}, 0)
	profiles.handled("profiles", "10.0.0.1:8003,10.0.0.1:8001")

	drawn := simple(3, 2)
	drawn.plugins["default"] = plugins{scorers: []scorer{{cache, 3}, {queue, 2}}, picker: "draw/weighted-random-picker"}
	drawn.start()
	drawn.run("drawn", "default", [][]float64{{0.25, 0.75, 0}, {0.5, 1, 0}}, 0)

	open := simple(0.5, 1.5)
	open.run("open", "default", [][]float64{{1, 1, 0.5}, {1, 1, 0.5}}, 1)
	for name, s := range map[string]*script{"two-profiles": profiles, "weighted-random": drawn, "open-weights": open} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, records := parse(llmdlog.Options{}, s.lines)
			replays(t, records)
			golden.Equal(t, "testdata/"+name+".txt", table(t, records))
		})
	}
}

func TestTextShowsThePickersOwnTerms(t *testing.T) {
	t.Parallel()
	s := simple(0.5, 1.5)
	s.run("r", "default", [][]float64{{1, 1, 0.5}, {1, 1, 0.5}}, 1)
	_, records := parse(llmdlog.Options{}, s.lines)
	var b strings.Builder
	if err := explain.Explain(records[0], explain.Options{}).Text(&b, explain.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"llm-d profile default", "draws among equals", "waiting 3, running 2, KV cache 50%", "share their part is open", "prompt: not in the log",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, not := range []string{"cacheMatch", "maxQueue", "0 tokens", "the seed"} {
		if strings.Contains(b.String(), not) {
			t.Errorf("%q in\n%s", not, b.String())
		}
	}
}
