package record

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// DefaultBytes is the ring's default size, --record-memory.
const DefaultBytes = 128 << 20

const (
	minBytes = 256 << 10
	minSlab  = 64 << 10
	maxSlab  = 1 << 20
	slotSize = 4
	maxSlots = 1<<slotBits - 1
	slotBits = 16
)

// RingConfig says how a ring is made.
type RingConfig struct {
	// Bytes bounds all memory of the ring: default [DefaultBytes], at least 256 KiB.
	Bytes int64
	// Key is the record key that ids of prompt blocks are made with; nil means a
	// random one, so that no other process gives the same prompt the same ids.
	Key []byte
}

// Ring holds the newest decisions in bounded memory. It is safe for concurrent
// use. The zero value is not usable.
type Ring struct {
	bytes    int64
	slabSize int
	keyed    func(fingerprints []byte) []string // holds the key, out of everybody's reach

	mu      sync.Mutex
	slabs   []*slab // oldest first, their numbers are consecutive
	next    uint64  // number of the next slab
	spare   *slab   // evicted while room is made
	rosters table[roster]
	weights table[score.Weights]
	evicted uint64
	unsaved uint64
	skipped uint64
}

// slab is a block of memory: records from the front, their offsets (u32) from the back.
type slab struct {
	number  uint64
	buf     []byte
	used    int // bytes of records
	slots   int // number of records
	writers int // records that are still being written
	done    int // records with an outcome
	saved   int // records that stand in a file
}

// refs are the ids of what a record shares with others.
type refs struct{ roster, weights uint32 }

// NewRing makes an empty ring. Memory is taken as it fills.
func NewRing(cfg RingConfig) *Ring {
	if cfg.Bytes <= 0 {
		cfg.Bytes = DefaultBytes
	}
	cfg.Bytes = max(cfg.Bytes, minBytes)
	return &Ring{
		bytes:    cfg.Bytes,
		slabSize: int(min(max(cfg.Bytes/16, minSlab), maxSlab)),
		keyed:    keyedIDs(cfg.Key),
		next:     1,
	}
}

// keyedIDs makes 16 hex digits of each fingerprint (8 bytes): the first half of
// its HMAC-SHA256's first 16 bytes, under a key that only the closure knows.
func keyedIDs(key []byte) func([]byte) []string {
	if len(key) == 0 {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails, see crypto/rand
	}
	key = slices.Clone(key)
	return func(fingerprints []byte) []string {
		var ids []string // nil when there are none
		mac := hmac.New(sha256.New, key)
		var sum [sha256.Size]byte
		for f := range slices.Chunk(fingerprints, 8) {
			mac.Reset()
			mac.Write(f)
			ids = append(ids, hex.EncodeToString(mac.Sum(sum[:0])[:8]))
		}
		return ids
	}
}

// Append records a decision and returns its handle, or 0 when it could not be
// kept: too large for the ring, or contradicting itself. Such entries are counted.
func (r *Ring) Append(e *Entry) Handle {
	s, ok := e.measure()
	if ok && !r.holds(s.total) {
		s = s.withoutTexts()
		ok = r.holds(s.total)
	}
	c, claimed := claim{}, false
	if ok {
		c, claimed = r.claim(e, s.total)
	}
	if !claimed {
		r.mu.Lock()
		r.skipped++
		r.mu.Unlock()
		return 0
	}
	e.encode(c.buf, s, c.refs)
	r.mu.Lock()
	c.buf[offState] = statePending
	c.slab.writers--
	r.mu.Unlock()
	return c.handle
}

func (r *Ring) holds(size int) bool { return size+slotSize <= r.slabSize }

// claim is space in the ring that its owner fills without the lock.
type claim struct {
	slab   *slab
	buf    []byte
	refs   refs
	handle Handle
}

func (r *Ring) claim(e *Entry, size int) (c claim, ok bool) {
	weights := e.Inputs.Weights
	r.mu.Lock()
	defer r.mu.Unlock()
	var fresh *roster
	for !ok {
		if _, found := r.roster(e); !found && fresh == nil { // rare: the pool has changed
			r.mu.Unlock()
			fresh = newRoster(e.Roster, e.Inputs.Pods)
			r.mu.Lock()
		}
		more := weightsSize(weights) + rowOverhead
		if fresh != nil {
			more += fresh.size() + rowOverhead
		}
		if !r.room(size, more) {
			return c, false
		}
		c.slab = r.slabs[len(r.slabs)-1]
		if c.refs.roster, ok = r.roster(e); !ok && fresh != nil {
			c.refs.roster, ok = r.rosters.add(fresh, fresh.size(), c.slab.number), true
		}
	}
	var found bool
	if c.refs.weights, found = r.weights.find(func(x *score.Weights) bool { return sameWeights(x, weights) }); !found {
		c.refs.weights = r.weights.add(weights.Clone(), weightsSize(weights), c.slab.number)
	}
	r.rosters.use(c.refs.roster, c.slab.number)
	r.weights.use(c.refs.weights, c.slab.number)
	c.buf, c.handle = c.slab.claim(size)
	return c, true
}

// roster finds the names of an entry's pods.
func (r *Ring) roster(e *Entry) (uint32, bool) {
	return r.rosters.find(func(x *roster) bool { return x.fits(e.Roster, e.Inputs.Pods) })
}

// room drops the oldest slabs until one has room for size bytes and more bytes
// fit beside the slabs. It fails when a slab can't leave because it is written to.
func (r *Ring) room(size int, more int64) bool {
	for {
		n := len(r.slabs)
		grow := n == 0 || !r.slabs[n-1].fits(size)
		if grow {
			n++
		}
		if int64(n)*int64(r.slabSize)+r.shared()+more <= r.bytes {
			if grow {
				r.grow()
			}
			r.spare = nil
			return true
		}
		if !r.evict() {
			return false
		}
	}
}

