package kvindex

// Mark is a moment in a rank's stream.
type Mark uint32

// Mark is the moment of now, for [Rank.Correct]. It takes no lock.
func (r *Rank) Mark() Mark { return Mark(r.batches.Load()) }

// An Answer is what an engine said of a request that it served on this very
// rank and for which it read its cache.
type Answer struct {
	Blocks []uint64 // fingerprints of the prompt, at the engine's block size
	Prompt int      // its tokens
	Cached int      // of them, that the engine found in its cache
	Picked Mark     // when the request was sent there
}

// Correct takes back what a degraded rank claims beyond what the engine found,
// and returns how many blocks these were. Blocks that were stored since the
// request was sent are there: it is this very request that missed them. Nothing
// happens on a rank that has missed no batch, whose claim is no longer than what
// was found (the last token of a prompt is never taken from the cache), or on a
// hybrid engine, which finds less than it holds.
//
// It looks through all that the rank holds, some milliseconds for a million
// blocks, and only when there is something to take back.
func (r *Rank) Correct(a Answer) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.batches.Load() - uint32(a.Picked)
	if r.closed || r.order.degraded() != Gapped || r.groups.hybrid() || r.size == 0 || age > stampMask {
		return 0
	}
	possible := (a.Prompt - 1) / r.size
	found := a.Cached / r.size
	if a.Cached < 0 || found >= possible || found >= len(a.Blocks) || !r.claims(a.Blocks[found]) {
		return 0
	}
	taken := r.takeBack(a.Blocks[found:], uint16(age))
	r.withdraw(nil) // when they were evicted, nobody knows
	r.stats.Corrected += uint64(taken)
	return taken
}

// claims reports whether the tree has the block as this rank's.
func (r *Rank) claims(block uint64) bool {
	at := r.last().slot.Index
	counts := make([]uint32, at+1)
	r.cfg.Tree.Lookup([]uint64{block}, counts)
	return counts[at] > 0
}

// takeBack drops the records of blocks that were not stored in the last batches,
// so many as age, and all copies but one of the others.
func (r *Rank) takeBack(blocks []uint64, age uint16) int {
	wanted := make(map[uint64]struct{}, len(blocks))
	var filter [64]uint64 // most records are none of these
	for _, fp := range blocks {
		wanted[fp] = struct{}{}
		filter[fp>>6%64] |= 1 << (fp % 64)
	}
	var gone []uint64
	now := uint16(r.batches.Load() & stampMask)
	for i := range r.table.records {
		rec := &r.table.records[i]
		if rec.copies.none() || filter[rec.fp>>6%64]>>(rec.fp%64)&1 == 0 {
			continue
		}
		if _, ok := wanted[rec.fp]; !ok {
			continue
		}
		if now-rec.copies.stamp() < age {
			rec.copies = rec.copies.single()
			continue
		}
		gone = append(gone, rec.hash)
	}
	for _, hash := range gone {
		r.evict(r.table.find(hash))
	}
	return len(gone)
}

// evict drops all copies of a block.
func (r *Rank) evict(rec *record) {
	for k := range fields {
		if at, n := rec.copies.at(k); n > 0 {
			r.places.list[at].blocks--
		}
	}
	for k := range r.levels {
		if rec.copies.in(r.places.on[k]) {
			r.levels[k].removed = append(r.levels[k].removed, rec.fp)
		}
	}
	r.table.remove(rec)
}
