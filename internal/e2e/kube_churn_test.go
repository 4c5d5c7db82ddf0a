package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// TestKubeChurn lets a thousand pods come and go, and wants the picker to be no larger
// for it.
func TestKubeChurn(t *testing.T) {
	k := buildKube(t, cluster.Start(t), 42, 1)
	k.pod("steady-0", 0)
	k.pod("steady-1", 1)
	k.start()
	k.settle(t)
	traffic := k.traffic(1)
	k.churn(t, 200) // whatever is made once is made by then
	base := k.size(t, nil)
	k.churn(t, 1000)
	after := k.size(t, &base)
	t.Logf("heap %.1f MB and %v goroutines before, %.1f MB and %v after 1,000 pods", base.heap/1e6, base.goroutines, after.heap/1e6, after.goroutines)
	traffic.end()
}

// churn makes and deletes n pods, 40 at a time, which come to the same addresses
// again under other names.
func (k *kubeRig) churn(t *testing.T, n int) {
	t.Helper()
	name := func(i int) string { return fmt.Sprintf("churn-%d-%d", n, i) }
	for first := 0; first < n; first += 40 {
		last := min(first+40, n)
		for i := first; i < last; i++ {
			k.pod(name(i), 2+i%40)
		}
		until(t, "the picker has all pods", func() bool { return len(k.ready()) == last-first+2 })
		for i := first; i < last; i++ {
			k.cluster.Delete(cluster.PodRef(name(i)))
			k.forbid(k.at(2 + i%40))
		}
	}
	k.settle(t)
}

// records is what the picker's ring holds, in bytes, which grows to a bound of its own.
func (k *kubeRig) records(t *testing.T) float64 {
	t.Helper()
	list, err := k.picker.admin.Decisions(t.Context(), admin.Filter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return float64(list.Coverage.Ring.Bytes)
}

// A size is what a process has on its heap, in bytes, without records, and how many
// goroutines.
type size struct{ heap, goroutines float64 }

// slack is what a heap may differ by between two looks, in bytes: what requests and
// scrapes leave until the next collection.
const slack = 4 << 20

// size is the picker's: the least of some looks, since the heap has garbage at most
// times. With a base it waits until it is no larger than that.
func (k *kubeRig) size(t *testing.T, base *size) size {
	t.Helper()
	var least size
	fits := func() bool {
		return base == nil || least.heap <= base.heap+slack && least.goroutines <= base.goroutines+10
	}
	for i := 0; i < 20 || !fits() && i < 200; i++ {
		now := size{k.picker.metric("go_memstats_heap_alloc_bytes") - k.records(t), k.picker.metric("go_goroutines")}
		if now.heap <= 0 || now.goroutines <= 0 {
			t.Fatalf("the picker tells nothing of its size: %+v", now)
		}
		if i == 0 {
			least = now
		}
		least = size{min(least.heap, now.heap), min(least.goroutines, now.goroutines)}
		time.Sleep(50 * time.Millisecond)
	}
	if !fits() {
		t.Errorf("heap %.1f MB and %v goroutines, before it was %.1f MB and %v", least.heap/1e6, least.goroutines, base.heap/1e6, base.goroutines)
	}
	return least
}
