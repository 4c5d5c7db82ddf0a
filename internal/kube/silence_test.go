package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// Silence is what there is no news of: all, or what alone can't be read. What may not
// be read is another matter.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name, refused string
		status        int
		silent        bool
		of            string
	}{
		{"nothing", "", 0, false, ""},
		{"the API server", "*", 503, true, ""},
		{"pods", kubetest.Pods, 500, true, `pods in namespace "serving"`},
		{"forbidden", kubetest.Pods, 403, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				began := time.Now()
				if c.refused != "" {
					f.Refuse(c.refused, c.status)
				}
				time.Sleep(2*time.Minute + 10*time.Second)
				since, of, silent := w.Silence()
				if silent != c.silent || of != c.of || silent && (since.Before(began) || since.Sub(began) > 20*time.Second) {
					t.Errorf("silent %t of %q since %s, want %t of %q since %s\n%s", silent, of, since, c.silent, c.of, began, w.log.String())
				}
				if c.refused != "" {
					f.Refuse(c.refused, 0)
				}
				w.await("news", func(*State) bool { _, _, silent := w.Silence(); return !silent })
			})
		})
	}
	t.Run("several lists", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *kubetest.Server) {
			f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
			f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
			f.Install(kubetest.Models)
			w := watchPools(t, f, "chat")
			w.endpoints("a@10.0.0.1:8000")
			f.Refuse(kubetest.Pods, 500)
			f.Refuse(kubetest.Models, 500)
			w.await("two", func(*State) bool { _, of, _ := w.Silence(); return strings.HasSuffix(of, " and 1 more") })
		})
	})
}
