package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// TestKubePoolChanges changes all that a pool and its pods can change under load, with
// neither of the CRDs for models installed.
func TestKubePoolChanges(t *testing.T) {
	k := buildKube(t, cluster.StartOwn(t, cluster.PoolV1), 12, 2)
	for i := range 3 {
		k.pod(fmt.Sprintf("first-%d", i), i)
	}
	k.cluster.Pod(cluster.Pod{Name: "loading", IP: ip(3), Labels: map[string]string{"app": "engine"}, NotReady: true})
	k.cluster.Pod(cluster.Pod{Name: "other", IP: ip(4), Labels: map[string]string{"app": "database"}})
	k.start()
	k.settle(t)
	traffic := k.traffic(3)
	for _, step := range []struct {
		name string
		do   func(*testing.T, *kubeRig, *background)
	}{
		{"a pod becomes ready", becomesReady},
		{"scale up and down", scales},
		{"a pod flaps with requests in flight", flaps},
		{"a pod terminates with requests in flight", terminates},
		{"an address is used again", reusesAddress},
		{"a container restarts", restarts},
		{"labels change", relabels},
		{"the selector changes", reselects},
		{"the target ports change", changesPorts},
		{"the pool is deleted and made again", remakesPool},
		{"the API server is away", losesServer},
		{"the watch has expired", expires},
		{"a picker starts before the API server", startsFirst},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, k, traffic) }) {
			t.FailNow() // the next would stumble over it
		}
	}
	traffic.end()
	t.Logf("%d requests", traffic.sent.Load())
	if traffic.sent.Load() < 100 {
		t.Error("there was hardly any traffic, so nothing is shown")
	}
}

func becomesReady(t *testing.T, k *kubeRig, _ *background) {
	k.allow(k.at(3))
	k.cluster.SetReady("loading", true)
	k.settle(t)
}

func scales(t *testing.T, k *kubeRig, _ *background) {
	for i := 5; i < 10; i++ {
		k.pod(fmt.Sprintf("more-%d", i), i)
	}
	k.settle(t)
	for i := 5; i < 10; i++ {
		k.cluster.Delete(cluster.PodRef(fmt.Sprintf("more-%d", i)))
		k.forbid(k.at(i))
	}
	k.settle(t)
}

func flaps(t *testing.T, k *kubeRig, _ *background) {
	h := k.hold(t, k.at(0))[k.at(0)]
	for range 3 {
		k.cluster.SetReady("first-0", false)
		k.forbid(k.at(0))
		k.settle(t)
		k.wantInFlight(t, "first-0")
		k.allow(k.at(0))
		k.cluster.SetReady("first-0", true)
		k.settle(t)
		k.wantInFlight(t, "first-0")
	}
	k.release(t, h)
}

// wantInFlight wants a held request to be on the books of a pod.
func (k *kubeRig) wantInFlight(t *testing.T, pod string) {
	t.Helper()
	if n := k.inFlight(pod); n < 1 {
		t.Errorf("%d requests are in flight to %s, and it holds one", n, pod)
	}
}

func terminates(t *testing.T, k *kubeRig, _ *background) {
	h := k.hold(t, k.at(1))[k.at(1)]
	k.cluster.Terminate("first-1")
	k.forbid(k.at(1))
	k.settle(t)
	k.wantInFlight(t, "first-1")
	k.cluster.Delete(cluster.PodRef("first-1"))
	k.settle(t)
	k.wantInFlight(t, "first-1") // the connection outlives the object
	k.release(t, h)
	until(t, "nothing is in flight to a pod that is gone", func() bool { return k.inFlight("first-1") == 0 })
}

// The request to the pod that had the address before is not taken for one to its
// successor.
func reusesAddress(t *testing.T, k *kubeRig, _ *background) {
	h := k.hold(t, k.at(2))[k.at(2)]
	k.cluster.Delete(cluster.PodRef("first-2"))
	k.forbid(k.at(2))
	k.pod("second-2", 2)
	k.settle(t)
	k.wantInFlight(t, "first-2")
	until(t, "requests to the address are the second pod's", func() bool {
		c := &call{body: completion(model, 1+int(calls.Load())%50, false)}
		if k.gateway.send(t.Context(), c).destination != k.at(2) {
			return false
		}
		rec := k.picker.lookUp(c.id)
		return rec != nil && rec.Result.Pod == "second-2"
	})
	if n := k.inFlight("second-2"); n > 2 { // the traffic's may be among them
		t.Errorf("%d requests are in flight to the second pod, of which one waits at the first", n)
	}
	k.release(t, h)
	until(t, "the books of the first pod are closed", func() bool { return k.inFlight("first-2") == 0 })
}

// The same pod under the same name and address has another engine in it, of which
// nothing is known.
func restarts(t *testing.T, k *kubeRig, _ *background) {
	const some = 3
	until(t, "the engine was scraped some times", func() bool { return k.scrapes(t, "second-2") >= some })
	h := k.hold(t, k.at(2))[k.at(2)]
	k.cluster.Restart("second-2")
	until(t, "the engine is a new one", func() bool { return k.scrapes(t, "second-2") < some })
	k.settle(t)
	k.release(t, h)
	until(t, "the books of the pod are closed", func() bool { return k.inFlight("second-2") == 0 })
}

