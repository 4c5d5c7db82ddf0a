package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
	"github.com/eppctl/eppctl/internal/sim"
)

// TestKubeSimulatedEngines routes to simulated vLLM engines that a cluster has as pods:
// what they cache is told by their KV events, whose place an annotation tells.
func TestKubeSimulatedEngines(t *testing.T) {
	const pods = 4
	fleet, port := simulatedFleet(t, pods)
	k := &kubeRig{t: t, cluster: cluster.Start(t), fit: map[string]bool{}}
	k.cluster.Apply(manifests(t, poolName, "-n", k.cluster.Namespace, "-l", "app=engine", "--target-port", fmt.Sprint(port),
		"--only", "InferencePool,ServiceAccount,Role,RoleBinding"))
	for i, pod := range fleet.Pods() {
		k.cluster.Pod(cluster.Pod{
			Name: pod.Name, IP: simulatedIP(i), Labels: map[string]string{"app": "engine"},
			Annotations: map[string]string{"eppctl.dev/events": pod.Events, "eppctl.dev/replay": pod.Replay},
		})
	}
	k.start()
	until(t, "all pods are known", func() bool { return len(k.ready()) == pods })
	for n := range 8 {
		k.followsCache(t, 400+40*n) // words, so that each begins as the one before and is longer
	}
}

// followsCache sends a prompt twice, the second time when the first one's blocks are
// told of: it must then go to where they are, and find them.
func (k *kubeRig) followsCache(t *testing.T, words int) {
	t.Helper()
	first := k.completed(t, words)
	until(t, "the cache is known", func() bool {
		views, err := k.picker.admin.Pods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range views.Items {
			if p.Pod == first.Result.Pod {
				return p.Cache.Blocks != nil && *p.Cache.Blocks >= first.Request.Blocks
			}
		}
		return false
	})
	second := k.completed(t, words)
	if second.Result.Pod != first.Result.Pod {
		t.Errorf("%d words: the prompt went to %s, and is cached at %s", words, second.Result.Pod, first.Result.Pod)
	}
	o := &second.Outcome
	if o.PredictedCached == nil || o.CachedTokens == nil || *o.PredictedCached == 0 || *o.PredictedCached != *o.CachedTokens {
		t.Errorf("%d words: predicted %s cached tokens, the engine found %s", words, countText(o.PredictedCached), countText(o.CachedTokens))
	}
}

// completed is the record of a request that has been answered.
func (k *kubeRig) completed(t *testing.T, words int) *explain.Record {
	t.Helper()
	c := &call{body: completion(model, words, false)}
	r := k.gateway.send(t.Context(), c)
	if r.err != nil || r.status != http.StatusOK {
		t.Fatalf("status %d, error %v: %s", r.status, r.err, r.answer.body)
	}
	var record *explain.Record
	until(t, "the record is complete", func() bool {
		record = k.picker.lookUp(c.id)
		return record != nil && record.Outcome.State == "done"
	})
	return record
}

func countText(n *int) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func simulatedIP(pod int) string { return fmt.Sprintf("127.8.0.%d", 1+pod) }

// simulatedFleet runs engines that have addresses of their own and one port.
func simulatedFleet(t *testing.T, pods int) (*sim.Fleet, int) {
	t.Helper()
	var fleet *sim.Fleet
	port := 0
	for try := 0; fleet == nil; try++ {
		l, err := net.Listen("tcp", simulatedIP(0)+":0")
		if err != nil {
			t.Fatal(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		fleet, err = sim.New(sim.Config{Pods: pods, Model: model, Events: true, Address: func(pod int) string {
			return net.JoinHostPort(simulatedIP(pod), fmt.Sprint(port))
		}})
		if err != nil && try == 10 { // somebody else has it at one of the addresses
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return fleet, port
}
