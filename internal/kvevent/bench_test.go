package kvevent

import (
	"testing"
)

// benchBatch is what a step of a busy engine says: 32 new blocks of one prompt.
func benchBatch() *Batch {
	e := Event{HasParent: true, Parent: 1 << 63, BlockSize: 16, LoRAID: -1}
	for i := range 32 {
		e.Hashes = append(e.Hashes, 0x9e3779b97f4a7c15*uint64(i+1))
	}
	for i := range 512 {
		e.Tokens = append(e.Tokens, uint32(i*i*31)%128_000)
	}
	return &Batch{Events: []Event{e}}
}

func BenchmarkDecode(b *testing.B) {
	for _, g := range []Generation{ArrayV08, ArrayV21, MapV24, SGLangMap} {
		b.Run(g.String(), func(b *testing.B) {
			payload, err := Append(nil, g, benchBatch())
			if err != nil {
				b.Fatal(err)
			}
			d := new(Decoder)
			blocks := 0
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				blocks += len(decodeInto(b, d, payload).Events[0].Hashes)
			}
			b.ReportMetric(float64(blocks)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	batch := benchBatch()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = Append(buf[:0], MapV24, batch); err != nil {
			b.Fatal(err)
		}
	}
}

// The hot path allocates nothing once a decoder has met its stream.
func TestDecodeAllocates(t *testing.T) {
	batch := benchBatch()
	e := &batch.Events[0]
	e.LoRA, e.LoRAID, e.Salt, e.HasParent = "fr", 1, "tenant-a", false
	batch.Events = append(batch.Events, Event{Kind: Removed, Hashes: []uint64{1}}, Event{Kind: Cleared})
	for _, g := range []Generation{ArrayV21, MapV24, SGLangArray} {
		payload, err := Append(nil, g, batch)
		if err != nil {
			t.Fatal(err)
		}
		d := new(Decoder)
		if n := testing.AllocsPerRun(100, func() { decodeInto(t, d, payload) }); n > 0 {
			t.Errorf("%v: %v allocations, want none", g, n)
		}
	}
}
