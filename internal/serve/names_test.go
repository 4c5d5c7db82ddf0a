package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/kube"
)

// What a cluster's resources say of names is in force at once, and shown; when they
// go, so does that.
func TestNamesOfACluster(t *testing.T) {
	r := start(t, serveOptions(2))
	if err := r.server.registerNames(); err != nil {
		t.Fatal(err)
	}
	take := r.server.takeNames()
	model := func(name, created string) *kube.InferenceModel {
		m := new(kube.InferenceModel)
		text := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns","creationTimestamp":%q},
			"spec":{"modelName":"support","poolRef":{"name":"p"},"targetModels":[{"name":%q}]}}`, name, created, r.model)
		if err := json.Unmarshal([]byte(text), m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	ask := func(id string) int {
		body := r.completion("once", 1)
		body["model"] = "support"
		return r.send(r.ctx, id, completionsPath, body).status
	}
	pools := []kube.PoolState{{Name: kube.Name{Namespace: "ns", Name: "p"}}}
	for i, c := range []struct {
		models                   []*kube.InferenceModel
		status, names, conflicts int
	}{
		{nil, 404, 0, 0},
		// The simulated pods are in no pool.
		{[]*kube.InferenceModel{model("a", "2026-11-01T00:00:00Z")}, 503, 1, 0},
		{[]*kube.InferenceModel{model("a", "2026-11-01T00:00:00Z"), model("b", "2026-11-02T00:00:00Z")}, 503, 1, 1},
		{nil, 404, 0, 0},
	} {
		take(&kube.State{Pools: pools, Models: c.models})
		table := r.server.picker.Names()
		take(&kube.State{Pools: pools, Models: c.models})
		if r.server.picker.Names() != table {
			t.Error("the same resources made another table")
		}
		if got := ask(fmt.Sprint("support-", i)); got != c.status {
			t.Errorf("step %d: status %d, want %d", i, got, c.status)
		}
		if got, want := r.ours("epp_model_names"), fmt.Sprint(c.names); got != want {
			t.Errorf("step %d: %s names, want %s", i, got, want)
		}
		if got, want := r.ours("epp_model_name_conflicts"), fmt.Sprint(c.conflicts); got != want {
			t.Errorf("step %d: %s conflicts, want %s", i, got, want)
		}
		if _, doc := r.fetch("http://" + r.at.Admin + "/v1/names"); strings.Contains(doc, "InferenceModel ns/a") != (c.names > 0) {
			t.Errorf("step %d: the admin API says %s", i, doc)
		}
	}
}
