package kvindex

import (
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
)

// Degraded says why a rank's picture is not whole.
type Degraded uint8

// The reasons, the worse one last. JoinedLate: the stream had begun before we
// listened, so blocks are missing and none is claimed wrongly. Gapped: batches
// were missed, so some blocks may be claimed that are gone.
const (
	Whole Degraded = iota
	JoinedLate
	Gapped
)

func (d Degraded) String() string {
	switch d {
	case Whole:
		return ""
	case JoinedLate:
		return "joined late"
	case Gapped:
		return "gap"
	default:
		return "unknown"
	}
}

// Outcome is what a batch means to the caller, beside what it did to the rank.
type Outcome struct {
	Closed    bool   // the rank was closed, or its slot is no longer its own
	Duplicate bool   // the batch was known, and did nothing
	Restarted bool   // the engine began anew: a replay that is under way is void
	Missed    uint64 // batches were lost just before this one
	// Replay asks for the batches from From to To. They and what else the
	// replay yields go to [Rank.Replayed], its end to [Rank.ReplayDone]. Until
	// then later batches wait, within a bound.
	Replay   bool
	From, To uint64
}

// order is where a stream is.
type order struct {
	started bool
	live    uint64    // the highest number of the stream itself
	liveAt  time.Time // of that batch, by the engine's clock
	next    uint64    // that is to be applied

	late, gapped bool

	waiting   bool   // for a replay
	from      uint64 // which begins there
	holes     bool   // something between there and next was not to be had
	held      []heldBatch
	heldBytes int
}

// heldBatch waits for those before it.
type heldBatch struct {
	seq   uint64
	batch kvevent.Batch
}

func (o *order) degraded() Degraded {
	switch {
	case o.gapped, o.waiting && o.from > 0:
		return Gapped
	case o.late, o.waiting:
		return JoinedLate
	}
	return Whole
}

// known says that all is known of what the engine holds.
func (o *order) known() { o.late, o.gapped, o.holes = false, false, false }

// An engine starts to count at 0 (vLLM, SGLang), at 1 (simulators), or at the
// nanoseconds of its clock (TensorRT-LLM).
const (
	lastFirst   = 1
	clockFirst  = uint64(1e17)     // 1973 in nanoseconds
	clockSlack  = 10 * time.Second // from the first number to the first batch
	longestJump = 1 << 32          // batches; a longer one is another clock's start
)

// joinedLate reports whether a first batch is one that others came before.
func joinedLate(seq uint64, at time.Time) bool {
	if seq <= lastFirst {
		return false
	}
	if seq < clockFirst || seq > 1<<62 {
		return true
	}
	ran := at.Sub(time.Unix(0, int64(seq)))
	return ran < -clockSlack || ran > clockSlack
}

// Apply takes the next batch of the stream. It keeps nothing of it.
func (r *Rank) Apply(seq uint64, b *kvevent.Batch) Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out Outcome
	o := &r.order
	switch {
	case r.closed:
	case !o.started:
		out = r.begin(seq, b)
	case seq == o.live && b.At.Equal(o.liveAt):
		r.stats.Duplicates++
		out.Duplicate = true
	case seq <= o.live || seq-o.live > longestJump:
		r.wipe()
		r.forget()
		r.stats.Restarts++
		out = r.begin(seq, b)
		out.Restarted = true
	default:
		out = r.follow(seq, b)
	}
	o.live, o.liveAt = seq, b.At
	out.Closed = r.closed
	return out
}

// forget is the state of a stream that has not begun.
func (r *Rank) forget() {
	r.order = order{}
	r.groups = groups{}
}

// begin takes the first batch of a stream. Its number is no gap.
func (r *Rank) begin(seq uint64, b *kvevent.Batch) Outcome {
	o := &r.order
	o.started, o.live, o.next = true, seq, seq
	if !joinedLate(seq, b.At) {
		r.next(seq, b)
		return Outcome{}
	}
	o.late = true
	if r.cfg.Replay {
		return r.await(0, seq, b)
	}
	r.next(seq, b)
	return Outcome{}
}

