package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

const (
	// maxBackoff is the longest pause after failures, in the clock's time: as
	// long as a scraped value stays fresh.
	maxBackoff = 5 * time.Second
	// retryProbe is the longest pause after a health probe that failed: what it means
	// should be known soon, however seldom a server that is well is asked.
	retryProbe = time.Second
	// jitter spreads the requests of many targets, as a share of the pause
	// either way.
	jitter = 0.1
)

// watch is the watching of one target: a loop each for the page, the health, the
// models, the page of its GPUs and single tokens.
type watch struct {
	target  Target
	cfg     *Config
	sink    Sink
	scrapes limiter
	probes  limiter
	tokens  limiter

	metrics, health, models *query
	gpu                     *query // nil without its URL
	generate                *query // nil when not wanted
	askers                  []asker
	reader                  Reader // of the page
	scrapePause, listPause  pause

	gone chan struct{}

	// mu is held while the sink is called, so that retire can wait for it.
	mu      sync.Mutex
	retired bool
	missed  bool   // the last health probe failed
	model   string // to ask a token of; "" = not known
}

func newWatch(w *Watcher, t Target) *watch {
	cfg := &w.cfg
	n := &watch{
		target:  t,
		cfg:     cfg,
		sink:    w.sink,
		scrapes: w.scrapes,
		probes:  w.probes,
		tokens:  w.tokens,
		reader:  Reader{Limits: cfg.Limits, Engine: t.Engine},
		gone:    make(chan struct{}),
	}
	server := n.transport(t.BaseURL)
	n.metrics = newQuery(server, t.BaseURL, "/metrics", cfg.ScrapeTimeout)
	n.health = newQuery(server, t.BaseURL, "/health", cfg.ProbeTimeout)
	n.models = newQuery(server, t.BaseURL, "/v1/models", cfg.ProbeTimeout)
	if t.GPUURL != "" {
		n.gpu = newQuery(n.transport(t.GPUURL), t.GPUURL, "", cfg.ProbeTimeout)
	}
	if cfg.GenerateInterval > 0 {
		n.generate = n.newGenerate()
	}
	return n
}

// transport is how the server at a URL is asked.
func (w *watch) transport(base string) http.RoundTripper {
	if w.cfg.Transport != nil {
		return w.cfg.Transport
	}
	a := newAsker(base)
	w.askers = append(w.askers, a)
	return a
}

// close ends the connections, when nobody asks any more.
func (w *watch) close() {
	for _, a := range w.askers {
		a.CloseIdleConnections()
	}
}

// run blocks until ctx ends or the target is retired.
func (w *watch) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer w.close()
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { w.scrapeLoop(ctx) })
	wg.Go(func() { w.probeLoop(ctx) })
	wg.Go(func() { w.listLoop(ctx) })
	if w.gpu != nil {
		wg.Go(func() { w.gpuLoop(ctx) })
	}
	if w.generate != nil {
		wg.Go(func() { w.generateLoop(ctx) })
	}
	select {
	case <-ctx.Done():
	case <-w.gone:
	}
}

// retire ends the watch; when it has returned, nothing more is delivered.
func (w *watch) retire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = true
	close(w.gone)
}

// deliver calls the sink unless the target was left out or everything ends.
func (w *watch) deliver(ctx context.Context, call func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.retired && ctx.Err() == nil {
		call()
	}
}

func (w *watch) scrapeLoop(ctx context.Context) {
	failures := 0
	for w.scrapes.enter(ctx) {
		s := w.scrape(ctx)
		w.scrapes.leave()
		if ctx.Err() != nil {
			return
		}
		w.logChange(ctx, failures, s.Err)
		w.deliver(ctx, func() {
			w.sink.Scraped(w.target, s)
			if f := asFailure(s.Err); f != nil && f.kind == failedRefused {
				w.told(f, s.End)
			}
		})
		pause := restOf(jittered(w.cfg.ScrapeInterval), s.End.Sub(s.Start))
		failures++
		if s.Err != nil {
			pause = jittered(backoff(w.cfg.ScrapeInterval, failures, maxBackoff))
		} else {
			failures = 0
		}
		w.scrapePause.sleep(ctx, w.cfg.Clock, w.onStep(pause))
	}
}

func (w *watch) scrape(ctx context.Context) Scrape {
	s := Scrape{Start: w.cfg.Clock.Now()}
	s.Err = w.metrics.do(ctx, func(r *http.Response) error {
		if err := unencoded(r); err != nil {
			return err
		}
		if limit := w.cfg.Limits.pageBytes(); r.ContentLength > limit {
			return fmt.Errorf("read page: %w", tooLong(limit))
		}
		var err error
		s.Page, err = w.reader.Read(r.Body, r.Header.Get("Content-Type"))
		return err
	})
	if s.Err != nil {
		s.Page = unknownPage(s.Err.Error())
	}
	s.End = w.cfg.Clock.Now()
	return s
}

