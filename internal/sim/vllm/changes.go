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

func (l *changeLog) added(block int32, stored uint64) {
	if l.full(len(l.adds)) {
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
		l.overflow = true
		l.adds, l.removals = nil, nil
	}
	return l.overflow
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
	}
	*l = changeLog{limit: l.limit, read: c.stored}
	return out
}

// everything lists the stored blocks in the order in which they were stored. A
// parent is stored before its children and evicted after them, so it comes first.
func (c *cache) everything() []StoredBlock {
	all := make([]StoredBlock, 0, len(c.index))
	for i := range c.blocks {
		if c.blocks[i].stored != 0 {
			all = append(all, c.blocks[i].describe())
		}
	}
	slices.SortFunc(all, func(a, b StoredBlock) int { return cmp.Compare(a.stored, b.stored) })
	return all
}

func (b *block) describe() StoredBlock {
	return StoredBlock{Hash: b.hash, Parent: b.parent, First: b.depth == 0, Root: b.root, stored: b.stored}
}
