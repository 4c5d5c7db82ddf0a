package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// script answers the watches of pods: each is told the events, after those of what is
// there or in their place, then left open for a time and ended.
type script struct {
	open    time.Duration
	inPlace bool
	events  []kubetest.Doc
}

func (s script) answer(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != kubetest.Pods || !isWatch(r) {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	events := s.events
	if !s.inPlace && r.URL.Query().Get("sendInitialEvents") == "true" {
		events = append([]kubetest.Doc{event("ADDED", versioned("2", kubetest.Pod("a", "vllm", "10.0.0.1"))), allTold}, events...)
	}
	for _, e := range events {
		_ = json.NewEncoder(w).Encode(e)
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-time.After(s.open):
	case <-r.Context().Done():
	}
	return true
}

// allTold ends what a watch tells of what is there.
var allTold = event("BOOKMARK", kubetest.Doc{"kind": "Pod", "apiVersion": "v1", "metadata": kubetest.Doc{
	"resourceVersion": "2", "annotations": map[string]string{"k8s.io/initial-events-end": "true"},
}})

func event(kind string, object kubetest.Doc) kubetest.Doc {
	return kubetest.Doc{"type": kind, "object": object}
}

func versioned(version string, pod kubetest.Doc) kubetest.Doc {
	kubetest.Meta(pod)["resourceVersion"] = version
	return pod
}

func failure(code int, reason string) kubetest.Doc {
	return kubetest.Doc{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "fake: " + reason}
}

// Whatever a watch tells, and in whatever order: the pods that are there at the end are
// the endpoints, and the server is not asked in a hot loop meanwhile.
func TestHostileOrders(t *testing.T) {
	a := func(version string, edits ...kubetest.Edit) kubetest.Doc {
		return versioned(version, kubetest.Pod("a", "vllm", "10.0.0.1", edits...))
	}
	bookmark := func(meta kubetest.Doc) kubetest.Doc {
		return event("BOOKMARK", kubetest.Doc{"kind": "Pod", "apiVersion": "v1", "metadata": meta})
	}
	end := map[string]string{"k8s.io/initial-events-end": "true"}
	for _, c := range []struct {
		name   string
		script script
		says   string // "" = nothing need be said
	}{
		{"added twice", script{time.Minute, false, []kubetest.Doc{event("ADDED", a("100")), event("ADDED", a("100"))}}, ""},
		{"an event repeated", script{time.Minute, false, []kubetest.Doc{event("MODIFIED", a("100")), event("MODIFIED", a("100"))}}, ""},
		{"deleted, and was never there", script{time.Minute, false, []kubetest.Doc{event("DELETED", versioned("100", kubetest.Pod("x", "vllm", "10.0.0.9")))}}, ""},
		{"events in the wrong order", script{time.Minute, false, []kubetest.Doc{event("MODIFIED", a("101")), event("MODIFIED", a("100", kubetest.NotReady))}}, "went back from version 101 to 100"},
		{"the former pod of the name deleted late", script{time.Minute, false, []kubetest.Doc{event("ADDED", a("101")), event("DELETED", a("100", uid("former")))}}, "went back from version 101 to 100"},
		{"a version that went back", script{time.Minute, false, []kubetest.Doc{bookmark(kubetest.Doc{"resourceVersion": "9000"}), event("MODIFIED", a("3"))}}, "went back from version 9000 to 3"},
		{"versions that are no numbers", script{time.Minute, false, []kubetest.Doc{event("MODIFIED", a("0x1f")), event("MODIFIED", a("v7"))}}, ""},
		{"an object without a version", script{time.Minute, false, []kubetest.Doc{event("MODIFIED", a(""))}}, "without resourceVersion"},
		{"an object without a name", script{time.Minute, false, []kubetest.Doc{event("ADDED", versioned("100", kubetest.Pod("", "vllm", "10.0.0.8")))}}, "without a name"},
		{"a bookmark without a version", script{time.Minute, false, []kubetest.Doc{bookmark(kubetest.Doc{"annotations": end})}}, "without resourceVersion"},
		{"a bookmark of garbage", script{time.Minute, false, []kubetest.Doc{bookmark(kubetest.Doc{"resourceVersion": "\x00garbage", "annotations": map[string]string{"k8s.io/initial-events-end": "maybe"}})}}, ""},
		{"a bookmark of something else", script{time.Minute, false, []kubetest.Doc{event("BOOKMARK", failure(500, "x"))}}, ""},
		{"an event of an unknown kind", script{time.Minute, false, []kubetest.Doc{event("RENAMED", a("100"))}}, "RENAMED"},
		{"an error 500", script{time.Minute, false, []kubetest.Doc{event("ERROR", failure(500, "InternalError"))}}, "fake: InternalError"},
		{"an error 429", script{time.Minute, false, []kubetest.Doc{event("ERROR", failure(429, "TooManyRequests"))}}, "fake: TooManyRequests"},
		{"an error 504", script{time.Minute, false, []kubetest.Doc{event("ERROR", failure(504, "Timeout"))}}, "fake: Timeout"},
		{"an error 403", script{time.Minute, false, []kubetest.Doc{event("ERROR", failure(403, "Forbidden"))}}, "may not watch pods"},
		{"an error 410", script{time.Minute, false, []kubetest.Doc{event("ERROR", failure(410, "Expired"))}}, ""},
		{"an error that is none", script{time.Minute, false, []kubetest.Doc{event("ERROR", a("100"))}}, "unexpected object"},
		{"watches that end after an event", script{0, false, []kubetest.Doc{event("MODIFIED", a("100"))}}, "each watch ends at once"},
		{"watches that end after a bookmark", script{0, false, []kubetest.Doc{bookmark(kubetest.Doc{"resourceVersion": "100"})}}, "each watch ends at once"},
		{"an error 500 in place of objects", script{time.Minute, true, []kubetest.Doc{event("ERROR", failure(500, "InternalError"))}}, "fake: InternalError"},
		{"an error 429 in place of objects", script{time.Minute, true, []kubetest.Doc{event("ERROR", failure(429, "TooManyRequests"))}}, "fake: TooManyRequests"},
		{"an error 410 in place of objects", script{time.Minute, true, []kubetest.Doc{event("ERROR", failure(410, "Expired"))}}, ""},
		{"objects without an end", script{time.Hour, true, []kubetest.Doc{event("ADDED", a("100"))}}, "told of a part of the objects"},
		{"watches that end before all was told", script{0, true, []kubetest.Doc{event("ADDED", a("100"))}}, "each watch ends at once"},
		{"watches that end in place of objects", script{0, true, nil}, "each watch ends at once"},
		{"watches that end once all was told", script{0, false, []kubetest.Doc{}}, "each watch ends at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				from := f.Requests(kubetest.Pods)
				f.Skip(10_000) // what the script tells of is behind
				f.Instead(c.script.answer)
				time.Sleep(10 * time.Minute)
				if !strings.Contains(w.log.String(), c.says) {
					t.Errorf("it does not say %q:\n%s", c.says, w.log.String())
				}
				if n := f.Requests(kubetest.Pods) - from; n > 600 {
					t.Errorf("asked %d times in ten minutes", n)
				}
				w.endpoints("a@10.0.0.1:8000")
				if n := strings.Count(w.log.String(), "news from the API server again"); n > 2 {
					t.Errorf("said %d times that it is over:\n%s", n, w.log.String())
				}
				f.Instead(nil)
				f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.2"))
				f.Drop(kubetest.Pods, "a")
				w.endpoints("b@10.0.0.2:8000")
				w.await("no problem", func(*State) bool { p, _ := w.Problems(); return len(p) == 0 })
				if n := len(w.log.String()); n > 32<<10 {
					t.Errorf("the log has %d bytes", n)
				}
			})
		})
	}
}

