package picker

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

// Worked example 5: 50 requests at once for one prefix that only one pod has.
func TestHerdOfFifty(t *testing.T) {
	f := newFleet(t, 4, nil)
	f.scrape(0)
	shared := prompt(64, 1)
	for i := range 4 {
		f.report(t, podName(i), func(r *report.Report) {
			if i == 0 {
				holds(shared)(r)
			}
		})
	}
	picks := map[string]int{}
	var all []*Pick
	for range 50 {
		k := f.mustPick(t, call(shared))
		picks[k.Pod()]++
		all = append(all, k)
	}
	want := map[string]int{podName(0): 20, podName(1): 10, podName(2): 10, podName(3): 10}
	if fmt.Sprint(picks) != fmt.Sprint(want) {
		t.Errorf("50 picks went to %v, want %v", picks, want)
	}
	for _, k := range all {
		k.Done(end())
	}
	if n := f.pool.InFlight(); n != 0 || f.Open() != 0 {
		t.Errorf("ledger %d, open %d after the last request", n, f.Open())
	}
}

func TestHerdWithoutAnyMetrics(t *testing.T) { // case P1
	f := newFleet(t, 4, nil)
	picks := map[string]int{}
	first := map[string]bool{}
	for round := range 40 {
		for i := range 50 {
			k := f.mustPick(t, call(prompt(8, 1)))
			if round == 0 {
				picks[k.Pod()]++
			}
			if i == 0 {
				first[k.Pod()] = true
			}
			defer k.Done(end())
		}
		for _, e := range f.pool.Views() {
			if e.State.InFlight != e.State.Pending {
				t.Fatalf("%s: %d in flight, %d pending", e.State.Pod, e.State.InFlight, e.State.Pending)
			}
		}
		if round == 0 {
			for pod, n := range picks {
				if n > 20 {
					t.Errorf("%s got %d of 50, more than 40%%", pod, n)
				}
			}
			f = newFleet(t, 4, nil)
			continue
		}
		f = newFleet(t, 4, nil)
	}
	if len(first) < 2 {
		t.Errorf("40 times the first pick went to %v", first)
	}
}

// Under concurrency no pod is ever given a request at queueDepth ≥ maxQueue.
func TestConcurrentPicksNeverOverbook(t *testing.T) {
	f := newFleet(t, 4, func(c *Config) { c.Weights.Saturation = score.Reject })
	f.scrape(0)
	f.report(t, podName(0), holds(prompt(64, 1)))
	var mu sync.Mutex
	picks, refused := map[string]int{}, 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				k, err := f.Pick(context.Background(), call(prompt(64, 1)))
				mu.Lock()
				if err != nil {
					refused++
				} else {
					picks[k.Pod()]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for pod, n := range picks {
		if n != 20 {
			t.Errorf("%s was given %d requests, want maxQueue = 20", pod, n)
		}
	}
	if refused != 200-80 {
		t.Errorf("%d refused, want 120", refused)
	}
}
