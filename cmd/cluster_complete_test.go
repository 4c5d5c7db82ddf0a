package cmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// recentOf are the decisions that a replica lists.
func recentOf(second int, ids ...string) *admin.DecisionList {
	list := new(admin.DecisionList)
	for i, id := range ids {
		list.Items = append(list.Items, &explain.Record{RequestID: id, Time: time.Date(2026, 11, 30, 12, 0, second+i, 0, time.UTC)})
	}
	return list
}

// What is completed are names of the cluster and of all replicas that answer.
func TestCompletionOfACluster(t *testing.T) {
	api, config := servingCluster(t, replicaPod("epp-0"), replicaPod("epp-1"), replicaPod("epp-2"))
	api.Put(strings.Replace(kubetest.Pools, "/namespaces/serving", "", 1), kubetest.Pool("chat", "engine", 8000))
	api.Put("/api/v1/namespaces", kubetest.Doc{"kind": "Namespace", "apiVersion": "v1", "metadata": kubetest.Doc{"name": "serving"}})
	for pod, list := range map[string]*admin.DecisionList{"epp-0": recentOf(5, "of-zero"), "epp-2": recentOf(0, "of-two", "of-two-later")} {
		adminBehind(t, api, pod, map[string]any{
			"/v1/decisions": list, "/v1/pods": &admin.PodList{Items: []admin.Pod{{Pod: "vllm-0"}, {Pod: "vllm-1\x1b"}}},
		})
	}
	for line, want := range map[string]string{
		"explain --context|":            "lab other :4",
		"explain --namespace|":          "serving :4",
		"explain -n|serving|--pool|":    "chat :4",
		"explain --pool|":               "serving/chat :4",
		"pools -n|":                     "serving :4",
		"explain -n|serving|":           "latest of-zero of-two-later of-two :36",
		"decisions -n|serving|--pod|":   `vllm-0 vllm-1\x1b :4`,
		"explain -n|nowhere|":           "latest :36",
		"explain --context|nowhere|x":   "latest :36",
		"drain -n|serving|":             `vllm-0 vllm-1\x1b :4`,
		"top --context|nowhere|--pool|": ":4",
	} {
		words := strings.Split(strings.Replace(line, " ", "|", 1), "|")
		args := append([]string{"__complete", words[0], "--kubeconfig", config}, words[1:]...)
		out, complaints, _ := runTest(t, args...)
		var offered []string
		for text := range strings.Lines(out) {
			offer, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
			offered = append(offered, offer)
		}
		if got := strings.Join(offered, " "); got != want {
			t.Errorf("%s: offered %q, want %q", line, got, want)
		}
		if lines := strings.Count(complaints, "\n"); lines > 1 { // cobra tells the directive
			t.Errorf("%s: standard error %q", line, complaints)
		}
	}
}

// A shell is not held up, neither by an API server nor by a program that gets
// credentials.
func TestCompletionEndsInTime(t *testing.T) {
	running := filepath.Join(t.TempDir(), "running") // as long as the test
	if err := os.WriteFile(running, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	api := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	plugin := configWith(t, api.URL, fmt.Sprintf(`{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", %q], "interactiveMode": "Never"}}`,
		"while [ -e "+running+" ]; do sleep 0.1; done"), "")
	deaf, config := servingCluster(t, replicaPod("epp-0"))
	deaf.Instead(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	for name, args := range map[string][]string{
		"names behind a deaf API server": {"explain", "--kubeconfig", config, "--pool", ""},
		"IDs behind a deaf API server":   {"explain", "--kubeconfig", config, "--context", "lab", ""},
		"names behind a plugin":          {"explain", "--kubeconfig", plugin, "--insecure-skip-tls-verify", "--pool", ""},
		"IDs behind a plugin":            {"explain", "--kubeconfig", plugin, "--insecure-skip-tls-verify", ""},
		"pods behind a plugin":           {"drain", "--kubeconfig", plugin, "--insecure-skip-tls-verify", ""},
	} {
		ended := make(chan int, 1)
		go func() {
			s, _, _ := cli.Test()
			ended <- run(t.Context(), s, append([]string{"__complete"}, args...))
		}()
		select {
		case status := <-ended:
			if status != cli.ExitOK {
				t.Errorf("%s: status %d", name, status)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it does not end", name)
		}
	}
}
