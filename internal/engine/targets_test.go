package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTargetLeftOutIsNeverHeardOfAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.pod("a"), f.pod("b")
		f.set("a:8000/metrics", answer{status: 200, body: twoWaiting, after: 500 * time.Millisecond})
		w, d, stop := watching(t, f, Config{}, a, b)
		defer stop()
		pass(250 * time.Millisecond) // a's scrape is under way
		before := d.counts("a#1")
		w.SetTargets([]Target{b})
		asked := len(f.times("a:8000/health"))
		pass(10 * time.Second)
		if got := d.counts("a#1"); got != before {
			t.Errorf("scrapes, probes, lists of a target that was left out: %v, then %v", before, got)
		}
		if got := len(f.times("a:8000/health")); got != asked {
			t.Errorf("it was asked %d more times", got-asked)
		}
		if got := d.counts("b#1"); got[0] < 40 {
			t.Errorf("the other target was scraped %d times in 10 s", got[0])
		}
		if again := f.times("b:8000/v1/models"); len(again) > 3 {
			t.Errorf("the other target was started again: %d lists", len(again))
		}
	})
}

// Not in a bubble: a goroutine that waits for a mutex does not count as idle.
func TestSetTargetsWaitsForADelivery(t *testing.T) {
	f := newFleet()
	d := newDiary()
	d.entered, d.hold = make(chan struct{}), make(chan struct{})
	w := NewWatcher(Config{ScrapeInterval: time.Hour, Transport: f}, d)
	w.SetTargets([]Target{f.pod("a")})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	<-d.entered
	told := make(chan int, 1)
	wg.Go(func() {
		w.SetTargets(nil)
		told <- d.counts("a#1")[0]
	})
	close(d.hold)
	if got := <-told; got != 1 {
		t.Errorf("%d scrapes had been told when SetTargets returned, want the one under way", got)
	}
	cancel()
	wg.Wait()
}

func TestTargetThatMovedStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a := f.pod("a")
		w, d, stop := watching(t, f, Config{}, a)
		defer stop()
		synctest.Wait()
		moved := f.pod("b")
		moved.ID = a.ID
		w.SetTargets([]Target{moved, moved})
		pass(3 * time.Second)
		if got := len(f.times("a:8000/metrics")); got != 1 {
			t.Errorf("the old address was asked %d times", got)
		}
		if got := d.counts("a#1"); got[0] < 13 || got[0] > 19 {
			t.Errorf("%d scrapes in 3 s, want those of one target", got[0])
		}
	})
}

func TestScrapesAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var targets []Target
		for i := range 20 {
			pod := f.pod(string(rune('a' + i)))
			f.set(pod.Name+":8000/metrics", answer{status: 200, body: twoWaiting, after: 50 * time.Millisecond})
			f.set(pod.Name+":8000/health", answer{status: 200, after: 50 * time.Millisecond})
			targets = append(targets, pod)
		}
		_, d, stop := watching(t, f, Config{MaxConcurrent: 3}, targets...)
		pass(5 * time.Second)
		stop()
		if got := f.most[""]; got > 6 {
			t.Errorf("%d requests at once, want at most 3 scrapes and 3 others", got)
		}
		for _, target := range targets {
			if got := d.counts(target.ID); got[0] < 5 || got[1] < 2 {
				t.Errorf("%s: scrapes, probes, lists = %v in 5 s", target.Name, got)
			}
		}
	})
}

func TestInvalidAddress(t *testing.T) {
	for _, address := range []string{"", "10.0.0.7:8000", "ftp://a:8000", "http://", "http://a:port"} {
		t.Run(address, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, d, stop := watching(t, newFleet(), Config{}, Target{ID: "x", BaseURL: address})
				synctest.Wait()
				stop()
				s := d.scrapes["x"]
				if len(s) != 1 || s[0].Err == nil || s[0].Err.Error() != "endpoint's URL is not http://host:port" {
					t.Errorf("scrapes = %+v", s)
				}
			})
		})
	}
}

func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, stop := watching(t, newFleet(), Config{})
		synctest.Wait()
		if err := w.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v, want ErrRunning", err)
		}
		stop()
	})
}
