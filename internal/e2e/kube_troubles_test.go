package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// TestKubeTroubles lets a pod and a rule say what can't be followed. With the rights of
// `eppctl manifests` the picker tells it at the objects, and to `eppctl pools`.
func TestKubeTroubles(t *testing.T) {
	c := cluster.Start(t)
	k := buildKube(t, c, 2, 1)
	c.Apply(rewrites + "---" + legacy)
	k.pod("one", 0)
	c.Pod(cluster.Pod{Name: "two", IP: ip(1), Labels: map[string]string{"app": "engine"}, Annotations: map[string]string{"llm-d.ai/active-ports": "http"}})
	k.start()
	told := func(reason, kind, name, words string) func() bool {
		return func() bool {
			var events corev1.EventList
			c.Get(cluster.Ref{APIVersion: "v1", Kind: "Event"}, &events)
			for i := range events.Items {
				e := &events.Items[i]
				if of := e.InvolvedObject; e.Reason == reason && of.Kind == kind && of.Name == name && of.UID != "" && strings.Contains(e.Message, words) {
					return true
				}
			}
			return false
		}
	}
	until(t, "the pool has an event", told("InvalidPods", "InferencePool", poolName, `pod two: annotation llm-d.ai/active-ports "http": "http" is no port`))
	until(t, "the rule that loses has an event", told("NameConflict", "InferenceModel", "superseded", `does not count for the model "split"`))

	_, others, _ := strings.Cut(fmt.Sprintf(cliObjects, "create, get"), "---") // the pool is there
	c.Apply(others)
	l := &laptop{t: t, cluster: c, kubeconfig: c.Kubeconfig(c.Token("viewer"))}
	l.replica("chat-epp-1", "eppctl", k.picker)
	l.says([]string{"pools", "-n", c.Namespace}, "degraded: pod two: annotation llm-d.ai/active-ports")
	c.Delete(cluster.Ref{APIVersion: "v1", Kind: "Pod", Name: "two"})
	until(t, "the pool is well", func() bool {
		out, _, _ := l.eppctl("pools", "-n", c.Namespace, "--no-headers")
		return strings.HasSuffix(strings.TrimSpace(out), "  ok")
	})
}

// TestKubeListsInPages has more pods than fit a page, of a server that is not asked to
// stream them.
func TestKubeListsInPages(t *testing.T) {
	const pods = 260
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	c := cluster.Start(t)
	k := buildKube(t, c, 1, 1)
	for i := range pods {
		c.Pod(cluster.Pod{Name: fmt.Sprintf("engine-%03d", i), IP: ip(i), Labels: map[string]string{"app": "engine"}})
	}
	k.begin(c.Token(poolName + "-epp"))
	k.picker.await()
	known := func() string {
		doc, err := k.picker.admin.Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(doc.Config.(map[string]any)["kube"].(map[string]any)["pools"])
	}
	if got := known(); !strings.Contains(got, fmt.Sprint("pods:", pods)) {
		t.Errorf("of %d pods it knows %s", pods, got)
	}
	c.Delete(cluster.Ref{APIVersion: "v1", Kind: "Pod", Name: "engine-100"})
	until(t, "the watch goes on from the last page", func() bool { return strings.Contains(known(), fmt.Sprint("pods:", pods-1)) })
}

// TestKubeSilence kills the API server: `eppctl top` says so at the top, since when, and
// on how many pods the picker routes.
func TestKubeSilence(t *testing.T) {
	c := cluster.StartOwn(t, cluster.PoolV1)
	k := buildKube(t, c, 2, 1)
	k.pod("one", 0)
	k.pod("two", 1)
	k.start()
	l := &laptop{t: t, cluster: c, kubeconfig: "/dev/null"}
	once := func() string {
		out, _, _ := l.eppctl("top", "--once", "--server", k.picker.at.Admin)
		return out
	}
	if out := once(); strings.Contains(out, "cluster:") {
		t.Errorf("it is there, and top says\n%s", out)
	}
	c.KillAPIServer()
	until(t, "top says that the API server is away", func() bool {
		out := once()
		return strings.Contains(out, "cluster: API server away for ") && strings.Contains(out, "routing on the last known 2 pods")
	})
	c.StartAPIServer()
	until(t, "top says so no more", func() bool { return !strings.Contains(once(), "cluster:") })
}
