// Package sim is a fleet of simulated model servers: each pod a real HTTP
// server, by itself on a port of its own on 127.0.0.1, with the engine of package vllm
// behind it.
//
// The one idea: everything the picker can see of a pod comes over the wire, as
// from a real vLLM: completions (streamed and not), /v1/models, /health,
// /tokenize, /metrics, and the status reports that it posts. Nothing is shared
// with the picker but the request parser and its tokeniser, so what works here
// does not work by accident.
//
//	fleet, err := sim.New(sim.Config{Pods: 4, Clock: clock.NewScaled(20)})
//	…
//	err = fleet.Run(ctx)    // until ctx ends
//
// Time is the clock's. The engines compute when a token is due; a pod sleeps
// until something is to be seen, so an answer comes late by a timer's
// resolution (a millisecond or two of wall time: at speed 20 some 40 ms of the
// fleet's time), but lateness never adds up.
//
// Faults, for tests and demonstrations, are methods of [Fleet] and calls under
// /v1/sim/ (see [Fleet.Handler]). The fleet knows nothing of routing and makes
// no requests but its reports.
package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// Defaults of a Config.
const (
	DefaultModel          = "meta-llama/Llama-3.1-8B-Instruct"
	DefaultReportInterval = 2 * time.Second // podReportIntervalMs of the seed
)

// Config of a fleet. Zero values mean the defaults.
type Config struct {
	Pods    int                  // how many; required
	Address func(pod int) string // host:port of its HTTP server; nil: 127.0.0.1 and any port
	Clock   clock.Clock          // nil: the wall's
	Model   string               // base model
	Profile string               // see vllm.ProfileNamed
	Blocks  int                  // of 16 tokens, a pod
	// Adapters can be loaded by every pod, MaxAdapters of them at once.
	Adapters    []vllm.Adapter
	MaxAdapters int
	// ReportURL tells where reports are posted, path included. It is asked before
	// each, as the receiver's port may be known late; nil, or an empty answer: no
	// reports.
	ReportURL      func() string
	ReportToken    string
	ReportInterval time.Duration // of the clock's time
	// OwnTokens gives the engines a tokeniser of their own, whose ids are others than
	// the approximate ones of package request and have a mark before every prompt.
	OwnTokens bool
	// Events makes pods publish KV events over ZMQ, as EventsAs encodes them: a
	// kvevent.Generation by its name, "" for vLLM's newest. EventLoss is the share
	// of batches that get lost on their way, 0..1; replays have them.
	Events    bool
	EventsAs  string
	EventLoss float64
	// NoReplays: the engines have no endpoint for batches that were missed.
	NoReplays bool
	// EventsTo is the host:port of a picker that the pods connect to for their events;
	// "": they listen.
	EventsTo string
	Logger   *slog.Logger // nil: none
}

// A Fleet is the pods.
type Fleet struct {
	cfg    Config
	engine vllm.Config
	pods   []*pod
	client *http.Client
	// generation of the events, if there are any.
	generation kvevent.Generation
}

// reportTimeout is wall time: it guards against a receiver that hangs.
const reportTimeout = 5 * time.Second

