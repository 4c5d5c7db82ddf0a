package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// Target is one endpoint to watch. Two targets with one ID are the same; a
// pod that comes back must come with a new ID.
type Target struct {
	// ID is unique per endpoint and generation.
	ID string
	// Name is the pod's name, for logs.
	Name string
	// BaseURL is the server's address, "http://10.0.0.7:8000".
	BaseURL string
	// Engine is "vllm", "sglang" or "trtllm"; "" is found by the page.
	Engine string
	// GPUURL is the page of the DCGM exporter that has the pod's GPUs,
	// "http://10.0.0.7:9400/metrics"; "" for none.
	GPUURL string
}

// Scrape is one attempt to read a target's page.
type Scrape struct {
	// Page holds values or, when Err is set, the reason for having none.
	Page Page
	// Start and End are the watcher's clock's.
	Start, End time.Time
	// Err's text is a reason for a person, such as "HTTP 404 on port 8000".
	Err error
}

// Measurement is one attempt to read the page of a target's GPUs.
type Measurement struct {
	// GPU holds values or, when Err is set, the reason for having none.
	GPU GPU
	// At is the watcher's clock's time of the answer.
	At  time.Time
	Err error
}

// Probe is one attempt to find a target well.
type Probe struct {
	Healthy bool
	// Refused: nobody listens there, which leaves no doubt. Slow: there was no answer
	// in time.
	Refused, Slow bool
	// Reason says why it is not healthy, such as "connection refused on port 8000".
	Reason string
	// At is the watcher's clock's time of the answer.
	At time.Time
}

// Sink takes the answers. Its methods are called from many goroutines, but for
// one target one at a time; they must be quick, and must not call the watcher.
type Sink interface {
	Scraped(t Target, s Scrape)
	Probed(t Target, p Probe)
	// Generated tells whether a request for one token was answered.
	Generated(t Target, p Probe)
	// Listed tells the models of a target, or why there is no list.
	Listed(t Target, models []Model, err error)
	// Measured tells of a target with a GPUURL.
	Measured(t Target, m Measurement)
}

// Config sets up a [Watcher]; a field that is zero has its default.
type Config struct {
	// Clock measures the intervals (default: the wall clock).
	Clock clock.Clock
	// ScrapeInterval is from the start of one scrape to the start of the next,
	// in the clock's time (default 200 ms). A slow page stretches it.
	ScrapeInterval time.Duration
	// ScrapeTimeout bounds a scrape, in wall time (default 1 s).
	ScrapeTimeout time.Duration
	// ProbeInterval is between two health probes, in the clock's time (default 1 s);
	// after one that failed it is no more than 1 s.
	ProbeInterval time.Duration
	// GPUInterval is between two reads of a GPU page, in the clock's time (default
	// 1 s: exporters measure no more often).
	GPUInterval time.Duration
	// ProbeTimeout bounds any request but a scrape, in wall time
	// (default 1 s).
	ProbeTimeout time.Duration
	// ModelsInterval is between two lists of models, in the clock's time
	// (default 5 s).
	ModelsInterval time.Duration
	// GenerateInterval is between two requests for one token, in the clock's time; 0
	// is never. After a failure it is a third.
	GenerateInterval time.Duration
	// GenerateTimeout bounds such a request, in wall time (default 10 s).
	GenerateTimeout time.Duration
	// MaxConcurrent bounds the scrapes that run at once, and apart from them the
	// requests for a token and all others (default 64 each). A server that hangs is asked less and less
	// often, so that hanging ones do not take all the places.
	MaxConcurrent int
	// Limits bound the pages.
	Limits Limits
	// Transport sends the requests (default: one for each target that keeps
	// connections and uses no proxy).
	Transport http.RoundTripper
	// Logger gets a line when a target's page fails and when it is back
	// (default: none).
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.Wall{}
	}
	c.ScrapeInterval = orDefault(c.ScrapeInterval, 200*time.Millisecond)
	c.ScrapeTimeout = orDefault(c.ScrapeTimeout, time.Second)
	c.ProbeInterval = orDefault(c.ProbeInterval, time.Second)
	c.GPUInterval = orDefault(c.GPUInterval, time.Second)
	c.ProbeTimeout = orDefault(c.ProbeTimeout, time.Second)
	c.GenerateTimeout = orDefault(c.GenerateTimeout, 10*time.Second)
	c.ModelsInterval = orDefault(c.ModelsInterval, 5*time.Second)
	c.MaxConcurrent = orDefault(c.MaxConcurrent, 64)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T ~int | ~int64](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Watcher asks targets for their page, their health, their models and their GPUs.
type Watcher struct {
	cfg     Config
	sink    Sink
	scrapes limiter
	probes  limiter
	tokens  limiter // requests for one

	changed chan struct{}

	mu      sync.Mutex
	running bool
	watches map[string]*watch
	// fresh are watches that Run has not started yet.
	fresh []*watch
}

// NewWatcher returns a watcher without targets. Nothing is asked before Run.
func NewWatcher(cfg Config, sink Sink) *Watcher {
	cfg = cfg.withDefaults()
	return &Watcher{
		cfg:     cfg,
		sink:    sink,
		scrapes: make(limiter, cfg.MaxConcurrent),
		probes:  make(limiter, cfg.MaxConcurrent),
		tokens:  make(limiter, cfg.MaxConcurrent),
		changed: make(chan struct{}, 1),
		watches: make(map[string]*watch),
	}
}

// ErrRunning is returned by a second Run.
var ErrRunning = errors.New("watcher has been started before")

// Run watches the targets until ctx ends, and returns nil when all that it
// started has ended. It can be called once.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.running
	w.running = true
	w.mu.Unlock()
	if again {
		return ErrRunning
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		for _, t := range w.takeFresh() {
			wg.Go(func() { t.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
	}
}

func (w *Watcher) takeFresh() []*watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.fresh
	w.fresh = nil
	return fresh
}

// SetTargets replaces the set of watched targets. A target that keeps ID, name
// and address goes on undisturbed. When SetTargets has returned, the sink gets
// nothing more of a target that was left out: it waits for a delivery under
// way, so the caller must not hold a lock that the sink needs.
func (w *Watcher) SetTargets(targets []Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := make(map[string]*watch, len(targets))
	for _, t := range targets {
		if _, twice := next[t.ID]; twice {
			continue
		}
		old := w.watches[t.ID]
		if old == nil || old.target != t {
			fresh := newWatch(w, t)
			w.fresh = append(w.fresh, fresh)
			next[t.ID] = fresh
			continue
		}
		next[t.ID] = old
	}
	for id, old := range w.watches {
		if next[id] != old {
			old.retire()
		}
	}
	w.watches = next
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// limiter bounds what runs at once.
type limiter chan struct{}

// enter waits for a place; it reports false when ctx ended before.
func (l limiter) enter(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case l <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l limiter) leave() { <-l }
