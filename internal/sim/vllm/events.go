package vllm

import "time"

// A Batch is what one step changed in the cache, in this order: everything was
// cleared, blocks were evicted, and others stored that needed the room. Blocks
// are named by the engine's own ids, see [BlockID].
type Batch struct {
	At      time.Duration // the end of the step
	Cleared bool
	Removed []uint64 // an id once for each of its copies
	Stored  []Run
}

// A Run is consecutive blocks that one sequence stored. An id may have been
// stored before: then the cache has a copy more of that block.
type Run struct {
	Root   *Root
	First  bool   // the run stands at the start of its root
	Parent uint64 // id of the block before; meaningless when First
	IDs    []uint64
	Tokens []uint32 // of all its blocks
}

// BlockID is the engine's own id of a block: as an engine's hash, the same for
// the same tokens, on all engines and after a restart, and nothing that can be
// computed without knowing how.
func BlockID(fingerprint uint64) uint64 { return mix64(fingerprint ^ 0x6a09e667f3bcc908) }

// A recorder collects the events of a step. All calls do nothing on nil.
type recorder struct {
	publish func(Batch)
	batch   Batch
	// Of the last run: whose it is, and the block that continues it.
	sequence *Sequence
	next     int
}

func (r *recorder) removed(fingerprint uint64) {
	if r != nil {
		r.batch.Removed = append(r.batch.Removed, BlockID(fingerprint))
	}
}

// cleared makes what was evicted before the step's own business.
func (r *recorder) cleared() {
	if r != nil {
		r.batch = Batch{Cleared: true}
	}
}

// stored notes block i of a sequence. What is noted is copied, as a prompt is
// long and what is new of it short.
func (r *recorder) stored(s *Sequence, i int) {
	if r == nil {
		return
	}
	if r.sequence != s || r.next != i {
		most := s.computed/TokensPerBlock - i
		run := Run{Root: s.root, First: i == 0, IDs: make([]uint64, 0, most), Tokens: make([]uint32, 0, most*TokensPerBlock)}
		if i > 0 {
			run.Parent = BlockID(s.hashes[i-1])
		}
		r.batch.Stored = append(r.batch.Stored, run)
	}
	run := &r.batch.Stored[len(r.batch.Stored)-1]
	run.IDs = append(run.IDs, BlockID(s.hashes[i]))
	run.Tokens = s.appendBlock(run.Tokens, i)
	r.sequence, r.next = s, i+1
}

// flush hands out what was collected, if anything was.
func (r *recorder) flush(now time.Duration) {
	if r == nil || !r.batch.Cleared && len(r.batch.Removed)+len(r.batch.Stored) == 0 {
		return
	}
	r.batch.At = now
	r.publish(r.batch)
	r.batch, r.sequence = Batch{}, nil
}
