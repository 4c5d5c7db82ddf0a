package picker

import (
	"context"
	"testing"

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
	b.Run("tokens=4096/pods=100/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				pick(b)
			}
		})
	})
}
