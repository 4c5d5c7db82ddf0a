package prefix

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/eppctl/eppctl/internal/heaptest"
)

// The figures that are promised are ratios to BenchmarkFingerprint/tokens=4096
// in the same run: about 5 µs on a 2-core server.

const (
	benchTokens = 4096
	benchBlock  = 16
	benchChain  = benchTokens / benchBlock // blocks
	benchShared = 64                       // blocks that all chains start with
	benchBlocks = 1 << 20                  // distinct ones in the tree
)

func BenchmarkFingerprint(b *testing.B) {
	tokens := make([]uint32, benchTokens)
	for i := range tokens {
		tokens[i] = rand.Uint32N(128_000)
	}
	b.Run("tokens=4096", func(b *testing.B) {
		dst := make([]uint64, 0, benchChain)
		b.ReportAllocs()
		for b.Loop() {
			dst = Fingerprints(dst[:0], 1, tokens, benchBlock)
		}
	})
	// What the library's hash alone takes for this.
	b.Run("baseline", func(b *testing.B) {
		var buf [parentBytes + tokenBytes*benchBlock]byte
		b.ReportAllocs()
		for b.Loop() {
			for range benchChain {
				binary.LittleEndian.PutUint64(buf[:], xxhash.Sum64(buf[:]))
			}
		}
	})
}

// forest is a tree of benchBlocks blocks and its chains.
type forest struct {
	tree   *Tree
	chains [][]uint64
	pods   int
}

// forests are built once for all benchmarks: by pods and holders of a chain.
var forests sync.Map

// newForest makes chains that share their first blocks, which every pod holds;
// each rest is held by the given number of pods.
func newForest(pods, holders int) *forest {
	if f, ok := forests.Load([2]int{pods, holders}); ok {
		return f.(*forest)
	}
	f := &forest{tree: New(), pods: pods}
	rng := rand.New(rand.NewPCG(1, 2))
	shared := randomBlocks(rng, benchShared)
	for i := range pods {
		f.tree.Admit(Slot{uint32(i), 1})
		f.tree.Store(Slot{uint32(i), 1}, 7, shared)
	}
	for blocks := benchShared; blocks < benchBlocks; blocks += benchChain - benchShared {
		chain := append(slices.Clone(shared), randomBlocks(rng, benchChain-benchShared)...)
		f.chains = append(f.chains, chain)
	}
	// As it comes in life: events of 32 blocks, of all chains in turn.
	for from := benchShared; from < benchChain; from += 32 {
		for i, chain := range f.chains {
			for k := range holders {
				s := Slot{uint32((i + k*(i/pods+1)) % pods), 1}
				f.tree.Store(s, chain[from-1], chain[from:from+32])
			}
		}
	}
	forests.Store([2]int{pods, holders}, f)
	return f
}

func randomBlocks(rng *rand.Rand, n int) []uint64 {
	blocks := make([]uint64, n)
	for i := range blocks {
		blocks[i] = rng.Uint64()
	}
	return blocks
}

// queries are chains in random order, half of them absent after a random
// length.
func (f *forest) queries() [][]uint64 {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([][]uint64, len(f.chains))
	for i, k := range rng.Perm(len(f.chains)) {
		all[i] = f.chains[k]
		if i%2 == 0 {
			keep := rng.IntN(benchChain)
			all[i] = append(slices.Clone(all[i][:keep]), randomBlocks(rng, benchChain-keep)...)
		}
	}
	return all
}

func BenchmarkLookup(b *testing.B) {
	for _, pods := range []int{8, 32, 128} {
		b.Run(fmt.Sprintf("blocks=256/pods=%d/nodes=1M", pods), func(b *testing.B) {
			f := newForest(pods, 2)
			counts := make([]uint32, f.tree.Slots())
			b.Run("hot", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if n := f.tree.Lookup(f.chains[0], counts); n != benchChain {
						b.Fatalf("Lookup = %d, want %d", n, benchChain)
					}
				}
			})
			b.Run("random", func(b *testing.B) {
				queries := f.queries()
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					if n := f.tree.Lookup(queries[i], counts); n == benchChain && i%2 == 0 {
						b.Fatal("Lookup finds blocks that nobody has")
					}
					if i++; i == len(queries) {
						i = 0
					}
				}
			})
		})
	}
}

// events are new stretches of 32 blocks that follow existing chains.
type event struct {
	slot   Slot
	parent uint64
	blocks []uint64
}

