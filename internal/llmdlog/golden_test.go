package llmdlog_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write the golden files with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-golden +got; accept it with -update):\n%s", path, diff)
	}
}

// rendered is the text of records, one after the other.
func rendered(t *testing.T, records []*explain.Record, opt explain.TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	for i, rec := range records {
		if i > 0 {
			b.WriteString(strings.Repeat("-", 72) + "\n")
		}
		if err := explain.Explain(rec, explain.Options{}).Text(&b, opt); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestExplanationsOfCapturedDecisions(t *testing.T) {
	t.Parallel()
	_, all := parse(llmdlog.Options{}, lines(t, "a.jsonl"))
	for name, id := range map[string]string{
		"clear": "conv-support-2-turn-2", "tie": "conv-support-1-turn-1", "adapter": "lora-5",
		"dead-pod": "afterkill-2-turn-1", "same-id": "same-id",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := slices.DeleteFunc(slices.Clone(all), func(rec *explain.Record) bool { return rec.RequestID != id })
			golden(t, name+".80.txt", rendered(t, records, explain.TextOptions{Width: 80}))
			golden(t, name+".120.txt", rendered(t, records, explain.TextOptions{Width: 120, Wide: true}))
		})
	}
	rec := all[slices.IndexFunc(all, func(rec *explain.Record) bool { return rec.RequestID == "conv-support-2-turn-2" })]
	text, err := json.MarshalIndent(explain.Explain(rec, explain.Options{}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "clear.json", string(text)+"\n")
}

func TestExplanationsOfOtherSetups(t *testing.T) {
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
			golden(t, name+".80.txt", rendered(t, records, explain.TextOptions{Width: 80}))
		})
	}
}