func uid(text string) kubetest.Edit { return func(meta, _, _ kubetest.Doc) { meta["uid"] = text } }

// A cluster that was taken back to an older state tells less than before, at versions
// that are lower, of pods that were replaced since. Most often the API server is away
// meanwhile; when nobody noticed, it is silent until it has caught up.
func TestClusterTakenBack(t *testing.T) {
	for i := range 4 {
		lists, noticed := i&1 == 0, i&2 == 0
		t.Run(fmt.Sprintf("unable to stream lists %t, noticed %t", lists, noticed), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Lists = lists
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1", uid("older")))
				back := f.Backup()
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				for i := range 100 {
					f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", fmt.Sprintf("10.0.1.%d", i)))
				}
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.3", uid("newer")))
				w.endpoints("a@10.0.0.3:8000", "b@10.0.1.99:8000")
				if noticed {
					f.Refuse("*", 503)
					time.Sleep(30 * time.Second)
					w.endpoints("a@10.0.0.3:8000", "b@10.0.1.99:8000")
				}
				f.Restore(back)
				f.Refuse("*", 0)
				if !noticed {
					time.Sleep(readAnew)
					f.Cut() // as API servers end watches after ten minutes at most
				}
				w.endpoints("a@10.0.0.1:8000")
				if in := w.state().Members[0].Instance; !strings.HasPrefix(in, "older/") {
					t.Errorf("the instance is %q", in)
				}
				f.Put(kubetest.Pods, kubetest.Pod("c", "vllm", "10.0.0.4"))
				w.endpoints("a@10.0.0.1:8000", "c@10.0.0.4:8000")
			})
		})
	}
}
