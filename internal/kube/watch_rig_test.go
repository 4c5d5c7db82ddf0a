package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/logtest"
)

// bubble runs a test in fake time, with an API server in memory.
func bubble(t *testing.T, test func(t *testing.T, f *kubetest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, kubetest.InMemory(t)) })
}

// tester is a test, or one run of a property.
type tester interface {
	Helper()
	Cleanup(end func())
	Error(args ...any)
	Fatalf(format string, args ...any)
}

// watched is a running watch in fake time, and what it told.
type watched struct {
	*Watch
	t       tester
	mu      sync.Mutex
	last    *State
	updates int
	log     logtest.Log
}

func clusterOf(f *kubetest.Server) *Cluster {
	return &Cluster{Namespace: "serving", config: &rest.Config{Host: f.URL, Transport: f.Transport, QPS: -1}}
}

// watchPools watches pools of the namespace "serving" until the test ends.
func watchPools(t tester, f *kubetest.Server, pools ...string) *watched {
	t.Helper()
	var cfg WatchConfig
	for _, p := range pools {
		cfg.Pools = append(cfg.Pools, Name{"serving", p})
	}
	return watchAs(t, f, cfg)
}

func watchAs(t tester, f *kubetest.Server, cfg WatchConfig) *watched {
	t.Helper()
	w := &watched{t: t}
	cfg.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
	cfg.Update = func(s *State) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last = s
		w.updates++
	}
	w.Watch = clusterOf(f).Watch(cfg)
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

// await waits until the state is as wanted, a minute of fake time at most.
func (w *watched) await(what string, is func(*State) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		synctest.Wait()
		if is(w.state()) {
			return
		}
	}
	s := w.state()
	w.t.Fatalf("never: %s\nbut synced %t, %q\n%s", what, s.Synced, endpoints(s), w.log.String())
}

// endpoints awaits exactly these.
func (w *watched) endpoints(want ...string) {
	w.t.Helper()
	w.await(fmt.Sprint(want), func(s *State) bool { return s.Synced && slices.Equal(endpoints(s), want) })
}

// says awaits words in the log.
func (w *watched) says(words string) {
	w.t.Helper()
	w.await("log of "+words, func(*State) bool { return strings.Contains(w.log.String(), words) })
}

func endpoints(s *State) []string {
	var out []string
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