// follow takes a batch whose number is higher than the last.
func (r *Rank) follow(seq uint64, b *kvevent.Batch) Outcome {
	o := &r.order
	out := Outcome{Missed: seq - o.live - 1}
	if out.Missed > 0 {
		r.stats.Gaps++
		r.stats.Missed += out.Missed
	}
	switch {
	case seq < o.next: // it came with a replay
		r.stats.Duplicates++
		out.Duplicate = true
	case o.waiting:
		r.wait(seq, b)
	case seq == o.next:
		r.next(seq, b)
	default:
		return r.jump(seq, b, out.Missed)
	}
	return out
}

// jump takes a batch before which others are missing.
func (r *Rank) jump(seq uint64, b *kvevent.Batch, missed uint64) Outcome {
	o := &r.order
	if !r.cfg.Replay {
		r.bridge()
		o.gapped = true
		r.next(seq, b)
		return Outcome{Missed: missed}
	}
	from := o.next
	if r.cfg.OnGap == Clear {
		r.wipe()
		from, o.late = 0, true
	}
	out := r.await(from, seq, b)
	out.Missed = missed
	return out
}

// await asks for a replay that begins at from, and holds the batch until then.
func (r *Rank) await(from, seq uint64, b *kvevent.Batch) Outcome {
	o := &r.order
	o.waiting, o.from, o.next, o.holes = true, from, from, false
	r.wait(seq, b)
	return Outcome{Replay: o.waiting, From: from, To: seq - 1}
}

// wait holds a batch until the replay is done. When that takes too long it is
// done without.
func (r *Rank) wait(seq uint64, b *kvevent.Batch) {
	const own = 128
	size := own
	for i := range b.Events {
		size += cost(&b.Events[i])
	}
	o := &r.order
	if o.heldBytes+size > r.cfg.Limits.HeldBytes {
		r.stats.GivenUp++
		r.settle()
		r.pass(seq, b)
		return
	}
	o.heldBytes += size
	c := *b
	c.Events = make([]kvevent.Event, len(b.Events))
	for i := range b.Events {
		c.Events[i] = cloned(&b.Events[i])
	}
	o.held = append(o.held, heldBatch{seq, c})
}

// Replayed takes a batch of the replay that was asked for. Those that are known
// already do nothing.
func (r *Rank) Replayed(seq uint64, b *kvevent.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.order
	switch {
	case r.closed:
	case !o.waiting || seq < o.next:
		r.stats.Duplicates++
	case o.next == 0 && !joinedLate(seq, b.At):
		r.next(seq, b)
		r.stats.Recovered++
	default:
		r.pass(seq, b)
		r.stats.Recovered++
	}
}

// ReplayDone says that the replay from that number on has ended, with or
// without all of it. The batches that waited are applied.
func (r *Rank) ReplayDone(from uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !r.order.waiting || r.order.from != from {
		return
	}
	r.stats.Replays++
	r.settle()
}

// settle ends the wait for a replay.
func (r *Rank) settle() {
	o := &r.order
	held := o.held
	o.held, o.heldBytes = nil, 0
	for i := range held {
		if r.closed {
			return
		}
		r.pass(held[i].seq, &held[i].batch)
	}
	o.waiting = false
	switch {
	case o.holes && o.from > 0:
		o.gapped = true
	case o.from > 0:
	case o.holes:
		o.late = true
	default:
		o.known()
	}
}

// pass applies a batch if it is not known, and notes when some before it are
// missing.
func (r *Rank) pass(seq uint64, b *kvevent.Batch) {
	o := &r.order
	switch {
	case seq < o.next:
		r.stats.Duplicates++
		return
	case seq > o.next && o.next == 0: // what came before is simply not known
		o.holes = true
	case seq > o.next:
		r.bridge()
		o.gapped = true
	}
	r.next(seq, b)
}

// bridge goes on behind a gap.
func (r *Rank) bridge() {
	r.order.holes = true
	if r.cfg.OnGap == Clear {
		r.wipe()
	}
}

// next applies a batch whose turn it is.
func (r *Rank) next(seq uint64, b *kvevent.Batch) {
	r.order.next = seq + 1
	r.batch(b)
}
