package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/report"
)

func TestPodPagesAreReadable(t *testing.T) {
	h := podHandler("a/model")
	get := func(path string) *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w.Result()
	}
	page, err := engine.ParsePage(get("/metrics").Body, get("/metrics").Header.Get("Content-Type"), engine.Limits{})
	if err != nil || page.Waiting.V != 1 {
		t.Errorf("page %+v, %v", page, err)
	}
	models, err := engine.ParseModels(get("/v1/models").Body)
	if err != nil || len(models) != 1 || models[0].ID != "a/model" {
		t.Errorf("models %+v, %v", models, err)
	}
	if status := get("/health").StatusCode; status != http.StatusOK {
		t.Errorf("health: HTTP %d", status)
	}
}

// reports is who takes the fleet's reports.
type reports struct {
	mu    sync.Mutex
	got   []*report.Report
	enter func(n int) (status int, answer string)
}

func (r *reports) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, err := report.Decode(req.Body, report.Limits{})
	if err != nil || req.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	r.got = append(r.got, got)
	status, answer := r.enter(len(r.got))
	w.WriteHeader(status)
	w.Write([]byte(answer))
}

// The first report has all blocks, the next ones nothing, and all again when the
// receiver asks for it or did not take one.
func TestFleetReports(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &reports{enter: func(n int) (int, string) {
		switch n {
		case 1:
			return http.StatusServiceUnavailable, ""
		case 2:
			return http.StatusOK, `{"resync": true}`
		case 4:
			cancel()
		}
		return http.StatusOK, `{"resync": false}`
	}}
	server := httptest.NewServer(r)
	defer server.Close()
	f := &fleet{url: server.URL, token: "secret", client: http.Client{Transport: &http.Transport{}}}
	defer f.client.CloseIdleConnections()
	defer f.close()
	if err := f.open(1, workload{model: "m", bytes: 1024, prompts: 3}); err != nil {
		t.Fatal(err)
	}
	f.report(ctx)
	want := []bool{true, true, true, false}
	if len(r.got) != len(want) {
		t.Fatalf("%d reports, want %d", len(r.got), len(want))
	}
	for i, got := range r.got {
		if got.Full != want[i] || got.Full != (got.Blocks() > 20) || got.Seq != uint64(i+1) {
			t.Errorf("report %d: seq %d, full %v with %d blocks; want full %v", i, got.Seq, got.Full, got.Blocks(), want[i])
		}
	}
}

func TestEachPromptIsHeldByFourPods(t *testing.T) {
	f := &fleet{}
	defer f.close()
	if err := f.open(10, workload{model: "m", bytes: 1024, prompts: 13}); err != nil {
		t.Fatal(err)
	}
	held := map[uint64]int{}
	for _, p := range f.pods {
		for _, c := range p.next.Chains {
			held[c.Blocks[0]]++
		}
	}
	for block, pods := range held {
		if pods != holders {
			t.Errorf("block %x is held by %d pods, want %d", block, pods, holders)
		}
	}
	if len(held) != 13 {
		t.Errorf("%d prompts are held, want 13", len(held))
	}
}

func TestFleetWritesItsEndpoints(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fleet{}
	defer f.close()
	if err := f.open(3, workload{model: "m", bytes: 1024, prompts: 1}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "endpoints")
	ended := make(chan error)
	go func() { ended <- f.serve(ctx, "m", path) }()
	var found map[string]bool
	for deadline := time.Now().Add(time.Minute); found == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		found, _ = readEndpoints(path)
	}
	for _, p := range f.pods {
		if !found[p.listener.Addr().String()] {
			t.Errorf("%s is not in %v", p.listener.Addr(), found)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", f.pods[0].listener.Addr().String()); err == nil {
		c.Close()
		t.Error("a pod listens after the end")
	}
	if _, err := readEndpoints(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "--endpoints-are") {
		t.Errorf("no file: %v", err)
	}
}
