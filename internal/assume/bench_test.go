package assume

import "testing"

// BenchmarkStore is a request of 256 blocks from its beginning to its end, in a
// full cache of 100,000: either all of its blocks are new, or none.
func BenchmarkStore(b *testing.B) {
	const capacity, length = 100_000, 256
	for _, bench := range []struct {
		name    string
		prompts int
	}{{"new", 4 * capacity / length}, {"known", capacity / length / 2}} {
		b.Run(bench.name, func(b *testing.B) {
			prompts := make([][]uint64, bench.prompts)
			for i := range prompts {
				prompts[i] = make([]uint64, length)
				for k := range prompts[i] {
					prompts[i][k] = (uint64(i*length+k) + 1) * 0x9e3779b97f4a7c15
				}
			}
			c := New(capacity)
			var gone []uint64
			serve := func(i int) {
				blocks := prompts[i%len(prompts)]
				gone, _ = c.Begin(gone[:0], blocks)
				gone, _ = c.End(gone[:0], blocks, 0)
			}
			for i := range prompts {
				serve(i)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				serve(i)
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*length), "ns/block")
		})
	}
}
