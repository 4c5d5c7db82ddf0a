package pool

import "github.com/eppctl/eppctl/score"

// found is what an endpoint holds of a prompt.
type found struct {
	of     *tally
	match  *Match             // where it was found; nil: nothing was looked for
	held   int                // blocks of the match's size, on any level
	blocks float64            // of the pool's size, by weight
	tiers  []score.TierBlocks // what these are made of; nil: all are on the first level
}

// match is the answer for blocks of the tally's size, or nil.
func (q *Query) match(t *tally) *Match {
	for i := range q.Matches {
		if m := &q.Matches[i]; m.BlockSize == t.size && int(t.slot) < len(m.Counts) {
			return m
		}
	}
	return nil
}

// best finds the best of an endpoint's matches. Ranks do not add up: a request is
// served by one of them. It fills in f, as find does: a decision does this for each
// pod, and to hand the struct on costs more than to find what is in it.
func (q *Query) best(f *found, e *endpoint, blockSize int) {
	q.find(f, &e.tally, blockSize)
	for i := range e.others {
		var o found
		if q.find(&o, &e.others[i], blockSize); o.blocks > f.blocks {
			*f = o
		}
	}
}

func (q *Query) find(f *found, t *tally, blockSize int) {
	*f = found{of: t, match: q.match(t)}
	if f.match == nil {
		return
	}
	f.held = int(f.match.Counts[t.slot])
	f.blocks = float64(f.match.inBlocks(f.held, blockSize))
	if t.rank != nil {
		f.deepen(t.rank, blockSize)
	}
}

// deepen adds what the rank holds on further levels. The counts of levels are not
// of one moment: that of a higher one may be less than of one before.
func (f *found) deepen(r *rank, blockSize int) {
	before := f.match.inBlocks(f.held, blockSize)
	f.held = max(f.held, f.match.on(r, len(r.levels)-1))
	if f.match.inBlocks(f.held, blockSize) == before {
		return
	}
	before = 0
	for k := range r.levels {
		reach := f.match.inBlocks(min(f.held, f.match.on(r, k)), blockSize)
		if reach > before {
			f.tiers = append(f.tiers, score.TierBlocks{Tier: r.levels[k].Name, Blocks: reach - before, Weight: r.levels[k].Weight})
			before = reach
		}
	}
	f.blocks = score.TierValue(f.tiers)
}

// inBlocks is how many whole blocks of another size n of the match's are.
func (m *Match) inBlocks(n, size int) int {
	if size == m.BlockSize {
		return n
	}
	return n * m.BlockSize / size
}

// on is how many blocks a rank holds on one of its levels.
func (m *Match) on(r *rank, level int) int {
	if at := r.slots[level].Index; int(at) < len(m.Counts) {
		return int(m.Counts[at])
	}
	return 0
}
