package kvindex

import (
	"math/bits"
	"math/rand/v2"
)

// record is what is known of a block of the engine. One without copies is an
// empty cell.
type record struct {
	hash   uint64 // the engine's
	fp     uint64 // ours
	copies copies
}

// The table is filled between minLoad and maxLoad percent; outside of that it
// is made anew, to newLoad.
const (
	minLoad    = 30
	newLoad    = 60
	maxLoad    = 80
	minRecords = 64
)

// table finds records by the engine's hash: open addressing, linear probing,
// and no tombstones, for a removal closes the gap.
type table struct {
	records []record
	used    int
	seed    uint64 // keeps the sender from choosing cells
}

func newTable() table { return table{seed: rand.Uint64()} }

func (t *table) reset() { t.records, t.used = nil, 0 }

// home is the cell in which the search for a hash starts.
func (t *table) home(hash uint64) int {
	const multiplier = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	hi, lo := bits.Mul64(hash^t.seed, multiplier)
	cell, _ := bits.Mul64(hi^lo, uint64(len(t.records)))
	return int(cell)
}

// after is the cell that follows i.
func (t *table) after(i int) int {
	if i++; i < len(t.records) {
		return i
	}
	return 0
}

// find returns the record of a hash, or nil. It is good until the next put or
// remove.
func (t *table) find(hash uint64) *record {
	if t.used == 0 {
		return nil
	}
	for i := t.home(hash); ; i = t.after(i) {
		r := &t.records[i]
		switch {
		case r.copies.none():
			return nil
		case r.hash == hash:
			return r
		}
	}
}

// put adds a record for a hash that has none. It must have copies.
func (t *table) put(r record) {
	if (t.used+1)*100 > len(t.records)*maxLoad {
		t.resize()
	}
	t.used++
	t.insert(r)
}

func (t *table) insert(r record) {
	i := t.home(r.hash)
	for !t.records[i].copies.none() {
		i = t.after(i)
	}
	t.records[i] = r
}

// remove takes out a record of the table.
func (t *table) remove(r *record) {
	gap := t.home(r.hash)
	for &t.records[gap] != r {
		gap = t.after(gap)
	}
	size := len(t.records)
	for i := t.after(gap); !t.records[i].copies.none(); i = t.after(i) {
		// One that is at least as far from its home as from the gap may go there.
		home := t.home(t.records[i].hash)
		if (i-home+size)%size >= (i-gap+size)%size {
			t.records[gap] = t.records[i]
			gap = i
		}
	}
	t.records[gap] = record{}
	t.used--
	if size > minRecords && t.used*100 < size*minLoad {
		t.resize()
	}
}

// resize makes the table anew, for one record more.
func (t *table) resize() {
	old := t.records
	t.records = make([]record, max(minRecords, (t.used+1)*100/newLoad))
	for i := range old {
		if !old[i].copies.none() {
			t.insert(old[i])
		}
	}
}
