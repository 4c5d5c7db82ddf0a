package serve

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/logtest"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/pool"
)

// eventOf is the text of the event of a reason about an object; "" when there is none.
func eventOf(f *kubetest.Server, reason, kind, name string) string {
	for _, e := range f.Objects(kubetest.Events) {
		of, _ := e["involvedObject"].(map[string]any)
		if e["reason"] == reason && of["kind"] == kind && of["name"] == name {
			return fmt.Sprint(e["message"])
		}
	}
	return ""
}

// A pod that says nonsense is told of while others are ready: in the log once, by an
// Event, in /v1/config and on the metrics page; until it says something else.
func TestNonsenseIsToldWhileOthersAreReady(t *testing.T) {
	engines, f := start(t, serveOptions(2)), kubetest.New(t)
	pods, _ := engines.enginePool(f)
	var log logtest.Log
	opts := serveOptions(0)
	opts.Kube, opts.Logger = inCluster(t, f, "chat"), slog.New(slog.NewTextHandler(&log, nil))
	name := fmt.Sprint(kubetest.Meta(pods[1])["name"])
	f.Put(kubetest.Pods, edited(pods, name, kubetest.Annotated("llm-d.ai/active-ports", "http"), kubetest.Annotated("eppctl.dev/engine", "vlm")))
	r := start(t, opts)
	want := "pod " + name + `: annotation llm-d.ai/active-ports "http": "http" is no port`
	r.until("there is an event", func() bool { return strings.HasPrefix(eventOf(f, reasonPods, "InferencePool", "chat"), want) })
	_, shown := r.fetch("http://" + r.at.Admin + "/v1/config")
	for _, part := range []string{`"pool": "serving/chat"`, `"reason": "InvalidPods"`, `is no port`} {
		if !strings.Contains(shown, part) {
			t.Errorf("/v1/config lacks %s:\n%s", part, shown)
		}
	}
	if got := r.ours("epp_kube_troubles"); got != "1" {
		t.Errorf("epp_kube_troubles is %s", got)
	}
	if n := len(r.pods()); n != 1 {
		t.Errorf("%d endpoints, want the one of the other pod", n)
	}
	f.Put(kubetest.Pods, edited(pods, name, kubetest.Annotated("eppctl.dev/engine", "vlm")))
	r.until("it is an endpoint, and the other nonsense is told", func() bool {
		_, shown := r.fetch("http://" + r.at.Admin + "/v1/config")
		return len(r.pods()) == 2 && strings.Contains(shown, "annotations eppctl.dev/… are not followed")
	})
	f.Put(kubetest.Pods, edited(pods, name))
	r.until("there is no trouble", func() bool { return r.ours("epp_kube_troubles") == "0" })
	if n := strings.Count(log.String(), "can't be followed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// Who owns a resource that loses is told at the resource.
func TestConflictsAreEvents(t *testing.T) {
	engines, f := start(t, serveOptions(1)), kubetest.New(t)
	engines.enginePool(f)
	older, loser := kubetest.Model("first", "food", "chat"), kubetest.Model("second", "food", "chat")
	kubetest.Meta(older)["creationTimestamp"], kubetest.Meta(loser)["creationTimestamp"] = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	f.Put(kubetest.Models, older)
	f.Put(kubetest.Models, loser)
	opts := serveOptions(0)
	opts.Kube = inCluster(t, f, "chat")
	r := start(t, opts)
	r.until("there is an event", func() bool {
		return strings.Contains(eventOf(f, reasonName, "InferenceModel", "second"), `does not count for the model "food": InferenceModel serving/first is older`)
	})
	if got := eventOf(f, reasonName, "InferenceModel", "first"); got != "" {
		t.Errorf("the winner is told %q", got)
	}
	for _, e := range f.Objects(kubetest.Events) {
		if of := e["involvedObject"].(map[string]any); of["uid"] != "uid-second" || of["apiVersion"] != "inference.networking.x-k8s.io/v1alpha2" {
			t.Errorf("the event is about %v", of)
		}
	}
}

func TestCrowdIsTold(t *testing.T) {
	if got := tooMany(pool.MaxEndpoints); got != "" {
		t.Errorf("all are served, and it says %q", got)
	}
	if got := tooMany(pool.MaxEndpoints + 7); !strings.HasPrefix(got, "there are 4103 endpoints, and the last 7 by name get nothing") {
		t.Errorf("got %q", got)
	}
}

// Of very many conflicts a few resources are told, each once with all that it lost.
func TestManyConflicts(t *testing.T) {
	s := new(kube.State)
	var of []naming.Conflict
	for i := range 3 * maxConflicts {
		m := new(kube.InferenceModel)
		m.Namespace, m.Name = "serving", fmt.Sprint("m", i)
		s.Models = append(s.Models, m)
		for range 3 {
			of = append(of, naming.Conflict{Model: "food", Loser: "InferenceModel serving/" + m.Name, Source: "InferenceModel serving/" + m.Name, Why: "so"})
		}
	}
	list := conflictsOf(s, append(of, naming.Conflict{Source: "InferenceModel serving/gone"}))
	if len(list) != maxConflicts {
		t.Fatalf("%d are told", len(list))
	}
	if got, want := list[0].note, `InferenceModel serving/m0 does not count for the model "food": so; and 2 more`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNotesOfFaults(t *testing.T) {
	faults := func(pods ...string) (list []kube.Fault) {
		for _, p := range pods {
			list = append(list, kube.Fault{Pod: p, What: "x"})
		}
		return list
	}
	for _, c := range []struct {
		name        string
		p           kube.PoolState
		odd         []kube.Fault
		ports, pods string
	}{
		{"nothing", kube.PoolState{}, nil, "", ""},
		{"the pool", kube.PoolState{Faults: faults("")}, nil, "x", ""},
		{"pods", kube.PoolState{Faults: faults("a", "b")}, nil, "", "pod a: x; pod b: x"},
		{"many pods", kube.PoolState{Faults: faults("", "a", "b", "c", "d"), MoreFaults: 7}, faults("e"), "x", "pod a: x; pod b: x; pod c: x; and 9 more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ports, pods := faultNotes(c.p, c.odd); ports != c.ports || pods != c.pods {
				t.Errorf("got %q and %q, want %q and %q", ports, pods, c.ports, c.pods)
			}
		})
	}
}

// That the API server is away is in the picture that top draws, for as long as it is.
func TestSnapshotTellsOfSilence(t *testing.T) {
	engines, f := start(t, serveOptions(2)), kubetest.New(t)
	engines.enginePool(f)
	opts := serveOptions(0)
	opts.Kube = inCluster(t, f, "chat")
	r := start(t, opts)
	silence := func() *explain.Silence {
		s, err := r.admin.Snapshot(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s.Router.Silence
	}
	if s := silence(); s != nil {
		t.Errorf("it is well, and silent: %+v", s)
	}
	f.Refuse("*", 503)
	r.until("the API server is away", func() bool { s := silence(); return s != nil && s.Of == "" && s.Pods == 2 })
	f.Refuse("*", 0)
	r.until("it is back", func() bool { return silence() == nil })
}
