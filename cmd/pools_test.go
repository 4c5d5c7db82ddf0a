package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/shell"
)

// inferenceV1 begins the paths of InferencePools.
const inferenceV1 = "/apis/inference.networking.k8s.io/v1/"

// apiServer answers with objects by their path, and 404 or a status for others; a
// forward to a pod reaches a picker that has nothing to tell. It returns a kubeconfig in
// which it is the context "lab".
func apiServer(t *testing.T, objects map[string]any, status map[string]int) string {
	t.Helper()
	node, picker := kubetest.New(t), httptest.NewServer(fares("{}"))
	t.Cleanup(picker.Close)
	for _, pod := range []string{"chat-epp-1", "two-epp-1", "two-epp-2"} {
		node.Forward(pod, 9091, picker.Listener.Addr().String())
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			node.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		path := r.URL.Path
		if q := r.URL.Query().Get("labelSelector"); q != "" {
			path += "?" + q
		}
		object := objects[path]
		if code := status[r.URL.Path]; code != 0 || object == nil {
			reason := map[int]string{0: "NotFound", 403: "Forbidden"}[code]
			object = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "no: " + reason, "code": max(code, 404)}
			w.WriteHeader(max(code, http.StatusNotFound))
			if code != 0 {
				object.(map[string]any)["code"] = code
			}
		}
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(server.Close)
	return kubeconfig(t, server.URL)
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "lab", "clusters": [{"name": "lab", "cluster": {"server": %q}}],
		"users": [], "contexts": [{"name": "lab", "context": {"cluster": "lab", "namespace": "prod"}}, {"name": "other", "context": {"cluster": "lab"}}]}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type doc = map[string]any

func poolDoc(namespace, name, service string) doc {
	return doc{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
		"metadata": doc{"namespace": namespace, "name": name, "creationTimestamp": "2026-11-01T10:00:00Z"},
		"spec": doc{
			"selector": doc{"matchLabels": doc{"app": name}}, "targetPorts": []doc{{"number": 8000}, {"number": 8001}},
			"endpointPickerRef": doc{"name": service, "port": doc{"number": 9002}},
		},
	}
}

func podDoc(name, image string, ready bool, args ...string) doc {
	return doc{
		"metadata": doc{"name": name},
		"spec":     doc{"containers": []doc{{"name": "main", "image": image, "args": args}}},
		"status": doc{
			"phase": "Running", "conditions": []doc{{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[ready]}},
			"containerStatuses": []doc{{"name": "main", "state": doc{"running": doc{}}}},
		},
	}
}

func listDoc(kind string, items ...doc) doc {
	api := "v1"
	if kind == "InferencePool" {
		api = "inference.networking.k8s.io/v1"
	}
	return doc{"kind": kind + "List", "apiVersion": api, "items": items}
}

func serviceDoc(name string) doc {
	return doc{"kind": "Service", "apiVersion": "v1", "metadata": doc{"name": name}, "spec": doc{"selector": doc{"epp": name}}}
}

