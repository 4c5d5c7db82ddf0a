package vllm

import "slices"

// A cache is the KV cache: a fixed number of blocks, each blank, or stored
// (its tokens are computed and it can be found by fingerprint), or held by a
// sequence that is filling it. Stored blocks stay when nobody uses them any
// more, until the room is needed: least recently used first, and of one chain
// the tail first, because a chain without its middle is worth only its head.
type cache struct {
	limit  int                // of blocks
	blocks []block            // those that were ever used
	index  index              // fingerprint → stored block that is found, the oldest
	copies map[uint64][]int32 // … → the other blocks with the same tokens, oldest first
	blank  []int32            // stack
	idle   idleList           // stored and unused, least recently used first
	stored uint64             // counts stores; later in a chain means a higher number
	log    changeLog
	events *recorder // nil: nobody listens
}

// A block's links belong to the idle list.
type block struct {
	hash, parent uint64
	root         *Root
	stored       uint64 // 0: not stored
	refs         int32
	depth        int32 // blocks before it in its chain
	prev, next   int32
}

const none = int32(-1)

// idleList is a doubly linked list through the blocks.
type idleList struct {
	first, last int32
	length      int
}

func newCache(blocks int) *cache {
	c := &cache{
		limit:  blocks,
		index:  newIndex(8),
		copies: make(map[uint64][]int32),
		idle:   idleList{first: none, last: none},
	}
	c.log.limit = blocks
	return c
}

// match counts how many of hashes are stored, from the first on without a gap.
func (c *cache) match(hashes []uint64) int {
	for i, h := range hashes {
		if _, b := c.index.find(c.blocks, h); b == none {
			return i
		}
	}
	return len(hashes)
}

// room is how many blocks could be had now.
func (c *cache) room() int { return c.limit - len(c.blocks) + len(c.blank) + c.idle.length }

// held is how many blocks sequences hold.
func (c *cache) held() int { return c.limit - c.room() }

// idleAmong counts the stored blocks that are idle: taking them makes room smaller.
func (c *cache) idleAmong(hashes []uint64) int {
	n := 0
	for _, h := range hashes {
		if _, b := c.index.find(c.blocks, h); c.blocks[b].refs == 0 {
			n++
		}
	}
	return n
}

// acquire holds a stored block.
func (c *cache) acquire(hash uint64) int32 {
	_, i := c.index.find(c.blocks, hash)
	if c.blocks[i].refs == 0 {
		c.unlink(i)
	}
	c.blocks[i].refs++
	return i
}

// take holds a blank block, evicting an idle one if there is no blank one.
// There must be room.
func (c *cache) take() int32 {
	switch {
	case len(c.blank) > 0:
	case len(c.blocks) < c.limit:
		c.blocks = append(c.blocks, block{refs: 1})
		return int32(len(c.blocks) - 1)
	default:
		c.evict(c.idle.first)
	}
	i := c.blank[len(c.blank)-1]
	c.blank = c.blank[:len(c.blank)-1]
	c.blocks[i].refs = 1
	return i
}

// store makes a block that its one holder has filled findable, and returns the
// block to hold from now on: an equal one that was stored meanwhile, if any,
// unless this one is to stay as a copy.
func (c *cache) store(i int32, hash, parent uint64, root *Root, depth int, asCopy bool) int32 {
	cell, there := c.index.find(c.blocks, hash)
	known := there != none
	if known && !asCopy {
		c.release(i)
		return c.acquire(hash)
	}
	c.stored++
	b := &c.blocks[i]
	b.hash, b.parent, b.root, b.stored, b.depth = hash, parent, root, c.stored, int32(depth)
	if known {
		c.copies[hash] = append(c.copies[hash], i)
	} else {
		c.index.set(cell, hash, i)
		c.log.added(i, b.stored)
	}
	return i
}

// release lets go of a block.
func (c *cache) release(i int32) {
	b := &c.blocks[i]
	b.refs--
	switch {
	case b.refs > 0:
	case b.stored == 0:
		c.blank = append(c.blank, i)
	default:
		c.link(i)
	}
}

// releaseAll lets go of a sequence's blocks, the tail first.
func (c *cache) releaseAll(held []int32) {
	for _, i := range slices.Backward(held) {
		c.release(i)
	}
}

// evict blanks an idle block.
func (c *cache) evict(i int32) {
	c.unlink(i)
	c.forget(i)
	c.events.removed(c.blocks[i].hash)
	c.blocks[i] = block{}
	c.blank = append(c.blank, i)
}

// forget makes a block not to be found any more. The oldest copy takes its
// place, and its number among the stores.
func (c *cache) forget(i int32) {
	b := &c.blocks[i]
	copies := c.copies[b.hash]
	cell, _ := c.index.find(c.blocks, b.hash)
	switch at := slices.Index(copies, i); {
	case at >= 0:
		copies = slices.Delete(copies, at, at+1)
	case len(copies) > 0:
		heir := copies[0]
		copies = copies[1:]
		c.index.set(cell, b.hash, heir)
		c.blocks[heir].stored = b.stored
		c.log.added(heir, b.stored)
	default:
		c.index.remove(cell)
		c.log.removed(b.hash, b.stored)
		return
	}
	if len(copies) == 0 {
		delete(c.copies, b.hash)
	} else {
		c.copies[b.hash] = copies
	}
}

// reset blanks all blocks, unless some are held.
func (c *cache) reset() bool {
	if c.held() > 0 {
		return false
	}
	fresh := newCache(c.limit)
	fresh.stored, fresh.log, fresh.events = c.stored, c.log, c.events
	fresh.log.discard()
	*c = *fresh
	c.events.cleared()
	return true
}

// evictIdle evicts up to n idle blocks, in the order in which they would go
// anyway, and says how many.
func (c *cache) evictIdle(n int) int {
	n = min(n, c.idle.length)
	for range n {
		c.evict(c.idle.first)
	}
	return n
}

func (c *cache) link(i int32) {
	b := &c.blocks[i]
	b.prev, b.next = c.idle.last, none
	if c.idle.last == none {
		c.idle.first = i
	} else {
		c.blocks[c.idle.last].next = i
	}
	c.idle.last = i
	c.idle.length++
}

func (c *cache) unlink(i int32) {
	b := &c.blocks[i]
	if b.prev == none {
		c.idle.first = b.next
	} else {
		c.blocks[b.prev].next = b.next
	}
	if b.next == none {
		c.idle.last = b.prev
	} else {
		c.blocks[b.next].prev = b.prev
	}
	c.idle.length--
}
