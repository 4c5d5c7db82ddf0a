package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	podsPath    = "/api/v1/namespaces/serving/pods"
	mapsPath    = "/api/v1/namespaces/serving/configmaps"
	poolsPath   = "/apis/inference.networking.k8s.io/v1/namespaces/serving/inferencepools"
	oldPools    = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/serving/inferencepools"
	modelsPath  = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/serving/inferencemodels"
	rewritePath = "/apis/llm-d.ai/v1alpha2/namespaces/serving/inferencemodelrewrites"
)

func poolObject(name, app string, ports ...int) doc {
	var list []doc
	for _, p := range ports {
		list = append(list, doc{"number": p})
	}
	return doc{"kind": "InferencePool", "apiVersion": PoolV1.String(), "metadata": doc{"name": name, "namespace": "serving"}, "spec": doc{
		"selector": doc{"matchLabels": map[string]string{"app": app}}, "targetPorts": list,
	}}
}

// podObject is a ready pod; edits change it.
func podObject(name, app, ip string, edits ...func(meta, spec, status doc)) doc {
	meta := doc{"name": name, "namespace": "serving", "uid": "uid-" + name, "labels": map[string]string{"app": app}}
	spec := doc{"containers": []doc{{"name": "engine", "ports": []doc{{"containerPort": 8000}}}}}
	st := doc{"phase": "Running", "podIP": ip, "conditions": []doc{{"type": "Ready", "status": "True"}}}
	for _, edit := range edits {
		edit(meta, spec, st)
	}
	return doc{"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": st}
}

func notReady(_, _, status doc) {
	status["conditions"] = []doc{{"type": "Ready", "status": "False"}}
}

func terminating(meta, _, _ doc) { meta["deletionTimestamp"] = "2026-01-01T00:00:00Z" }

// watched is a running watch and what it told.
type watched struct {
	*Watch
	t    *testing.T
	mu   sync.Mutex
	last *State
	log  strings.Builder
}

// Write implements io.Writer for the log.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *watched) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func watchPools(t *testing.T, f *apiServer, pools ...string) *watched {
	t.Helper()
	w := &watched{t: t}
	cfg := WatchConfig{Logger: slog.New(slog.NewTextHandler(w, nil)), Update: func(s *State) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last = s
	}}
	for _, p := range pools {
		cfg.Pools = append(cfg.Pools, Name{"serving", p})
	}
	w.Watch = f.cluster().Watch(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *watched) state() *State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return &State{}
	}
	return w.last
}

// await waits until the state is as wanted.
func (w *watched) await(what string, is func(*State) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if is(w.state()) {
			return
		}
	}
	w.t.Fatalf("never: %s\n%s\n%s", what, describe(w.state()), w.logged())
}

// endpoints awaits exactly these endpoints, each as describe has it.
func (w *watched) endpoints(want ...string) {
	w.t.Helper()
	w.await(fmt.Sprint(want), func(s *State) bool { return s.Synced && slices.Equal(members(s), want) })
}

func members(s *State) []string {
	out := []string{}
	for _, m := range s.Members {
		text := m.Name + "@" + m.Address
		if m.NotReady {
			text += " not ready"
		}
		if m.Terminating {
			text += " terminating"
		}
		out = append(out, text)
	}
	return out
}

func describe(s *State) string { return fmt.Sprintf("synced %t, %q", s.Synced, members(s)) }

func TestWatchFollowsPods(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streamed lists %t", streams), func(t *testing.T) {
			f := newAPIServer(t)
			f.streams = streams
			f.put(poolsPath, poolObject("chat", "vllm", 8000))
			f.put(podsPath, podObject("a", "vllm", "10.0.0.1"))
			f.put(podsPath, podObject("x", "other", "10.0.0.9"))
			w := watchPools(t, f, "chat")
			w.endpoints("a@10.0.0.1:8000")
			f.put(podsPath, podObject("b", "vllm", "fd00::2"))
			w.endpoints("a@10.0.0.1:8000", "b@[fd00::2]:8000")
			f.put(podsPath, podObject("b", "vllm", "fd00::2", notReady))
			w.endpoints("a@10.0.0.1:8000", "b@[fd00::2]:8000 not ready")
			f.put(podsPath, podObject("a", "vllm", "10.0.0.1", terminating))
			w.endpoints("a@10.0.0.1:8000 terminating", "b@[fd00::2]:8000 not ready")
			f.drop(podsPath, "a")
			w.endpoints("b@[fd00::2]:8000 not ready")
		})
	}
}