// New makes the pods, and listens, so that their addresses are known. Nothing
// is served before [Fleet.Run]; a fleet that is never run has to be closed.
func New(cfg Config) (*Fleet, error) {
	if cfg.Pods < 1 {
		return nil, fmt.Errorf("simulate %d pods: at least 1 is needed", cfg.Pods)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Wall{}
	}
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.ReportInterval == 0 {
		cfg.ReportInterval = DefaultReportInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{cfg: cfg, client: &http.Client{Timeout: reportTimeout, Transport: &http.Transport{}}}
	if err := errors.Join(f.prepareEngine(), f.prepareEvents()); err != nil {
		return nil, err
	}
	for i := range cfg.Pods {
		p, err := newPod(f, i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start simulated pod %d: %w", i, err), f.Close())
		}
		f.pods = append(f.pods, p)
	}
	return f, nil
}

func (f *Fleet) prepareEngine() error {
	profile, err := vllm.ProfileNamed(f.cfg.Profile)
	if err != nil {
		return err
	}
	f.engine = vllm.Config{
		Model: f.cfg.Model, Profile: profile, Blocks: f.cfg.Blocks,
		Adapters: f.cfg.Adapters, MaxAdapters: f.cfg.MaxAdapters,
		Vocabulary: f.encoded(vocabulary()), EndID: f.encoded([]uint32{endID})[0],
	}
	if f.cfg.Blocks == 0 {
		f.engine.Blocks = vllm.DefaultBlocks
	}
	if f.cfg.MaxAdapters == 0 {
		f.engine.MaxAdapters = vllm.DefaultMaxAdapters
	}
	if _, err := vllm.New(f.engine); err != nil {
		return fmt.Errorf("simulated engine: %w", err)
	}
	seen := map[string]bool{"": true, f.cfg.Model: true}
	for i, a := range f.cfg.Adapters {
		if seen[a.Name] {
			return fmt.Errorf("adapters[%d]: the name %q is empty or taken", i, a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

func (f *Fleet) prepareEvents() (err error) {
	if err := checkShare(f.cfg.EventLoss); err != nil {
		return fmt.Errorf("event loss: %w", err)
	}
	f.generation, err = generationNamed(f.cfg.EventsAs)
	return err
}

// Close stops listening, for a fleet that is not to be run.
func (f *Fleet) Close() error {
	var errs []error
	for _, p := range f.pods {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends and all that it started has ended. It may be called
// once.
func (f *Fleet) Run(ctx context.Context) error {
	defer f.client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range f.pods {
		group.Go(func() error { return p.run(ctx) })
	}
	return group.Wait()
}

// PodInfo is what can be told of a pod from inside; the picker sees less.
type PodInfo struct {
	Name    string `json:"name"`
	Address string `json:"address"` // host:port
	URL     string `json:"url"`
	Events  string `json:"events,omitempty"` // tcp://host:port of KV events
	Replay  string `json:"replay,omitempty"` // … and of their replay
	// EventsTo is where it connects to for its KV events, tcp://host:port.
	EventsTo string `json:"eventsTo,omitempty"`
	State    string `json:"state"` // up, failing, down
	Epoch    uint64 `json:"epoch"` // of its reports; another one after a restart

	Running        int      `json:"running"`
	Waiting        int      `json:"waiting"`
	Blocks         int      `json:"blocks"`       // that there are
	BlocksHeld     int      `json:"blocksHeld"`   // in use by running requests
	BlocksCached   int      `json:"blocksCached"` // that can be found
	LoadedAdapters []string `json:"loadedAdapters"`

	ReportSeq      uint64   `json:"reportSeq"`      // of the last report that was taken
	ReportSeqAcked uint64   `json:"reportSeqAcked"` // of the last one that was applied
	Batches        uint64   `json:"batches"`        // of KV events, since the start
	BatchesLost    uint64   `json:"batchesLost"`    // … those of them that got lost
	Held           []string `json:"held"`           // of answers, reports, events, metrics
	DropsReports   bool     `json:"dropsReports"`
	Slow           float64  `json:"slow"` // factor on step times
	Health         float64  `json:"health"`
	LosesEvents    float64  `json:"losesEvents"`    // share of batches
	DelaysEventsMs float64  `json:"delaysEventsMs"` // of the fleet's time
	Page           string   `json:"page"`           // of metrics: ok, missing, frozen
	GPU            GPU      `json:"gpu"`
	Pressure       float64  `json:"pressure"` // blocks evicted a second
	Thrashes       bool     `json:"thrashes"` // its adapters
}

// Pods describes the pods, in the order of their names: sim-0, sim-1, …
func (f *Fleet) Pods() []PodInfo {
	infos := make([]PodInfo, 0, len(f.pods))
	for _, p := range f.pods {
		infos = append(infos, p.info())
	}
	return infos
}

// Model is the base model that the fleet serves.
func (f *Fleet) Model() string { return f.cfg.Model }

// WaitReported waits until each pod that is up has had a report applied that
// was taken after this call, so that what has happened before is known.
func (f *Fleet) WaitReported(ctx context.Context) error {
	for _, p := range f.pods {
		if s := p.server(); s != nil {
			if err := s.reports.waitNext(ctx, s.life); err != nil {
				return fmt.Errorf("wait for a report of %s: %w", p.name, err)
			}
		}
	}
	return nil
}
