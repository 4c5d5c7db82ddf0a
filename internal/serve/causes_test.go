package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/source"
)

// why is what 'eppctl explain' says of a request: all of it comes from the admin API.
func (r *rig) why(id string) *explain.Report {
	r.t.Helper()
	pickers := source.NewPickers([]*admin.Client{r.admin}, source.Options{})
	found, err := pickers.Find(r.ctx, id, 1)
	r.must(err)
	earlier, _, err := source.Alike(r.ctx, pickers, found.Record, 0, true)
	r.must(err)
	report := explain.Explain(found.Record, explain.Options{Earlier: earlier})
	if !report.Replay.Identical {
		r.t.Errorf("%s does not replay: %s", id, report.Replay.Difference)
	}
	return report
}

// because fails unless a request has that cause, told in these words.
func (r *rig) because(id, cause string, words ...string) *explain.Report {
	r.t.Helper()
	report := r.why(id)
	text := report.Verdict
	for _, n := range report.Notes {
		if n.Cause == cause {
			text += "\n" + n.Text
		}
	}
	if report.Cause != cause {
		r.t.Errorf("%s: cause %s, want %s: %s %+v", id, report.Cause, cause, report.Verdict, report.Notes)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			r.t.Errorf("%s: %s is not told with %q:\n%s", id, cause, word, text)
		}
	}
	return report
}

// A prompt of the scenarios has so many tokens, all but the last block of which can
// be found in a cache.
const promptTokens, cachedTokens = 320, promptTokens - 16

// warm sends a request with a prompt of that mark, of which only the pod that it
// names knows then, and waits until what it left there should be known.
func (r *rig) warm(mark string) (pod string) {
	r.t.Helper()
	_, rec := r.ask(mark+"-1", completionsPath, r.completion(words(mark, promptTokens), 1))
	r.must(r.server.clock.Sleep(r.ctx, 4*time.Second))
	if r.fleet.Pods()[0].Events != "" {
		r.applied()
	}
	r.quiet()
	return rec.Result.Pod
}

// again sends the same prompt once more.
func (r *rig) again(mark string) *explain.Record {
	r.t.Helper()
	_, rec := r.ask(mark+"-2", completionsPath, r.completion(words(mark, promptTokens), 1))
	return rec
}

// settled waits until it is known why the engine found other than predicted.
func (r *rig) settled(id string) {
	r.t.Helper()
	r.until("the prediction of "+id+" is explained", func() bool {
		return r.decision(id).Outcome.Prediction != explain.PredictionUnexplained
	})
}

func (r *rig) evict(pod string) {
	r.t.Helper()
	n, err := r.fleet.Evict(pod, -1)
	r.must(err)
	if n == 0 {
		r.t.Fatalf("%s had nothing to evict", pod)
	}
}

// What was predicted or left behind is gone, each time for another reason. With KV
// events the reason is known.
func TestCausesOfLostCaches(t *testing.T) {
	t.Parallel()
	opts := serveOptions(3)
	opts.Sim.Events = true
	r := start(t, opts)
	members := slices.Clone(r.server.fixed)
	for i := range members {
		members[i].Replay = "" // what is missed can't be had
	}
	r.must(r.server.setMembers(members))
	r.until("the events are listened to", func() bool {
		for _, p := range r.pods() {
			if len(p.Streams) != 1 || !p.Streams[0].Connected {
				return false
			}
		}
		return true
	})

	t.Run("evicted before the pick, told after it", func(t *testing.T) {
		r.t = t
		pod := r.warm("un")
		r.must(r.fleet.Hold(pod, sim.Channels{Events: true, Answers: true}))
		r.evict(pod)
		late := r.crowd("un", 1, func(int) object { return r.completion(words("un", promptTokens), 1) })
		r.until("the engine has computed it", func() bool { return r.pod(pod).BlocksCached > 0 })
		r.must(r.fleet.Release(pod, sim.Channels{Events: true}))
		r.applied()
		r.release()
		late.allWell(t)
		r.completed("un-0")
		r.settled("un-0")
		r.because("un-0", explain.CauseEvicted, "the pick did not know", fmt.Sprint(cachedTokens), "evicted before the pick, which was told after it")
	})
	t.Run("evicted while the request waited", func(t *testing.T) {
		r.t = t
		pod := r.warm("ra")
		r.must(r.fleet.Fail(pod, sim.FailHang))
		waiting := r.crowd("ra", 1, func(int) object { return r.completion(words("ra", promptTokens), 1) })
		r.inFlight(1)
		r.evict(pod)
		r.recover()
		waiting.allWell(t)
		r.completed("ra-0")
		r.settled("ra-0")
		r.because("ra-0", explain.CauseEvictedRaced, "evicted while the request waited", fmt.Sprint(cachedTokens))
	})
	t.Run("evicted, and told before the pick", func(t *testing.T) {
		r.t = t
		pod := r.warm("se")
		r.evict(pod)
		r.applied()
		r.again("se")
		report := r.because("se-2", explain.CauseEvictedSeen, "the owner had evicted", pod+" had the prefix")
		if e := report.Notes[0].Evidence; len(e) != 1 || e[0].RequestID != "se-1" {
			t.Errorf("evidence %+v, want the request before", e)
		}
	})
	t.Run("evicted in part", func(t *testing.T) {
		r.t = t
		pod := r.warm("pa")
		_, err := r.fleet.Evict(pod, r.pod(pod).BlocksCached-8)
		r.must(err)
		r.applied()
		r.again("pa")
		r.because("pa-2", explain.CauseEvictedSeen, "decided by cacheMatch", pod+" had the prefix and now holds 8 blocks of it")
	})
	t.Run("nothing was evicted", func(t *testing.T) {
		r.t = t
		r.warm("ke")
		r.again("ke")
		r.because("ke-2", explain.CauseAsDesigned)
	})
	t.Run("nobody ever had it", func(t *testing.T) {
		r.t = t
		r.again("no")
		if cause := r.why("no-2").Cause; cause != explain.CauseNoReuse && cause != explain.CauseTieRandom {
			t.Errorf("cause %s", cause)
		}
	})
	t.Run("the eviction's event was lost", func(t *testing.T) {
		r.t = t
		pod := r.warm("ga")
		r.must(r.fleet.Lose(pod, 1))
		r.evict(pod)
		r.must(r.fleet.Lose(pod, 0))
		r.again("ga")
		r.settled("ga-2")
		r.because("ga-2", explain.CauseInputStale, "an input was stale", "events of "+pod+" were missed", fmt.Sprint(cachedTokens))
	})
}
