package cmd

import (
	"context"
	"encoding/json"
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

// remembering puts the admin API of a replica behind its pod, which knows decisions back
// to a time, and one of them by its ID.
func remembering(t *testing.T, api *kubetest.Server, pod, id string, since time.Time) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Eppctl-Api", admin.APIVersion)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/"+id) || strings.HasSuffix(r.URL.Path, "/latest") {
			rec := &explain.Record{APIVersion: explain.APIVersion, Kind: explain.KindDecision, RequestID: id, DecisionID: "of-" + pod, Time: since.Add(time.Minute)}
			rec.Result.Pod, rec.Result.Index = "vllm-0", -1
			_ = json.NewEncoder(w).Encode(admin.DecisionLookup{Item: rec, Count: 1})
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(admin.Failure{
			Error:    admin.FailureText{Code: admin.CodeNotFound, Message: "no decision recorded for request lost"},
			Coverage: &admin.Coverage{Oldest: &since, Ring: admin.RingCoverage{Decisions: 7, Dropped: 3}},
		})
	}))
	t.Cleanup(server.Close)
	api.Forward(pod, 9091, server.Listener.Addr().String())
}

// Who asks for a decision is told which replica had it, which have not and how far back
// they know, and which could not be asked: then it may be there.
func TestExplainOverReplicas(t *testing.T) {
	api, config := servingCluster(t, replicaPod("epp-0"), replicaPod("epp-1"), replicaPod("epp-2"))
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	remembering(t, api, "epp-0", "of-zero", noon)
	remembering(t, api, "epp-1", "of-one", noon.Add(time.Hour))
	remembering(t, api, "epp-2", "of-two", noon.Add(2*time.Hour))
	says := func(when, id string, status int, words ...string) {
		t.Helper()
		_, complaints, got := runTest(t, "explain", id, "--kubeconfig", config, "-n", "serving")
		if got != status {
			t.Errorf("%s: status %d, want %d", when, got, status)
		}
		for _, want := range words {
			if !strings.Contains(complaints, want) {
				t.Errorf("%s: standard error lacks %q:\n%s", when, want, complaints)
			}
		}
	}
	says("one has it", "of-one", cli.ExitOK, "found at http://epp-1:9091")
	says("the newest of all", "latest", cli.ExitOK, "found at http://epp-2:9091")
	says("none has it", "lost", cli.ExitNotFound, "no decision recorded for request lost by any of 3 pickers",
		"http://epp-0:9091: decisions are known back to 2026-11-30T12:00:00Z: 7 in memory, 3 older ones dropped",
		"http://epp-1:9091: decisions are known back to 2026-11-30T13:00:00Z", "http://epp-2:9091: ")
	api.Forward("epp-1", 9091, "")
	says("one is silent, and another has it", "of-two", cli.ExitOK, "warning: no picker at http://epp-1:9091: ", "found at http://epp-2:9091")
	says("one is silent, and may have it", "of-one", cli.ExitUnreachable, "warning: no picker at http://epp-1:9091: ",
		", as far as 2 of 3 pickers answer", "http://epp-0:9091: decisions are known back to")
}

// lines hands on what is written, a line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l <- strings.TrimSpace(line)
	}
	return len(p), nil
}

// Who follows the logs of llm-d's replicas is told that one of them has ended.
func TestFollowedLogsEnd(t *testing.T) {
	api, config := servingCluster(t, replicaPod("epp-0", kubetest.Image(llmdImage)), replicaPod("epp-1", kubetest.Image(llmdImage)))
	api.Log("epp-0", "")
	api.Log("epp-1", "")
	ctx, cancel := context.WithCancel(t.Context())
	s, _, _ := cli.Test()
	told := make(lines)
	s.Err = told
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, s, []string{"decisions", "--watch", "--kubeconfig", config, "-n", "serving"})
	}()
	want := map[string]bool{}
	for _, pod := range []string{"epp-0", "epp-1"} {
		want["eppctl: warning: the log of "+pod+" has ended; replicas that run are looked for again"] = true
	}
	for patience := time.After(time.Minute); len(want) > 0; {
		select {
		case line := <-told:
			delete(want, line)
		case <-patience:
			t.Fatalf("it is not told: %v", want)
		}
	}
	cancel()
	for {
		select {
		case <-told:
		case <-ended:
			return
		}
	}
}
