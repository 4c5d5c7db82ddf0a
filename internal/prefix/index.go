package prefix

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// An index word, from the top: 28 bits of the fingerprint's hash, 26 bits run
// id, 10 bits offset in the run. Id 0 is never used, so 0 is an empty cell.
const (
	offBits = 10
	idBits  = 26
	tagBits = 28

	maxRun  = 1 << offBits // blocks a run holds at most
	maxRuns = 1 << idBits  // runs a tree holds at most

	tagShift = offBits + idBits
	offMask  = maxRun - 1
	idMask   = maxRuns - 1
	tagMask  = 1<<tagBits - 1
)

// word builds an index word.
func word(h uint64, id uint32, off int) uint64 {
	return tagOf(h)<<tagShift | uint64(id)<<offBits | uint64(off)
}

// tagOf takes the part of a hash below the bits that choose the shard.
func tagOf(h uint64) uint64 { return h >> (64 - shardBits - tagBits) & tagMask }

func wordID(w uint64) uint32 { return uint32(w >> offBits & idMask) }
func wordOff(w uint64) int   { return int(w & offMask) }

const (
	shardBits = 10

	bucketCells = 7 // a cache line, less one word for the overflow count

	// A table grows above maxLoad and shrinks below minLoad, to newLoad;
	// percent of its cells. One bucket is never too empty.
	maxLoad = 82
	newLoad = 56
	minLoad = 25
)

// bucket is a cache line of index words. past counts the words whose own bucket
// this is, or which came by here, and which stand in a later one: a search goes
// on only while it is not zero, so a deletion needs no tombstone.
type bucket struct {
	cells [bucketCells]atomic.Uint64
	past  atomic.Uint64
}

// table is an open-addressing hash table. Its words never change their cell:
// to grow is to build another table.
type table struct {
	buckets []bucket
	live    int // the writer's
}

// tableHeader is what a table costs beside its buckets, in bytes.
const tableHeader = 32

// home is the bucket in which the search for a tag starts.
func (tb *table) home(tag uint64) int {
	return int(tag * uint64(len(tb.buckets)) >> tagBits)
}

// after is the bucket that follows b.
func (tb *table) after(b int) int {
	if b++; b < len(tb.buckets) {
		return b
	}
	return 0
}

// insert places w, which must not be in the table yet; there must be room.
func (tb *table) insert(w uint64) {
	tb.live++
	for b := tb.home(w >> tagShift); ; b = tb.after(b) {
		bk := &tb.buckets[b]
		for c := range bk.cells {
			if bk.cells[c].Load() == 0 {
				bk.cells[c].Store(w)
				return
			}
		}
		bk.past.Add(1)
	}
}

// find returns the cell that holds w and the number of buckets passed on the
// way, or nil.
func (tb *table) find(w uint64) (cell *atomic.Uint64, passed int) {
	for b := tb.home(w >> tagShift); passed < len(tb.buckets); b = tb.after(b) {
		bk := &tb.buckets[b]
		for c := range bk.cells {
			if bk.cells[c].Load() == w {
				return &bk.cells[c], passed
			}
		}
		if bk.past.Load() == 0 {
			return nil, 0
		}
		passed++
	}
	return nil, 0
}

// remove takes w out and reports whether it was there.
func (tb *table) remove(w uint64) bool {
	cell, passed := tb.find(w)
	if cell == nil {
		return false
	}
	cell.Store(0)
	b := tb.home(w >> tagShift)
	for range passed {
		tb.buckets[b].past.Add(^uint64(0))
		b = tb.after(b)
	}
	tb.live--
	return true
}

// index maps fingerprints to words. Readers load, the one writer stores.
type index struct {
	seed   uint64
	shards []atomic.Pointer[table] // a power of two of them, nil while empty
	shift  uint                    // of the hash, to get the shard
	bytes  atomic.Int64            // of all tables
}

func (x *index) init(seed uint64, logShards uint) {
	x.seed = seed
	x.shards = make([]atomic.Pointer[table], 1<<logShards)
	x.shift = 64 - logShards
}

// hash spreads fingerprints over shards and buckets. They are hashes already,
// but of the reporter's choosing: the seed keeps anyone from choosing a bucket.
func (x *index) hash(fp uint64) uint64 {
	const multiplier = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	hi, lo := bits.Mul64(fp^x.seed, multiplier)
	return hi ^ lo
}

func (x *index) shard(h uint64) *atomic.Pointer[table] {
	return &x.shards[h>>x.shift&uint64(len(x.shards)-1)]
}

// touch loads the buckets of all fps at once, so that the searches that follow
// wait for memory together and not one after the other.
func (x *index) touch(fps []uint64) {
	for _, fp := range fps {
		h := x.hash(fp)
		if tb := x.shard(h).Load(); tb != nil {
			tb.buckets[tb.home(tagOf(h))].past.Load()
		}
	}
}

// insert adds the location of fp, which must have none.
func (x *index) insert(fp uint64, id uint32, off int) {
	h := x.hash(fp)
	sh := x.shard(h)
	tb := sh.Load()
	if tb == nil || (tb.live+1)*100 > len(tb.buckets)*bucketCells*maxLoad {
		tb = x.resize(sh, tb)
	}
	tb.insert(word(h, id, off))
}

// move replaces the location of fp, which must be the one in from.
func (x *index) move(fp uint64, from ref, fromOff int, to ref, toOff int) {
	h := x.hash(fp)
	cell, _ := x.shard(h).Load().find(word(h, from.id, fromOff))
	cell.Store(word(h, to.id, toOff))
}

// remove takes out the location of fp and reports whether it was that one.
func (x *index) remove(fp uint64, id uint32, off int) bool {
	h := x.hash(fp)
	sh := x.shard(h)
	tb := sh.Load()
	if tb == nil || !tb.remove(word(h, id, off)) {
		return false
	}
	if tb.live == 0 || len(tb.buckets) > 1 && tb.live*100 < len(tb.buckets)*bucketCells*minLoad {
		x.resize(sh, tb)
	}
	return true
}

// resize replaces a shard's table by one of the right size for one word more,
// or by none when it is empty and not about to be filled. Readers of the old
// table find there what they found before.
func (x *index) resize(sh *atomic.Pointer[table], old *table) *table {
	if old != nil && old.live == 0 {
		x.bytes.Add(-old.size())
		sh.Store(nil)
		return nil
	}
	live := 1
	if old != nil {
		live += old.live
	}
	want := (live*100 + bucketCells*newLoad - 1) / (bucketCells * newLoad)
	tb := &table{buckets: slices.Grow([]bucket(nil), want)}
	tb.buckets = tb.buckets[:cap(tb.buckets)] // the allocator rounds up
	if old != nil {
		for b := range old.buckets {
			for c := range old.buckets[b].cells {
				if w := old.buckets[b].cells[c].Load(); w != 0 {
					tb.insert(w)
				}
			}
		}
		x.bytes.Add(-old.size())
	}
	x.bytes.Add(tb.size())
	sh.Store(tb)
	return tb
}

func (tb *table) size() int64 { return int64(len(tb.buckets))*64 + tableHeader }
