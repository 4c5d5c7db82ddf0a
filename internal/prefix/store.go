package prefix

import "math/bits"

// pieceBlocks is how many blocks a writer stores or removes before it lets
// others have their turn: some tens of microseconds.
const pieceBlocks = 256

// Store adds blocks to those that a pod holds. parent is the fingerprint before
// blocks[0], or the root. It is a hint for the layout, like the order of the
// blocks: what counts is the set. It is false, and the message is dropped and
// counted, when the generation is not the admitted one.
func (t *Tree) Store(s Slot, parent uint64, blocks []uint64) bool {
	for first := true; first || len(blocks) > 0; first = false {
		piece := blocks[:min(len(blocks), pieceBlocks)]
		if !t.storePiece(s, parent, piece, len(blocks)) {
			return false
		}
		if blocks = blocks[len(piece):]; len(blocks) > 0 {
			parent = piece[len(piece)-1]
			yield()
		}
	}
	return true
}

// storePiece stores one piece of a message of which expect blocks are left.
func (t *Tree) storePiece(s Slot, parent uint64, blocks []uint64, expect int) bool {
	var array [pieceBlocks]uint64
	t.find(parent) // see warm
	hashes := t.index.touch(array[:0], blocks)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pod(s)
	if p == nil {
		t.staleMessages.Add(1)
		return false
	}
	c := cursor{tree: t, pod: p}
	if r, w, _ := t.seek(t.index.hash(parent), parent); r != nil {
		c.ref, c.from, c.to = ref{r, wordID(w)}, wordOff(w)+1, wordOff(w)+1
	}
	for k, fp := range blocks {
		c.store(fp, hashes[k], expect-k)
	}
	c.flush()
	if len(blocks) == expect {
		c.leave()
	}
	return true
}

// seek is find for the writer, who sees blocks that are not yet published, and
// needs the gap where one can go that is not there.
func (t *Tree) seek(h, fp uint64) (r *run, w uint64, to gap) {
	tb := t.index.shard(h).Load()
	if tb == nil {
		return nil, 0, gap{}
	}
	tag := tagOf(h)
	b := tb.home(tag)
	for range tb.buckets {
		bk := &tb.buckets[b]
		for mask := bk.tagged(tag); mask != 0; mask &= mask - 1 {
			w := bk.cells[bits.TrailingZeros64(mask)].Load()
			if r := t.runs.at(wordID(w)); w != 0 && r.has(wordOff(w), fp) {
				return r, w, gap{}
			}
		}
		if to.cell == nil {
			if free := bk.exactly(0); free != 0 {
				to.cell = &bk.cells[bits.TrailingZeros64(free)]
			} else {
				to.passed++
			}
		}
		if bk.past.Load() == 0 {
			break
		}
		b = tb.after(b)
	}
	return nil, 0, to
}

// cursor is a writer's place while it goes along a chain: the blocks [from, to)
// of ref are the pod's but not yet marked so. Without any, the block before to
// is the predecessor of the next.
type cursor struct {
	tree     *Tree
	pod      *pod
	ref      ref
	from, to int
	fresh    int // of them new to the tree
}

// store takes the next block, of expect that are left.
func (c *cursor) store(fp, h uint64, expect int) {
	// Without dead cells the block behind the last is where the index says.
	if c.ref.run != nil && int(c.ref.live) == c.ref.size() && c.ref.has(c.to, fp) {
		c.to++
		return
	}
	r, w, to := c.tree.seek(h, fp)
	switch {
	case r == nil:
		if c.place(fp, expect) {
			c.tree.index.insert(h, to, c.ref.id, c.to)
			c.fresh++
			c.ref.live++
			c.to++
		}
	case r == c.ref.run && wordOff(w) == c.to:
		c.to++
	default:
		c.leave()
		c.ref, c.from, c.to = ref{r, wordID(w)}, wordOff(w), wordOff(w)+1
	}
}

// place finds a cell for a block that nobody holds: the dead one that it had
// behind its predecessor, or the next of a run that ends with that, or the
// first of a new run. It is the one at to.
func (c *cursor) place(fp uint64, expect int) bool {
	t := c.tree
	switch {
	case c.ref.run != nil && c.ref.has(c.to, fp):
	case c.ref.run != nil && c.to == c.ref.size() && c.to < maxRun:
		if grown := c.ref.push(fp, expect); grown != 0 {
			t.runBytes.Add(grown)
		}
	default:
		c.leave()
		fresh := newRun(expect)
		fresh.push(fp, expect)
		r, ok := t.addRun(fresh)
		if !ok {
			t.dropped.Add(1)
			c.ref = ref{}
			return false
		}
		c.ref, c.from, c.to = r, 0, 0
	}
	return true
}

// flush marks [from, to) as the pod's.
func (c *cursor) flush() {
	if c.ref.run == nil || c.from == c.to {
		return
	}
	c.ref.publish()
	before := c.ref.more.Load().size()
	blocks, spans := c.ref.hold(c.pod.owner, c.from, c.to)
	c.tree.runBytes.Add(c.ref.more.Load().size() - before)
	c.tree.blocks.Add(int64(c.fresh))
	c.pod.blocks.Add(int64(blocks))
	c.pod.spans += spans
	c.from, c.fresh = c.to, 0
}

// leave flushes and gives back memory for blocks that did not come: a message
// counts on all of its blocks being new once the first is.
func (c *cursor) leave() {
	c.flush()
	if c.ref.run == nil || c.ref.room() <= c.ref.size()*3/2+4 {
		return
	}
	before := c.ref.footprint()
	c.ref.fit()
	c.tree.runBytes.Add(c.ref.footprint() - before)
}
