package pool

import (
	"fmt"
	"slices"
	"sync"

	"github.com/eppctl/eppctl/internal/assume"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// assumption is what an endpoint is assumed to hold in its cache while nobody tells:
// what was sent to it. It has a slot of the tree of its own.
//
// Neither the pool's lock nor a decision ever waits for a prompt that is stored.
type assumption struct {
	slot prefix.Slot

	// The pool's lock guards these.
	life     uint32 // another one whenever the endpoint may have lost its cache
	size     int    // tokens in a block; 0: the engine's blocks can't be compared
	capacity int    // in blocks
	active   bool   // nothing better is known
	used     bool   // something was stored since it was last cleared

	mu    sync.Mutex // not to be taken under the pool's lock
	of    uint32     // the life that the rest is of
	cache *assume.Cache
	gone  []uint64 // memory for what gives way
}

// sent is the prompt of a request to an endpoint of which things are assumed.
type sent struct {
	blocks []uint64 // not changed
	size   int      // tokens in a block

	// The pool's lock guards these.
	to   *assumption
	life uint32 // of that, when the request was given to the endpoint

	mu      sync.Mutex // one step of the request at a time; the pool's lock may be taken under it
	begun   bool       // it was answered with success
	at      *assumption
	use     assume.Use // what was found there
	of      uint32     // in this life
	found   int        // blocks that the pick counted on there
	several bool       // one of several ranks has it, and nobody knows which
}

func (p *Pool) newAssumption(slot prefix.Slot) *assumption {
	if p.cfg.Assume == 0 {
		return nil
	}
	size := p.cfg.BlockSize
	a := &assumption{slot: slot, size: size, capacity: p.cfg.Assume / size}
	a.cache = assume.New(a.capacity)
	return a
}

// assumeCache goes by what was sent to the endpoint when what is told is unknown or
// stale.
func (e *endpoint) assumeCache(now instant, l Limits) {
	a := e.assumed
	if a == nil {
		return
	}
	a.active = false
	switch {
	case e.cache.known() && now <= e.cache.expires(l), e.mismatch():
		return
	case a.size == 0:
		e.cache = noneFor(fmt.Sprintf("unknown: block size %d", e.engine.blockSize))
		return
	}
	a.active = true
	e.cache = reading{at: always, source: score.SourceAssumed, note: "assumed: what was sent to it"}
	if n := len(e.engine.ranks); n > 1 {
		e.cache.note += fmt.Sprintf(", on any of its %d ranks", n)
	}
	e.tally, e.others = tally{slot: a.slot.Index, size: a.size}, e.others[:0]
}

// mismatch reports whether events or reports say that the endpoint's blocks can't be
// compared.
func (e *endpoint) mismatch() bool {
	return e.report.mismatch != 0 || slices.ContainsFunc(e.ranks, func(r *rank) bool { return r.state.Mismatch != 0 })
}

// lapse: the endpoint may have lost its cache. [Pool.tidy] has to follow.
func (p *Pool) lapse(e *endpoint) {
	if a := e.assumed; a != nil && a.used {
		a.life++
		a.used = false
		p.lapsed = append(p.lapsed, a)
	}
}

// tidy clears what has lapsed. The pool's lock must not be held.
func (p *Pool) tidy() {
	if p.cfg.Assume == 0 {
		return
	}
	p.mu.Lock()
	lapsed := p.lapsed
	lives := make([]uint32, len(lapsed))
	for i, a := range lapsed {
		lives[i] = a.life
	}
	p.lapsed = nil
	p.mu.Unlock()
	for i, a := range lapsed {
		a.mu.Lock()
		a.catchUp(p.cfg.Tree, lives[i])
		a.mu.Unlock()
	}
}

// catchUp clears what is of an earlier life; it is false when the given one is over.
func (a *assumption) catchUp(tree *prefix.Tree, life uint32) bool {
	if ahead := int32(life - a.of); ahead <= 0 {
		return ahead == 0
	}
	a.of = life
	a.cache.Clear()
	tree.Clear(a.slot)
	return true
}

// scrapedCache takes what a page says of the engine's process and its blocks, before
// it replaces what the last one said. What nobody needs any more is given back.
func (p *Pool) scrapedCache(e *endpoint, page *engine.Page) {
	a, last := e.assumed, &e.engine
	if a == nil {
		return
	}
	if fell(last.prompts, page.Prompts) || other(last.started, page.Started) || !a.active {
		p.lapse(e)
	}
	last.started, last.prompts = latest(last.started, page.Started), latest(last.prompts, page.Prompts)
	if page.BlockSize == 0 {
		return
	}
	size, capacity := page.BlockSize, p.cfg.Assume/page.BlockSize
	if page.NumBlocks > 0 { // of which each rank keeps one for itself
		capacity = max(1, page.NumBlocks-max(1, len(page.Ranks)))
	}
	if !p.comparable(size) {
		size = 0
	}
	if a.capacity = capacity; size != a.size {
		p.lapse(e)
		a.size = size
		p.rearrange()
	}
}

func fell(before, after engine.Value) bool { return before.Known && after.Known && after.V < before.V }

func other(before, after engine.Value) bool {
	return before.Known && after.Known && after.V != before.V
}

// latest is the newer of two values, if that is known.
func latest(before, after engine.Value) engine.Value {
	if after.Known {
		return after
	}
	return before
}

// send is the request's prompt, when the endpoint's cache is assumed. Its blocks are
// still the query's.
func (e *endpoint) send(q *Query) *sent {
	a := e.assumed
	if a == nil || !a.active {
		return nil
	}
	for i := range q.Matches {
		if m := &q.Matches[i]; m.BlockSize == a.size && len(m.Blocks) > 0 {
			return &sent{blocks: m.Blocks, size: a.size, to: a, life: a.life}
		}
	}
	return nil
}

// resend gives the request to another endpoint, or once more to the same.
func (s *sent) resend(e *endpoint) {
	if s.to = e.assumed; s.to != nil {
		s.life = s.to.life
	}
}

// Stored says that the engine has begun to answer with success, and is thus assumed
// to hold the prompt in its cache.
func (r *Reservation) Stored() {
	if s := r.sent; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begun = true
		s.store(r, func(a *assumption) (use assume.Use) {
			a.gone, use = a.cache.Begin(a.gone, s.blocks)
			return use
		})
	}
}