// shared is the size of what stands beside the slabs.
func (r *Ring) shared() int64 { return r.rosters.bytes + r.weights.bytes }

func (r *Ring) grow() {
	if r.spare == nil {
		r.spare = &slab{buf: make([]byte, r.slabSize)}
	}
	*r.spare = slab{number: r.next, buf: r.spare.buf}
	r.slabs = append(r.slabs, r.spare)
	r.next++
}

func (r *Ring) evict() bool {
	if len(r.slabs) == 0 || r.slabs[0].writers > 0 {
		return false
	}
	old := r.slabs[0]
	r.spare = old
	r.evicted += uint64(old.slots)
	r.unsaved += uint64(old.slots - old.saved)
	r.slabs = slices.Delete(r.slabs, 0, 1)
	oldest := r.next
	if len(r.slabs) > 0 {
		oldest = r.slabs[0].number
	}
	r.rosters.leave(oldest)
	r.weights.leave(oldest)
	return true
}

func (s *slab) fits(size int) bool {
	return s.slots < maxSlots && s.used+size+(s.slots+1)*slotSize <= len(s.buf)
}

func (s *slab) claim(size int) ([]byte, Handle) {
	buf := s.buf[s.used : s.used+size : s.used+size]
	le.PutUint32(buf[offSize:], uint32(size))
	buf[offState] = stateWriting
	le.PutUint32(s.buf[len(s.buf)-(s.slots+1)*slotSize:], uint32(s.used))
	handle := Handle(s.number<<slotBits | uint64(s.slots))
	s.used += size
	s.slots++
	s.writers++
	return buf, handle
}

// record is the bytes of a slot's record; nil while it is being written.
func (s *slab) record(slot int) []byte {
	if slot >= s.slots {
		return nil
	}
	at := int(le.Uint32(s.buf[len(s.buf)-(slot+1)*slotSize:]))
	if s.buf[at+offState] == stateWriting {
		return nil
	}
	return s.buf[at : at+int(le.Uint32(s.buf[at+offSize:]))]
}

// find returns the record of a handle; nil when it has left or never was.
func (r *Ring) find(h Handle) (*slab, []byte) {
	number := uint64(h) >> slotBits
	if len(r.slabs) == 0 || number < r.slabs[0].number || number >= r.next {
		return nil, nil
	}
	s := r.slabs[number-r.slabs[0].number]
	return s, s.record(int(h & maxSlots))
}

// Load makes the record of a handle; false when it has left the ring. The same
// record is the same document each time, but for its outcome.
func (r *Ring) Load(h Handle) (*explain.Record, bool) {
	r.mu.Lock()
	_, raw := r.find(h)
	if raw == nil {
		r.mu.Unlock()
		return nil, false
	}
	v := r.view(slices.Clone(raw))
	r.mu.Unlock()
	return v.record(), true
}

// view joins a record's bytes with what it shares with others.
func (r *Ring) view(raw []byte) view {
	return view{
		raw:     raw,
		roster:  r.rosters.at(le.Uint32(raw[offRoster:])),
		weights: r.weights.at(le.Uint32(raw[offWeights:])),
		keyed:   r.keyed,
	}
}

// Complete joins the outcome to its record; false when that has left the ring.
// Of two outcomes the later one stands.
func (r *Ring) Complete(h Handle, o *Outcome) bool {
	r.mu.Lock()
	_, raw := r.find(h)
	if raw == nil {
		r.mu.Unlock()
		return false
	}
	names, picked := r.rosters.at(le.Uint32(raw[offRoster:])), getInt32(raw[offPicked:])
	size := len(outcomeOf(raw))
	r.mu.Unlock()

	var space [outcomeSize + outGatewaySize]byte
	area := space[:size]
	o.encode(area, names, picked)

	r.mu.Lock()
	defer r.mu.Unlock()
	s, raw := r.find(h)
	if raw == nil {
		return false
	}
	copy(outcomeOf(raw), area)
	if raw[offState] != stateDone {
		raw[offState] = stateDone
		s.done++
	}
	return true
}

// Stats is what a ring holds.
type Stats struct {
	Records int // decisions in the ring
	Pending int // of these without an outcome yet
	// Bytes of memory in use and the bound on them.
	Bytes, Capacity int64
	// Evicted decisions have left to make room. Unsaved is how many of them stood
	// in no file, which means something only when files are written.
	Evicted, Unsaved uint64
	// Skipped decisions were never recorded, see [Ring.Append].
	Skipped uint64
	// Oldest and Newest are the arrivals of the first and last decision; zero
	// when there is none.
	Oldest, Newest time.Time
}

// Span is the time from the oldest to the newest decision.
func (s *Stats) Span() time.Duration { return s.Newest.Sub(s.Oldest) }

// Stats counts what is in the ring.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Stats{
		Bytes: int64(len(r.slabs))*int64(r.slabSize) + r.shared(), Capacity: r.bytes,
		Evicted: r.evicted, Unsaved: r.unsaved, Skipped: r.skipped,
	}
	for _, s := range r.slabs {
		st.Records += s.slots
		st.Pending += s.slots - s.done
	}
	for _, s := range r.slabs {
		if raw := s.record(0); raw != nil {
			st.Oldest = timeOf(raw)
			break
		}
	}
	for i := len(r.slabs) - 1; i >= 0 && st.Newest.IsZero(); i-- {
		s := r.slabs[i]
		for slot := s.slots - 1; slot >= 0 && st.Newest.IsZero(); slot-- {
			if raw := s.record(slot); raw != nil {
				st.Newest = timeOf(raw)
			}
		}
	}
	return st
}
