package assume

import "slices"

// MaxBlocks bounds the capacity of a [Cache], whatever an engine claims to have.
const MaxBlocks = 1 << 21

// none is no node.
const none = ^uint32(0)

// node is a block, in the list by last use. 24 bytes.
type node struct {
	block        uint64
	newer, older uint32
	used         stamp
	answer       uint32 // blocks of answers that follow it, known by their number
}

// stamp is the use in which a block was last used: uses are counted in steps of
// two, and the odd ones had ended. It wraps around after two thousand million uses.
type stamp uint32

func (s stamp) ended() bool { return s&1 == 1 }

// after compares stamps that are less than half of all apart.
func (s stamp) after(o stamp) bool { return int32(s-o) > 0 }

// Cache is the assumed contents of one engine's cache; make one with [New]. It
// takes at most 80 bytes a block, and is not safe for concurrent use.
type Cache struct {
	index          map[uint64]uint32
	nodes          []node
	free           uint32 // first of the unused nodes, which are linked by older
	newest, oldest uint32
	held           int // blocks, those of answers included
	capacity       int
	learned        int // what misses have shown that there is room for; MaxBlocks at first
	now            stamp
}

// New makes an empty cache for so many blocks, between 1 and [MaxBlocks].
func New(capacity int) *Cache {
	c := &Cache{capacity: bounded(capacity)}
	c.Clear()
	return c
}

func bounded(capacity int) int { return min(max(capacity, 1), MaxBlocks) }

// Clear forgets all blocks.
func (c *Cache) Clear() {
	c.index, c.nodes = map[uint64]uint32{}, nil
	c.free, c.newest, c.oldest, c.held = none, none, none, 0
	c.learned = MaxBlocks
}

// Len is how many blocks are held that are known by their fingerprints.
func (c *Cache) Len() int { return len(c.index) }

// Held is Len and the blocks of answers.
func (c *Cache) Held() int { return c.held }

// Resize changes the capacity and appends to gone what has no more room.
func (c *Cache) Resize(gone []uint64, capacity int) []uint64 {
	c.capacity = bounded(capacity)
	return c.shrink(gone)
}

// Use is what a request found when its prompt was stored.
type Use struct {
	// New is where the blocks begin that were not there.
	New    int
	length int // of what was stored
	answer int // new blocks that are those of an earlier answer
	stamp  stamp
	before []span
}

// span is a stretch of a prompt's blocks that were last used together.
type span struct {
	end  int
	used stamp
}

// Begin stores the blocks of a prompt that an engine has begun to answer. It
// appends to gone what had to give way, which may be the prompt's own end.
func (c *Cache) Begin(gone []uint64, blocks []uint64) ([]uint64, Use) {
	c.now = c.now&^1 + 2
	return c.store(gone, blocks, 0)
}

// End stores them again when the request has ended, as the last that was used,
// and behind them so many blocks of the answer.
func (c *Cache) End(gone []uint64, blocks []uint64, answer int) ([]uint64, Use) {
	c.now = c.now&^1 + 3
	return c.store(gone, blocks, answer)
}

func (c *Cache) store(gone, blocks []uint64, answer int) ([]uint64, Use) {
	blocks = blocks[:min(len(blocks), c.capacity)]
	u := Use{stamp: c.now, New: len(blocks), length: len(blocks)}
	at := none // the block before, which is newer
	for k, block := range blocks {
		i, there := c.index[block]
		switch {
		case !there:
			i = c.add(block)
			u.New = min(u.New, k)
		case c.nodes[i].used == c.now:
			continue // twice in one prompt: somebody's trick
		default:
			if u.New > k {
				u.note(k, c.nodes[i].used)
			}
			c.unlink(i)
		}
		c.link(i, at)
		c.nodes[i].used = c.now
		at = i
	}
	if at != none {
		u.answer = c.reveal(blocks[:u.New], len(blocks)-u.New)
		answer = min(max(answer, 0), c.capacity-len(blocks))
		c.nodes[at].answer += uint32(answer)
		c.held += answer
	}
	return c.shrink(gone), u
}

