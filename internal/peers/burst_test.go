package peers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/picker"
)

// burst is requests for one hot prompt.
type burst struct {
	replicas, pods, requests int
	perSecond                float64
	exchange                 bool
	interval                 time.Duration
	// answer is how long a pod takes per request, one after another; 0: it does not
	// answer. Each replica scrapes every 200 ms then, at a time of its own.
	answer time.Duration
	seed   uint64
}

// outcome is where they went.
type outcome struct {
	picks    []int
	deepest  int // the longest queue that a pod had
	messages uint64
}

func (b burst) run(t *testing.T) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		w := newWires()
		w.latency = 200 * time.Microsecond
		var all []*replica
		if b.exchange {
			all = replicas(t, w, b.replicas, b.pods, func(c *Config) { c.interval = b.interval })
		} else {
			for i := range b.replicas {
				all = append(all, newReplica(t, b.pods, uint64(i)+1))
			}
		}
		time.Sleep(time.Second)
		o = b.pour(t, all)
		for _, r := range all {
			if b.exchange {
				o.messages += r.Stats().Messages
			}
			r.leave()
		}
	})
	return o
}

// pour sends the requests, each to a replica by chance, at times of a Poisson process.
func (b burst) pour(t *testing.T, all []*replica) outcome {
	random := rand.New(rand.NewPCG(b.seed, 7))
	o := outcome{picks: make([]int, b.pods)}
	e := newEngines(b, all)
	for range b.requests {
		wait := time.Duration(random.ExpFloat64() / b.perSecond * float64(time.Second))
		e.until(time.Now().Add(wait))
		k := all[random.IntN(len(all))].pick(t)
		i := podIndex(k.Pod())
		o.picks[i]++
		e.give(i, k)
		o.deepest = max(o.deepest, len(e.queues[i]))
	}
	for _, queue := range e.queues {
		for _, k := range queue {
			finish(k)
		}
	}
	return o
}

func podIndex(name string) (i int) {
	if _, err := fmt.Sscanf(name, "pod-%d", &i); err != nil {
		panic(err)
	}
	return i
}

// engines answer one request after another, and are scraped.
type engines struct {
	b      burst
	all    []*replica
	queues [][]*picker.Pick
	ready  []time.Time // when a pod has finished its first request
	scrape []time.Time // of each replica, the next
}

const scrapeEvery = 200 * time.Millisecond

func newEngines(b burst, all []*replica) *engines {
	e := &engines{b: b, all: all, queues: make([][]*picker.Pick, b.pods), ready: make([]time.Time, b.pods)}
	for i := range all {
		e.scrape = append(e.scrape, time.Now().Add(scrapeEvery*time.Duration(i)/time.Duration(len(all))))
	}
	return e
}

func (e *engines) give(pod int, k *picker.Pick) {
	if len(e.queues[pod]) == 0 {
		e.ready[pod] = time.Now().Add(e.b.answer)
	}
	e.queues[pod] = append(e.queues[pod], k)
}

// until lets time pass.
func (e *engines) until(end time.Time) {
	for {
		next, act := end, func() {}
		if e.b.answer > 0 {
			for i, queue := range e.queues {
				if len(queue) > 0 && e.ready[i].Before(next) {
					next, act = e.ready[i], func() { e.answer(i) }
				}
			}
			for i, at := range e.scrape {
				if at.Before(next) {
					next, act = at, func() { e.look(i) }
				}
			}
		}
		time.Sleep(time.Until(next))
		if next.Equal(end) {
			return
		}
		act()
	}
}

func (e *engines) answer(pod int) {
	k := e.queues[pod][0]
	k.Answered(200)
	finish(k)
	e.queues[pod] = e.queues[pod][1:]
	e.ready[pod] = e.ready[pod].Add(e.b.answer)
}

func (e *engines) look(i int) {
	e.all[i].scraped(func(pod string) int { return max(0, len(e.queues[podIndex(pod)])-1) })
	e.scrape[i] = e.scrape[i].Add(scrapeEvery)
}

// apart is the share of requests that went elsewhere than in another outcome.
func (o outcome) apart(from outcome) float64 {
	sum, all := 0.0, 0
	for i := range o.picks {
		sum += math.Abs(float64(o.picks[i] - from.picks[i]))
		all += o.picks[i]
	}
	return sum / 2 / float64(all)
}

// A burst over three replicas spreads as over one: less than one request in ten goes
// elsewhere, and no pod gets a much longer queue.
func TestABurstSpreadsAsWithOnePicker(t *testing.T) {
	tests := []struct {
		name    string
		burst   burst
		deepest float64 // at most, as a multiple of one picker's
	}{
		{"held, 1,000 a second", burst{pods: 16, requests: 300, perSecond: 1000}, 1.1},
		{"held, 3,000 a second", burst{pods: 16, requests: 300, perSecond: 3000}, 1.3},
		{"held, 10,000 a second", burst{pods: 16, requests: 300, perSecond: 10000}, 2},
		{"answered", burst{pods: 8, requests: 2000, perSecond: 300, answer: 20 * time.Millisecond}, 1.1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.burst
			b.replicas = 1
			one := b.run(t)
			b.replicas = 3
			without := b.run(t)
			b.exchange = true
			with := b.run(t)
			t.Logf("one picker %v, deepest %d", one.picks, one.deepest)
			t.Logf("without    %v, deepest %d: %.1f%% elsewhere", without.picks, without.deepest, 100*without.apart(one))
			t.Logf("with       %v, deepest %d: %.1f%% elsewhere, %d messages", with.picks, with.deepest, 100*with.apart(one), with.messages)
			if got := with.apart(one); got > 0.1 {
				t.Errorf("%.1f%% went elsewhere than with one picker", 100*got)
			}
			if most := tt.deepest * float64(one.deepest); float64(with.deepest) > most {
				t.Errorf("a queue of %d, at most %.0f was expected", with.deepest, most)
			}
			if float64(without.deepest) < 1.4*float64(one.deepest) {
				t.Errorf("without an exchange the longest queue is %d: the test shows nothing", without.deepest)
			}
		})
	}
}

// A longer interval would not do for a burst of this size.
func TestALongerIntervalIsTooLong(t *testing.T) {
	b := burst{pods: 16, requests: 300, perSecond: 3000, replicas: 1}
	one := b.run(t)
	b.replicas, b.exchange, b.interval = 3, true, 10*Interval
	const runs = 5
	sum := 0.0
	for b.seed = range uint64(runs) {
		sum += b.run(t).apart(one)
	}
	if sum/runs < 0.1 {
		t.Errorf("only %.1f%% went elsewhere", 100*sum/runs)
	}
}
