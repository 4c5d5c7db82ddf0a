package pool

import (
	"time"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

// Allowance is the default of [Limits.Allowance].
const Allowance = 50 * time.Millisecond

// Reservation is one request given to a pod. It is released exactly once, on
// whichever way out comes first. The zero Reservation is not usable; [Pool.Choose]
// fills in one that the caller provides.
type Reservation struct {
	pool       *Pool
	endpoint   *endpoint
	prev, next *Reservation // the endpoint's reservations, oldest first
	pickedAt   instant
	at         tally // where the pod's cache was looked into; size 0: nowhere
	held       int   // blocks of the prompt, of the size there, that the pod held
	promptBlocks
	last    uint64  // of the prompt's blocks the last one that the pick counted on; 0: none
	gone    instant // when that was removed, as was told after the pick; never: it was not
	beyond  uint64  // the block behind that one; 0: none
	passed  bool    // that was stored and removed since
	doubt   doubt
	assumed bool   // nobody tells what the pod holds
	claim   *claim // to be held against the engine's answer; mostly nil
	sent    *sent  // to an endpoint whose cache is assumed, else nil
	pending bool
	open    bool
	// unanswered is pending, but that reports of the engine do not end it.
	unanswered bool
	watched    bool // stays among the endpoint's reservations when it is released
}

// claim is what a rank that has missed events claimed to hold of a prompt.
type claim struct {
	stream kvfeed.Stream
	mark   kvindex.Mark
}

// Correct tells what the engine said of the request: how many tokens the prompt
// has, and how many of these it found in its cache. Where the pick counted on a
// rank that has missed events, or on what was only assumed, what is claimed beyond
// it is taken back.
func (r *Reservation) Correct(prompt, cached int) {
	if c := r.claim; c != nil && cached >= 0 {
		c.stream.Correct(kvindex.Answer{Blocks: r.blocks, Prompt: prompt, Cached: cached, Picked: c.mark})
	}
	if r.sent != nil {
		r.sent.correct(r.pool.cfg.Tree, prompt, cached)
	}
}

// Cached is how many of a prompt's tokens the pod should find in its cache, by the
// engine's own rule: it computes at least the last token, so that of n tokens at
// most ⌊(n−1)/size⌋ of its blocks count.
func (r *Reservation) Cached(prompt int) int {
	if r.held == 0 {
		return 0
	}
	return min(r.held, (prompt-1)/r.at.size) * r.at.size
}

// Answered says that the pod has begun to answer: the request is no longer
// pending, and still in flight.
func (r *Reservation) Answered() {
	r.pool.lockSoon()
	defer r.pool.mu.Unlock()
	r.settle()
	r.answer()
}

// Release ends the reservation. Only the first call does anything; it reports
// whether the pod turned out to have evicted, before the pick, what the pick
// counted on.
func (r *Reservation) Release() (evicted bool) {
	if r.pool == nil { // never booked
		return false
	}
	r.pool.lockSoon()
	defer r.pool.mu.Unlock()
	return r.release()
}

func (r *Reservation) release() (evicted bool) {
	if !r.open {
		return false
	}
	r.settle()
	r.answer()
	r.open = false
	e := r.endpoint
	e.inFlight--
	if !r.watched {
		unlink(&e.reservations, r)
	}
	if e.inFlight == 0 && !e.member.inPool {
		delete(r.pool.departed, e.member.key())
	}
	return r.gone != never && r.gone < r.pickedAt
}

// settle ends the pending part.
func (r *Reservation) settle() {
	if r.pending {
		r.pending = false
		r.endpoint.pending--
	}
}

// answer ends what other replicas are told of the reservation.
func (r *Reservation) answer() {
	if r.unanswered {
		r.unanswered = false
		r.endpoint.shared.unanswered--
		r.pool.exchange.touch(r.endpoint)
	}
}

// book opens the reservation on e, also one that was released in the same step.
func (r *Reservation) book(p *Pool, e *endpoint, now instant) {
	if r.pool == nil {
		r.pool = p // once: it is read without the lock
	}
	r.endpoint, r.pickedAt = e, now
	r.at, r.held, r.doubt, r.assumed, r.claim = tally{}, 0, doubt{}, false, nil
	r.last, r.gone, r.beyond, r.passed = 0, never, 0, false
	r.pending, r.open, r.unanswered = true, true, true
	if r.sent != nil {
		r.sent.resend(e)
	}
	e.inFlight++
	e.pending++
	e.shared.picked++
	e.shared.unanswered++
	p.exchange.touch(e)
	push(&e.reservations, r)
}

// list is the doubly linked list of an endpoint's reservations, by time.
type list struct{ first, last *Reservation }

func push(l *list, r *Reservation) {
	r.prev = l.last
	if l.last == nil {
		l.first = r
	} else {
		l.last.next = r
	}
	l.last = r
}

func unlink(l *list, r *Reservation) {
	if r.prev == nil {
		l.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// reported settles all picks that a report taken at the given time has seen.
func (e *endpoint) reported(taken instant, l Limits) {
	cutoff := taken - instant(l.Allowance)
	for r := e.reservations.first; r != nil && r.pickedAt <= cutoff; r = r.next {
		r.settle()
	}
	e.shared.reported(cutoff)
}
