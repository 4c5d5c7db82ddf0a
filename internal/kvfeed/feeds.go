package kvfeed

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// MaxRanks bounds the streams of one target.
const MaxRanks = 64

// Target is an endpoint whose events are wanted. Two targets with one ID are the
// same; a pod that comes back must come with a new ID.
type Target struct {
	ID      string // unique per endpoint and generation
	Name    string // the pod's, for logs
	BaseURL string // "http://10.0.0.7:8000"
	// Model is the base model as in the roots of requests' fingerprints. With
	// another one the streams begin anew.
	Model string
	// Events and Replay are where the events of rank 0 are and where missed ones can
	// be had, "tcp://host:port"; those of further ranks are on the ports behind. ""
	// for Events: the engine is asked. "" for Replay: they can't be had.
	Events, Replay string
	// Inbound: its engine connects to the picker, and is neither asked nor connected
	// to. Others may connect too, see [Config].
	Inbound bool

	// Engine is "vllm", "sglang" or "trtllm", and Ranks how many data parallel ones
	// it has; "" and 0 are not known. They may become known while streams run.
	Engine string
	Ranks  int
}

// same reports whether two targets differ in nothing but what may become known.
func (t *Target) same(o *Target) bool {
	a, b := *t, *o
	a.Engine, a.Ranks, b.Engine, b.Ranks = "", 0, "", 0
	return a == b
}

// State is what a stream's picture of its rank is worth.
type State struct {
	Connected bool
	// Unconfirmed: it is connected again, and nothing has come since. What happened
	// meanwhile is not known.
	Unconfirmed bool
	BlockSize   int // of the engine, in tokens; 0: not known
	Mismatch    int // a block size that can't be compared with ours; 0: none
	Hybrid      bool
	Degraded    kvindex.Degraded
	Gaps        uint64 // in the numbers of its batches, so far
}

// Stream is what a sink may ask and tell a stream.
type Stream interface {
	Stats() Stats
	// Mark is the present moment of the rank's events.
	Mark() kvindex.Mark
	// Correct takes back what a rank with a gap claims beyond what its engine found,
	// see [kvindex.Rank.Correct].
	Correct(a kvindex.Answer)
}

// Sink is told of streams. Its methods are called from many goroutines, for one
// stream one at a time; they must be quick, and must not call back.
type Sink interface {
	// RankOpened gives the stream of a target's rank its slots, admitted to the tree:
	// one for each level, and the first is what the other methods know it by. It is
	// not ok when the target is gone. The stream may be asked at any time, but not
	// under a lock that the sink's methods take.
	RankOpened(targetID string, rank int, levels []kvindex.Level, stream Stream) (slots []prefix.Slot, ok bool)
	RankChanged(slot prefix.Slot, s State)
	// RankEvicted tells of blocks that the rank has not had since then on any level,
	// by our clock; nil: all of them. The slice is only lent.
	RankEvicted(slot prefix.Slot, blocks []uint64, since time.Time)
	// RankClosed takes the slots back.
	RankClosed(slot prefix.Slot)
}

// Config sets up [Feeds]. Tree and BlockSize are required.
type Config struct {
	Tree      *prefix.Tree
	BlockSize int // of the tree, in tokens
	OnGap     kvindex.OnGap
	Levels    []kvindex.Level // where blocks count as cached; nil: on the GPU
	Limits    kvindex.Limits
	// Port is where the events of an engine are that does not say so itself, and
	// ReplayPort where missed ones can be had; 0: nowhere. Rank n has Port + n.
	Port, ReplayPort int
	Topic            string // prefix of the messages to listen to
	// Listener is where engines may connect to; nil: nowhere. Run closes it.
	Listener net.Listener
	Clock    clock.Clock
	Logger   *slog.Logger // nil: none
}

// Feeds are the streams of all targets.
type Feeds struct {
	cfg    Config
	sink   Sink
	budget *zmtp.Budget // of the buffers of all connections that are dialled
	places atomic.Pointer[places]

	inbound inbound

	changed chan struct{}

	mu      sync.Mutex
	running bool
	watches map[string]*watch
	fresh   []*watch // that Run has not started yet
}

// buffers is what messages that are being read take together at most, in bytes.
const buffers = 256 << 20

// New returns feeds without targets.
func New(cfg Config, sink Sink) *Feeds {
	if cfg.Clock == nil {
		cfg.Clock = clock.Wall{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Levels == nil {
		cfg.Levels = kvindex.GPUAlone()
	}
	f := &Feeds{
		cfg: cfg, sink: sink, budget: zmtp.NewBudget(buffers),
		changed: make(chan struct{}, 1), watches: map[string]*watch{},
	}
	f.places.Store(newPlaces())
	f.inbound.feeds, f.inbound.said = f, map[string]bool{}
	return f
}

// ErrRunning is returned by a second Run.
var ErrRunning = errors.New("feeds have been started before")

// Run listens until ctx ends, and returns nil when all that it started has
// ended. It can be called once.
func (f *Feeds) Run(ctx context.Context) error {
	f.mu.Lock()
	again := f.running
	f.running = true
	f.mu.Unlock()
	if again {
		return ErrRunning
	}
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		for _, w := range f.takeFresh() { // an engine may have connected for it
			w.dismiss()
		}
	}()
	if f.cfg.Listener != nil {
		wg.Go(func() { f.inbound.listen(ctx) })
	}
	for {
		for _, w := range f.takeFresh() {
			wg.Go(func() { w.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		}
	}
}

func (f *Feeds) takeFresh() []*watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.fresh
	f.fresh = nil
	return fresh
}

// SetTargets replaces the set of targets. One that stays the same goes on
// undisturbed; one with another model or other addresses begins anew when its
// streams have ended. What a target that was left out still has to say finds no
// slot.
func (f *Feeds) SetTargets(targets []Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := make(map[string]*watch, len(targets))
	places := newPlaces()
	for _, t := range targets {
		if _, twice := next[t.ID]; twice {
			continue
		}
		old := f.watches[t.ID]
		if old != nil && old.target.same(&t) {
			old.learn(t)
			next[t.ID] = old
			places.add(old)
			continue
		}
		next[t.ID] = newWatch(f, t, old)
		places.add(next[t.ID])
		f.fresh = append(f.fresh, next[t.ID])
	}
	f.places.Store(places)
	for id, old := range f.watches {
		if next[id] != old {
			old.end()
		}
	}
	f.watches = next
	signal(f.changed)
}

// Settled reports whether each of the targets is one of the feeds' by now, and
// each of its streams was connected once or could not be.
func (f *Feeds) Settled(targets []Target) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range targets {
		if w := f.watches[t.ID]; w == nil || !w.found.Load() || w.untried.Load() > 0 {
			return false
		}
	}
	return true
}

// signal wakes up who waits on a channel of one place, or is about to.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
