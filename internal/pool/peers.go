package pool

import "math"

// MaxPeers is how many other replicas there can be.
const MaxPeers = 64

// Booking is what a replica has given to an endpoint: so many requests ever, of which
// so many have not begun to be answered.
type Booking struct {
	Pod, Endpoint string
	Picked        uint64
	Open          int
}

// shared is what replicas tell each other of an endpoint.
type shared struct {
	picked     uint64 // reservations here, ever
	unanswered int    // open ones that have not been answered
	touched    bool   // changed since it was last told

	peers   []*share // by the peer's number; nil: it told nothing
	pending int      // of all peers
}

// exchange is the pool's part of it.
type exchange struct {
	on      bool
	changed []*endpoint
	wake    chan struct{}
	taken   [MaxPeers]bool // numbers of peers
}

// Exchange makes the pool count what it has to tell to other replicas. The channel
// gets a value when there is something new, see [Pool.Bookings].
func (p *Pool) Exchange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.exchange.on {
		p.exchange.on, p.exchange.wake = true, make(chan struct{}, 1)
	}
	return p.exchange.wake
}

// Bookings appends to dst what has changed since the last call, or with all what there
// is. Only the former may have one caller at a time.
func (p *Pool) Bookings(dst []Booking, all bool) []Booking {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all {
		for _, e := range p.endpoints {
			if e.shared.picked > 0 {
				dst = append(dst, e.booking())
			}
		}
		return dst
	}
	for i, e := range p.exchange.changed {
		e.shared.touched = false
		dst = append(dst, e.booking())
		p.exchange.changed[i] = nil
	}
	p.exchange.changed = p.exchange.changed[:0]
	return dst
}

func (e *endpoint) booking() Booking {
	return Booking{Pod: e.member.Name, Endpoint: e.member.Address, Picked: e.shared.picked, Open: e.shared.unanswered}
}

// touch notes that there is something to tell of e.
func (x *exchange) touch(e *endpoint) {
	if !x.on || e.shared.touched {
		return
	}
	e.shared.touched = true
	x.changed = append(x.changed, e)
	if len(x.changed) == 1 {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// share is what one of the other replicas told of an endpoint. As with this replica's
// own requests, pending are those that were picked after the engine's last report was
// taken, and have not been answered. Which of them were answered is not told: engines
// begin with the oldest, so that the newest are open.
type share struct {
	picked  uint64
	open    int
	at      instant // when picked last changed
	mark    uint64  // picked, when the engine's last report was taken
	history [8]sample
	last    int // of the history
}

type sample struct {
	at     instant
	picked uint64
}

// sampling is the least distance of two samples: the history reaches back eight times
// as far, which is the allowance and a slow scrape.
const sampling = Allowance / 2

// told takes over what the replica says now.
func (s *share) told(b *Booking, now instant) {
	if b.Picked < s.picked { // another process behind the same endpoint, or replica
		*s = share{}
	}
	if b.Picked != s.picked {
		s.picked, s.at = b.Picked, now
		if newest := &s.history[s.last]; newest.picked == 0 || now-newest.at >= instant(sampling) {
			s.last = (s.last + 1) % len(s.history)
			s.history[s.last] = sample{now, s.picked}
		}
	}
	s.open = b.Open
}

// reported moves the mark to what had been picked at a time.
func (s *share) reported(cutoff instant) {
	if s.at <= cutoff {
		s.mark = s.picked
		return
	}
	for _, h := range s.history {
		if h.picked > s.mark && h.at <= cutoff {
			s.mark = h.picked
		}
	}
}

func (s *share) pending() int {
	return int(min(s.picked-s.mark, uint64(max(s.open, 0))))
}

// recount adds up what the peers have pending.
func (s *shared) recount() {
	s.pending = 0
	for _, of := range s.peers {
		if of != nil {
			s.pending = min(s.pending+of.pending(), math.MaxUint16) // what a record can hold
		}
	}
}

// reported is told of a report of the engine that was taken at the given time.
func (s *shared) reported(cutoff instant) {
	if len(s.peers) == 0 {
		return
	}
	for _, of := range s.peers {
		if of != nil {
			of.reported(cutoff)
		}
	}
	s.recount()
}

// Peer is another replica, as the pool knows it. It is one goroutine's at a time.
type Peer struct {
	pool   *Pool
	number int
}

// AddPeer makes room for another replica, until [Peer.Leave]; nil when there are too
// many.
func (p *Pool) AddPeer() *Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, taken := range p.exchange.taken {
		if !taken {
			p.exchange.taken[i] = true
			return &Peer{p, i}
		}
	}
	return nil
}

// Told takes over what the replica says. Endpoints that the pool does not have are
// left out; it returns how many.
func (r *Peer) Told(bookings []Booking) (unknown int) {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for i := range bookings {
		b := &bookings[i]
		e := p.byKey[key{b.Pod, b.Endpoint}]
		if e == nil {
			unknown++
			continue
		}
		e.shared.share(r.number).told(b, now)
		e.shared.recount()
	}
	return unknown
}

func (s *shared) share(number int) *share {
	for len(s.peers) <= number {
		s.peers = append(s.peers, nil)
	}
	if s.peers[number] == nil {
		s.peers[number] = new(share)
	}
	return s.peers[number]
}

// Forget drops all that the replica told.
func (r *Peer) Forget() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.forget()
}

func (r *Peer) forget() {
	p := r.pool
	drop := func(s *shared) {
		if r.number < len(s.peers) {
			s.peers[r.number] = nil
			s.recount()
		}
	}
	for _, e := range p.byKey {
		drop(&e.shared)
	}
	for _, e := range p.departed {
		drop(&e.shared)
	}
}

// Leave forgets the replica and gives its place to others.
func (r *Peer) Leave() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.forget()
	r.pool.exchange.taken[r.number] = false
}
