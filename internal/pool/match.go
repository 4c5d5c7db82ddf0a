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

// best is the best of an endpoint's matches. Ranks do not add up: a request is
// served by one of them.
func (q *Query) best(e *endpoint, blockSize int) found {
	f := q.find(&e.tally, blockSize)
	for i := range e.others {
		if o := q.find(&e.others[i], blockSize); o.blocks > f.blocks {
			f = o
		}
	}
	return f
}

func (q *Query) find(t *tally, blockSize int) found {
	m := q.match(t)
	if m == nil {
		return found{of: t}
	}
	n := int(m.Counts[t.slot])
	f := found{of: t, match: m, held: n, blocks: float64(n * m.BlockSize / blockSize)}
	if t.rank != nil {
		f.deepen(t.rank, blockSize)
	}
	return f
}

// deepen adds what the rank holds on further levels. The counts of levels are not
// of one moment: that of a higher one may be less than of one before.
func (f *found) deepen(r *rank, blockSize int) {
	before := f.held * f.match.BlockSize / blockSize
	f.held = max(f.held, f.match.on(r, len(r.levels)-1))
	if f.held*f.match.BlockSize/blockSize == before {
		return
	}
	before = 0
	for k := range r.levels {
		reach := min(f.held, f.match.on(r, k)) * f.match.BlockSize / blockSize
		if reach > before {
			f.tiers = append(f.tiers, score.TierBlocks{Tier: r.levels[k].Name, Blocks: reach - before, Weight: r.levels[k].Weight})
			before = reach
		}
	}
	f.blocks = score.TierValue(f.tiers)
}

// on is how many blocks a rank holds on one of its levels.
func (m *Match) on(r *rank, level int) int {
	if at := r.slots[level].Index; int(at) < len(m.Counts) {
		return int(m.Counts[at])
	}
	return 0
}
