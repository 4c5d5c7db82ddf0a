package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// scalePods is how many pods [TestKubeScale] has unless EPPCTL_E2E_KUBE_PODS says
// another number.
const scalePods = 200

// TestKubeScale wants a picker to come up in front of a large pool, and says what it
// takes: `.ci/e2e kube 2000`.
func TestKubeScale(t *testing.T) {
	n := scalePods
	if text := os.Getenv("EPPCTL_E2E_KUBE_PODS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("EPPCTL_E2E_KUBE_PODS: %v", err)
		}
	}
	k := buildKube(t, cluster.StartOwn(t, cluster.PoolV1), n, 1)
	for i := range n {
		k.pod(fmt.Sprintf("engine-%04d", i), i)
	}
	for _, scrape := range []string{"200", "2000"} {
		t.Run("scraped each "+scrape+" ms", func(t *testing.T) { k.rest(t, n, scrape) })
	}
}

// rest starts a picker, waits until it has seen each pod, and watches what it uses
// without requests.
func (k *kubeRig) rest(t *testing.T, n int, scrape string) {
	kubeconfig := k.cluster.Kubeconfig(k.cluster.Token(poolName + "-epp"))
	began := time.Now()
	p := serve(t, "intervals: {scrapeMs: "+scrape+"}\n", "127.0.0.1:0", "--plaintext", "--pool", k.cluster.Namespace+"/"+poolName, "--kubeconfig", kubeconfig)
	k.picker = p
	ready := time.Since(began)
	if got := len(k.ready()); got != n {
		t.Errorf("%d of %d pods are ready", got, n)
	}
	settling, watched := time.Second, 3*time.Second
	if n > scalePods {
		settling, watched = 10*time.Second, 30*time.Second
	}
	time.Sleep(settling) // what is done once is done by then
	cpu := p.metric("process_cpu_seconds_total")
	time.Sleep(watched)
	used := (p.metric("process_cpu_seconds_total") - cpu) / watched.Seconds()
	resident := p.metric("process_resident_memory_bytes")
	if used <= 0 || resident <= 0 {
		t.Error("the picker does not tell what it uses")
	}
	t.Logf("%d pods: ready %s after the start; at rest %.0f %% of a core, %.0f MB resident, %.0f MB heap, %.0f goroutines", n,
		ready.Round(time.Millisecond), 100*used, resident/1e6, p.metric("go_memstats_heap_alloc_bytes")/1e6, p.metric("go_goroutines"))
}
