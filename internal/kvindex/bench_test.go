package kvindex

import (
	"testing"

	"github.com/eppctl/eppctl/internal/kvevent"
)

const benchBlocks = 32 // of an event

// BenchmarkApply is the steady state of a full cache: a batch evicts a chain of
// 32 blocks, by an event for each, and stores another.
func BenchmarkApply(b *testing.B) {
	b.Run("decoded", benchmarkDecoded)
	b.Run("bytes", benchmarkBytes)
}

// benchmarkDecoded has a million blocks.
func benchmarkDecoded(b *testing.B) {
	const chains = 1 << 20 / benchBlocks
	f := newFixture(b, nil)
	s, evicted := newStream(benchBlocks), newStream(benchBlocks)
	batch := &kvevent.Batch{At: f.now}
	seq := uint64(0)
	for ; seq < chains; seq++ {
		batch.Events = append(batch.Events[:0], s.stored(int(seq), 0))
		f.Apply(seq, batch)
	}
	b.ReportAllocs()
	for b.Loop() {
		batch.Events = append(batch.Events[:0], evicted.removed(int(seq)-chains)...)
		batch.Events = append(batch.Events, s.stored(int(seq), 0))
		f.Apply(seq, batch)
		seq++
	}
	b.StopTimer()
	st := f.Stats()
	if st.Blocks != 1<<20 || st.TreeBlocks != 1<<20 || st.UnknownRemovals != 0 {
		b.Fatalf("%+v", st)
	}
	reportBlocks(b, seq-chains)
	b.ReportMetric(float64(len(f.table.records))*24/float64(st.Blocks), "bytes/block")
}

// benchmarkBytes begins with a message's payload, as vLLM 0.24 writes it. It
// goes round in a circle of messages of which half the chains are held.
func benchmarkBytes(b *testing.B) {
	const chains = 1 << 11
	f := newFixture(b, nil)
	s, evicted := newStream(benchBlocks), newStream(benchBlocks)
	payloads := make([][]byte, chains)
	for i := range payloads {
		batch := &kvevent.Batch{At: f.now}
		batch.Events = append(batch.Events, evicted.removed((i+chains/2)%chains)...)
		batch.Events = append(batch.Events, s.stored(i, 0))
		payload, err := kvevent.Append(nil, kvevent.MapV24, batch)
		if err != nil {
			b.Fatal(err)
		}
		payloads[i] = payload
	}
	var d kvevent.Decoder
	seq := uint64(0)
	next := func() {
		batch, err := d.Decode(payloads[seq%chains])
		if err != nil {
			b.Fatal(err)
		}
		f.Apply(seq, batch)
		seq++
	}
	for seq < chains {
		next()
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
	b.StopTimer()
	if st := f.Stats(); st.Blocks != chains/2*benchBlocks || st.UnknownParents+st.Unfit+st.Skipped > 0 {
		b.Fatalf("%+v", st)
	}
	reportBlocks(b, seq-chains)
}

// reportBlocks counts what comes and what goes.
func reportBlocks(b *testing.B, batches uint64) {
	blocks := float64(batches) * 2 * benchBlocks
	ns := float64(b.Elapsed().Nanoseconds())
	b.ReportMetric(ns/blocks, "ns/block")
	b.ReportMetric(blocks/ns*1e3, "Mblocks/s")
}
