package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
)

// silentOptions are those of a picker to whose n pods with so many blocks nobody
// listens: neither events nor reports.
func silentOptions(n, blocks int) Options {
	opts := serveOptions(n)
	opts.Config.Addresses.Report = ""
	opts.Config.Assume.Enabled = true
	opts.Sim.Blocks = blocks
	return opts
}

// dialogue is a conversation by its number, whose prompt is so many tokens longer
// with each turn.
func (r *rig) dialogue(number, turn, tokens int) object {
	return r.completion(words(fmt.Sprintf("%c%c", 'a'+number/26, 'a'+number%26), turn*tokens), 32)
}

// counts are predicted and found tokens of a request to a pod that is assumed to
// hold what was sent to it.
func counts(t *testing.T, rec *explain.Record) (predicted, found int) {
	t.Helper()
	c := candidate(t, rec, rec.Result.Pod).Cache
	if c.Source != "assumed" || c.State != "known" || c.AgeSeconds != 0 || !strings.HasPrefix(c.Detail, "assumed: what was sent to it") {
		t.Errorf("the record says of the cache of %s: %+v", rec.Result.Pod, c)
	}
	return countOf(t, "prediction", rec.Outcome.PredictedCached), countOf(t, "engine's count", rec.Outcome.CachedTokens)
}

func TestAssumedConversationsStayWithTheirCaches(t *testing.T) {
	const tokens = 320
	r := start(t, silentOptions(4, 8192))
	owners := make([]string, 6)
	for turn := 1; turn <= 4; turn++ {
		for k := range owners {
			id := fmt.Sprintf("talk-%d-turn-%d", k, turn)
			a, rec := r.ask(id, completionsPath, r.dialogue(k, turn, tokens))
			replayed(t, rec)
			predicted, found := counts(t, rec)
			if turn == 1 {
				owners[k] = a.pod()
			}
			if want := (turn - 1) * tokens; a.pod() != owners[k] || predicted != want || found != want {
				t.Errorf("%s went to %s, %d tokens were predicted and %d found; want %s and %d", id, a.pod(), predicted, found, owners[k], want)
			}
		}
	}
	var text strings.Builder
	if err := explain.Explain(r.decision("talk-0-turn-4"), explain.Options{}).Text(&text, explain.TextOptions{Width: 160}); err != nil {
		t.Fatal(err)
	}
	if want := "(assumed: what was"; !strings.Contains(text.String(), want) {
		t.Errorf("the explanation does not say %q:\n%s", want, text.String())
	}
	if p := r.pods()[owners[0]]; p.Cache.Source != "assumed" || p.Cache.Blocks == nil || *p.Cache.Blocks < 4*tokens/16 {
		t.Errorf("the pod's cache is %+v", p.Cache)
	}
}

func TestNothingIsAssumedByDefault(t *testing.T) {
	opts := silentOptions(1, 8192)
	opts.Config.Assume.Enabled = false
	r := start(t, opts)
	for turn := 1; turn <= 2; turn++ {
		_, rec := r.ask(fmt.Sprint("turn-", turn), completionsPath, r.dialogue(0, turn, 320))
		if c := candidate(t, rec, "sim-0").Cache; c.Source != "none" && c.Source != "" || c.State != "unknown" || rec.Outcome.PredictedCached != nil {
			t.Errorf("the record says of the cache: %+v, predicted %v", c, rec.Outcome.PredictedCached)
		}
	}
}

// More conversations than there is room for: what is predicted is what the engine
// has, or what it had when it last told otherwise.
func TestAssumedUnderEviction(t *testing.T) {
	const talks, turns, tokens = 8, 5, 320
	for _, tt := range []struct {
		name     string
		blocks   int // of the pod; a last turn takes 102
		pressure int // blocks that go, before each round, without need
		over     float64
	}{
		{"for want of room", 400, 0, 0.01},
		{"for no reason that is seen", 2000, 150, 0.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, silentOptions(1, tt.blocks))
			r.until("the engine says how large its cache is", func() bool { return r.pods()["sim-0"].Engine.CapacityBlocks != nil })
			over, under, found, prompts := 0, 0, 0, 0
			for turn := 1; turn <= turns; turn++ {
				if _, err := r.fleet.Evict(sim.AllPods, tt.pressure); err != nil {
					t.Fatal(err)
				}
				for k := range talks {
					_, rec := r.ask(fmt.Sprintf("talk-%d-turn-%d", k, turn), completionsPath, r.dialogue(k, turn, tokens))
					p, f := counts(t, rec)
					over, under = over+max(0, p-f), under+max(0, f-p)
					found, prompts = found+f, prompts+turn*tokens
				}
			}
			t.Logf("of %d prompt tokens %d were found; %d more were predicted, and %d fewer", prompts, found, over, under)
			if share := float64(over) / float64(prompts); share > tt.over {
				t.Errorf("%.3f of the prompt tokens were predicted and not found, want at most %v", share, tt.over)
			}
			if found == 0 {
				t.Error("nothing was found: the test shows nothing")
			}
		})
	}
}

// A cache that was emptied shows: by the process's start at once, else by the first
// answer.
func TestAssumedCacheIsEmptied(t *testing.T) {
	const tokens, talks = 320, 3
	for _, tt := range []struct {
		name   string
		empty  func(r *rig) error
		missed int // tokens of the first request behind it
	}{
		{"the pod is restarted", func(r *rig) error {
			if err := r.fleet.Restart("sim-0"); err != nil {
				return err
			}
			r.until("nothing is assumed", func() bool { b := r.pods()["sim-0"].Cache.Blocks; return b != nil && *b == 0 })
			r.recover() // probes may have failed meanwhile
			return nil
		}, 0},
		{"its cache is reset", func(r *rig) error { return r.fleet.Reset("sim-0") }, tokens},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, silentOptions(1, 8192))
			for k := range talks {
				r.ask(fmt.Sprint("before-", k), completionsPath, r.dialogue(k, 1, tokens))
			}
			if err := tt.empty(r); err != nil {
				t.Fatal(err)
			}
			for i := range talks {
				k := talks - 1 - i // the last one first: all others were used before it
				_, rec := r.ask(fmt.Sprint("after-", k), completionsPath, r.dialogue(k, 2, tokens))
				predicted, found := counts(t, rec)
				if want := tt.missed * max(0, 1-i); predicted != want || found != 0 {
					t.Errorf("request %d: %d tokens were predicted and %d found, want %d and none", i, predicted, found, want)
				} else if want > 0 {
					r.because(rec.RequestID, explain.CauseEvicted, "what sim-0 holds is only assumed")
				}
			}
		})
	}
}
