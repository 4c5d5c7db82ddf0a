package serve

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
)

const herd = 50

// still makes the fleet hold everything that it says, so that between the picks
// nothing is learned.
func still(t *testing.T) *rig {
	t.Helper()
	opts := serveOptions(4)
	opts.Sim.Speed = 1
	opts.Config.Intervals.PodReportMs = 100
	return start(t, opts)
}

// stampede sends the herd at once while the fleet is still, and returns the
// decisions in their order.
func (r *rig) stampede(body func(i int) object) []*explain.Record {
	r.t.Helper()
	r.quiet()
	if err := r.fleet.Hold(sim.AllPods, sim.Everything()); err != nil {
		r.t.Fatal(err)
	}
	running := r.crowd("herd", herd, body)
	r.inFlight(herd)
	list := make([]*explain.Record, herd)
	for i := range list {
		list[i] = r.decision(fmt.Sprint("herd-", i))
		replayed(r.t, list[i])
		if list[i].Result.Relaxed {
			r.t.Errorf("%s was picked with the queue limit let go", list[i].RequestID)
		}
	}
	slices.SortFunc(list, func(a, b *explain.Record) int { return inFlightOf(a) - inFlightOf(b) })
	if err := r.fleet.Release(sim.AllPods, sim.Everything()); err != nil {
		r.t.Fatal(err)
	}
	running.allWell(r.t)
	r.inFlight(0)
	return list
}

// inFlightOf is how many requests ran when a decision was taken.
func inFlightOf(rec *explain.Record) (n int) {
	for i := range rec.Candidates {
		n += rec.Candidates[i].InFlight
	}
	return n
}

// sawEachOther fails unless each decision saw all that were taken before it, as
// pending and in flight.
func sawEachOther(t *testing.T, list []*explain.Record) {
	t.Helper()
	given := map[string]int{}
	for i, rec := range list {
		for _, c := range rec.Candidates {
			if c.Pending != given[c.Pod] || c.InFlight != given[c.Pod] {
				t.Fatalf("decision %d saw %d pending and %d in flight on %s, which had been given %d", i, c.Pending, c.InFlight, c.Pod, given[c.Pod])
			}
		}
		given[rec.Result.Pod]++
	}
}

func shares(list []*explain.Record) map[string]int {
	n := map[string]int{}
	for _, rec := range list {
		n[rec.Result.Pod]++
	}
	return n
}

// The fifth worked example of the scoring page: 50 requests with one prefix,
// which one of four idle pods holds.
func TestHerdFillsTheOwnerAndSpreadsTheRest(t *testing.T) {
	r := still(t)
	body := r.completion(words("h", 512), 1)
	_, rec := r.ask("first", completionsPath, body)
	owner := rec.Result.Pod

	list := r.stampede(func(int) object { return body })
	got := shares(list)
	want := map[string]int{}
	for _, p := range r.fleet.Pods() {
		want[p.Name] = 10
	}
	want[owner] = 20
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shares (−want +got):\n%s", diff)
	}
	sawEachOther(t, list)
	for i, rec := range list[:20] {
		if rec.Result.Pod != owner {
			t.Errorf("pick %d went to %s before the queue of %s was full", i, rec.Result.Pod, owner)
		}
	}
	for i, rec := range list[20:] {
		if c := candidate(t, rec, owner); c.Reason != "queue-full" {
			t.Errorf("pick %d: the owner is %q with %d pending", 20+i, c.Reason, c.Pending)
		}
	}
}

// case P1
func TestHerdWithoutAPrefixSpreads(t *testing.T) {
	r := still(t)
	list := r.stampede(func(i int) object { return r.completion(words(fmt.Sprintf("%02d", i), 64), 1) })
	got := shares(list)
	if most := slices.Max(slices.Collect(maps.Values(got))); most*100 > herd*40 {
		t.Errorf("shares are %v: the largest is over 40 %%", got)
	}
	sawEachOther(t, list)
	first := map[string]bool{}
	for _, rec := range list {
		if inFlightOf(rec)%len(rec.Candidates) == 0 { // all pods are equal
			first[rec.Result.Pod] = true
		}
	}
	if len(first) < 2 {
		t.Errorf("of equal pods always %v was picked", slices.Collect(maps.Keys(first)))
	}
}
