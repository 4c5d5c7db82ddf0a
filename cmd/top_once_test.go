package cmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

const ourImage = "ghcr.io/eppctl/eppctl:v0.8.0"

// servingCluster has a pool chat whose picker's pods are such; it returns the API server
// and its kubeconfig.
func servingCluster(t *testing.T, pods ...kubetest.Doc) (*kubetest.Server, string) {
	t.Helper()
	api := kubetest.New(t)
	api.Put(kubetest.Pools, kubetest.PickedBy(kubetest.Pool("chat", "engine", 8000), "chat-epp"))
	api.Install(kubetest.OldPools, kubetest.Pods)
	api.Put(kubetest.Services, kubetest.Service("chat-epp", "chat-epp"))
	for _, pod := range pods {
		api.Put(kubetest.Pods, pod)
	}
	return api, kubeconfig(t, api.URL)
}

func replicaPod(name string, edits ...kubetest.Edit) kubetest.Doc {
	return kubetest.Pod(name, "chat-epp", "10.0.0.1", append([]kubetest.Edit{kubetest.Image(ourImage)}, edits...)...)
}

// adminBehind is an admin API behind a pod's port that answers with documents by their path.
func adminBehind(t *testing.T, api *kubetest.Server, pod string, documents map[string]any) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc := documents[r.URL.Path]
		if doc == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Eppctl-Api", admin.APIVersion)
		_ = json.NewEncoder(w).Encode(doc)
	}))
	t.Cleanup(server.Close)
	api.Forward(pod, 9091, server.Listener.Addr().String())
}

// snapshotOf is of a picker that gave so many requests to one pod.
func snapshotOf(picks int) *explain.Snapshot {
	return &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), TimeScale: 1,
		Source: explain.SourcePicker, Verdict: explain.FleetVerdict{Code: explain.VerdictOK, Message: "all is well"},
		Windows: []explain.WindowRates{{Seconds: 60, Decisions: picks}},
		Pods: []explain.PodSnapshot{
			{Pod: "vllm-0", State: explain.PodOK, Queue: explain.QueueSnapshot{InFlight: picks}}, {Pod: "vllm-1", State: explain.PodOK},
		},
	}
}

// One look asks all replicas, says of whom each figure is, and names who is silent.
func TestTopOnceAsksAllReplicas(t *testing.T) {
	api, config := servingCluster(t, replicaPod("epp-0"), replicaPod("epp-1"), replicaPod("epp-2"), replicaPod("epp-3", kubetest.Waiting("CrashLoopBackOff")))
	adminBehind(t, api, "epp-0", map[string]any{"/v1/snapshot": snapshotOf(3)})
	adminBehind(t, api, "epp-2", map[string]any{"/v1/snapshot": snapshotOf(5)})
	look := func(args ...string) string {
		t.Helper()
		s, out, complaints := cli.Test()
		status := run(t.Context(), s, append([]string{"top", "--kubeconfig", config, "-n", "serving", "--once"}, args...))
		if status != cli.ExitUnreachable {
			t.Errorf("status %d, want %d", status, cli.ExitUnreachable)
		}
		for _, want := range []string{
			"pickers epp-0, epp-1, epp-2 of pool serving/chat", "replica epp-3 is not asked: it does not run (CrashLoopBackOff)",
			"1 of 3 replicas can't be asked: epp-1: ", "connection refused", "kubectl describe pod epp-1",
		} {
			if !strings.Contains(complaints.String(), want) {
				t.Errorf("standard error lacks %q:\n%s", want, complaints)
			}
		}
		return out.String()
	}
	table := look()
	for _, want := range []string{"  epp-0  ok: all is well", "  epp-1  router-unreachable: ", "  epp-2  ok: all is well", "vllm-0  epp-0    OK", "vllm-0  epp-2    OK"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	var list snapshotList
	if err := json.Unmarshal([]byte(look("-o", "json")), &list); err != nil || list.Kind != kindSnapshotList || len(list.Items) != 3 {
		t.Fatalf("list %+v, %v", list, err)
	}
	for i, want := range []string{"epp-0 ok 3", "epp-1 router-unreachable 0", "epp-2 ok 5"} {
		s, picks := list.Items[i], 0
		for _, w := range s.Windows {
			picks += w.Decisions
		}
		if got := fmt.Sprint(s.Router.Replica, " ", s.Verdict.Code, " ", picks); got != want {
			t.Errorf("item %d is %q, want %q", i, got, want)
		}
	}
	lines := strings.Split(strings.TrimSpace(look("-o", "jsonl")), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], `"inFlight":null`) || !strings.Contains(lines[2], `"replica":"epp-2"`) {
		t.Errorf("lines %q", lines)
	}
}

// With a single replica the document stays what it is elsewhere.
func TestTopOnceOfOneReplica(t *testing.T) {
	api, config := servingCluster(t, replicaPod("epp-0"))
	adminBehind(t, api, "epp-0", map[string]any{"/v1/snapshot": snapshotOf(3), "/v1/stream": map[string]any{"snapshot": snapshotOf(3)}})
	out, complaints, status := runTest(t, "top", "--kubeconfig", config, "-n", "serving", "-o", "json")
	var snap explain.Snapshot
	if err := json.Unmarshal([]byte(out), &snap); err != nil || status != cli.ExitOK || snap.Kind != explain.KindSnapshot {
		t.Errorf("status %d, %v, %s%s", status, err, out, complaints)
	}
}
