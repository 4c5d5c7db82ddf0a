package heaptest

import (
	"runtime"
	"sync"
	"testing"
)

func TestLive(t *testing.T) {
	const size = 8 << 20
	before := Live()
	held := make([]byte, size)
	if grown := Live() - before; grown < size || grown > size+size/8 {
		t.Errorf("%d bytes more while %d are held", grown, size)
	}
	runtime.KeepAlive(held)
	pool := sync.Pool{}
	pool.Put(&held)
	held = nil
	if grown := Live() - before; grown > size/8 {
		t.Errorf("%d bytes more when only a pool had them", grown)
	}
	runtime.KeepAlive(&pool)
}

var sink []byte

// One run in which somebody else allocated does not count.
func TestAllocated(t *testing.T) {
	const size = 64 << 10
	runs := 0
	got := Allocated(3, func() {
		runs++
		sink = make([]byte, size)
		if runs == 2 {
			sink = make([]byte, 4*size)
		}
	})
	if runs != 3 || got < size || got > 2*size {
		t.Errorf("%d bytes in %d runs, want %d in 3", got, runs, size)
	}
}
