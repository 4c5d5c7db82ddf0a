package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// AllPods names every pod in the calls below.
const AllPods = "*"

// Channels are the ways by which a pod tells of itself; each can be held.
type Channels struct {
	Answers bool `json:"answers"` // responses of completions, before their headers
	Reports bool `json:"reports"` // status reports
	Events  bool `json:"events"`  // KV events; those that go out later have their old time
	Metrics bool `json:"metrics"` // the /metrics page
}

// Everything is all channels.
func Everything() Channels {
	return Channels{Answers: true, Reports: true, Events: true, Metrics: true}
}

// The ways to fail.
const (
	FailStatus = "500"   // every request is answered with an error
	FailClose  = "close" // every connection is closed without an answer
	FailHang   = "hang"  // requests get no answer until the pod recovers
)

// What can be wrong with the page of metrics.
const (
	PageMissing = "missing" // status 404
	PageFrozen  = "frozen"  // the same numbers again and again
)

// faults of a pod; they outlive its server.
type faults struct {
	failing     string // one of the ways, or ""
	slow        float64
	dropReports bool
	health      float64
	tokenise    time.Duration // of wall time, that /tokenize takes longer
	lose        float64       // share of the batches of events
	delay       time.Duration // of events, after their step
	page        string        // what is wrong with /metrics, or ""
	gpu         GPU
	pressure    float64 // idle blocks that are evicted a second
	thrash      bool    // adapters that no request needs leave at once
}

func noFaults() faults { return faults{slow: 1, health: 1} }

// faults are those that a pod begins with.
func (f *Fleet) faults() faults {
	begin := noFaults()
	begin.lose = f.cfg.EventLoss
	return begin
}

// A gate is open until it is shut. The zero value is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil: open; else closed when it opens
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.open == nil:
		g.open = make(chan struct{})
	case !shut && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open != nil
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open == nil {
		return nil
	}
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pod) held() []string {
	held := []string{}
	for _, c := range []struct {
		name string
		gate *gate
	}{{"answers", &p.answers}, {"reports", &p.reports}, {"events", &p.events}, {"metrics", &p.metrics}} {
		if c.gate.shut() {
			held = append(held, c.name)
		}
	}
	return held
}

func (p *pod) setGates(c Channels, shut bool) {
	for _, g := range []struct {
		chosen bool
		gate   *gate
	}{{c.Answers, &p.answers}, {c.Reports, &p.reports}, {c.Events, &p.events}, {c.Metrics, &p.metrics}} {
		if g.chosen {
			g.gate.set(shut)
		}
	}
	if s := p.server(); s != nil && s.events != nil {
		s.events.look()
	}
}

func (p *pod) currentFaults() faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// setFaults changes the faults and tells the engine those that are its own.
func (p *pod) setFaults(change func(*faults)) {
	p.mu.Lock()
	change(&p.faults)
	p.hung.set(p.faults.failing == FailHang)
	if p.faults.page != PageFrozen {
		p.frozen = nil
	}
	f, s := p.faults, p.current
	p.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.look()
	s.engine.Advance(s.now())
	f.tell(s.engine)
	if s.events != nil {
		s.events.look()
	}
}

func (f *faults) tell(e *vllm.Engine) {
	e.SetSlow(f.slow)
	e.SetThrash(f.thrash)
}

// An UnknownPodError is a pod that the fleet does not have.
type UnknownPodError struct{ Pod string }

// Error implements error.
func (e *UnknownPodError) Error() string { return fmt.Sprintf("no simulated pod %q", e.Pod) }

