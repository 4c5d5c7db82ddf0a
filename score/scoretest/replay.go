package scoretest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// ReplayOptions say how the scorer takes part in recorded decisions.
type ReplayOptions struct {
	Name   string  // the factor's name
	Weight float64 // its weight, in (0,1]
	// From is the weight that Weight is taken from: cache, load, queue, health,
	// adapter or a recorded custom scorer's name; "" means cache.
	From string
	// Complete adds to request and pods what the scorer reads and a record does
	// not hold: labels, annotations, headers, tokens. May be nil.
	Complete func(req *score.InferenceRequest, pods []score.PodState)
}

// Comparison is what the scorer would have changed. Each decision is taken
// alone: that other picks would have filled other caches and queues is not part
// of it.
type Comparison struct {
	Decisions int      // that were replayed
	Skipped   int      // records that could not be taken again
	Changes   []Change // decisions with another pick
}

// Change is a decision with another pick.
type Change struct {
	DecisionID, RequestID string
	Before, After         string // pods; "" for a refusal
	// Lead is how far the new pick is ahead of the recorded one, with the scorer
	// taking part.
	Lead float64
}

// String is one line for a test's log.
func (c *Comparison) String() string {
	return fmt.Sprintf("%d decisions, %d with another pick, %d skipped", c.Decisions, len(c.Changes), c.Skipped)
}

// maxLine bounds a record: 2,048 candidates take about 3 MiB.
const maxLine = 32 << 20

// Replay reads decisions as JSON Lines and takes each again with the scorer
// taking part. A line that is no decision is an error of the test; a record
// whose own replay differs is skipped and counted. Recorded results of other
// custom scorers stay as they are.
func Replay(t T, scorer score.Scorer, decisions io.Reader, opt ReplayOptions) *Comparison {
	t.Helper()
	out := &Comparison{}
	lines := bufio.NewScanner(decisions)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var rec explain.Record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			t.Errorf("line %d: %v", n, err)
			continue
		}
		if rec.Kind != explain.KindDecision {
			t.Errorf("line %d: kind %q, want %q", n, rec.Kind, explain.KindDecision)
			continue
		}
		if err := out.add(t, scorer, &rec, opt); err != nil {
			t.Errorf("line %d: %v", n, err)
			return out
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("read decisions: %v", err)
	}
	return out
}

func (c *Comparison) add(t T, scorer score.Scorer, rec *explain.Record, opt ReplayOptions) error {
	t.Helper()
	check, in, d := explain.Replay(rec)
	if !check.Identical {
		c.Skipped++
		return nil
	}
	before := d.Winner
	if opt.Complete != nil {
		opt.Complete(in.Request, in.Pods)
	}
	if err := join(t, scorer, in, opt); err != nil {
		return err
	}
	in.Decide(d)
	c.Decisions++
	if d.Winner == before {
		return nil
	}
	change := Change{DecisionID: rec.DecisionID, RequestID: rec.RequestID, Before: podName(in, before), After: podName(in, d.Winner)}
	if before >= 0 && d.Winner >= 0 {
		change.Lead = d.Results[d.Winner].Score - d.Results[before].Score
	}
	c.Changes = append(c.Changes, change)
	return nil
}

// join lets the scorer take part in the decision.
func join(t T, scorer score.Scorer, in *score.Inputs, opt ReplayOptions) error {
	t.Helper()
	from := opt.From
	if from == "" {
		from = "cache"
	}
	w := in.Weights.Clone()
	present, err := weightOf(w, from)
	if err != nil {
		return err
	}
	if opt.Weight > present {
		return fmt.Errorf("weight %v can't be taken from %s, which has %v", opt.Weight, from, present)
	}
	_ = w.Set(from, present-opt.Weight) // weightOf found it
	w.Custom = append(w.Custom, score.CustomWeight{Name: opt.Name, Weight: opt.Weight})
	if err := w.Validate(); err != nil {
		return err
	}
	set := score.Summarize(in.Request, in.Pods, w)
	values := make([]score.Result, len(in.Pods))
	for i := range in.Pods {
		values[i] = guarded(t, scorer, call{context.Background(), in.Request, &in.Pods[i], &set})
	}
	in.Weights, in.Extra = w, append(in.Extra, score.FactorValues{Name: opt.Name, Values: values})
	return nil
}

func weightOf(w *score.Weights, key string) (float64, error) {
	before := w.Clone()
	if err := before.Set(key, 0); err != nil {
		return 0, err
	}
	for f := range w.Factors() {
		if w.Weight(f) != before.Weight(f) {
			return w.Weight(f), nil
		}
	}
	return 0, nil
}

func podName(in *score.Inputs, i int) string {
	if i < 0 {
		return ""
	}
	return in.Pods[i].Pod
}
