package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// TestKubeOldPool has a pool of the older kind, which gives way to one of v1 with the
// same name.
func TestKubeOldPool(t *testing.T) {
	k := newKubeRig(t, cluster.Start(t), 2, 2)
	k.cluster.Apply(fmt.Sprintf(`
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: chat}
spec: {selector: {app: engine}, targetPortNumber: %d, extensionRef: {name: chat-epp}}
`, k.ports[0]))
	args := []string{poolName, "-n", k.cluster.Namespace, "-l", "app=engine", "--target-port", fmt.Sprint(k.ports[1]), "--only"}
	k.cluster.Apply(manifests(t, append(args, "ServiceAccount,Role,RoleBinding")...))
	k.pod("one", 0)
	k.pod("two", 1)
	k.start()
	k.settle(t)

	k.allow(k.atPort(0, 1), k.atPort(1, 1))
	k.cluster.Apply(manifests(t, append(args, "InferencePool")...))
	k.forbid(k.at(0), k.at(1))
	k.settle(t)
	k.allow(k.at(0), k.at(1))
	k.cluster.Delete(cluster.PoolRef(poolName))
	k.forbid(k.atPort(0, 1), k.atPort(1, 1))
	k.settle(t)
}

// TestKubeSeveralPools has one picker for two pools. A name that a resource gives to
// one of them is served by its pods alone.
func TestKubeSeveralPools(t *testing.T) {
	c := cluster.Start(t)
	k := buildKube(t, c, 4, 1)
	c.Apply(manifests(t, "other", "-n", c.Namespace, "-l", "app=other", "--target-port", fmt.Sprint(k.ports[0]), "--only", "InferencePool"))
	k.pod("one", 0)
	k.pod("two", 1)
	for i, name := range []string{"three", "four"} {
		k.allow(k.at(2 + i))
		c.Pod(cluster.Pod{Name: name, IP: ip(2 + i), Labels: map[string]string{"app": "other"}})
	}
	c.Apply(`
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: theirs}
spec: {poolRef: {name: other}, rules: [{matches: [{model: {value: theirs}}], targets: [{modelRewrite: ` + model + `}]}]}
`)
	k.startAs(cluster.Admin, "--pool", c.Namespace+"/other")
	k.settle(t) // requests for the model itself go to all four
	theirs := []string{k.at(2), k.at(3)}
	for i := range 40 {
		r := k.gateway.send(t.Context(), &call{body: completion("theirs", 1+i, false)})
		if r.err != nil || r.status != http.StatusOK || !slices.Contains(theirs, r.destination) {
			t.Fatalf("status %d, error %v, %s was asked, which is none of %v: %s", r.status, r.err, r.destination, theirs, r.answer.body)
		}
	}
	for i, name := range []string{"three", "four"} {
		c.SetReady(name, false)
		k.forbid(k.at(2 + i))
	}
	k.settle(t)
	if r := k.gateway.send(t.Context(), &call{body: completion("theirs", 3, false)}); r.status != http.StatusServiceUnavailable {
		t.Errorf("without a pod of its pool the name is answered %d, %v, by %q", r.status, r.err, r.destination)
	}
}