// each calls do for the pod of that name, or for all.
func (f *Fleet) each(name string, do func(*pod) error) error {
	known := false
	for _, p := range f.pods {
		if name != AllPods && name != p.name {
			continue
		}
		known = true
		if err := do(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if !known {
		return &UnknownPodError{Pod: name}
	}
	return nil
}

// Hold keeps what would go out by the channels back until [Fleet.Release].
// Engines go on computing.
func (f *Fleet) Hold(name string, c Channels) error {
	return f.each(name, func(p *pod) error { p.setGates(c, true); return nil })
}

// Release ends a hold.
func (f *Fleet) Release(name string, c Channels) error {
	return f.each(name, func(p *pod) error { p.setGates(c, false); return nil })
}

// Fail makes a pod fail every new request, in one of the ways, and send no
// reports.
func (f *Fleet) Fail(name, way string) error {
	if way != FailStatus && way != FailClose && way != FailHang {
		return fmt.Errorf("fail: no way %q; there are %q, %q and %q", way, FailStatus, FailClose, FailHang)
	}
	return f.change(name, func(s *faults) { s.failing = way })
}

// Drop makes a pod's reports get lost until [Fleet.Recover].
func (f *Fleet) Drop(name string) error {
	return f.change(name, func(s *faults) { s.dropReports = true })
}

// Slow makes a pod's steps take factor times as long.
func (f *Fleet) Slow(name string, factor float64) error {
	if math.IsNaN(factor) || factor < 0.01 || factor > 1000 {
		return fmt.Errorf("slow: factor %v is not within 0.01 and 1000", factor)
	}
	return f.change(name, func(s *faults) { s.slow = factor })
}

// SetHealth makes a pod report that health.
func (f *Fleet) SetHealth(name string, health float64) error {
	if math.IsNaN(health) || health < 0 || health > 1 {
		return fmt.Errorf("health: %v is not within 0 and 1", health)
	}
	return f.change(name, func(s *faults) { s.health = health })
}

// Lose makes a share of a pod's batches of events get lost on their way. Their
// numbers are missing, and replays have them.
func (f *Fleet) Lose(name string, share float64) error {
	if err := checkShare(share); err != nil {
		return fmt.Errorf("lose: %w", err)
	}
	return f.change(name, func(s *faults) { s.lose = share })
}

func checkShare(share float64) error {
	if math.IsNaN(share) || share < 0 || share > 1 {
		return fmt.Errorf("a share of %v is not within 0 and 1", share)
	}
	return nil
}

// maxDelay bounds Delay.
const maxDelay = time.Hour

// Delay makes a pod's events go out that much of the fleet's time after their
// step, and so after answers that end with it.
func (f *Fleet) Delay(name string, by time.Duration) error {
	if by < 0 || by > maxDelay {
		return fmt.Errorf("delay: %v is not within 0 and %v", by, maxDelay)
	}
	return f.change(name, func(s *faults) { s.delay = by })
}

// BreakPage makes a pod's /metrics missing or frozen.
func (f *Fleet) BreakPage(name, way string) error {
	if way != PageMissing && way != PageFrozen {
		return fmt.Errorf("page: no way %q; there are %q and %q", way, PageMissing, PageFrozen)
	}
	return f.change(name, func(s *faults) { s.page = way })
}

// SetGPU makes a pod's GPU say that of itself.
func (f *Fleet) SetGPU(name string, g GPU) error {
	if err := g.check(); err != nil {
		return err
	}
	return f.change(name, func(s *faults) { s.gpu = g })
}

// maxPressure bounds Press.
const maxPressure = 1_000_000_000

// Press evicts so many idle blocks of a pod a second, as if other traffic needed
// the room.
func (f *Fleet) Press(name string, blocks int) error {
	if blocks < 1 || blocks > maxPressure {
		return fmt.Errorf("press: %d blocks a second are not within 1 and %d", blocks, maxPressure)
	}
	return f.change(name, func(s *faults) { s.pressure = float64(blocks) })
}

// Thrash makes a pod unload an adapter as soon as no running request needs it, as
// if others wanted its slot.
func (f *Fleet) Thrash(name string) error {
	return f.change(name, func(s *faults) { s.thrash = true })
}

// Recover ends all that changes a pod's behaviour, but holds.
func (f *Fleet) Recover(name string) error {
	return f.change(name, func(s *faults) { *s = noFaults() })
}

func (f *Fleet) change(name string, change func(*faults)) error {
	return f.each(name, func(p *pod) error { p.setFaults(change); return nil })
}

// Kill closes a pod's port and cuts its connections, until [Fleet.Restart].
func (f *Fleet) Kill(name string) error {
	return f.each(name, func(p *pod) error { p.kill(); return nil })
}

// Reset empties a pod's cache as POST /reset_prefix_cache does. It fails while
// requests run.
func (f *Fleet) Reset(name string) error {
	return f.each(name, func(p *pod) error {
		if s := p.server(); s != nil && !s.reset() {
			return errors.New("reset: requests hold blocks")
		}
		return nil
	})
}

// Restart kills a pod, if it is not dead, and starts it with an empty cache and
// a new epoch at the same address.
func (f *Fleet) Restart(name string) error {
	return f.each(name, func(p *pod) error { return p.start() })
}

// Evict drops up to blocks cached blocks that no request uses (a negative
// number: all of them), and says how many.
func (f *Fleet) Evict(name string, blocks int) (evicted int, err error) {
	if blocks < 0 {
		blocks = math.MaxInt
	}
	err = f.each(name, func(p *pod) error {
		if s := p.server(); s != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			evicted += s.engine.EvictIdle(s.now(), blocks)
		}
		return nil
	})
	return evicted, err
}
