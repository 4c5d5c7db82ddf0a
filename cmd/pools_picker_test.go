package cmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// fares answers as a picker that says of its cluster what is given, in JSON.
func fares(words string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Eppctl-Api", admin.APIVersion)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/config" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"apiVersion": %q, "kind": "Config", "config": {"kube": %s}}`, admin.APIVersion, words)
	}
}

// What the picker says of its cluster is in the health of its pool, whatever the API
// server itself tells.
func TestPoolsTellThePickersTroubles(t *testing.T) {
	const (
		well     = `{"problems": [], "troubles": []}`
		mismatch = `{"problems": [], "troubles": [{"pool": "serving/chat", "reason": "PortMismatch", "note": "all refuse connections", "since": "2026-11-01T10:00:00Z"}]}`
		other    = `{"troubles": [{"pool": "serving/code", "reason": "PortMismatch", "note": "all refuse connections", "since": "2026-11-01T10:00:00Z"}]}`
		invalid  = `{"troubles": [{"pool": "serving/chat", "reason": "InvalidPods", "note": "pod a: x\u001b[31m", "since": "2026-11-01T10:00:00Z"}]}`
		away     = `{"problems": [{"what": "pods in namespace \"serving\"", "reason": "connection refused", "since": "2026-11-01T10:00:05Z", "forbidden": false},
			{"what": "inferencepools", "reason": "connection refused", "since": "2026-11-01T10:00:00Z", "forbidden": false}]}`
		forbidden = `{"problems": [{"what": "models", "reason": "may not list", "since": "2026-11-01T10:00:00Z", "forbidden": true}]}`
	)
	for _, c := range []struct {
		name     string
		words    []string // of each replica; "" = it does not answer
		health   string
		why      []string
		troubles int
	}{
		{"well", []string{well}, healthOK, nil, 0},
		{"no cluster", []string{"null"}, healthOK, nil, 0},
		{"a port mismatch", []string{mismatch}, healthDown, []string{"all refuse connections"}, 1},
		{"of another pool", []string{other}, healthOK, nil, 0},
		{"a pod that is wrong", []string{invalid}, healthDegraded, []string{"pod a: x"}, 1},
		{
			"the API server is away",
			[]string{away},
			healthDegraded,
			[]string{"no news from the API server since 2026-11-01T10:00:00Z of inferencepools and 1 more, the last known pods stand: connection refused"},
			1,
		},
		{"what may not be read is told otherwise", []string{forbidden}, healthOK, nil, 0},
		{"the same of two replicas", []string{mismatch, mismatch}, healthDown, []string{"all refuse connections"}, 1},
		{"of one of two replicas", []string{well, mismatch}, healthDown, []string{"epp-1: all refuse connections"}, 1},
		{"a replica that does not answer", []string{mismatch, ""}, healthDown, []string{"epp-0: all refuse connections", "the picker was not asked how it fares: epp-1: "}, 1},
		{"none that answers", []string{""}, healthUnknown, []string{"the picker was not asked how it fares: epp-0: "}, 0},
		{"nonsense", []string{`["x"]`}, healthUnknown, []string{"the picker was not asked how it fares: "}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := kubetest.New(t)
			api.Put(kubetest.Pools, kubetest.PickedBy(kubetest.Pool("chat", "vllm", 8000), "chat-epp"))
			api.Put(kubetest.Services, kubetest.Service("chat-epp", "epp"))
			api.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
			for i, words := range c.words {
				name := fmt.Sprint("epp-", i)
				api.Put(kubetest.Pods, kubetest.Pod(name, "epp", "10.0.1.1", kubetest.Image("eppctl")))
				if words != "" {
					server := httptest.NewServer(fares(words))
					t.Cleanup(server.Close)
					api.Forward(name, 9091, server.Listener.Addr().String())
				}
			}
			item := onlyPool(t, configWith(t, api.URL, "{}", ""))
			if item.Health != c.health || len(item.Why) != len(c.why) || item.Asked != !strings.Contains(fmt.Sprint(c.why), "was not asked") || len(item.Troubles) != c.troubles {
				t.Errorf("got %+v", item)
			}
			for i, why := range item.Why {
				if i < len(c.why) && !strings.HasPrefix(why, c.why[i]) {
					t.Errorf("it says %q, want %q", why, c.why[i])
				}
			}
		})
	}
}

// onlyPool is what the command tells of the only pool; its table is printable.
func onlyPool(t *testing.T, config string) poolItem {
	t.Helper()
	s, out, errOut := cli.Test()
	if status := run(t.Context(), s, []string{"pools", "--kubeconfig", config, "-o", "json"}); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	var list poolList
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v in %s", err, out)
	}
	s, out, errOut = cli.Test()
	if status := run(t.Context(), s, []string{"pools", "--kubeconfig", config}); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), list.Items[0].Health) {
		t.Errorf("the table is %q", out)
	}
	return list.Items[0]
}

// A picker of llm-d has nothing to ask, and one that nobody may forward to is not known
// to be well.
func TestPoolsWhosePickerIsNotAsked(t *testing.T) {
	for _, c := range []struct{ name, image, health, why string }{
		{"llm-d", "ghcr.io/llm-d/llm-d-inference-scheduler:v0.10.0", healthOK, ""},
		{"no right to forward", "eppctl", healthUnknown, "is forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := kubetest.New(t)
			api.Put(kubetest.Pools, kubetest.PickedBy(kubetest.Pool("chat", "vllm", 8000), "chat-epp"))
			api.Put(kubetest.Services, kubetest.Service("chat-epp", "epp"))
			api.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
			api.Put(kubetest.Pods, kubetest.Pod("epp-0", "epp", "10.0.1.1", kubetest.Image(c.image)))
			refusing(api, http.StatusForbidden, "/portforward")
			item := onlyPool(t, configWith(t, api.URL, "{}", ""))
			if item.Health != c.health || !strings.Contains(strings.Join(item.Why, "; "), c.why) || item.Asked {
				t.Errorf("got %+v", item)
			}
		})
	}
}

// The same words of several replicas are one trouble, since the first.
func TestTroublesOfReplicasAreMerged(t *testing.T) {
	var to []poolTrouble
	for i, at := range []string{"2026-11-01T10:00:05Z", "2026-11-01T10:00:00Z"} {
		var words pickerWords
		text := fmt.Sprintf(`{"kube": {"troubles": [{"pool": "a/b", "reason": "r", "note": "n", "since": %q}]}}`, at)
		if err := json.Unmarshal([]byte(text), &words); err != nil {
			t.Fatal(err)
		}
		to = words.add(to, "a/b", fmt.Sprint("epp-", i))
	}
	if len(to) != 1 || !slices.Equal(to[0].Replicas, []string{"epp-0", "epp-1"}) || to[0].Since.Second() != 0 {
		t.Errorf("got %+v", to)
	}
}
