package picker

import (
	"context"
	"testing"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
)

// BenchmarkPick is the whole hot path for a prompt of 4096 token ids and 100
// pods: fingerprints, look-up, decision, reservation, record, release. Its unit
// is BenchmarkFingerprint/tokens=4096 of internal/prefix.
func BenchmarkPick(b *testing.B) {
	tokens := prompt(4096, 1)
	f := newFleet(b, 100, nil)
	f.scrape(0)
	for i := range 100 {
		// Pod i holds the first part of the prompt, each a different length.
		f.report(b, podName(i), func(r *report.Report) { holds(tokens[:(i%64+1)*4*blockSize])(r) })
	}
	c := call(tokens)
	pick := func(b *testing.B) {
		k, err := f.Pick(context.Background(), c)
		if err != nil {
			b.Fatal(err)
		}
		k.Done(end())
	}
	b.Run("fingerprint-unit", func(b *testing.B) {
		root := prefix.Root("m", "", "")
		var fps []uint64
		for b.Loop() {
			fps = prefix.Fingerprints(fps[:0], root, tokens, blockSize)
		}
	})
	b.Run("tokens=4096/pods=100", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pick(b)
		}
	})
	// The same with the caches told by events, of two ranks each.
	b.Run("tokens=4096/pods=100/events", func(b *testing.B) {
		f.listen(b, tokens)
		b.ReportAllocs()
		for b.Loop() {
			pick(b)
		}
	})
	b.Run("tokens=4096/pods=100/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				pick(b)
			}
		})
	})
}

// listen makes events tell the caches: of two ranks one holds as much of the prompt
// as the pod has reported, and one half of it.
func (f *fleet) listen(b *testing.B, tokens []uint32) {
	b.Helper()
	root := prefix.Root("m", "", "")
	blocks := prefix.Fingerprints(nil, root, tokens, blockSize)
	for i, t := range f.pool.Targets() {
		for rank := range 2 {
			slots, ok := f.pool.RankOpened(t.ID, rank, kvindex.GPUAlone(), quietStream{})
			if !ok {
				b.Fatalf("no slot for rank %d of %s", rank, t.Name)
			}
			slot := slots[0]
			b.Cleanup(func() { f.pool.RankClosed(slot) })
			f.tree.Store(slot, root, blocks[:(i%64+1)*4/(rank+1)])
			f.pool.RankChanged(slot, kvfeed.State{Connected: true, BlockSize: blockSize})
		}
	}
}

// quietStream is a stream of events on which nothing happens.
type quietStream struct{}

func (quietStream) Stats() kvfeed.Stats    { return kvfeed.Stats{} }
func (quietStream) Mark() kvindex.Mark     { return 0 }
func (quietStream) Correct(kvindex.Answer) {}
