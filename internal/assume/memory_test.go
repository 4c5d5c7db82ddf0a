package assume

import (
	"runtime"
	"testing"

	"github.com/eppctl/eppctl/internal/heaptest"
)

// The bound that the documentation of [Cache] states, at sizes just before and
// behind those at which tables grow.
func TestMemory(t *testing.T) {
	const each = 80 // bytes a block
	for _, capacity := range []int{20_000, 57_000, 60_000, 100_000, 115_000, 230_000} {
		before := heaptest.Live()
		c := New(capacity)
		prompt := make([]uint64, 64)
		var gone []uint64
		for i := range 2 * capacity / len(prompt) {
			for k := range prompt {
				prompt[k] = (uint64(i*len(prompt)+k) + 1) * 0x9e3779b97f4a7c15
			}
			gone, _ = c.Begin(gone[:0], prompt)
			gone, _ = c.End(gone[:0], prompt, 0)
		}
		took := heaptest.Live() - before
		t.Logf("%d blocks: %d bytes each", capacity, took/int64(capacity))
		if c.Len() != capacity || took > each*int64(capacity) {
			t.Errorf("%d of %d blocks take %d bytes, want at most %d each", c.Len(), capacity, took, each)
		}
		runtime.KeepAlive(c)
	}
}
