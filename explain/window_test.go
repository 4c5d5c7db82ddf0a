package explain_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/score"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// minutes reads a window of ten minutes from noon, and the ten before, of a
// decision each ten seconds.
func minutes(t *testing.T, before, now func(i int) *explain.Record) *explain.Window {
	t.Helper()
	w := explain.NewWindow(noon, noon.Add(10*time.Minute))
	for i := range 60 {
		for part, of := range []func(int) *explain.Record{before, now} {
			rec := of(i)
			rec.Time = noon.Add(time.Duration(part-1)*10*time.Minute + time.Duration(i)*10*time.Second)
			rec.DecisionID = fmt.Sprint(part, "-", i)
			w.See(rec)
		}
	}
	return w.Window()
}

// quiet is a decision of a healthy fleet, whose engine found what was predicted.
func quiet(pods ...score.PodState) func(int) *explain.Record {
	return func(int) *explain.Record {
		return scene{req: plain, weights: score.Default(), pods: pods}.record()
	}
}

func edited(of func(int) *explain.Record, edit func(i int, rec *explain.Record)) func(int) *explain.Record {
	return func(i int) *explain.Record {
		rec := of(i)
		edit(i, rec)
		return rec
	}
}

func TestWindowSaysWhatMoved(t *testing.T) {
	healthy := quiet(pod("a", 187, .4, 2), pod("b", 0, .3, 1))
	for _, tc := range []struct {
		name    string
		now     func(int) *explain.Record
		moved   []string
		verdict string
	}{
		{"nothing", healthy, nil, "none of the five checks moved"},
		{"caches are cold", quiet(pod("a", 90, .4, 2), pod("b", 0, .3, 1)), []string{"cacheMatch"}, "less of the prompts is cached"},
		{"queues are deep", quiet(pod("a", 187, .4, 13), pod("b", 0, .3, 15)), []string{"queueDepth"}, "queues are deep"},
		{"a pod is gone", quiet(pod("a", 187, .4, 2)), []string{"candidates"}, "the pool has shrunk"},
		{"a pod is sick", quiet(pod("a", 187, .4, 2), sick("b")), []string{"candidates"}, "the pool has shrunk"},
		{
			"the picker is slow",
			edited(healthy, func(_ int, rec *explain.Record) { rec.Timings.Total = 0.006 }),
			[]string{"scoring"},
			"the picker itself is slow",
		},
		{
			"a little slower is nothing",
			edited(healthy, func(_ int, rec *explain.Record) { rec.Timings.Total = 0.0009 }), nil, "none of the five checks moved",
		},
		{
			"one of ten caches was gone",
			edited(healthy, func(i int, rec *explain.Record) {
				if i%10 == 0 {
					rec.Outcome.CachedTokens = new(16)
				}
			}),
			[]string{"stale"},
			"caches that were gone",
		},
		{
			"what is not known has not moved",
			quiet(with(pod("a", 0, .4, 2), func(p *score.PodState) { p.Cache, p.Waiting = score.Reading{}, score.Reading{} }), pod("b", 0, .3, 1)),
			[]string{"cacheMatch"},
			"less of the prompts is cached", // b's, which is known
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := minutes(t, healthy, tc.now)
			var moved []string
			for _, c := range w.Checks {
				if c.Moved {
					moved = append(moved, c.Name)
				}
			}
			if diff := cmp.Diff(tc.moved, moved); diff != "" {
				t.Errorf("moved (-want +got):\n%s", diff)
			}
			if !strings.Contains(w.Verdict, tc.verdict) {
				t.Errorf("verdict %q, want %q in it", w.Verdict, tc.verdict)
			}
		})
	}
}

// logged is a decision that llm-d's picker logged: no limits, no blocks, and
// scorers of its own names.
func logged(waiting, prefix float64) func(int) *explain.Record {
	return func(i int) *explain.Record {
		rec := quiet(pod("a", 0, .4, waiting), pod("b", 0, .3, waiting))(i)
		rec.Origin = &explain.Origin{Kind: "llm-d"}
		rec.Weights.MaxQueue, rec.Timings.Total = math.MaxInt32, 0
		rec.Request.Blocks, rec.Request.Chain = 0, nil
		for k := range rec.Candidates {
			rec.Candidates[k].Custom = []explain.CustomValue{{Name: "prefix-cache-scorer", Value: &prefix, State: "known"}}
		}
		return rec
	}
}

