package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

func TestClassesFollowOnEachOther(t *testing.T) {
	for c := range classes {
		low, high := bound(c, time.Millisecond), bound(c+1, time.Millisecond)
		if high <= low || c >= perPowerOf2 && high > low*1.2500001 {
			t.Fatalf("class %d is from %v to %v", c, low, high)
		}
		if middle := time.Duration((low + high) / 2 * float64(time.Second)); class(middle, time.Millisecond) != c {
			t.Errorf("%v is in class %d, want %d", middle, class(middle, time.Millisecond), c)
		}
	}
	if class(-time.Second, ttftUnit) != 0 || class(time.Hour*24*365, ttftUnit) != classes-1 {
		t.Error("what is beyond the classes is in neither the first nor the last")
	}
}

func TestQuantilesAreRightToAnEighth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var counts sketch
	var all []float64
	for range 20_000 {
		d := time.Duration(float64(50*time.Millisecond) * (1 + rng.ExpFloat64()*8))
		counts[class(d, ttftUnit)]++
		all = append(all, d.Seconds())
	}
	slices.Sort(all)
	for _, q := range []float64{.01, .5, .95, .99} {
		want := all[int(q*float64(len(all)))]
		if got := *quantile(counts[:], q, ttftUnit); got < want*.875 || got > want*1.125 {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if got := quantile(make([]uint32, classes), .5, ttftUnit); got != nil {
		t.Errorf("the median of nothing is %v", *got)
	}
}

// Whatever happens in whatever second, the windows count what a list of all would.
func TestWindowsCountWhatHappened(t *testing.T) {
	type happening struct {
		at     time.Time
		pod    int
		served bool
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(0)
		var all []happening
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			// What happens counts as in the middle of the time between two looks.
			step := time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second
			for range rapid.IntRange(0, 5).Draw(t, "happenings") {
				h := happening{r.clock.now.Add(step / 2), rapid.IntRange(0, 4).Draw(t, "pod"), rapid.Bool().Draw(t, "served")}
				all = append(all, h)
				if h.served {
					r.tally.completed(at(h.pod), ended(time.Second, 100, 40), 50, false)
				} else {
					r.tally.picked(entry(5, h.pod))
				}
			}
			r.pods = nil
			for i := range 5 {
				r.pods = append(r.pods, view(i))
			}
			r.clock.pass(step)
			r.Look()
			s := r.Snapshot()
			for k, seconds := range explain.WindowSeconds {
				picks, served := make([]int, 5), make([]int, 5)
				for _, h := range all {
					if h.at.After(r.clock.now.Add(-time.Duration(seconds) * time.Second)) {
						if h.served {
							served[h.pod]++
						} else {
							picks[h.pod]++
						}
					}
				}
				w := &s.Windows[k]
				if w.Decisions != sum(picks) || w.Completed != sum(served) || w.CachedTokens != 40*sum(served) || w.PredictedTokens != 50*sum(served) {
					t.Fatalf("window %+v, want %d decisions and %d ends", w, sum(picks), sum(served))
				}
				if (w.MatchRatio != nil) != (w.Decisions > 0) || w.MatchRatio != nil && *w.MatchRatio != .5 {
					t.Fatalf("match ratio %v of %d decisions", w.MatchRatio, w.Decisions)
				}
				for i := range s.Pods {
					p := &s.Pods[i]
					if p.Picks[k] != picks[i] || k == midWindow && (p.Served != served[i] || p.DecidedBy["onlyCandidate"] != picks[i]) {
						t.Fatalf("pod %+v, want %d picks and %d served", p, picks[i], served[i])
					}
				}
			}
		}
	})
}

func sum(n []int) (all int) {
	for _, v := range n {
		all += v
	}
	return all
}

func TestWhatDecidesHasItsName(t *testing.T) {
	w := score.Default()
	w.Custom = []score.CustomWeight{{Name: "cost"}}
	for by := score.ByTieSeed; int(by) < w.Factors(); by++ {
		want := by.Name(&w)
		if by == score.ByNothing {
			want = "random"
		}
		if got := deciderName(decider(by), &w, "random"); got != want {
			t.Errorf("decided by %d is %q, want %q", by, got, want)
		}
	}
	if got := deciderName(decider(1000), &w, ""); got != "other" {
		t.Errorf("what is beyond is %q", got)
	}
}

// More pods than there is room for count in the totals, and those that have gone
// make room.
func TestPodsThatAreGoneMakeRoom(t *testing.T) {
	r := newRig(0)
	for i := range maxNumbers + 10 {
		r.tally.picked(entryOf([]score.PodState{state(i)}, 0))
	}
	r.second()
	if n, w := len(r.windows.numbers), r.Snapshot().Windows[0]; n != maxNumbers || w.Decisions != maxNumbers+10 {
		t.Fatalf("%d pods and %d decisions", n, w.Decisions)
	}
	for range 302 {
		r.second()
	}
	if len(r.windows.numbers) != 0 || len(r.tally.numbers) != 0 {
		t.Fatalf("%d pods are kept after 5 minutes", len(r.windows.numbers))
	}
	r.pods = []pool.View{view(9000)}
	r.tally.picked(entryOf([]score.PodState{state(9000)}, 0))
	r.second()
	if s := r.Snapshot(); s.Pods[0].Picks[0] != 1 || len(r.tally.names) != maxNumbers {
		t.Errorf("picks %v of a pod that took a freed place", s.Pods[0].Picks)
	}
}

// A pod that is in use keeps its place, however quiet it has been.
func TestPodsInThePoolKeepTheirPlace(t *testing.T) {
	r := newRig(2)
	r.tally.picked(entry(2, 1))
	for range 400 {
		r.second()
	}
	r.tally.picked(entry(2, 1))
	r.second()
	if s := r.Snapshot(); len(r.windows.numbers) != 1 || s.Pods[1].Picks[2] != 1 {
		t.Errorf("pods %+v", s.Pods)
	}
}

func TestOnlyLaterLoadsAreReloads(t *testing.T) {
	r := newRig(2)
	load := func(pod int, adapter string) {
		e := entry(2, pod)
		e.Inputs.Request.Adapter = adapter
		e.Decision.Results[pod].States[score.AdapterMatch] = score.Known
		r.tally.picked(e)
	}
	load(0, "fr")
	load(0, "fr") // before the pod could tell
	load(0, "de")
	load(1, "fr")
	r.second()
	load(0, "fr")
	r.second()
	if s := r.Snapshot(); s.Windows[1].AdapterLoads != 5 || s.Pods[0].Adapters.Loads != 4 || s.Pods[0].Adapters.Reloads != 0 {
		t.Fatalf("windows %+v, pods %+v", s.Windows, s.Pods)
	}
	for range 10 {
		r.second()
	}
	load(0, "fr")
	load(1, "de")
	r.second()
	if s := r.Snapshot(); s.Pods[0].Adapters.Reloads != 1 || s.Pods[1].Adapters.Reloads != 0 {
		t.Errorf("reloads %+v and %+v, want 1 and 0", s.Pods[0].Adapters, s.Pods[1].Adapters)
	}
	for range 60 {
		r.second()
	}
	if s := r.Snapshot(); s.Pods[0].Adapters.Reloads != 0 {
		t.Errorf("reloads %+v after a minute", s.Pods[0].Adapters)
	}
}