// lab has pools that are well, and pools with what can be wrong.
func lab() map[string]any {
	core := "/api/v1/namespaces/prod/"
	return map[string]any{
		inferenceV1 + "namespaces/prod/inferencepools": listDoc("InferencePool",
			poolDoc("prod", "chat", "chat-epp"), poolDoc("prod", "code", "code-epp"), poolDoc("prod", "lost", "lost-epp"), poolDoc("prod", "two", "two-epp")),
		inferenceV1 + "namespaces/prod/inferencepools/code": poolDoc("prod", "code", "code-epp"),
		core + "services/chat-epp":                          serviceDoc("chat-epp"),
		core + "services/code-epp":                          serviceDoc("code-epp"),
		core + "services/two-epp":                           serviceDoc("two-epp"),
		core + "pods?epp=chat-epp":                          listDoc("Pod", podDoc("chat-epp-1", "ghcr.io/eppctl/eppctl:v0.8.0", true)),
		core + "pods?epp=code-epp": listDoc("Pod",
			podDoc("code-epp-1", "ghcr.io/llm-d/llm-d-inference-scheduler:v0.10.0", true), podDoc("code-epp-2", "ghcr.io/llm-d/llm-d-inference-scheduler:v0.10.0", false)),
		core + "pods?epp=two-epp": listDoc("Pod",
			podDoc("two-epp-1", "eppctl", true, "serve", "--leader-elect"), podDoc("two-epp-2", "eppctl", false, "serve", "--leader-elect")),
		core + "pods?app=chat": listDoc("Pod", podDoc("a", "vllm", true), podDoc("b", "vllm", true)),
		core + "pods?app=code": listDoc("Pod", podDoc("c", "vllm", true), podDoc("d", "vllm", false)),
		core + "pods?app=lost": listDoc("Pod"),
		core + "pods?app=two":  listDoc("Pod", podDoc("e", "vllm", true)),
	}
}

func TestPools(t *testing.T) {
	config := apiServer(t, lab(), nil)
	for name, terminal := range map[string]bool{"pipe": false, "terminal": true} {
		s, out, errOut := cli.Test()
		s.OutIsTerminal, s.Width = terminal, 160
		s.Now = func() time.Time { return time.Date(2026, 11, 4, 10, 0, 0, 0, time.UTC) }
		if status := run(t.Context(), s, []string{"pools", "--kubeconfig", config, "--color", "never"}); status != cli.ExitOK {
			t.Fatalf("%s: status %d: %s", name, status, errOut)
		}
		golden.Equal(t, filepath.Join("..", "testdata", "pools", name+".txt"), out.String())
	}
	s, out, errOut := cli.Test()
	if status := run(t.Context(), s, []string{"pools", "--kubeconfig", config, "-o", "name"}); status != cli.ExitOK ||
		!strings.HasPrefix(out.String(), "inferencepool.inference.networking.k8s.io/chat\n") {
		t.Errorf("names: status %d: %s%s", status, out, errOut)
	}
}

// A trouble is told once while it lasts, and again when it comes again.
func TestPoolsAreWatchedThroughTrouble(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, inferenceV1) {
			http.NotFound(w, r)
			return
		}
		switch asked.Add(1) {
		case 1, 5:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(listDoc("InferencePool"))
		case 9:
			interrupt()
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	s, _, errOut := cli.Test()
	if status := run(ctx, s, []string{"pools", "--watch", "--interval", minInterval.String(), "--kubeconfig", kubeconfig(t, server.URL)}); status != cli.ExitInterrupted {
		t.Errorf("status %d: %s", status, errOut)
	}
	if n := strings.Count(errOut.String(), "trying again"); n != 2 {
		t.Errorf("told %d times: %s", n, errOut)
	}
}

// The document keeps to its schema, also where nothing but the pools may be read: what
// is not known is null.
func TestPoolsWithFewRights(t *testing.T) {
	core := "/api/v1/namespaces/prod/"
	config := apiServer(t, lab(), map[string]int{
		core + "pods": 403, core + "services/chat-epp": 403, core + "services/code-epp": 403, core + "services/two-epp": 403, core + "services/lost-epp": 403,
	})
	s, out, errOut := cli.Test()
	if status := run(t.Context(), s, []string{"pools", "--kubeconfig", config, "-o", "json"}); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	var list poolList
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		if item.Health != healthUnknown || item.Pods != nil || item.Replicas != nil || item.Picker != "unknown" || len(item.Why) != 2 {
			t.Errorf("pool %s: %+v", item.Name, item)
		}
	}
	var value any
	raw, err := os.ReadFile("../docs/schema/PoolList.json")
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &value)
	}
	var schema object
	if err != nil || json.Unmarshal(raw, &schema) != nil {
		t.Fatal(err)
	}
	if wrong := (&schemaChecker{schema}).check(value); len(wrong) > 0 {
		t.Errorf("the document is not as its schema has it: %s", strings.Join(wrong, "\n"))
	}
}

