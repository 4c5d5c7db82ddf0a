package pool

import (
	"time"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

// Allowance is how long before the start of a scrape a pick may have been made
// and still not be counted by the engine: the way of a request to its pod.
const Allowance = 50 * time.Millisecond

// Reservation is one request given to a pod. It is released exactly once, on
// whichever way out comes first. The zero Reservation is not usable; [Pool.Choose]
// fills in one that the caller provides.
type Reservation struct {
	pool       *Pool
	endpoint   *endpoint
	prev, next *Reservation // the endpoint's reservations, oldest first
	pickedAt   instant
	last       uint64 // fingerprint of the last block that the pick counted on
	slot       uint32 // index of where that was found
	held, size int    // blocks that the pod held of the prompt, and tokens in one; 0, 0: none
	claim      *claim // to be held against the engine's answer; mostly nil
	sent       *sent  // to an endpoint whose cache is assumed, else nil
	pending    bool
	open       bool
	evicted    bool // a removal from before the pick arrived after it
}

// claim is what a rank that has missed events claimed to hold of a prompt.
type claim struct {
	stream kvfeed.Stream
	blocks []uint64 // the whole prompt's, of the engine's size
	mark   kvindex.Mark
}

// Correct tells what the engine said of the request: how many tokens the prompt
// has, and how many of these it found in its cache. Where the pick counted on a
// rank that has missed events, or on what was only assumed, what is claimed beyond
// it is taken back.
func (r *Reservation) Correct(prompt, cached int) {
	if c := r.claim; c != nil && cached >= 0 {
		c.stream.Correct(kvindex.Answer{Blocks: c.blocks, Prompt: prompt, Cached: cached, Picked: c.mark})
	}
	if r.sent != nil {
		r.sent.correct(r.pool.cfg.Tree, prompt, cached)
	}
}

// Cached is how many of a prompt's tokens the pod should find in its cache, by the
// engine's own rule: it computes at least the last token, so that of n tokens at
// most ⌊(n−1)/size⌋ of its blocks count.
func (r *Reservation) Cached(prompt int) int {
	if r.size == 0 {
		return 0
	}
	return min(r.held, (prompt-1)/r.size) * r.size
}

// Answered says that the pod has begun to answer: the request is no longer
// pending, and still in flight.
func (r *Reservation) Answered() {
	r.pool.lockSoon()
	defer r.pool.mu.Unlock()
	r.settle()
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
	r.open = false
	e := r.endpoint
	e.inFlight--
	unlink(&e.reservations, r)
	if e.inFlight == 0 && !e.member.inPool {
		delete(r.pool.departed, e.member.key())
	}
	return r.evicted
}

// settle ends the pending part.
func (r *Reservation) settle() {
	if r.pending {
		r.pending = false
		r.endpoint.pending--
	}
}

// book opens the reservation on e, also one that was released in the same step.
func (r *Reservation) book(p *Pool, e *endpoint, now instant) {
	if r.pool == nil {
		r.pool = p // once: it is read without the lock
	}
	r.endpoint, r.pickedAt, r.last, r.claim = e, now, 0, nil
	r.held, r.size = 0, 0
	r.pending, r.open, r.evicted = true, true, false
	if r.sent != nil {
		r.sent.resend(e)
	}
	e.inFlight++
	e.pending++
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
func (e *endpoint) reported(taken instant) {
	cutoff := taken - instant(Allowance)
	for r := e.reservations.first; r != nil && r.pickedAt <= cutoff; r = r.next {
		r.settle()
	}
}