// Ended says that the request has come to its end, with so many tokens in the prompt
// and the answer; −1 is unknown.
func (r *Reservation) Ended(prompt, answer int) {
	s := r.sent
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return
	}
	s.store(r, func(a *assumption) (use assume.Use) {
		a.gone, use = a.cache.End(a.gone, s.blocks, (max(prompt, 0)%s.size+max(answer, 0))/s.size)
		return use
	})
}

// store stores the prompt where the request is now, if that has kept what it had
// since. What is new goes into the tree, and what gave way out of it.
func (s *sent) store(r *Reservation, how func(*assumption) assume.Use) {
	tree := r.pool.cfg.Tree
	a, capacity := s.destination(r)
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.catchUp(tree, s.of) {
		return
	}
	a.gone = a.cache.Resize(a.gone[:0], capacity)
	use := how(a)
	if from := use.New; from < len(s.blocks) {
		parent := uint64(0)
		if from > 0 {
			parent = s.blocks[from-1]
		}
		tree.Store(a.slot, parent, s.blocks[from:min(len(s.blocks), capacity)])
	}
	if len(a.gone) > 0 {
		tree.Remove(a.slot, a.gone)
	}
	s.at, s.use = a, use
}

// destination is where the prompt is to be stored, nil for nowhere.
func (s *sent) destination(r *Reservation) (*assumption, int) {
	r.pool.lockSoon()
	defer r.pool.mu.Unlock()
	a, e := s.to, r.endpoint
	if a == nil || a != e.assumed || !a.active || !e.member.inPool || a.size != s.size || a.life != s.life {
		return nil, 0
	}
	a.used = true
	s.of, s.found, s.several = s.life, r.held, len(e.engine.ranks) > 1
	return a, a.capacity
}

// takeBack takes out what the request has stored where it was not served. It is
// still to be stored where it has moved to.
func (s *sent) takeBack(tree *prefix.Tree, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.at
	s.at, s.begun = nil, s.begun && moved
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != s.of {
		return
	}
	if a.gone = a.cache.Forget(a.gone[:0], s.blocks, s.use); len(a.gone) > 0 {
		tree.Remove(a.slot, a.gone)
	}
}

// correct goes by what the engine found in its cache. Where that is less than the
// pick counted on, it takes back what the engine can't have either.
func (s *sent) correct(tree *prefix.Tree, prompt, cached int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.at
	found, ok := s.counted(prompt, cached)
	if a == nil || s.several || !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != s.of {
		return
	}
	if a.gone = a.cache.Counted(a.gone[:0], s.use, found); len(a.gone) > 0 {
		tree.Remove(a.slot, a.gone)
	}
}

// counted is the engine's count in blocks, if it can be compared with ours. The last
// token of a prompt is never taken from the cache. Where the engine counts other
// tokens than were looked up, only that it found nothing at all can be told.
func (s *sent) counted(prompt, cached int) (found int, ok bool) {
	most := min(s.found, (prompt-1)/s.size)
	const sure = 2 // blocks of approximate tokens that are at least one of the engine's
	switch exact := prompt/s.size == len(s.blocks); {
	case cached < 0, !exact && (cached > 0 || most < sure):
		return 0, false
	case cached/s.size >= most:
		return max(cached/s.size, s.found), true
	}
	return cached / s.size, true
}
