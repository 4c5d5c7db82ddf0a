package vllm

import (
	"testing"

	"pgregory.net/rapid"
)

// An index answers as a map does, also for fingerprints that begin alike.
func TestIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 9
		blocks := make([]block, most)
		x := newIndex(1)
		want := map[uint64]int32{}
		near := rapid.SampledFrom([]uint64{0, 1, 1 << 32, 1 << 59, 1<<59 | 1, 1<<63 | 5, 1<<64 - 1, 1<<64 - 1<<32})
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			h := near.Draw(t, "fingerprint")
			cell, got := x.find(blocks, h)
			b, known := want[h]
			switch {
			case known != (got != none) || known && b != got:
				t.Fatalf("%x is block %d, want %d", h, got, b)
			case known:
				x.remove(cell)
				delete(want, h)
			default:
				b := int32(0)
				for occupied(want, b) {
					b++
				}
				blocks[b].hash = h
				x.set(cell, h, b)
				want[h] = b
			}
			if x.length != len(want) {
				t.Fatalf("%d are there, want %d", x.length, len(want))
			}
		}
		for h, b := range want {
			if _, got := x.find(blocks, h); got != b {
				t.Fatalf("in the end %x is block %d, want %d", h, got, b)
			}
		}
	})
}

func occupied(m map[uint64]int32, b int32) bool {
	for _, taken := range m {
		if taken == b {
			return true
		}
	}
	return false
}
