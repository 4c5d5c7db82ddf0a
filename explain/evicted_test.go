package explain_test

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// What is said when the engine found less than predicted rests on the class of the
// prediction.
func TestCausesOfACacheThatWasGone(t *testing.T) {
	for _, tc := range []struct {
		class, cause, text string
		counted            int // tokens of the prompt, by the engine
	}{
		{"", explain.CauseEvicted, "gone since the last report of sim-2, 0.4s before the pick", 3128},
		{explain.PredictionUnexplained, explain.CauseEvicted, "gone since the last report of sim-2, 0.4s before the pick", 3128},
		{explain.PredictionUnseen, explain.CauseEvicted, "evicted before the pick, which was told after it", 3128},
		{explain.PredictionRaced, explain.CauseEvictedRaced, "evicted while the request waited, in the 41.2 ms before its first byte", 3128},
		{explain.PredictionAfterGap, explain.CauseInputStale, "events of sim-2 were missed", 3128},
		{explain.PredictionAssumed, explain.CauseEvicted, "what sim-2 holds is only assumed", 3128},
		{explain.PredictionUnexplained, explain.CauseTokensApproximate, "the engine counted 3129 tokens", 3129},
		{explain.PredictionUnseen, explain.CauseEvicted, "evicted before the pick, which was told after it", 3129},
	} {
		s := clearWin()
		s.edit = func(rec *explain.Record) {
			rec.Outcome.CachedTokens, rec.Outcome.Prediction, rec.Outcome.PromptTokens = new(0), tc.class, new(tc.counted)
		}
		r := explain.Explain(s.record(), explain.Options{})
		if r.Cause != tc.cause || !strings.Contains(r.Notes[0].Text, tc.text) {
			t.Errorf("class %q: cause %s of %+v, want %s and %q", tc.class, r.Cause, r.Notes, tc.cause, tc.text)
		}
		last := r.Ladder.Steps[len(r.Ladder.Steps)-1]
		if got := last.Lost[0].Cause; tc.cause != explain.CauseTokensApproximate && got != tc.cause {
			t.Errorf("class %q: the ladder blames %s, want %s", tc.class, got, tc.cause)
		}
	}
}

// Guessed ids that are not the engine's show nothing of what a pod has lost.
func TestGuessedIdsProveNoEviction(t *testing.T) {
	pods := []score.PodState{pod("owner", 0, .5, 1), pod("other", 0, .1, 0)}
	first, then := turns(scene{req: plain, weights: score.Default(), pods: pods, edit: cold})
	options := explain.Options{Earlier: []*explain.Record{first}}
	if r := explain.Explain(then, options); r.Cause != explain.CauseEvictedSeen {
		t.Fatalf("cause %s of %+v", r.Cause, r.Notes)
	}
	for _, rec := range []*explain.Record{first, then} {
		was := rec.Outcome.PromptTokens
		for _, counted := range []*int{nil, new(3129)} {
			rec.Outcome.PromptTokens = counted
			if r := explain.Explain(then, options); r.Cause == explain.CauseEvictedSeen {
				t.Errorf("%s was counted otherwise: %+v", rec.RequestID, r.Notes)
			}
		}
		rec.Outcome.PromptTokens = was
	}
}
