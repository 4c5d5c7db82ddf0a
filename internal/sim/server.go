package sim

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// A server is one life of a pod: an engine, its HTTP server, and the loops that
// drive and report it.
type server struct {
	pod     *pod
	epoch   uint64
	origin  time.Time // the engine's time 0
	ports   *ports
	http    *http.Server
	conns   sync.WaitGroup // open connections, and so the handlers
	life    context.Context
	kill    context.CancelCauseFunc
	gone    chan struct{} // closed at the very end
	wake    chan struct{} // the driver has to look again
	reports *reporter
	events  *stream // nil when the pod publishes none
	timings timings
	lora    loraSeries

	// Of the driver: the pressure, and until when it has evicted.
	pressure float64
	pressed  time.Duration

	mu     sync.Mutex
	engine *vllm.Engine
	meter  status.Meter
}

const (
	readHeaderTimeout = 10 * time.Second // wall time
	// shortestSleep bounds what steps of less than a millisecond may cost: all
	// that fall into one sleep are computed together.
	shortestSleep = 500 * time.Microsecond
)

func newServer(p *pod, epoch uint64, at *ports) (_ *server, err error) {
	s := &server{
		pod: p, epoch: epoch, origin: p.fleet.cfg.Clock.Now(), ports: at,
		gone: make(chan struct{}), wake: make(chan struct{}, 1), timings: newTimings(),
	}
	engine := p.fleet.engine
	if at.replay != nil {
		s.events = newStream(s, p.fleet.generation)
		engine.Events = s.events.add
	}
	if s.engine, err = vllm.New(engine); err != nil {
		return nil, err
	}
	s.life, s.kill = context.WithCancelCause(context.Background())
	s.reports = newReporter(s)
	s.http = &http.Server{
		Handler: s.routes(), ReadHeaderTimeout: readHeaderTimeout,
		BaseContext: func(net.Listener) context.Context { return s.life },
		ConnState:   s.count,
		ErrorLog:    slog.NewLogLogger(p.fleet.cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// count follows connections. A connection is closed after its handler returned.
func (s *server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	case http.StateActive, http.StateIdle:
	}
}

// run serves until ctx ends or the server is killed, and until nothing is left.
func (s *server) run(ctx context.Context) {
	defer close(s.gone)
	defer context.AfterFunc(ctx, func() { s.kill(context.Cause(ctx)) })()
	var loops sync.WaitGroup
	loops.Go(func() {
		if err := s.http.Serve(s.ports.http); s.life.Err() == nil {
			s.kill(err)
		}
	})
	loops.Go(s.drive)
	loops.Go(s.reports.run)
	if s.events != nil {
		loops.Go(s.events.run)
		loops.Go(s.publish)
		loops.Go(func() { _ = zmtp.ServeRouter(s.life, s.ports.replay, zmtp.Options{}, s.events.replay) })
	}
	<-s.life.Done()
	_ = s.http.Close() // cuts what is running, as a crash does
	loops.Wait()
	s.conns.Wait()
}

// publish serves KV events to who connects, or to whom the pod connects, until the
// end of its life.
func (s *server) publish() {
	if s.ports.events == nil {
		_ = s.events.publisher.Connect(s.life, s.pod.fleet.cfg.EventsTo)
		return
	}
	_ = s.events.publisher.Serve(s.life, s.ports.events)
}

// now is the engine's time.
func (s *server) now() time.Duration { return s.pod.fleet.cfg.Clock.Now().Sub(s.origin) }

// drive moves the engine along and sleeps while there is nothing to be seen.
func (s *server) drive() {
	scale := s.pod.fleet.cfg.Clock.Scale()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := s.now()
		s.engine.Advance(now)
		pressing := s.press(now)
		next, busy := s.engine.NextSight()
		s.mu.Unlock()
		if pressing > 0 && (!busy || now+pressing < next) {
			next, busy = now+pressing, true
		}

		var due <-chan time.Time
		if busy {
			timer.Reset(max(shortestSleep, time.Duration(float64(next-now)/scale)))
			due = timer.C
		}
		select {
		case <-s.life.Done():
			return
		case <-s.wake:
		case <-due:
		}
	}
}

// pressInterval is how often pressure evicts, of the fleet's time.
const pressInterval = 100 * time.Millisecond

// press evicts what the pressure since the last call asks for, whole blocks, and
// says when to look again; 0 when there is no pressure.
func (s *server) press(now time.Duration) time.Duration {
	rate := s.pod.currentFaults().pressure
	if rate != s.pressure {
		s.pressure, s.pressed = rate, now
	}
	if rate == 0 {
		return 0
	}
	if blocks := math.Floor(rate * (now - s.pressed).Seconds()); blocks >= 1 {
		s.pressed += time.Duration(blocks / rate * float64(time.Second))
		s.engine.EvictIdle(now, int(min(blocks, math.MaxInt32)))
	}
	return pressInterval
}

// look makes the driver look again.
func (s *server) look() {
	select {
	case s.wake <- struct{}{}:
	default: // it will
	}
}

// submit gives sequences to the engine.
func (s *server) submit(sequences ...*vllm.Sequence) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.look()
	return s.engine.Submit(s.now(), sequences...)
}

// abort takes them back.
func (s *server) abort(sequences ...*vllm.Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range sequences {
		s.engine.Abort(s.now(), q)
	}
}

// reset empties the cache and says whether it did: not while requests run.
func (s *server) reset() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Reset(s.now())
}

func (s *server) stats() vllm.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.Stats(s.now())
}
