package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// rewrites are rules in llm-d's group, legacy ones of the older kind, and generic one
// for all names, in the group that rewrites had before.
const (
	rewrites = `
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: rewrites}
spec:
  poolRef: {name: chat}
  rules:
  - {matches: [{model: {type: Exact, value: gpt}}], targets: [{modelRewrite: base-model}]}
  - {matches: [{model: {value: split}}], targets: [{modelRewrite: a, weight: 1}, {modelRewrite: b, weight: 3}]}
`
	legacy = `
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: legacy}
spec:
  modelName: legacy
  poolRef: {name: chat}
  targetModels: [{name: p, weight: 10}, {name: q, weight: 20}, {name: r, weight: 70}]
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: superseded}
spec: {modelName: split, poolRef: {name: chat}, targetModels: [{name: never}]}
`
	generic = `
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModelRewrite
metadata: {name: generic}
spec: {poolRef: {name: chat}, rules: [{targets: [{modelRewrite: fallback}]}]}
`
	strange = `
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: strange}
spec: {poolRef: {name: other}, rules: [{matches: [{model: {value: theirs}}], targets: [{modelRewrite: a}]}]}
`
)

// A naming rig has two pickers, which must say the same of each request.
type namingRig struct {
	*kubeRig
	second *gateway
}

// name is the model that a request gets; "404" when there is none.
func (k *namingRig) name(t *testing.T, g *gateway, asked, id string) string {
	t.Helper()
	r := g.pick(t.Context(), &call{id: id, body: completion(asked, 3, false)})
	if r.err == nil && r.status == http.StatusNotFound {
		return "404"
	}
	var body struct{ Model string }
	if err := json.Unmarshal(r.body, &body); r.err != nil || err != nil {
		t.Errorf("%s: %v, %v: status %d %s", asked, r.err, err, r.status, r.answer.body)
	}
	return body.Model
}

// named waits until both pickers know what a name stands for.
func (k *namingRig) named(t *testing.T, asked, want string) {
	t.Helper()
	for _, g := range []*gateway{k.gateway, k.second} {
		until(t, fmt.Sprintf("%s is %s", asked, want), func() bool { return k.name(t, g, asked, "") == want })
	}
}

// TestKubeNames lets resources say what the names of models stand for.
func TestKubeNames(t *testing.T) {
	k := &namingRig{kubeRig: buildKube(t, cluster.Start(t), 2, 1)}
	k.pod("one", 0)
	k.pod("two", 1)
	k.start()
	k.second, k.picker = k.gateway, nil
	k.start()
	k.settle(t)

	k.named(t, "gpt", "404")
	k.cluster.Apply(generic) // the oldest, and last in precedence
	k.named(t, "gpt", "fallback")
	k.cluster.Delete(cluster.Ref{APIVersion: "inference.networking.x-k8s.io/v1alpha2", Kind: "InferenceModelRewrite", Name: "generic"})
	k.named(t, "gpt", "404")
	k.cluster.Apply(rewrites + "---" + legacy + "---" + strange)
	k.named(t, "gpt", model)
	k.named(t, "theirs", "404")
	k.named(t, model, model)

	t.Run("the client's name comes back", k.keepsName)
	t.Run("weights", k.splits)
	t.Run("conflicts", k.conflicts)
	t.Run("a rule for all names", func(t *testing.T) {
		k.cluster.Apply(generic)
		k.named(t, "unheard-of", "fallback")
		k.named(t, "gpt", model)
	})
}

func (k *namingRig) keepsName(t *testing.T) {
	r := k.gateway.send(t.Context(), &call{body: completion("gpt", 3, false)})
	if r.err != nil || r.status != http.StatusOK {
		t.Fatalf("status %d, error %v: %s", r.status, r.err, r.answer.body)
	}
	if !bytes.Contains(r.answer.body, []byte(`"model":"gpt"`)) || bytes.Contains(r.answer.body, []byte(model)) {
		t.Errorf("the client asked for gpt and got %s", r.answer.body)
	}
}

// splits compares the shares of 10,000 requests with the weights.
func (k *namingRig) splits(t *testing.T) {
	const requests = 10_000
	rng := rand.New(rand.NewPCG(8, 1))
	ids := make([]string, requests)
	for i := range ids {
		ids[i] = fmt.Sprintf("%016x-%016x", rng.Uint64(), rng.Uint64())
	}
	for asked, weights := range map[string]map[string]float64{
		"split":  {"a": 25, "b": 75},
		"legacy": {"p": 10, "q": 20, "r": 70},
	} {
		names := k.names(t, k.gateway, asked, ids)
		shares := map[string]float64{}
		for _, name := range names {
			shares[name] += 100. / requests
		}
		t.Logf("%s: %v", asked, shares)
		for name, share := range shares {
			if math.Abs(share-weights[name]) > 1 {
				t.Errorf("%s: %.2f %% of the requests got %s, want %v %%", asked, share, name, weights[name])
			}
		}
		const again = 500
		for i, name := range k.names(t, k.second, asked, ids[:again]) {
			if name != names[i] {
				t.Fatalf("%s: one picker says %s of the request %s, another %s", asked, names[i], ids[i], name)
			}
		}
	}
}

// names are what the requests with these IDs get.
func (k *namingRig) names(t *testing.T, g *gateway, asked string, ids []string) []string {
	t.Helper()
	names := make([]string, len(ids))
	const clients = 8
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for i := client; i < len(ids); i += clients {
				names[i] = k.name(t, g, asked, ids[i])
			}
		})
	}
	all.Wait()
	return names
}

// conflicts lets a younger resource claim a name that is taken.
func (k *namingRig) conflicts(t *testing.T) {
	created := time.Now()
	for time.Now().Unix() == created.Unix() { // resources are as old as the second says
		time.Sleep(10 * time.Millisecond)
	}
	// By its name it would come first.
	k.cluster.Apply(strings.NewReplacer("name: rewrites", "name: a-younger", "base-model", "intruder", "split", "fresh").Replace(rewrites))
	until(t, "the other rule of the younger resource counts", func() bool {
		got := k.name(t, k.gateway, "fresh", "")
		return got == "a" || got == "b"
	})
	k.named(t, "gpt", model)
	for loser, winner := range map[string]string{
		"InferenceModelRewrite " + k.cluster.Namespace + "/a-younger rule 1": "InferenceModelRewrite " + k.cluster.Namespace + "/rewrites rule 1",
		"InferenceModel " + k.cluster.Namespace + "/superseded":              "InferenceModelRewrite " + k.cluster.Namespace + "/rewrites rule 2",
	} {
		until(t, fmt.Sprintf("the log says that %s gives way to %s", loser, winner), func() bool {
			for line := range strings.Lines(k.picker.output()) {
				if strings.Contains(line, loser) && strings.Contains(line, winner) {
					return true
				}
			}
			return false
		})
	}
	k.cluster.Delete(cluster.Ref{APIVersion: "llm-d.ai/v1alpha2", Kind: "InferenceModelRewrite", Name: "rewrites"})
	k.named(t, "gpt", "intruder")
	k.named(t, "split", "never")
	k.cluster.Apply(rewrites) // now the younger one
	k.cluster.Delete(cluster.Ref{APIVersion: "inference.networking.x-k8s.io/v1alpha2", Kind: "InferenceModel", Name: "legacy"})
	k.named(t, "legacy", "404")
	k.named(t, "gpt", "intruder")
	k.cluster.Delete(cluster.Ref{APIVersion: "llm-d.ai/v1alpha2", Kind: "InferenceModelRewrite", Name: "a-younger"})
	k.named(t, "gpt", model)
}