// logChange tells of the first failure and of the end of failures.
func (w *watch) logChange(ctx context.Context, failures int, err error) {
	pod := slog.String(logkey.Pod, w.target.Name)
	switch {
	case err != nil && failures == 0:
		w.cfg.Logger.WarnContext(ctx, "metrics page not readable", pod, slog.String(logkey.Reason, err.Error()))
	case err == nil && failures > 0:
		w.cfg.Logger.InfoContext(ctx, "metrics page readable again", pod, slog.Int(logkey.Failures, failures))
	}
}

func (w *watch) probeLoop(ctx context.Context) {
	for w.probes.enter(ctx) {
		err := w.health.do(ctx, func(r *http.Response) error {
			discard(r.Body)
			return nil
		})
		w.probes.leave()
		at := w.cfg.Clock.Now()
		w.deliver(ctx, func() { w.told(asFailure(err), at) })
		pause := w.cfg.ProbeInterval
		if err != nil {
			pause = min(pause, retryProbe)
		}
		_ = w.cfg.Clock.Sleep(ctx, w.onStep(jittered(pause)))
	}
}

// told hands a health probe to the sink; a nil failure is a success. The caller
// holds mu.
func (w *watch) told(f *failure, at time.Time) {
	if f != nil && f.kind == failedHere {
		return
	}
	if f == nil && w.missed {
		// The server is back: whoever waits out a backoff need not.
		w.scrapePause.end()
		w.listPause.end()
	}
	w.missed = f != nil
	w.sink.Probed(w.target, probeOf(f, at))
}

// probeOf is a probe with its failure; nil for none.
func probeOf(f *failure, at time.Time) Probe {
	if f == nil {
		return Probe{Healthy: true, At: at}
	}
	return Probe{Refused: f.kind == failedRefused, Slow: f.slow, Reason: f.reason, At: at}
}

func (w *watch) listLoop(ctx context.Context) {
	failures := 0
	for w.probes.enter(ctx) {
		var models []Model
		err := w.models.do(ctx, func(r *http.Response) error {
			err := unencoded(r)
			if err == nil {
				models, err = ParseModels(r.Body)
			}
			return err
		})
		w.probes.leave()
		if err != nil {
			models = nil
		}
		w.deliver(ctx, func() {
			w.learnModel(models)
			w.sink.Listed(w.target, models, err)
		})
		pause := w.cfg.ModelsInterval
		failures++
		if err != nil {
			// A list that failed is asked for again after a tenth of the interval.
			pause = backoff(w.cfg.ModelsInterval/20, failures, w.cfg.ModelsInterval)
		} else {
			failures = 0
		}
		w.listPause.sleep(ctx, w.cfg.Clock, w.onStep(jittered(pause)))
	}
}

func (w *watch) gpuLoop(ctx context.Context) {
	failures := 0
	for w.probes.enter(ctx) {
		m := w.measure(ctx)
		w.probes.leave()
		w.deliver(ctx, func() { w.sink.Measured(w.target, m) })
		pause := w.cfg.GPUInterval
		failures++
		if m.Err != nil {
			pause = backoff(w.cfg.GPUInterval, failures, maxBackoff)
		} else {
			failures = 0
		}
		_ = w.cfg.Clock.Sleep(ctx, w.onStep(jittered(pause)))
	}
}

func (w *watch) measure(ctx context.Context) (m Measurement) {
	m.Err = w.gpu.do(ctx, func(r *http.Response) error {
		err := unencoded(r)
		if err == nil {
			m.GPU, err = ReadGPU(r.Body, r.Header.Get("Content-Type"), w.target.Name, w.cfg.Limits)
		}
		return err
	})
	if m.Err != nil {
		m.GPU = unknownGPU(m.Err.Error())
	}
	m.At = w.cfg.Clock.Now()
	return m
}

// asFailure is the failure behind an error of [query.do]; nil for none.
func asFailure(err error) *failure {
	f, _ := errors.AsType[*failure](err)
	return f
}

// backoff doubles the pause with each failure (1, 2, …) up to a limit.
func backoff(interval time.Duration, failures int, limit time.Duration) time.Duration {
	for range failures {
		if interval >= limit {
			return limit
		}
		interval *= 2
	}
	return min(interval, limit)
}

// restOf is the pause until an interval is over of which took has passed. It is
// at least half of the interval: a page that is slow to make is not asked for
// without end.
func restOf(interval, took time.Duration) time.Duration {
	return max(interval-took, interval/2)
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}

// steps is how many moments of an interval there are at which targets are asked.
const steps = 20

// onStep makes a pause end at a moment that the targets share. A process that
// sleeps in between and wakes up for one target at a time spends more on waking
// up than on asking.
func (w *watch) onStep(pause time.Duration) time.Duration {
	now := w.cfg.Clock.Now()
	return now.Add(pause).Round(w.cfg.ScrapeInterval / steps).Sub(now)
}

// pause is a sleep that can be ended early.
type pause struct {
	mu   sync.Mutex
	wake context.CancelFunc
}

// sleep returns after d, when end is called, or when ctx ends.
func (p *pause) sleep(ctx context.Context, c clock.Clock, d time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.wake = cancel
	p.mu.Unlock()
	_ = c.Sleep(ctx, d) // the loops look at their own context
}

// end ends the sleep under way, if any.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake != nil {
		p.wake()
	}
}