func TestWindowOfAnotherPickersLog(t *testing.T) {
	for _, tc := range []struct {
		name            string
		waiting, prefix float64
		moved           string
	}{
		{"nothing", 2, .9, ""},
		{"queues are deep", 9, .9, "queueDepth"},
		{"caches are cold", 2, .2, "cacheMatch"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := minutes(t, logged(2, .9), logged(tc.waiting, tc.prefix))
			for _, c := range w.Checks {
				if c.Moved != (c.Name == tc.moved) {
					t.Errorf("%s: moved %v", c.Name, c.Moved)
				}
				if c.Name == "scoring" && c.Measured.Now.Count != 0 {
					t.Errorf("times that the log does not tell: %+v", c.Measured.Now)
				}
			}
		})
	}
}

// Of many requests at once that begin alike, none could have found what the others
// have not left yet: nothing is lost, and nothing was evicted.
func TestWindowOfABurst(t *testing.T) {
	empty := []score.PodState{pod("a", 0, .1, 0), pod("b", 0, .2, 0)}
	w := explain.NewWindow(noon, noon.Add(24*time.Hour))
	for i := range 20 {
		rec := turn("chat", time.Duration(i)*time.Millisecond, 100, 100, empty...)
		rec.Request.PrefixTokens, rec.Time = 1600, noon.Add(time.Duration(i)*time.Millisecond)
		w.See(rec)
	}
	late := turn("chat", time.Minute, 100, 100, pod("b", 0, .2, 0)) // a has left the pool
	late.Request.PrefixTokens, late.Time = 1600, noon.Add(time.Hour)
	w.See(late)
	l := w.Window().Ladder
	if kept := l.Steps[1]; l.Steps[0].Tokens != 1584 || len(kept.Lost) != 1 || kept.Lost[0] != (explain.Loss{Cause: explain.CauseOwnerRemoved, Tokens: 1584}) {
		t.Errorf("ladder %+v", l)
	}
}

func TestWindowOfFewDecisionsSaysNothing(t *testing.T) {
	w := explain.NewWindow(noon, noon.Add(time.Minute))
	if got := w.Window().Verdict; got != "no decision in this time" {
		t.Errorf("verdict %q", got)
	}
	w = explain.NewWindow(noon, noon.Add(time.Minute))
	w.See(quiet(pod("a", 0, .4, 2))(0)) // out of its time
	rec := quiet(pod("a", 0, .4, 2))(0)
	rec.Time = noon
	w.See(rec)
	if got := w.Window(); got.Decisions != 1 || !strings.Contains(got.Verdict, "too few") {
		t.Errorf("%d decisions, verdict %q", got.Decisions, got.Verdict)
	}
}

func TestWindowTellsHowAdaptersThrash(t *testing.T) {
	// needs is a decision that needs an adapter of n, which no pod has loaded, or all.
	needs := func(n int, loaded bool) func(int) *explain.Record {
		return func(i int) *explain.Record {
			name := fmt.Sprint("lora-", i%n)
			var pods []score.PodState
			for _, p := range []string{"a", "b"} {
				pods = append(pods, with(pod(p, 0, .1*float64((i+len(pods))%2), 0), func(p *score.PodState) {
					if p.MaxAdapters = 4; loaded {
						p.Adapters = []string{name}
					}
				}))
			}
			return scene{req: score.InferenceRequest{Blocks: 10, Adapter: name}, weights: score.Default(), pods: pods}.record()
		}
	}
	mixed := func(i int) *explain.Record { return needs(1+2*(i%2), false)(i) } // two of three of lora-0
	for _, tc := range []struct {
		name    string
		now     func(int) *explain.Record
		pattern string
		text    string
	}{
		{"loaded", needs(3, true), "none", "no thrashing"},
		{"one adapter", needs(1, false), "concentrated", "a higher weight of adapter"},
		{"mostly one", mixed, "concentrated", "of lora-0, whose requests went to 2 pods"},
		{"a few", needs(6, false), "spread", "the cache fights with the adapters"},
		{"more than fit", needs(20, false), "spread", "too many for these pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := explain.NewWindow(noon, noon.Add(3*time.Minute))
			for i := range 60 {
				rec := tc.now(i)
				rec.Time = noon.Add(time.Duration(i) * 3 * time.Second)
				w.See(rec)
			}
			if a := w.Window().Adapters; a == nil || a.Pattern != tc.pattern || !strings.Contains(a.Text, tc.text) {
				t.Errorf("adapters %+v, want %s: %s", a, tc.pattern, tc.text)
			}
		})
	}
	if a := minutes(t, quiet(pod("a", 0, .4, 2)), quiet(pod("a", 0, .4, 2))).Adapters; a != nil {
		t.Errorf("requests without adapters: %+v", a)
	}
}