func (f *forest) events(n int) []event {
	rng := rand.New(rand.NewPCG(5, 6))
	all := make([]event, n)
	for i := range all {
		chain := f.chains[rng.IntN(len(f.chains))]
		all[i] = event{Slot{uint32(rng.IntN(f.pods)), 1}, chain[rng.IntN(len(chain))], randomBlocks(rng, 32)}
	}
	return all
}

func BenchmarkApply(b *testing.B) {
	b.Run("blocks=32", func(b *testing.B) {
		f := newForest(32, 2)
		events := f.events(1 << 13)
		for _, e := range events {
			f.tree.Store(e.slot, e.parent, e.blocks)
		}
		// In the steady state of a full cache: the oldest event's blocks leave,
		// as many come.
		b.ReportAllocs()
		i, removed, stored := 0, 0, 0
		for b.Loop() {
			e := &events[i]
			n, _ := f.tree.Remove(e.slot, e.blocks)
			removed += n
			for k := range e.blocks {
				e.blocks[k] = e.blocks[k]*0x9e3779b97f4a7c15 + 1
			}
			f.tree.Store(e.slot, e.parent, e.blocks)
			stored += len(e.blocks)
			if i++; i == len(events) {
				i = 0
			}
		}
		b.StopTimer()
		if removed != stored {
			b.Fatalf("%d blocks removed, want %d", removed, stored)
		}
		ns := float64(b.Elapsed().Nanoseconds())
		b.ReportMetric(ns/float64(stored+removed), "ns/block") // that comes or goes
		b.ReportMetric(ns/float64(stored), "ns/block-stored-and-removed")
		for _, e := range events {
			f.tree.Remove(e.slot, e.blocks)
		}
	})
	b.Run("lookup-beside-writer", benchmarkBesideWriter)
}

// benchmarkBesideWriter reports the 99th percentile of lookups, quiet and
// beside a writer that never rests.
func benchmarkBesideWriter(b *testing.B) {
	f := newForest(32, 2)
	queries := f.queries()
	counts := make([]uint32, f.tree.Slots())
	measure := func() float64 {
		took := make([]time.Duration, 40_000)
		for i := range took {
			start := time.Now()
			f.tree.Lookup(queries[i%len(queries)], counts)
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		return float64(took[len(took)*99/100].Nanoseconds())
	}
	events := f.events(1 << 13)
	var quiet, busy []float64
	applied := 0
	for b.Loop() {
		quiet = append(quiet, measure())
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; !stop.Load(); i = (i + 1) % len(events) {
				e := events[i]
				f.tree.Store(e.slot, e.parent, e.blocks)
				f.tree.Remove(e.slot, e.blocks)
				applied++
			}
		})
		busy = append(busy, measure())
		stop.Store(true)
		wg.Wait()
	}
	slices.Sort(quiet)
	slices.Sort(busy)
	q, w := quiet[len(quiet)/2], busy[len(busy)/2]
	b.ReportMetric(q, "quiet-p99-ns")
	b.ReportMetric(w, "busy-p99-ns")
	b.ReportMetric(w/q, "busy/quiet")
	b.ReportMetric(float64(applied)/float64(len(busy)), "events")
}

func BenchmarkMemory(b *testing.B) {
	cases := []struct {
		name          string
		pods, holders int
	}{
		{"pods=8", 8, 1},
		{"pods=100", 100, 1},
		{"pods=2048", 2048, 1},
		{"pods=8/holders=4", 8, 4},
		{"pods=100/holders=4", 100, 4},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			benchmarkMemory(b, func() *Tree {
				f := newForest(c.pods, c.holders)
				forests.Delete([2]int{c.pods, c.holders})
				f.chains = nil
				return f.tree
			})
		})
	}
	// The worst: chains of one block that share nothing.
	b.Run("alone", func(b *testing.B) {
		benchmarkMemory(b, func() *Tree {
			t := New()
			t.Admit(Slot{})
			rng := rand.New(rand.NewPCG(1, 2))
			for range benchBlocks {
				t.Store(Slot{}, 7, []uint64{rng.Uint64()})
			}
			return t
		})
	})
}

// benchmarkMemory reports the heap that a tree takes, per distinct block.
func benchmarkMemory(b *testing.B, build func() *Tree) {
	for b.Loop() {
		before := heaptest.Live()
		t := build()
		took := heaptest.Live() - before
		st := t.Stats()
		b.ReportMetric(float64(took)/float64(st.Blocks), "bytes/block")
		b.ReportMetric(float64(st.BytesEstimate)/float64(took), "estimate")
		b.ReportMetric(float64(st.Blocks)/float64(st.Runs), "blocks/run")
	}
}