// note extends the last span, or begins one.
func (u *Use) note(k int, used stamp) {
	if n := len(u.before); n > 0 && u.before[n-1].used == used {
		u.before[n-1].end = k + 1
		return
	}
	u.before = append(u.before, span{k + 1, used})
}

// reveal: blocks that were new are those of the answer behind the last that was
// known, which is then no longer only a number. It returns how many.
func (c *Cache) reveal(known []uint64, fresh int) int {
	if len(known) == 0 {
		return 0
	}
	last := &c.nodes[c.index[known[len(known)-1]]]
	n := min(last.answer, uint32(fresh))
	last.answer -= n
	c.held -= int(n)
	return int(n)
}

// Counted is what an engine's count tells: of the blocks of a prompt it found so
// many. When that is fewer than were there before the use, what was last used no
// later than the first one that it missed is gone, and is appended to gone; and
// there is no room for more than was used since, until the engine finds more again
// than was thought to be there.
//
// Nothing follows when the missed block was last used by a request that had not
// ended: the engine may not have computed it yet.
func (c *Cache) Counted(gone []uint64, u Use, found int) []uint64 {
	if found > u.New+u.answer {
		c.learned = min(2*c.learned, MaxBlocks)
		return gone
	}
	i := slices.IndexFunc(u.before, func(s span) bool { return found < s.end })
	if i < 0 || !u.before[i].used.ended() {
		return gone
	}
	limit := u.before[i].used
	for c.oldest != none && !c.nodes[c.oldest].used.after(limit) {
		gone = c.drop(gone)
	}
	since := c.held - (u.length - found)
	c.learned = max(u.length, min(c.learned, since))
	return gone
}

// Forget takes back what a use stored, and nobody has used since; it appends these
// blocks to gone.
func (c *Cache) Forget(gone []uint64, blocks []uint64, u Use) []uint64 {
	for _, block := range blocks[min(u.New, len(blocks)):] {
		i, there := c.index[block]
		if !there || c.nodes[i].used != u.stamp {
			continue
		}
		c.unlink(i)
		gone = c.remove(gone, i)
	}
	return gone
}

// shrink evicts until the rest has room, the blocks of an answer before what they
// follow.
func (c *Cache) shrink(gone []uint64) []uint64 {
	room := min(c.capacity, c.learned)
	for c.held > room {
		n := &c.nodes[c.oldest]
		answer := min(int(n.answer), c.held-room)
		n.answer -= uint32(answer)
		c.held -= answer
		if c.held > room {
			gone = c.drop(gone)
		}
	}
	return gone
}

// drop removes the oldest block, with what follows it.
func (c *Cache) drop(gone []uint64) []uint64 {
	i := c.oldest
	c.unlink(i)
	return c.remove(gone, i)
}

// remove frees a node that is not linked any more.
func (c *Cache) remove(gone []uint64, i uint32) []uint64 {
	n := &c.nodes[i]
	gone = append(gone, n.block)
	delete(c.index, n.block)
	c.held -= 1 + int(n.answer)
	*n = node{older: c.free}
	c.free = i
	return gone
}

// add makes a node that is not linked yet.
func (c *Cache) add(block uint64) uint32 {
	i := c.free
	if i == none {
		i = uint32(len(c.nodes))
		c.nodes = append(c.nodes, node{})
	} else {
		c.free = c.nodes[i].older
	}
	c.nodes[i] = node{block: block}
	c.index[block] = i
	c.held++
	return i
}

// link puts a node behind a newer one, or first.
func (c *Cache) link(i, newer uint32) {
	n := &c.nodes[i]
	n.newer, n.older = newer, c.newest
	if newer != none {
		n.older = c.nodes[newer].older
		c.nodes[newer].older = i
	} else {
		c.newest = i
	}
	if n.older != none {
		c.nodes[n.older].newer = i
	} else {
		c.oldest = i
	}
}

func (c *Cache) unlink(i uint32) {
	n := &c.nodes[i]
	if n.newer != none {
		c.nodes[n.newer].older = n.older
	} else {
		c.newest = n.older
	}
	if n.older != none {
		c.nodes[n.older].newer = n.newer
	} else {
		c.oldest = n.newer
	}
}
