package pool

import (
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/kvindex"
)

// Evidence is what speaks for why an engine found more or less of a prompt in
// its cache than the pick counted on.
type Evidence struct {
	// Stored: the pod holds by now all that the engine found, or has lost it again.
	Stored bool
	// Evicted: what the pick counted on was removed before the engine looked, and
	// Unseen: before the pick, which was told after it.
	Evicted, Unseen bool
	// Assumed: nobody tells what the pod holds, see [Config.Assume]. Then there is no
	// other evidence.
	Assumed bool
	// Degraded is why the picture of the pod is not whole, or was not at the pick.
	Degraded kvindex.Degraded
}

// Evidence is what is known by now. The engine found so many tokens, and had
// looked by then, which is by our clock.
func (r *Reservation) Evidence(cached int, looked time.Time) Evidence {
	p := r.pool
	if p == nil || r.at.size == 0 {
		return Evidence{}
	}
	if r.assumed {
		return Evidence{Assumed: true}
	}
	p.lockSoon()
	ev := Evidence{Stored: r.passed}
	if now := r.endpoint.doubt(r.at.slot); now.gaps != r.doubt.gaps {
		ev.Degraded = kvindex.Gapped // it may have been mended since
	} else {
		ev.Degraded = max(r.doubt.degraded, now.degraded)
	}
	ev.Unseen = r.gone != never && r.gone < r.pickedAt
	ev.Evicted = r.gone != never && r.gone <= p.since(looked)+instant(p.cfg.Limits.Allowance)
	p.mu.Unlock()

	if !ev.Stored {
		ev.Stored = r.stored(cached / r.at.size)
	}
	return ev
}

// stored reports whether the pod holds the first n blocks of the prompt now. That
// it mostly does not, its last one tells for less.
func (r *Reservation) stored(n int) bool {
	tree, slot := r.pool.cfg.Tree, r.at.deepest()
	switch {
	case n == 0:
		return true
	case n > len(r.blocks), !tree.Holds(slot, r.blocks[n-1]):
		return false
	}
	counts := make([]uint32, slot+1)
	tree.Lookup(r.blocks[:n], counts)
	return int(counts[slot]) == n
}

// Watch makes evidence be gathered also after the reservation is released, until
// [Reservation.Forget]. It is false when that has happened already.
func (r *Reservation) Watch() bool {
	if r.pool == nil {
		return false
	}
	r.pool.lockSoon()
	defer r.pool.mu.Unlock()
	r.watched = r.open
	return r.open
}

// Forget ends a reservation that was released: there is no evidence any more.
func (r *Reservation) Forget() {
	if r.pool == nil {
		return
	}
	if r.watched {
		r.pool.lockSoon()
		unlink(&r.endpoint.reservations, r)
		r.watched = false
		r.pool.mu.Unlock()
	}
	r.at = tally{}
	r.promptBlocks.forget()
}

// counts notes what the pick counts on. The blocks are only lent until
// [Pool.remember].
func (r *Reservation) counts(f *found) {
	m := f.match
	if m == nil {
		return
	}
	r.at, r.held = *f.of, f.held
	if a := r.endpoint.assumed; a != nil && a.slot.Index == r.at.slot {
		r.assumed = true
		return
	}
	r.blocks, r.doubt = m.Blocks, r.endpoint.doubt(r.at.slot)
	if f.held > 0 && f.held <= len(m.Blocks) {
		r.last, r.claim = m.Blocks[f.held-1], r.endpoint.doubtful(r.at.slot)
	}
	if f.held < len(m.Blocks) {
		r.beyond = m.Blocks[f.held]
	}
}

// removed takes it that blocks were removed at a time. What was not there at the
// pick has come after it.
func (r *Reservation) removed(block func(uint64) bool, at instant) {
	if r.last != 0 && r.gone == never && block(r.last) {
		r.gone = at
	}
	if r.beyond != 0 && block(r.beyond) {
		r.passed = true
	}
}

// remember does what of a pick need not be done under the lock. That a block was
// removed between the look-up and the reservation, nobody told the reservation.
func (p *Pool) remember(r *Reservation) {
	r.keep()
	if r.claim != nil { // not under the lock, see rank
		r.claim.mark = r.claim.stream.Mark()
	}
	if r.last == 0 || p.cfg.Tree.Holds(r.at.deepest(), r.last) {
		return
	}
	p.lockSoon()
	defer p.mu.Unlock()
	if r.gone == never {
		r.gone = r.pickedAt - 1
	}
}

// doubt is why the picture of a rank is not whole, and how often it became so.
type doubt struct {
	degraded kvindex.Degraded
	gaps     uint64
}

// doubt is that of the rank with the slot; that of reports has none.
func (e *endpoint) doubt(slot uint32) doubt {
	for _, r := range e.ranks {
		if r.slots[0].Index == slot {
			return doubt{r.state.Degraded, r.state.Gaps}
		}
	}
	return doubt{}
}

// deepest is the index of the slot that has all that counts there.
func (t *tally) deepest() uint32 {
	if t.rank == nil {
		return t.slot
	}
	return t.rank.slots[len(t.rank.slots)-1].Index
}

// promptBlocks are the fingerprints of a prompt, in memory that is used again.
type promptBlocks struct {
	blocks []uint64
	memory *[]uint64 // nil: they are only lent
}

var prompts = sync.Pool{New: func() any { return new([]uint64) }}

// keep makes them one's own.
func (p *promptBlocks) keep() {
	if len(p.blocks) == 0 {
		return
	}
	if p.memory == nil {
		p.memory = prompts.Get().(*[]uint64)
	}
	*p.memory = append((*p.memory)[:0], p.blocks...)
	p.blocks = *p.memory
}

func (p *promptBlocks) forget() {
	if p.memory != nil {
		prompts.Put(p.memory)
	}
	*p = promptBlocks{}
}
