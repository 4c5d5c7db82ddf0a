package kvfeed

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
)

// The pauses between two questions where the events are, while a stream has no
// connection, double from the first to the last, in wall time.
const (
	firstAsk = 10 * time.Second
	lastAsk  = 5 * time.Minute
)

// watch is the streams of one target.
type watch struct {
	feeds  *Feeds
	target Target
	log    *slog.Logger
	after  <-chan struct{} // the streams that it takes the place of have ended; nil: none
	life   context.Context // ends when it is left out
	end    context.CancelFunc
	done   chan struct{}
	told   chan struct{} // something became known

	off bool // the engine has no events, and that was said

	found   atomic.Bool  // it is known where the events are, or that this is not known
	untried atomic.Int32 // streams that have neither been connected nor failed to

	mu      sync.Mutex
	engine  string
	ranks   int
	dialled map[int]*stream // those of run, by rank; not to be changed

	arrived     map[int]*arrived // what came by connections of the engine, by rank
	connections sync.WaitGroup   // of the engine
	over        bool             // no more of them
}

func newWatch(f *Feeds, t Target, before *watch) *watch {
	w := &watch{
		feeds: f, target: t, engine: t.Engine, ranks: t.Ranks,
		log:  newSeldom(f.cfg.Logger).With(slog.String(logkey.Pod, t.Name)),
		done: make(chan struct{}), told: make(chan struct{}, 1), arrived: map[int]*arrived{},
	}
	w.life, w.end = context.WithCancel(context.Background())
	if before != nil {
		w.after = before.done
	}
	return w
}

// learn takes over what became known of the target.
func (w *watch) learn(t Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.engine != t.Engine || w.ranks != t.Ranks {
		w.engine, w.ranks = t.Engine, t.Ranks
		signal(w.told)
	}
}

// known is the target with what is known by now.
func (w *watch) known() Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.target
	t.Engine, t.Ranks = w.engine, w.ranks
	return t
}

// run blocks until ctx ends or the target is left out.
func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	if w.after != nil {
		<-w.after
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(w.life, cancel)()
	streams := map[int]*stream{} // by rank
	defer func() {
		cancel()
		w.dismiss()
		for _, s := range streams {
			<-s.done
		}
	}()
	for pause := firstAsk; ; pause = min(2*pause, lastAsk) {
		w.arrange(ctx, streams, w.find(ctx, len(streams)))
		w.found.Store(true)
		if !w.rest(ctx, pause, streams) {
			return
		}
	}
}

// arrange makes streams those of the sources, and with nil it leaves them as they
// are, but for the ranks that came by a connection of the engine.
func (w *watch) arrange(ctx context.Context, streams map[int]*stream, found []source) {
	if found == nil {
		for _, s := range streams {
			found = append(found, s.source)
		}
	}
	want := make(map[int]source, len(found))
	for _, s := range found {
		if !w.comes(s.rank) {
			want[s.rank] = s
		}
	}
	for rank, s := range streams {
		if want[rank] != s.source || s.ended() {
			s.stop()
			<-s.done
			delete(streams, rank)
		}
	}
	for rank, src := range want {
		if streams[rank] == nil && ctx.Err() == nil {
			streams[rank] = w.start(ctx, src)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled = maps.Clone(streams)
}

// start listens to a source.
func (w *watch) start(ctx context.Context, src source) *stream {
	ctx, stop := context.WithCancel(ctx)
	w.untried.Add(1)
	s := newStream(w, src, stop)
	s.tried = sync.OnceFunc(func() { w.untried.Add(-1) })
	go s.run(ctx)
	return s
}

// rest waits until the engine is to be asked again: when something became known
// of it, or after a pause while a stream is not connected. It is false when the
// watch ends.
func (w *watch) rest(ctx context.Context, pause time.Duration, streams map[int]*stream) bool {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.told:
			return true
		case <-ticker.C:
			w.forget()
			if !w.allConnected(streams) {
				return true
			}
		}
	}
}

func (w *watch) allConnected(streams map[int]*stream) bool {
	for _, s := range streams {
		if s.ended() || !s.connected() {
			return false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.arrived {
		if !r.connected {
			return false
		}
	}
	return len(streams)+len(w.arrived) > 0
}
