package vllm

import (
	"cmp"
	"slices"
)

// A StoredBlock is one block of the cache as a status report needs it.
type StoredBlock struct {
	Hash   uint64
	Parent uint64 // fingerprint of the block before; meaningless when First
	First  bool   // the block stands at the start of its root
	Root   *Root  // shared by all blocks of a request
	stored uint64
}

// Changes are what happened in a cache. Removed blocks went before the stored
// ones came; of stored ones a parent always stands before its children.
type Changes struct {
	Full    bool // Stored is everything that there is, Removed is empty
	Stored  []StoredBlock
	Removed []uint64
}

// A changeLog notes what happened since it was last read. It notes no more than
// there are blocks: a log that nobody reads overflows, and the next reading is
// then a full one.
type changeLog struct {
	limit    int
	read     uint64 // value of cache.stored at the last reading
	adds     []addition
	removals []uint64
	overflow bool
}

type addition struct {
	block  int32
	stored uint64
}

// added notes a block that is found from now on, unless the last reading told of
// its fingerprint.
func (l *changeLog) added(block int32, stored uint64) {
	if stored <= l.read || l.full(len(l.adds)) {
		return
	}
	l.adds = append(l.adds, addition{block, stored})
}

// removed notes a removal, unless the block came after the last reading: then
// nobody knows of it.
func (l *changeLog) removed(hash, stored uint64) {
	if stored > l.read || l.full(len(l.removals)) {
		return
	}
	l.removals = append(l.removals, hash)
}

func (l *changeLog) full(length int) bool {
	if length >= 2*l.limit {
		l.discard()
	}
	return l.overflow
}

// discard gives up noting until the next reading, which is a full one.
func (l *changeLog) discard() {
	l.overflow = true
	l.adds, l.removals = nil, nil
}

// changes reads the log and starts a new one.
func (c *cache) changes(full bool) Changes {
	l := &c.log
	out := Changes{Full: full || l.overflow}
	if out.Full {
		out.Stored = c.everything()
	} else {
		out.Removed = l.removals
		for _, a := range l.adds {
			if b := &c.blocks[a.block]; b.stored == a.stored { // not evicted meanwhile
				out.Stored = append(out.Stored, b.describe())
			}
		}
		out.Stored = ordered(out.Stored)
	}
	*l = changeLog{limit: l.limit, read: c.stored}
	return out
}

// everything lists the blocks that can be found.
func (c *cache) everything() []StoredBlock {
	all := make([]StoredBlock, 0, c.index.length)
	for _, cell := range c.index.cells {
		if cell != 0 {
			all = append(all, c.blocks[cell&blockMask-1].describe())
		}
	}
	return ordered(all)
}

// ordered sorts blocks as they were stored, each once. A parent is stored before
// its children and evicted after them, so it comes first.
func ordered(blocks []StoredBlock) []StoredBlock {
	slices.SortFunc(blocks, func(a, b StoredBlock) int { return cmp.Compare(a.stored, b.stored) })
	return slices.CompactFunc(blocks, func(a, b StoredBlock) bool { return a.stored == b.stored })
}

func (b *block) describe() StoredBlock {
	return StoredBlock{Hash: b.hash, Parent: b.parent, First: b.depth == 0, Root: b.root, stored: b.stored}
}
