package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A balancer routes as a proxy does: by turns, by its own connections or by a hash of
// what it sees of a request. Of pods it knows which are up: by probes, and when a
// connection is refused.
type balancer struct {
	run    *run
	policy *Policy
	choose func(*Request) int // among those that are up, at least one
	up     []bool
	open   []int // connections
	turn   int
	rng    *rand.Rand
	share  []float64 // of weighted-round-robin: what a pod is worth
	credit []float64 // … and what it is owed
	pinned map[uint64]int
	ring   []point
}

func newBalancer(r *run, p *Policy) *balancer {
	n := len(r.pods)
	b := &balancer{
		run: r, policy: p, up: make([]bool, n), open: make([]int, n), rng: rand.New(rand.NewPCG(r.cfg.Seed, 2)),
		pinned: map[uint64]int{},
	}
	for i := range b.up {
		b.up[i] = true
	}
	switch p.kind {
	case kindWeighted:
		b.weigh()
	case kindHash, kindURI:
		b.ring = newRing(r.pods)
	}
	b.choose = map[string]func(*Request) int{
		kindTurns: b.turns, kindWeighted: b.weighted, kindLeast: b.least, kindRandom: b.random, kindTwo: b.two,
		kindSticky: b.sticky, kindIP: b.byClient, kindHash: b.consistent, kindURI: b.byURI,
	}[p.kind]
	return b
}

func (b *balancer) wants() (every [podAlarms]time.Duration) {
	every[alarmProbe] = time.Duration(b.run.cfg.Profile.Intervals.Probe)
	return every
}

func (b *balancer) route(j *job) {
	for _, up := range b.up {
		if up {
			b.give(j, b.choose(j.request))
			return
		}
	}
}

func (b *balancer) give(j *job, i int) {
	j.pod = b.run.pods[i]
	b.open[i]++
}

// reroute tries the other pods, each once, as proxies do when a connection is
// refused.
func (b *balancer) reroute(j *job) bool {
	for j.pod.engine == nil {
		b.up[j.pod.index] = false
		b.open[j.pod.index]--
		j.pod = nil
		if b.route(j); j.pod == nil {
			return false
		}
	}
	return true
}

func (b *balancer) answered(*job) {}

func (b *balancer) ended(j *job, _ Ending) { b.open[j.pod.index]-- }

func (b *balancer) hear(alarm int, p *pod) {
	if alarm == alarmProbe {
		b.up[p.index] = p.engine != nil
	}
}

func (b *balancer) events(*pod, *vllm.Batch) {}

func (b *balancer) connected(*pod, bool) {}

func (b *balancer) close() error { return nil }

// from is the first pod that is up, from i on.
func (b *balancer) from(i int) int {
	for !b.up[i%len(b.up)] {
		i++
	}
	return i % len(b.up)
}

func (b *balancer) turns(*Request) int {
	i := b.from(b.turn)
	b.turn = i + 1
	return i
}

// least is the pod with the fewest connections, of equal ones by turns.
func (b *balancer) least(*Request) int {
	first := b.from(b.turn)
	b.turn = first + 1
	best, n := first, len(b.up)
	for d := range n {
		if i := (first + d) % n; b.up[i] && b.open[i] < b.open[best] {
			best = i
		}
	}
	return best
}

func (b *balancer) random(*Request) int {
	for {
		if i := b.rng.IntN(len(b.up)); b.up[i] {
			return i
		}
	}
}

// two is the one with fewer connections of two that are drawn.
func (b *balancer) two(q *Request) int {
	i, k := b.random(q), b.random(q)
	if b.open[k] < b.open[i] {
		return k
	}
	return i
}
