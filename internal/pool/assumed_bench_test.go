package pool

import "testing"

// BenchmarkAssumed is a prompt of 256 blocks on its way: the pick, which notes it,
// and the two steps behind the answer that store it, each time in a full cache of
// 4096 blocks; and, for comparison, a pick in a pool that assumes nothing.
func BenchmarkAssumed(b *testing.B) {
	const length = 256
	prompts := make([][]uint64, 64)
	for i := range prompts {
		prompts[i] = prompt(i, length)
	}
	for _, bench := range []struct {
		name    string
		assume  int // blocks
		prompts int
		stores  bool
	}{
		{"pick/assuming nothing", 0, len(prompts), false},
		{"pick", 4096, len(prompts), false},
		{"pick and store/new", 4096, len(prompts), true},
		{"pick and store/known", 4096, 8, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p, _ := newAssuming(b)
			p.cfg.Assume = bench.assume * blockSize
			if err := p.Set(members("a")); err != nil {
				b.Fatal(err)
			}
			counts := make([]uint32, p.cfg.Tree.Slots())
			q := &Query{Matches: []Match{{BlockSize: blockSize, Counts: counts}}}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				blocks := prompts[i%bench.prompts]
				i++
				r := new(Reservation)
				q.Matches[0].Blocks = blocks
				p.Choose(nil, q, nth(0), r)
				if bench.stores {
					r.Stored()
					r.Ended(length*blockSize, 0)
				}
				r.Release()
			}
		})
	}
}