// scrapes is how often the picker read a pod's metrics.
func (k *kubeRig) scrapes(t *testing.T, pod string) uint64 {
	t.Helper()
	list, err := k.picker.admin.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Pod == pod && !p.Departed {
			return p.Scrapes.Total
		}
	}
	t.Fatalf("the picker has no pod %s", pod)
	return 0
}

func relabels(t *testing.T, k *kubeRig, _ *background) {
	k.cluster.Patch(cluster.PodRef("loading"), "metadata: {labels: {app: debugging}}")
	k.forbid(k.at(3))
	k.settle(t)
	k.allow(k.at(3))
	k.cluster.Patch(cluster.PodRef("loading"), "metadata: {labels: {app: engine}}")
	k.settle(t)
}

func reselects(t *testing.T, k *kubeRig, _ *background) {
	k.allow(k.at(4))
	k.cluster.Patch(cluster.PoolRef(poolName), "spec: {selector: {matchLabels: {app: database}}}")
	k.forbid(k.at(0), k.at(2), k.at(3))
	k.settle(t)
	k.allow(k.at(0), k.at(2), k.at(3))
	k.cluster.Patch(cluster.PoolRef(poolName), "spec: {selector: {matchLabels: {app: engine}}}")
	k.forbid(k.at(4))
	k.settle(t)
}

func changesPorts(t *testing.T, k *kubeRig, _ *background) {
	first := []string{k.at(0), k.at(2), k.at(3)}
	second := []string{k.atPort(0, 1), k.atPort(2, 1), k.atPort(3, 1)}
	k.allow(second...)
	k.cluster.Patch(cluster.PoolRef(poolName), fmt.Sprintf("spec: {targetPorts: [{number: %d}, {number: %d}]}", k.ports[0], k.ports[1]))
	k.settle(t)
	active := fmt.Sprintf("metadata: {annotations: {llm-d.ai/active-ports: %q}}", fmt.Sprint(k.ports[1]))
	k.cluster.Patch(cluster.PodRef("first-0"), active)
	k.forbid(first[0])
	k.settle(t)
	k.cluster.Patch(cluster.PoolRef(poolName), fmt.Sprintf("spec: {targetPorts: [{number: %d}]}", k.ports[1]))
	k.forbid(first...)
	k.settle(t)
	k.allow(first...)
	k.cluster.Patch(cluster.PodRef("first-0"), "metadata: {annotations: {llm-d.ai/active-ports: null}}")
	k.cluster.Patch(cluster.PoolRef(poolName), fmt.Sprintf("spec: {targetPorts: [{number: %d}]}", k.ports[0]))
	k.forbid(second...)
	k.settle(t)
}

// Without a pool nobody is in it.
func remakesPool(t *testing.T, k *kubeRig, traffic *background) {
	all := []string{k.at(0), k.at(2), k.at(3)}
	h := k.hold(t, all[0])[all[0]]
	traffic.empty.Store(true)
	k.cluster.Delete(cluster.PoolRef(poolName))
	k.forbid(all...)
	k.settle(t)
	r := k.gateway.send(t.Context(), &call{body: small})
	if r.err != nil || r.status != http.StatusServiceUnavailable {
		t.Errorf("without a pool the answer is %d, %v", r.status, r.err)
	}
	k.wantInFlight(t, "first-0")
	k.allow(all...)
	k.cluster.Apply(manifests(t, poolName, "-n", k.cluster.Namespace, "-l", "app=engine", "--target-port", fmt.Sprint(k.ports[0]), "--only", "InferencePool"))
	k.settle(t)
	traffic.empty.Store(false)
	k.release(t, h)
}

// The picker goes on with what it knew last, and hears what changed meanwhile.
func losesServer(t *testing.T, k *kubeRig, traffic *background) {
	h := k.hold(t, k.at(3))[k.at(3)]
	k.cluster.KillAPIServer()
	before := traffic.sent.Load()
	until(t, "requests went on without the API server", func() bool { return traffic.sent.Load() > before+100 })
	until(t, "the picker says that it is away", func() bool { return strings.Contains(k.picker.output(), "the last known pods stand") })
	if status, why := k.readyz(t); status != http.StatusOK {
		t.Errorf("without the API server /readyz is %d: %s", status, why)
	}
	k.settle(t)
	k.cluster.StartAPIServer()
	k.cluster.Delete(cluster.PodRef("loading"))
	k.forbidAfter(reconnection, k.at(3))
	k.pod("late", 10)
	k.settle(t)
	k.wantInFlight(t, "loading")
	k.release(t, h)
}

func expires(t *testing.T, k *kubeRig, _ *background) {
	k.cluster.Expire()
	k.cluster.Delete(cluster.PodRef("late"))
	k.forbidAfter(reconnection, k.at(10))
	k.pod("latest", 11)
	k.settle(t)
}

// A picker that knows nothing yet waits, and says what for.
func startsFirst(t *testing.T, k *kubeRig, traffic *background) {
	token := k.cluster.Token(poolName + "-epp")
	traffic.end()
	k.cluster.KillAPIServer()
	k.begin(token)
	until(t, "the picker says what it waits for", func() bool {
		return strings.Contains(k.picker.output(), "not ready") && strings.Contains(k.picker.output(), "connection refused")
	})
	k.cluster.StartAPIServer()
	k.await()
	k.settle(t)
}

// readyz is what the picker says of its readiness.
func (k *kubeRig) readyz(t *testing.T) (status int, why string) {
	t.Helper()
	res, err := http.Get("http://" + k.picker.at.Health + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	a := read(res, nil)
	return a.status, string(a.body)
}
