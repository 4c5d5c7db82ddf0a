// Package heaptest measures memory in tests.
//
// The one idea: the runtime counts what the whole process does, the test framework
// and goroutines that are about to end included. That only ever adds, so what is
// measured is the least of several runs, or what is left after the garbage is gone.
//
// It does not say where memory went: a profile does. Only tests import it.
package heaptest

import (
	"math"
	"runtime"
)

// Live is how many bytes of the heap are reachable.
func Live() int64 {
	runtime.GC()
	runtime.GC() // what pools gave up in the first is garbage only now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Allocated is how many bytes f allocates: the least of runs runs, each of which
// must begin anew. A limit of megabytes needs one run, one of kilobytes several.
func Allocated(runs int, f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range runs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
