// Package vllm is a model of a vLLM engine: scheduler, paged KV cache with
// prefix caching, LoRA slots, and what a step costs.
//
// The one idea: the engine has no clock. Its time is computed, step by step,
// from what the steps cost, and moves only when it is told how far it may go.
// The same engine so runs in wall time (package sim sleeps until something is
// to be seen) and in virtual time, as fast as the processor can:
//
//	e, err := vllm.New(vllm.Config{Model: "m", Vocabulary: words})
//	s := &vllm.Sequence{Prompt: ids, MaxTokens: 64}
//	err = e.Submit(0, s)
//	for s.State != vllm.Finished {
//		next, _ := e.NextStep()
//		e.Advance(next)
//	}
//
// What is like vLLM (V1): continuous batching with a token budget, decodes
// before prefills before new requests; chunked prefill; blocks of 16 tokens,
// found by chained fingerprint, of a prompt of n tokens at most ⌊(n−1)/16⌋ since
// the last token has to be computed for its logits; answers fill blocks too;
// preemption by recomputing when no block is left; a block that was found and is
// computed again for its last token is kept as a copy; adapters loaded when a
// request starts, the least recently used idle one leaving. What is not: no
// attention, so the cost of a token does not grow with its context; blocks can be
// found at a step's end and not from its start on, and of equal ones that were
// computed side by side one is kept; an answer is 4-byte words.
//
// It is not safe for concurrent use.
package vllm

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of a Config.
const (
	DefaultBlocks      = 32_768
	DefaultSequences   = 64      // vLLM's max_num_seqs on small servers
	DefaultBudget      = 2_048   // tokens a step: vLLM's max_num_batched_tokens
	DefaultMaxLength   = 131_072 // tokens of prompt and answer: Llama-3.1's context
	DefaultMaxAdapters = 4
)

// Config of an engine. Zero values mean the defaults.
type Config struct {
	Model       string // base model; its name is part of every fingerprint
	Profile     Profile
	Blocks      int
	Sequences   int // that run at once
	Budget      int
	MaxLength   int
	Adapters    []Adapter // those that can be loaded
	MaxAdapters int       // loaded at once
	Vocabulary  []uint32  // ids that answers consist of; required
	EndID       uint32    // id that ends an answer
	// Events is called with what a step changed in the cache. It must not call the
	// engine. nil: nobody wants to know.
	Events func(Batch)
}

// Engine is the model. Times are since its start.
type Engine struct {
	cfg      Config
	cache    *cache
	adapters adapters
	waiting  []*Sequence
	running  []*Sequence
	slow     float64
	thrash   bool
	step     step
	totals   Totals
	memory   []uint32 // for a prompt
}

// A step is the pass that is under way.
type step struct {
	active     bool
	start, end time.Duration
}

// Totals only ever grow.
type Totals struct {
	Queried, Hit      int // tokens of prompts looked up in the cache, and found there
	Prompt, Generated int // tokens
	Preemptions       int
	Stopped           int // sequences that finished with ReasonStop
	ReachedLength     int // … with ReasonLength
	Aborted           int
	AdapterLoads      int
	Steps             int
	Busy              time.Duration // time spent in steps that have ended
}

