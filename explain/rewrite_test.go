package explain_test

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

func TestRewriteIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		request explain.Request
		want    string
	}{
		"one of several targets": {
			explain.Request{Base: "llama", Adapter: "billing-v3", Rewrite: &explain.Rewrite{
				To: "billing-v3", By: "InferenceModel ns/billing", Targets: 2, Weight: 30, WeightSum: 100,
			}},
			"chat → billing-v3 (InferenceModel ns/billing, weight 30 of 100), resolved to llama, adapter billing-v3",
		},
		"the only target": {
			explain.Request{Base: "llama", Rewrite: &explain.Rewrite{
				To: "llama", By: "InferenceModelRewrite ns/all rule 2", Targets: 1, Weight: 7, WeightSum: 7,
			}},
			"chat → llama (InferenceModelRewrite ns/all rule 2)",
		},
		"the name stays": {
			explain.Request{Base: "chat", Rewrite: &explain.Rewrite{To: "chat", By: "InferenceModel ns/chat", Criticality: "Critical"}},
			"chat (InferenceModel ns/chat, Critical)",
		},
		"nobody lists the target": {
			explain.Request{Base: "llama", Adapter: "new", ModelUnchecked: true, Rewrite: &explain.Rewrite{To: "new", By: "x-llm-d-model-name-rewrite"}},
			"chat → new (x-llm-d-model-name-rewrite), resolved to llama, adapter new (not checked: no list of models has it)",
		},
		"no rule": {explain.Request{Base: "llama"}, "chat, resolved to llama"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := clearWin().record()
			rec.Request.Model, rec.Request.Base, rec.Request.Adapter = "chat", c.request.Base, c.request.Adapter
			rec.Request.Rewrite, rec.Request.ModelUnchecked = c.request.Rewrite, c.request.ModelUnchecked
			rec.Seal()
			report := explain.Explain(rec, explain.Options{})
			text := textOf(t, report, explain.TextOptions{Width: 160})
			if want := "\nmodel: " + c.want + "\n"; !strings.Contains(text, want) {
				t.Errorf("%q is not in:\n%s", want, text)
			}
		})
	}
}

// Of a model that gives way the refusal says so, and of pods of other pools why they
// are out.
func TestRewriteDecided(t *testing.T) {
	s := clearWin()
	s.weights.Saturation = score.Reject
	for i := range s.pods {
		s.pods[i].Waiting.Value = 99
	}
	s.pods[1].Excluded = score.NotInPool
	s.edit = func(rec *explain.Record) {
		rec.Request.Rewrite = &explain.Rewrite{To: "llama", By: "InferenceModel ns/batch", Criticality: explain.Sheddable}
	}
	report := explain.Explain(s.record(), explain.Options{})
	if want := "with 429: no pod was left whose queue is not full (1 not-in-pool, 2 queue-full), and the model is Sheddable"; !strings.HasSuffix(report.Verdict, want) {
		t.Errorf("verdict %q, want %q at its end", report.Verdict, want)
	}
	for _, out := range report.Excluded {
		if want := "the pod is in no pool that serves the name"; out.Reason == "not-in-pool" && out.Detail != want {
			t.Errorf("%s is out because %q, want %q", out.Pod, out.Detail, want)
		}
	}
	if report.Rewrite == nil || !report.Replay.Identical {
		t.Errorf("rewrite %+v, replay %+v", report.Rewrite, report.Replay)
	}
}