func TestLadder(t *testing.T) {
	first := turn("chat", 0, 100, 100, pod("a", 0, .1, 0), pod("b", 0, .2, 0))
	full := func(p score.PodState) score.PodState {
		return with(p, func(p *score.PodState) { p.Waiting.Value = 20 })
	}
	for _, tc := range []struct {
		name   string
		then   *explain.Record
		cached int
		want   string
	}{
		{"still running there", turn("chat", time.Second, 120, 120, pod("a", 0, .1, 0), pod("b", 0, .2, 0)), 0, "0 0 0 0 0"},
		{"its pod has left", turn("chat", time.Minute, 120, 120, pod("b", 0, .2, 0)), 0, "1536 0 0 0 0 owner-removed"},
		{"ids were guessed", guessed(turn("chat", time.Minute, 120, 120, pod("a", 100, .1, 0), pod("b", 0, .2, 0))), 0, "1600 1600 1600 1600 0 tokens-approximate"},
		{"all the way", turn("chat", time.Minute, 120, 120, pod("a", 100, .1, 0), pod("b", 0, .2, 0)), 1600, "1600 1600 1600 1600 1600"},
		{"dropped", turn("chat", time.Minute, 120, 120, pod("a", 10, .1, 0), pod("b", 0, .2, 0)), 160, "1536 160 160 160 160 evicted-seen"},
		{"full", turn("chat", time.Minute, 120, 120, full(pod("a", 100, .1, 0)), pod("b", 20, .2, 0)), 320, "1600 1600 320 320 320 owner-queue-full"},
		{"outweighed", turn("chat", time.Minute, 120, 120, pod("a", 100, 1, 19), pod("b", 70, .1, 0)), 1120, "1600 1600 1600 1120 1120 as-designed"},
		{"stale", turn("chat", time.Minute, 120, 120, pod("a", 100, .1, 0), pod("b", 0, .2, 0)), 160, "1600 1600 1600 1600 160 evicted-unseen"},
		{"the last token is never cached", turn("chat", time.Minute, 100, 100, pod("a", 100, .1, 0), pod("b", 0, .2, 0)), 1584, "1584 1584 1584 1584 1584"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.then.Request.PrefixTokens = tc.then.Request.Blocks * 16
			tc.then.Outcome.CachedTokens = new(tc.cached)
			l := explain.LadderOf(tc.then, []*explain.Record{first})
			var got []string
			for _, s := range l.Steps {
				got = append(got, fmt.Sprint(s.Tokens))
			}
			for _, s := range l.Steps {
				for _, loss := range s.Lost {
					got = append(got, loss.Cause)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("ladder (-want +got):\n%s", diff)
			}
		})
	}
}

// guessed makes the ids of a prompt others than the engine's.
func guessed(rec *explain.Record) *explain.Record {
	rec.Request.TokensFrom, rec.Outcome.PromptTokens = "approximate", new(rec.Request.PromptTokens+7)
	return rec
}

func TestWindowText(t *testing.T) {
	healthy := quiet(pod("a", 187, .4, 2), pod("b", 0, .3, 1))
	now := edited(quiet(pod("a", 90, .4, 13), pod("b", 60, .3, 14)), func(i int, rec *explain.Record) {
		rec.Outcome.TTFTSeconds = new(0.05 * float64(i))
		if i%3 == 0 {
			rec.Outcome.CachedTokens = nil
		}
	})
	w := minutes(t, healthy, now)
	goldenDocuments(t, "window", w)
	for _, columns := range []int{80, 120} {
		var b strings.Builder
		if err := w.Text(&b, explain.TextOptions{Width: columns}); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, fmt.Sprintf("testdata/window.%d.txt", columns), b.String())
	}
}
