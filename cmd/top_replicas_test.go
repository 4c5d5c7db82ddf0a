package cmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

const llmdImage = "ghcr.io/llm-d/llm-d-inference-scheduler:v0.10.0"

// The pages of llm-d's picker and of its engines are found anew: those that came are
// among them, those that are gone are not, and they are bounded.
func TestPatrolledPagesFollowThePods(t *testing.T) {
	engine := func(i int) kubetest.Doc { return kubetest.Pod(fmt.Sprintf("vllm-%02d", i), "engine", "10.0.0.9") }
	stock := func(name string) kubetest.Doc {
		return kubetest.Pod(name, "chat-epp", "10.0.0.1", kubetest.Image(llmdImage, "--metrics-port", "9095"))
	}
	api, config := servingCluster(t, stock("epp-0"), engine(0), engine(1))
	s, _, complaints := cli.Test()
	var f topFlags
	f.in.cluster.set = kube.ConnectOptions{Kubeconfig: config, Namespace: "serving"}
	f.in.cluster.requestTimeout = "0"
	src, err := f.openPool(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer src.done()
	see := func(pickers, engines string, left int) {
		t.Helper()
		if err := src.replicas.again(t.Context()); err != nil {
			t.Fatal(err)
		}
		pages, err := src.replicas.patrolled(t.Context())
		var names []string
		for _, e := range pages.Engines {
			names = append(names, e.Name)
		}
		slices.Sort(names)
		if got := strings.Join(pages.Pickers, " "); err != nil || got != pickers {
			t.Errorf("pages of pickers %q, %v, want %q", got, err, pickers)
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(got, engines) || pages.Left != left || left > 0 && len(names) != maxForwards {
			t.Errorf("engines %q and %d more, want %q and %d", got, pages.Left, engines, left)
		}
	}
	see("http://chat-epp:9095/metrics", "vllm-00 vllm-01", 0)
	api.Put(kubetest.Pods, stock("epp-1"))
	api.Put(kubetest.Pods, engine(2))
	api.Drop(kubetest.Pods, "vllm-00")
	see("http://epp-0:9095/metrics http://epp-1:9095/metrics", "vllm-01 vllm-02", 0)
	for i := 3; i < 70; i++ {
		api.Put(kubetest.Pods, engine(i))
	}
	see("http://epp-0:9095/metrics http://epp-1:9095/metrics", "vllm-01 vllm-02 vllm-03", 69-maxForwards)
	if !strings.Contains(complaints.String(), "llm-d's picker epp-0 of pool serving/chat") {
		t.Errorf("standard error %q", complaints)
	}
}