// New makes an idle engine with an empty cache.
func New(cfg Config) (*Engine, error) {
	var errs []error
	if cfg.Profile == (Profile{}) {
		cfg.Profile = profiles[0]
	}
	for _, d := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"blocks", &cfg.Blocks, DefaultBlocks},
		{"sequences", &cfg.Sequences, DefaultSequences},
		{"budget", &cfg.Budget, DefaultBudget},
		{"maxLength", &cfg.MaxLength, DefaultMaxLength},
		{"maxAdapters", &cfg.MaxAdapters, DefaultMaxAdapters},
	} {
		if *d.value == 0 {
			*d.value = d.zero
		}
		if *d.value < 1 {
			errs = append(errs, fmt.Errorf("%s: must be at least 1, got %d", d.name, *d.value))
		}
	}
	if cfg.Budget < cfg.Sequences {
		errs = append(errs, fmt.Errorf("budget: %d tokens a step cannot serve %d sequences", cfg.Budget, cfg.Sequences))
	}
	if len(cfg.Vocabulary) == 0 {
		errs = append(errs, errors.New("vocabulary: needs at least one id"))
	}
	if cfg.Profile.Step <= 0 {
		errs = append(errs, errors.New("profile.Step: must be positive, or time would stand still"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, cache: newCache(cfg.Blocks), slow: 1,
		adapters: newAdapters(cfg.Adapters, cfg.MaxAdapters),
	}
	if cfg.Events != nil {
		e.cache.events = &recorder{publish: cfg.Events}
	}
	return e, nil
}

// A LengthError is a sequence that cannot be served, now or ever.
type LengthError struct {
	Prompt, MaxTokens int
	Limit             int // of both together
}

// Error implements error.
func (e *LengthError) Error() string {
	return fmt.Sprintf("%d prompt tokens and %d output tokens exceed the maximum length of %d", e.Prompt, e.MaxTokens, e.Limit)
}

// ErrNoAdapter is a sequence for an adapter that the engine does not have.
var ErrNoAdapter = errors.New("no such adapter")

// ErrEmptyPrompt is a sequence without a token.
var ErrEmptyPrompt = errors.New("the prompt has no tokens")

// Submit adds sequences that arrive together, at now or at the time that the
// engine has already reached. Either all are accepted or none.
func (e *Engine) Submit(now time.Duration, sequences ...*Sequence) error {
	limit := min(e.cfg.MaxLength, e.cfg.Blocks*TokensPerBlock)
	for _, s := range sequences {
		e.memory = s.prepare(e.cfg.Model, e.memory)
		switch {
		case s.prompt == 0:
			return ErrEmptyPrompt
		case s.MaxTokens == 0 && s.prompt < limit:
			s.want = min(s.want, limit-s.prompt)
		case s.prompt+s.want > limit:
			return &LengthError{Prompt: s.prompt, MaxTokens: s.MaxTokens, Limit: limit}
		}
		if !e.adapters.known(s.Adapter) {
			return fmt.Errorf("%w: %q", ErrNoAdapter, s.Adapter)
		}
	}
	e.Advance(now)
	for _, s := range sequences {
		s.Arrived = now
		e.waiting = append(e.waiting, s)
	}
	if !e.step.active {
		e.begin(now)
	}
	return nil
}

// Abort ends a sequence whose client is gone, and frees what it held. After its
// end this does nothing.
func (e *Engine) Abort(now time.Duration, s *Sequence) {
	e.Advance(now)
	var waiting, running bool
	e.waiting, waiting = remove(e.waiting, s)
	e.running, running = remove(e.running, s)
	if !waiting && !running {
		return
	}
	e.release(s)
	s.State, s.Ended = Aborted, now
	e.totals.Aborted++
}

// Advance runs all steps that end at or before now. A time that has passed
// already changes nothing.
func (e *Engine) Advance(now time.Duration) {
	for e.step.active && e.step.end <= now {
		end := e.step.end
		e.finish(end)
		e.begin(end)
	}
}

// NextStep is when the step under way ends; false when the engine is idle.
func (e *Engine) NextStep() (time.Duration, bool) { return e.step.end, e.step.active }

// NextSight is a time before which nothing can be seen: no end of a sequence
// and no token of a streaming one. It spares a caller in wall time to wake up
// for each step; false when the engine is idle.
func (e *Engine) NextSight() (time.Duration, bool) {
	if !e.step.active {
		return 0, false
	}
	fewest := 1 << 30
	for _, list := range [2][]*Sequence{e.running, e.waiting} {
		for _, s := range list {
			steps := s.want - len(s.Output)
			if s.Stream {
				steps = 1
			}
			fewest = min(fewest, steps)
		}
	}
	return e.step.end + time.Duration(fewest-1)*e.slowed(e.cfg.Profile.Step), true
}

// SetSlow makes steps that start from now on take factor times as long, 0.01 to
// 1000.
func (e *Engine) SetSlow(factor float64) { e.slow = min(max(factor, 0.01), 1000) }

// SetThrash makes adapters that no running sequence needs leave with each step.
func (e *Engine) SetThrash(on bool) { e.thrash = on }

func (e *Engine) slowed(d time.Duration) time.Duration { return time.Duration(float64(d) * e.slow) }

// EvictIdle drops up to n blocks that no sequence holds, as other requests would
// have done, and says how many.
func (e *Engine) EvictIdle(now time.Duration, n int) int {
	e.Advance(now)
	n = e.cache.evictIdle(n)
	if n > 0 && !e.step.active {
		e.cache.events.flush(now)
	}
	return n
}

// Reset empties the cache and says whether it did: not while sequences hold
// blocks. Events tell of it with the next step that changes something, as vLLM's.
func (e *Engine) Reset(now time.Duration) bool {
	e.Advance(now)
	return e.cache.reset()
}

// Changes tells what happened in the cache since the last call; with full, or
// when too much has happened, everything that is in it.
func (e *Engine) Changes(full bool) Changes { return e.cache.changes(full) }

// Load is how many sequences run and wait.
func (e *Engine) Load() (running, waiting int) { return len(e.running), len(e.waiting) }

// Holds is how many of the blocks with these fingerprints can be found, from the
// first on without a gap.
func (e *Engine) Holds(fingerprints []uint64) int { return e.cache.match(fingerprints) }

// Stats is the state of an engine at a moment.
type Stats struct {
	Totals
	Running, Waiting int // sequences
	Blocks           int // that there are
	Held             int // blocks in use by sequences
	Cached           int // blocks that can be found
	// Adapters: of running and waiting sequences, and those that are loaded.
	RunningAdapters, WaitingAdapters, LoadedAdapters []string
}

// Stats reads the state at now. Busy then counts the part of the running step.
func (e *Engine) Stats(now time.Duration) Stats {
	e.Advance(now)
	s := Stats{
		Totals: e.totals, Running: len(e.running), Waiting: len(e.waiting),
		Blocks: e.cfg.Blocks, Held: e.cache.held(), Cached: e.cache.index.length,
		RunningAdapters: adaptersOf(e.running), WaitingAdapters: adaptersOf(e.waiting),
		LoadedAdapters: e.adapters.names(),
	}
	if e.step.active {
		s.Busy += max(0, now-e.step.start)
	}
	return s
}
