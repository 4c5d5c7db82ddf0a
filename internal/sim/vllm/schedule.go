package vllm

import (
	"slices"
	"time"
)

// begin plans the step that starts at now: running sequences that decode first,
// then those still in their prompt, then waiting ones.
func (e *Engine) begin(now time.Duration) {
	e.step.active = false
	if e.thrash {
		e.adapters.dropIdle(e.running)
	}
	if len(e.running)+len(e.waiting) == 0 {
		return
	}
	budget, short := e.continueRunning(e.cfg.Budget)
	if !short {
		e.admit(budget)
	}
	duration, work := e.price()
	if !work {
		// With nothing running every block and adapter slot is free, and one
		// sequence alone always fits (Submit saw to it).
		panic("vllm: sequences wait and none can be scheduled")
	}
	e.step = step{active: true, start: now, end: now + duration}
}

// continueRunning gives running sequences their share of the budget and says
// whether blocks ran out.
func (e *Engine) continueRunning(budget int) (left int, short bool) {
	for _, decoding := range [2]bool{true, false} {
		for i := 0; i < len(e.running); i++ { // preemption shortens the list from its end
			s := e.running[i]
			if (s.computed >= s.prefill) != decoding || budget == 0 {
				continue
			}
			n := min(s.length()-s.computed, budget)
			for !e.hold(s, s.computed+n) {
				short = true
				budget += e.preemptLast()
				if s.State != Running {
					break
				}
			}
			if s.State == Running {
				s.scheduled = n
				budget -= n
			}
		}
	}
	return budget, short
}

// hold makes sure that s holds the blocks for its first tokens.
func (e *Engine) hold(s *Sequence, tokens int) bool {
	need := blocksFor(tokens) - len(s.blocks)
	if need > e.cache.room() {
		return false
	}
	for range need {
		s.blocks = append(s.blocks, e.cache.take())
	}
	return true
}

func blocksFor(tokens int) int { return (tokens + TokensPerBlock - 1) / TokensPerBlock }

// preemptLast puts the sequence that came last back to the head of the queue,
// to be computed again, and returns the budget that it had been given.
func (e *Engine) preemptLast() (budget int) {
	s := e.running[len(e.running)-1]
	e.running = e.running[:len(e.running)-1]
	budget = s.scheduled
	e.release(s)
	s.State = Waiting
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.totals.Preemptions++
	return budget
}

// release gives back what a sequence holds and forgets what it had computed.
func (e *Engine) release(s *Sequence) {
	e.cache.releaseAll(s.blocks)
	s.blocks = s.blocks[:0]
	s.stored, s.computed, s.scheduled, s.starting = 0, 0, 0, false
}

// admit starts waiting sequences, in their order, while there is room. One that
// waits for an adapter slot lets others pass; one that waits for blocks does not.
func (e *Engine) admit(budget int) {
	for i := 0; i < len(e.waiting) && budget > 0 && len(e.running) < e.cfg.Sequences; {
		s := e.waiting[i]
		if !e.adapters.canUse(s.Adapter, e.running) {
			i++
			continue
		}
		n := e.start(s, budget)
		if n == 0 {
			return
		}
		budget -= n
		if s.loadingTime = e.adapters.use(s.Adapter, e.running); s.loadingTime > 0 {
			e.totals.AdapterLoads++
		}
		e.running = append(e.running, s)
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
}

// start lets s take its cached blocks and room for its first tokens. It returns
// how many tokens are to be computed, 0 when there is no room.
func (e *Engine) start(s *Sequence, budget int) int {
	// The last token is always computed: its logits are the next token.
	found := e.cache.match(s.hashes)
	hits := s.hashes[:min(found, (s.length()-1)/TokensPerBlock)]
	cached := len(hits) * TokensPerBlock
	n := min(s.length()-cached, budget)
	if blocksFor(cached+n)-len(hits)+e.cache.idleAmong(hits) > e.cache.room() {
		return 0
	}
	for _, h := range hits {
		s.blocks = append(s.blocks, e.cache.acquire(h))
	}
	s.stored, s.computed, s.prefill, s.again = len(hits), cached, s.length(), -1
	if found > len(hits) {
		s.again = len(hits)
	}
	e.hold(s, cached+n)
	s.scheduled, s.starting, s.State = n, true, Running
	if !s.started {
		s.started = true
		s.Cached = cached
		e.totals.Queried += s.prompt
		e.totals.Hit += cached
		e.totals.Prompt += s.prompt
	}
	return n
}

// price is how long the planned step takes.
func (e *Engine) price() (d time.Duration, work bool) {
	var uncached, cached int
	d = e.cfg.Profile.Step
	for _, s := range e.running {
		if s.scheduled == 0 {
			continue
		}
		work = true
		if s.computed < s.prefill {
			uncached += s.scheduled
		}
		if s.starting {
			cached += s.computed
			d += s.loadingTime
		}
	}
	d += time.Duration(uncached)*e.cfg.Profile.Uncached + time.Duration(cached)*e.cfg.Profile.Cached
	return e.slowed(d), work
}

// finish ends the running step at now: tokens are computed, full blocks can be
// found, and every sequence that has caught up has one token more.
func (e *Engine) finish(now time.Duration) {
	e.totals.Steps++
	e.totals.Busy += e.step.end - e.step.start
	e.step.active = false
	ended := false
	for _, s := range e.running {
		if s.scheduled == 0 {
			continue // the budget did not reach it
		}
		s.computed += s.scheduled
		s.scheduled, s.starting = 0, false
		for ; s.stored < s.computed/TokensPerBlock; s.stored++ {
			i, own := s.stored, s.blocks[s.stored]
			s.blocks[i] = e.cache.store(own, s.hashes[i], s.parent(i), s.root, i, i == s.again)
			if s.blocks[i] == own {
				e.cache.events.stored(s, i)
			}
		}
		if s.computed == s.length() {
			e.emit(s, now)
			ended = ended || s.State == Finished
		}
	}
	if ended {
		e.running = slices.DeleteFunc(e.running, func(s *Sequence) bool { return s.State == Finished })
	}
	e.cache.events.flush(now)
}

// emit gives s its next token.
func (e *Engine) emit(s *Sequence, now time.Duration) {
	s.sample(e.cfg.Vocabulary, e.cfg.EndID)
	e.totals.Generated++
	if len(s.Output) == 1 {
		s.FirstToken = now
	}
	if s.Reason != "" {
		e.release(s)
		s.State, s.Ended = Finished, now
		if s.Reason == ReasonStop {
			e.totals.Stopped++
		} else {
			e.totals.ReachedLength++
		}
	}
	if s.Progress != nil && (s.Stream || s.State == Finished) {
		s.Progress()
	}
}
