package load

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// decision is a record over two pods that hold so many blocks of a prompt of 100.
func decision(t *testing.T, a, b float64, change func(*score.Inputs)) *explain.Record {
	t.Helper()
	in := &score.Inputs{Request: &score.InferenceRequest{Blocks: 100, Count: 1600}, Weights: new(score.Default()), Seed: 7}
	for i, blocks := range []float64{a, b} {
		name := string(rune('a' + i))
		p := score.NewPod(name, "10.0.0.1:8000")
		p.Cache, p.Utilization = score.Read(blocks, score.SourceReport), score.Read(.5, score.SourceReport)
		p.Waiting, p.Health = score.Read(0, score.SourceMetrics), score.Read(1, score.SourceProbe)
		p.AdapterState = score.Known
		in.Pods = append(in.Pods, p)
	}
	if change != nil {
		change(in)
	}
	var d score.Decision
	in.Decide(&d)
	rec := &explain.Record{
		APIVersion: explain.APIVersion, Kind: explain.KindDecision, DecisionID: "d-1", Policy: explain.PolicyScores, Seed: 7,
		Request: explain.Request{PromptTokens: 1600, BlockSize: 16, Blocks: 100}, Weights: explain.RecordWeights(in.Weights),
		Result: explain.ResultOf(in, &d), Outcome: explain.Outcome{State: explain.OutcomeDone, CachedTokens: new(800)},
	}
	for i := range in.Pods {
		p, r := &in.Pods[i], &d.Results[i]
		rec.Candidates = append(rec.Candidates, explain.Candidate{
			Pod: p.Pod, Endpoint: p.Endpoint, Reason: r.Reason.String(), Score: r.Score,
			Cache: explain.RecordInput(p.Cache, ""), Load: explain.RecordInput(p.Utilization, ""),
			Waiting: explain.RecordInput(p.Waiting, ""), Health: explain.RecordInput(p.Health, ""),
			Adapters: explain.Adapters{State: "known"},
		})
	}
	rec.Seal()
	return rec
}

func TestSummary(t *testing.T) {
	s := NewSummary(&Result{Sent: 5, Failed: 1, FirstFailure: "HTTP 503: none", Elapsed: 90 * time.Second, Wall: 4500 * time.Millisecond})
	s.Add(decision(t, 80, 20, nil))
	s.Add(decision(t, 0, 60, nil))
	full := func(in *score.Inputs) {
		for i := range in.Pods {
			in.Pods[i].Waiting.Value = 30
		}
	}
	s.Add(decision(t, 0, 40, full)) // relaxed
	s.Add(decision(t, 80, 20, func(in *score.Inputs) {
		for i := range in.Pods {
			in.Pods[i].Excluded = score.NotReady // refused
		}
	}))
	short := decision(t, 0, 0, nil)
	short.Request.NoPrefix, short.Outcome.CachedTokens = "/v1/embeddings has no prompt prefix", nil
	short.Seal()
	s.Add(short)
	s.Ledger = 2
	want := `requests       5 in 1m30s of the fleet's time, 5s of the wall's
errors         1; the first: HTTP 503: none
refused        1 decisions
picks          a 2, b 2
cache ratio    0.6000 of the prompt tokens on the picked pods
               0.3333 on the mean eligible pod of the same decisions (1.8 times as much)
engine cached  2400 of 4800 prompt tokens; 1 requests not told
relaxed        1 decisions
replays        identical, 5 of 5 decisions
ledger         2 in flight
`
	if diff := cmp.Diff(want, written(t, s)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func written(t *testing.T, s *Summary) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSummaryTellsWhichReplayDiffers(t *testing.T) {
	s := NewSummary(&Result{Sent: 2})
	s.Add(decision(t, 80, 20, nil))
	changed := decision(t, 80, 20, nil)
	changed.DecisionID = "d-2"
	changed.Seal()
	changed.Seed ^= 1
	s.Add(changed)
	s.Add(changed)
	want := "replays        DIFFERENT, 2 of 3 decisions; the first: d-2: input \"seed\" is not what was recorded"
	if got := written(t, s); !strings.Contains(got, want) {
		t.Errorf("summary has no %q:\n%s", want, got)
	}
}

func TestSummaryOfNothing(t *testing.T) {
	s := NewSummary(&Result{})
	if picks, mean := s.Ratio(); picks != 0 || mean != 0 {
		t.Errorf("ratios %v and %v of no prompt", picks, mean)
	}
	if got := written(t, s); !strings.Contains(got, "replays        identical, 0 of 0 decisions") || strings.Contains(got, "NaN") {
		t.Errorf("summary:\n%s", got)
	}
}
