package scoretest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/scoretest"
)

// recorded is decisions over two equal pods, as JSON Lines; a has a little more
// in its cache.
func recorded(t *testing.T, n int) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	for i := range n {
		writeDecision(t, &out, i, []score.PodState{
			scoretest.Pod("a", scoretest.Cached(55)), scoretest.Pod("b", scoretest.Cached(50)),
		})
	}
	return &out
}

// writeDecision takes decision n over the pods and appends its record.
func writeDecision(t *testing.T, out *bytes.Buffer, n int, pods []score.PodState) {
	t.Helper()
	req, w := scoretest.Request(100), score.Default()
	in := score.Inputs{Request: req, Weights: &w, Seed: uint64(n), Pods: pods}
	var d score.Decision
	in.Decide(&d)
	rec := explain.Record{
		APIVersion: explain.APIVersion, Kind: explain.KindDecision,
		DecisionID: fmt.Sprintf("decision-%d", n), RequestID: fmt.Sprintf("request-%d", n),
		Policy: explain.PolicyScores, Request: explain.Request{Blocks: req.Blocks}, Weights: explain.RecordWeights(&w),
		Seed: in.Seed, Result: explain.ResultOf(&in, &d),
	}
	for k, p := range pods {
		rec.Candidates = append(rec.Candidates, explain.Candidate{
			Pod: p.Pod, Endpoint: p.Endpoint, Score: d.Results[k].Score, Reason: d.Results[k].Reason.String(),
			Cache: explain.RecordInput(p.Cache, ""), Load: explain.RecordInput(p.Utilization, ""),
			Waiting: explain.RecordInput(p.Waiting, ""), Health: explain.RecordInput(p.Health, ""),
			Adapters: explain.Adapters{State: "known"},
		})
	}
	rec.Seal()
	line, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(append(line, '\n'))
}

// The decisions that the example reads: four pods, of which two or three are
// about equal.
func TestExampleDecisions(t *testing.T) {
	const path = "testdata/decisions.jsonl"
	if golden.Update() {
		var out bytes.Buffer
		rng := rand.New(rand.NewPCG(3, 1130))
		for n := range 20 {
			var pods []score.PodState
			for i := range 4 {
				pods = append(pods, scoretest.Pod(fmt.Sprintf("sim-%d", i), scoretest.Cached(rng.IntN(30)+rng.IntN(2)*50),
					scoretest.Loaded(float64(rng.IntN(8))/10), scoretest.Queued(rng.IntN(4))))
			}
			writeDecision(t, &out, n, pods)
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	defer file.Close()
	got := scoretest.Replay(t, likes("nobody"), file, scoretest.ReplayOptions{Name: "taste", Weight: .05, From: "adapter"})
	if got.Decisions != 20 || got.Skipped != 0 || len(got.Changes) != 0 {
		t.Error(got)
	}
}

func likes(name string) scorer {
	return of(func(p *score.PodState) score.Result {
		if p.Pod == name {
			return score.Scored(1, "the favourite")
		}
		return score.Scored(0, "")
	})
}

func TestReplay(t *testing.T) {
	t.Run("another favourite changes the picks", func(t *testing.T) {
		got := scoretest.Replay(t, likes("b"), recorded(t, 3), scoretest.ReplayOptions{Name: "taste", Weight: .05})
		if got.Decisions != 3 || len(got.Changes) != 3 || got.Skipped != 0 {
			t.Fatal(got)
		}
		// b has 0.05 by the scorer, a 0.05 · 0.55 by the cache.
		if c := got.Changes[0]; c.Before != "a" || c.After != "b" || !(c.Lead > .022 && c.Lead < .023) {
			t.Errorf("change = %+v", c)
		}
	})
	t.Run("the same favourite changes none", func(t *testing.T) {
		got := scoretest.Replay(t, likes("a"), recorded(t, 3), scoretest.ReplayOptions{Name: "taste", Weight: .05, From: "load"})
		if got.Decisions != 3 || len(got.Changes) != 0 {
			t.Error(got)
		}
	})
	t.Run("what a record does not hold can be added", func(t *testing.T) {
		opt := scoretest.ReplayOptions{Name: "gpu", Weight: .05, Complete: func(_ *score.InferenceRequest, pods []score.PodState) {
			pods[1].Labels = map[string]string{"gpu": "big"}
		}}
		big := of(func(p *score.PodState) score.Result { return score.Scored(float64(len(p.Labels)), "") })
		if got := scoretest.Replay(t, big, recorded(t, 1), opt); len(got.Changes) != 1 {
			t.Error(got)
		}
	})
	t.Run("a damaged record is skipped", func(t *testing.T) {
		damaged := strings.Replace(recorded(t, 1).String(), `"value":50`, `"value":51`, 1)
		got := scoretest.Replay(t, likes("b"), strings.NewReader(damaged+"\n"), scoretest.ReplayOptions{Name: "taste", Weight: .05})
		if got.Decisions != 0 || got.Skipped != 1 {
			t.Error(got)
		}
	})
}

func TestReplayReports(t *testing.T) {
	for name, tc := range map[string]struct {
		lines string
		opt   scoretest.ReplayOptions
		want  string
	}{
		"a line that is no JSON": {"{", scoretest.ReplayOptions{}, "line 1: unexpected end"},
		"another document":       {`{"kind":"Explanation"}`, scoretest.ReplayOptions{}, `line 1: kind "Explanation", want "Decision"`},
		"too much weight":        {recorded(t, 1).String(), scoretest.ReplayOptions{Name: "x", Weight: .5, From: "load"}, "can't be taken from load, which has 0.2"},
		"an unknown weight":      {recorded(t, 1).String(), scoretest.ReplayOptions{Name: "x", Weight: .5, From: "lod"}, `unknown weight "lod"`},
		"a name that is taken":   {recorded(t, 1).String(), scoretest.ReplayOptions{Name: "queue", Weight: .05}, "the name is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			var got log
			scoretest.Replay(&got, likes("a"), strings.NewReader(tc.lines), tc.opt)
			if !strings.Contains(got.String(), tc.want) {
				t.Errorf("reported %q, want it to contain %q", got.String(), tc.want)
			}
		})
	}
}
