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
	// percent of its cells. Fuller ones save 7 bytes a block, but then a fifth
	// of the buckets overflow, and the second bucket of a search costs a cache
	// miss: updates of a large tree take 20 % longer at 82 than at 64.
	maxLoad = 64
	newLoad = 44
	minLoad = 20
)

// bucket is a cache line of index words. past counts the words whose own bucket
// this is, or which came by here, and which stand in a later one: a search goes
// on only while it is not zero, so a deletion needs no tombstone.
type bucket struct {
	cells [bucketCells]atomic.Uint64
	past  atomic.Uint64
}

// tagged returns a bit for each cell whose word has that tag (or is empty, for
// tag 0), and exactly one for each that is w. Which cell a word is in nobody can
// predict, so they do without branches; written out, they keep to registers.
func (bk *bucket) tagged(tag uint64) uint64 {
	c := &bk.cells
	return isZero(c[0].Load()>>tagShift^tag) |
		isZero(c[1].Load()>>tagShift^tag)<<1 |
		isZero(c[2].Load()>>tagShift^tag)<<2 |
		isZero(c[3].Load()>>tagShift^tag)<<3 |
		isZero(c[4].Load()>>tagShift^tag)<<4 |
		isZero(c[5].Load()>>tagShift^tag)<<5 |
		isZero(c[6].Load()>>tagShift^tag)<<6
}

func (bk *bucket) exactly(w uint64) uint64 {
	c := &bk.cells
	return isZero(c[0].Load()^w) |
		isZero(c[1].Load()^w)<<1 |
		isZero(c[2].Load()^w)<<2 |
		isZero(c[3].Load()^w)<<3 |
		isZero(c[4].Load()^w)<<4 |
		isZero(c[5].Load()^w)<<5 |
		isZero(c[6].Load()^w)<<6
}

// isZero is 1 for 0 and else 0.
func isZero(x uint64) uint64 { return (x - 1) &^ x >> 63 }

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
		if free := bk.exactly(0); free != 0 {
			bk.cells[bits.TrailingZeros64(free)].Store(w)
			return
		}
		bk.past.Add(1)
	}
}

// find returns the cell that holds w and the number of buckets passed on the
// way, or nil.
func (tb *table) find(w uint64) (cell *atomic.Uint64, passed int) {
	for b := tb.home(w >> tagShift); passed < len(tb.buckets); b = tb.after(b) {
		bk := &tb.buckets[b]
		if here := bk.exactly(w); here != 0 {
			return &bk.cells[bits.TrailingZeros64(here)], passed
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
	tb.pass(w>>tagShift, passed, ^uint64(0))
	tb.live--
	return true
}

// pass adds to the counts of so many buckets from the home of a tag on. A word
// is counted before it is set and until after it is gone.
func (tb *table) pass(tag uint64, passed int, delta uint64) {
	if passed == 0 {
		return
	}
	for b := tb.home(tag); passed > 0; b = tb.after(b) {
		tb.buckets[b].past.Add(delta)
		passed--
	}
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

// touch appends the hashes of fps to dst. It loads their buckets as well, all
// at once, so that the searches that follow wait for memory together and not
// one after the other.
func (x *index) touch(dst, fps []uint64) []uint64 {
	for _, fp := range fps {
		h := x.hash(fp)
		dst = append(dst, h)
		if tb := x.shard(h).Load(); tb != nil {
			tb.buckets[tb.home(tagOf(h))].past.Load()
		}
	}
	return dst
}

// gap is where the word of a block that is not there can go: so many buckets
// behind its own, or nowhere yet when cell is nil.
type gap struct {
	cell   *atomic.Uint64
	passed int
}

// insert adds the location of a block that has none, to a gap found for it.
func (x *index) insert(h uint64, to gap, id uint32, off int) {
	sh := x.shard(h)
	tb := sh.Load()
	switch {
	case tb == nil || (tb.live+1)*100 > len(tb.buckets)*bucketCells*maxLoad:
		x.resize(sh, tb).insert(word(h, id, off))
	case to.cell == nil:
		tb.insert(word(h, id, off))
	default:
		tb.pass(tagOf(h), to.passed, 1)
		to.cell.Store(word(h, id, off))
		tb.live++
	}
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
	if len(tb.buckets) > 1 && tb.live*100 < len(tb.buckets)*bucketCells*minLoad {
		x.resize(sh, tb)
	}
	return true
}

// resize replaces a shard's table by one of the right size for one word more.
// Readers of the old one find there what they found before.
func (x *index) resize(sh *atomic.Pointer[table], old *table) *table {
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