// TestFindingACluster is about the first steps: which cluster, and whether it answers.
func TestFindingACluster(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	config, deaf := apiServer(t, lab(), nil), kubeconfig(t, down.URL)
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // as on a laptop
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no kubeconfig", []string{"pools", "--kubeconfig", "/does/not/exist"}, cli.ExitUsage, []string{"/does/not/exist: no such file", "give --kubeconfig"}},
		{"no such context", []string{"pools", "--kubeconfig", config, "--context", "prod"}, cli.ExitUsage, []string{`there is no context "prod"`, "there are lab, other"}},
		{"no API server", []string{"explain", "latest", "--kubeconfig", deaf}, cli.ExitUnreachable, []string{"does not answer", "kubectl cluster-info --context lab"}},
		{"several pools", []string{"explain", "latest", "--kubeconfig", config}, cli.ExitNotFound, []string{"there are 4", "--pool: prod/chat"}},
		{"no such pool", []string{"decisions", "--kubeconfig", config, "--pool", "chap"}, cli.ExitNotFound, []string{"find InferencePool prod/chap", "did you mean --pool prod/chat?"}},
		{"a name that is none", []string{"top", "--kubeconfig", config, "--pool", "a/b/c"}, cli.ExitUsage, []string{"--pool", "NAMESPACE/NAME"}},
		{"two namespaces", []string{"metrics", "--kubeconfig", config, "-n", "test", "--pool", "prod/chat"}, cli.ExitUsage, []string{"contradict"}},
		{"a pool and an address", []string{"drain", "a", "--pool", "prod/chat", "--server", "127.0.0.1:1"}, cli.ExitUnreachable, []string{"warning: --pool is not followed", "127.0.0.1:1"}},
		{"a pool and an address of a picture", []string{"top", "--once", "--pool", "prod/chat", "--server", "127.0.0.1:1"}, cli.ExitUnreachable, []string{"warning: --pool is not followed"}},
		{"two sources", []string{"decisions", "-f", "x.jsonl", "--pool", "chat"}, cli.ExitUsage, []string{"not from both"}},
		{"a drain of llm-d's", []string{"drain", "a", "--kubeconfig", config, "--pool", "code"}, cli.ExitError, []string{"llm-d's, which has no admin API"}},
		{"a namespace that is none", []string{"pools", "--kubeconfig", config, "-n", "a/../b\x1b"}, cli.ExitUsage, []string{`nothing in a cluster can be called "a/../b\x1b"`}},
		{"a selector that is none", []string{"pools", "--kubeconfig", config, "-l", "!!"}, cli.ExitUsage, []string{"--selector: unable to parse"}},
		{"-A and -n", []string{"pools", "-A", "-n", "prod"}, cli.ExitUsage, []string{"contradict"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _, errOut := cli.Test()
			if status := run(t.Context(), s, test.args); status != test.code {
				t.Errorf("status %d, want %d", status, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(errOut.String(), want) {
					t.Errorf("does not say %q:\n%s", want, errOut)
				}
			}
		})
	}
}

// A command that is suggested asks the same cluster; it holds no token.
func TestRepeatedClusterFlags(t *testing.T) {
	var in poolFlags
	in.register(&cobra.Command{})
	for _, set := range [][2]string{{"context", "lab"}, {"token", "secret"}, {"insecure-skip-tls-verify", "true"}, {"as-group", "a"}, {"as-group", "b"}} {
		if err := in.cluster.flags.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	in.pool = "prod/chat"
	if got := shell.Line(in.flags()...); got != "--pool prod/chat --context lab --insecure-skip-tls-verify=true --as-group a --as-group b" {
		t.Errorf("repeated as %q", got)
	}
}
