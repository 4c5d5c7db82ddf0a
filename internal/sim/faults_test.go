package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
)

func TestHoldAnswersAndMetrics(t *testing.T) {
	f := start(t, Config{})
	pod := f.Pods()[0]
	if err := f.Hold(AllPods, Everything()); err != nil {
		t.Fatal(err)
	}
	answers := make(chan reply, 3)
	for _, send := range []struct{ method, path, body string }{
		{http.MethodPost, completionsPath, idsPrompt(1, 32, `,"max_tokens":2`)},
		{http.MethodPost, completionsPath, idsPrompt(1, 32, `,"max_tokens":2,"stream":true`)},
		{http.MethodGet, "/metrics", ""},
	} {
		go func() {
			r, err := call(t, send.method, pod.URL+send.path, send.body)
			if err != nil {
				t.Errorf("%s: %v", send.path, err)
			}
			answers <- r
		}()
	}
	until(t, "the engine has computed both", func() bool { return f.pods[0].server().stats().ReachedLength == 2 })
	if len(answers) != 0 {
		t.Errorf("%d of 3 answers came while held", len(answers))
	}
	if held := f.Pods()[0].Held; len(held) != 4 {
		t.Errorf("held: %v", held)
	}
	if err := f.Release(AllPods, Everything()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r := <-answers; r.status != http.StatusOK {
			t.Errorf("after the release: %d %s", r.status, r.body)
		}
	}
}

func TestFailures(t *testing.T) {
	f := start(t, Config{Pods: 2})
	pod := f.Pods()[0]
	body := idsPrompt(1, 32, `,"max_tokens":2`)

	if err := f.Fail("sim-0", FailStatus); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/health", "/metrics", completionsPath} {
		if r := mustCall(t, http.MethodPost, pod.URL+path, body); r.status != http.StatusInternalServerError {
			t.Errorf("%s while failing: %d", path, r.status)
		}
	}
	if f.Pods()[0].State != "failing" || f.Pods()[1].State != "up" {
		t.Errorf("states: %+v", f.Pods())
	}
	if err := f.Fail("sim-0", FailClose); err != nil {
		t.Fatal(err)
	}
	if r, err := call(t, http.MethodPost, pod.URL+completionsPath, body); err == nil {
		t.Errorf("a closed connection answered %d", r.status)
	}
	if err := f.Recover("sim-0"); err != nil {
		t.Fatal(err)
	}
	complete(t, pod, completionsPath, body)
}

func TestKillCutsAndRestartServes(t *testing.T) {
	f := start(t, Config{})
	pod := f.Pods()[0]
	cut := make(chan error, 1)
	go func() {
		_, err := call(t, http.MethodPost, pod.URL+completionsPath, idsPrompt(1, 32, `,"max_tokens":100000`))
		cut <- err
	}()
	until(t, "the request runs", func() bool { return f.Pods()[0].Running == 1 })
	if err := f.Kill("sim-0"); err != nil {
		t.Fatal(err)
	}
	if err := <-cut; err == nil {
		t.Error("a request survived the kill")
	}
	if _, err := call(t, http.MethodGet, pod.URL+"/health", ""); err == nil {
		t.Error("a killed pod answers")
	}
	if p := f.Pods()[0]; p.State != "down" {
		t.Errorf("state %s after a kill", p.State)
	}
	for range 2 { // from down, and from up
		if err := f.Restart("sim-0"); err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections() // to the server that is gone
		complete(t, pod, completionsPath, idsPrompt(1, 32, `,"max_tokens":2`))
	}
}

func TestSlowPodsAndEviction(t *testing.T) {
	f := start(t, Config{})
	pod := f.Pods()[0]
	complete(t, pod, completionsPath, idsPrompt(1, 160, `,"max_tokens":1`))
	if err := f.Slow("sim-0", 10); err != nil {
		t.Fatal(err)
	}
	complete(t, pod, completionsPath, idsPrompt(1, 16, `,"max_tokens":1`))
	ttft := scrape(t, pod)["vllm:time_to_first_token_seconds"].GetMetric()[0].GetHistogram().GetSampleSum()
	if normal, slow := 0.008+0.00022*160, 10*(0.008+0.00022*16); ttft < normal+slow-1e-6 || ttft > normal+slow+1e-6 {
		t.Errorf("times to the first tokens sum to %v s, want %v + %v", ttft, normal, slow)
	}
	if n, err := f.Evict("sim-0", 4); n != 4 || err != nil {
		t.Errorf("Evict(4) = %d, %v", n, err)
	}
	// Of the 6 that were found the first has a copy, of the second prompt.
	if n, err := f.Evict(AllPods, -1); n != 7 || err != nil || f.Pods()[0].BlocksCached != 0 {
		t.Errorf("Evict(all) = %d, %v; %d left", n, err, f.Pods()[0].BlocksCached)
	}
}

func TestHungPodsGoOn(t *testing.T) {
	f := start(t, Config{})
	pod := f.Pods()[0]
	if err := f.Fail("sim-0", FailHang); err != nil {
		t.Fatal(err)
	}
	statuses := make(chan int, 2)
	for _, send := range []struct{ method, path, body string }{
		{http.MethodGet, "/health", ""},
		{http.MethodPost, completionsPath, idsPrompt(1, 32, `,"max_tokens":2`)},
	} {
		go func() {
			r, err := call(t, send.method, pod.URL+send.path, send.body)
			if err != nil {
				t.Error(err)
			}
			statuses <- r.status
		}()
	}
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(impatient, http.MethodGet, pod.URL+"/health", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Error("a pod that hangs has answered")
	}
	if len(statuses) != 0 {
		t.Error("a pod that hangs has answered")
	}
	if err := f.Recover("sim-0"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("after the recovery: %d", status)
		}
	}
}

func TestBrokenPages(t *testing.T) {
	f := start(t, Config{})
	pod := f.Pods()[0]
	prompts := func() float64 {
		return scrape(t, pod)["vllm:prompt_tokens_total"].GetMetric()[0].GetCounter().GetValue()
	}
	send := func() { complete(t, pod, completionsPath, idsPrompt(1, 32, `,"max_tokens":1`)) }
	if err := f.BreakPage("sim-0", PageFrozen); err != nil {
		t.Fatal(err)
	}
	send()
	if n := prompts(); n != 32 {
		t.Errorf("the first frozen page has %v tokens", n)
	}
	send()
	if n := prompts(); n != 32 {
		t.Errorf("the second frozen page has %v tokens", n)
	}
	if err := f.BreakPage("sim-0", PageMissing); err != nil {
		t.Fatal(err)
	}
	if r := mustCall(t, http.MethodGet, pod.URL+"/metrics", ""); r.status != http.StatusNotFound {
		t.Errorf("a missing page: %d", r.status)
	}
	if err := f.Recover("sim-0"); err != nil {
		t.Fatal(err)
	}
	if n := prompts(); n != 64 {
		t.Errorf("a page after the recovery has %v tokens", n)
	}
}

func TestPressureEvictsIdleBlocks(t *testing.T) {
	f := start(t, Config{Events: true})
	l, pod := subscribe(t, f, 0), f.Pods()[0]
	complete(t, pod, completionsPath, idsPrompt(1, 320, `,"max_tokens":1`))
	if n := f.Pods()[0].BlocksCached; n != 20 {
		t.Fatalf("%d blocks cached", n)
	}
	began := f.cfg.Clock.Now()
	if err := f.Press("sim-0", 4); err != nil {
		t.Fatal(err)
	}
	until(t, "the cache is empty", func() bool { return f.Pods()[0].BlocksCached == 0 })
	if took := f.cfg.Clock.Now().Sub(began); took < 5*time.Second {
		t.Errorf("20 blocks at 4 a second were gone after %v", took)
	}
	caught(t, f, l)
	if held := l.holds(); len(held) != 0 {
		t.Errorf("the events leave %d blocks", len(held))
	}
}

func TestGPUPage(t *testing.T) {
	f := start(t, Config{Pods: 2})
	pod := f.Pods()[1]
	read := func(name string) engine.GPU {
		t.Helper()
		r := mustCall(t, http.MethodGet, pod.URL+GPUPath, "")
		g, err := engine.ReadGPU(strings.NewReader(r.body), r.header.Get("Content-Type"), name, engine.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := read("sim-1")
	for _, v := range []engine.Value{g.Temperature, g.DoubleBitErrors, g.SingleBitErrors, g.XID, g.Throttled} {
		if !v.Known || v.V != 0 && v != g.Temperature {
			t.Errorf("a healthy GPU: %+v", g)
		}
	}
	if g.Temperature.V < gpuIdleHeat || g.Temperature.V > gpuIdleHeat+gpuWorkHeat || g.MemoryUsed.V+g.MemoryFree.V != gpuMemory {
		t.Errorf("a healthy GPU: %+v", g)
	}
	if g := read("sim-0"); g.XID.Known {
		t.Errorf("the page of sim-1 tells of sim-0: %+v", g)
	}
	bad := GPU{Temperature: 96, DoubleBitErrors: 1, SingleBitErrors: 7, XID: 48, Throttled: 0x40}
	if err := f.SetGPU("sim-1", bad); err != nil {
		t.Fatal(err)
	}
	if err := f.Fail("sim-1", FailStatus); err != nil {
		t.Fatal(err)
	}
	g = read("sim-1") // the exporter does not fail
	if got := (GPU{g.Temperature.V, uint64(g.DoubleBitErrors.V), uint64(g.SingleBitErrors.V), uint64(g.XID.V), uint64(g.Throttled.V)}); got != bad {
		t.Errorf("a bad GPU says %+v, want %+v", got, bad)
	}
}

func TestControlCalls(t *testing.T) {
	f := start(t, Config{Pods: 2})
	srv := httptest.NewServer(f.Handler())
	defer srv.Close()
	for _, tt := range []struct {
		name, path, body string
		status           int
		check            func(PodInfo) bool // of sim-1 afterwards
	}{
		{"hold all", "sim-1/hold", "", 200, func(p PodInfo) bool { return len(p.Held) == 4 }},
		{"release one", "sim-1/release", `{"metrics":true}`, 200, func(p PodInfo) bool { return len(p.Held) == 3 }},
		{"release all", "*/release", `{}`, 200, func(p PodInfo) bool { return len(p.Held) == 0 }},
		{"fail", "sim-1/fail", `{"mode":"close"}`, 200, func(p PodInfo) bool { return p.State == "failing" }},
		{"slow", "sim-1/slow", `{"factor":2.5}`, 200, func(p PodInfo) bool { return p.Slow == 2.5 }},
		{"health", "*/health", `{"value":0.2}`, 200, func(p PodInfo) bool { return p.Health == 0.2 }},
		{"fail without an answer", "sim-1/fail", `{"mode":"hang"}`, 200, func(p PodInfo) bool { return p.State == "failing" }},
		{"page", "sim-1/page", ``, 200, func(p PodInfo) bool { return p.Page == "missing" }},
		{"frozen page", "sim-1/page", `{"mode":"frozen"}`, 200, func(p PodInfo) bool { return p.Page == "frozen" }},
		{"gpu", "sim-1/gpu", `{"xid":48}`, 200, func(p PodInfo) bool { return p.GPU == GPU{XID: 48} }},
		{"press", "sim-1/press", `{"blocks":5}`, 200, func(p PodInfo) bool { return p.Pressure == 5 }},
		{"thrash", "sim-1/thrash", ``, 200, func(p PodInfo) bool { return p.Thrashes }},
		{"lose events", "sim-1/lose-events", `{"share":0.1}`, 200, func(p PodInfo) bool { return p.LosesEvents == 0.1 }},
		{"delay events", "sim-1/delay-events", `{"ms":1.5}`, 200, func(p PodInfo) bool { return p.DelaysEventsMs == 1.5 }},
		{"drop", "sim-1/drop", ``, 200, func(p PodInfo) bool { return p.DropsReports }},
		{"recover", "*/recover", ``, 200, func(p PodInfo) bool {
			return p.State == "up" && p.Slow == 1 && p.Health == 1 && !p.DropsReports && p.Page == "ok" && p.GPU == GPU{} &&
				p.Pressure == 0 && !p.Thrashes && p.LosesEvents == 0 && p.DelaysEventsMs == 0
		}},
		{"evict", "*/evict", `{"blocks":10}`, 200, func(p PodInfo) bool { return p.BlocksCached == 0 }},
		{"reset", "*/reset", ``, 200, func(p PodInfo) bool { return p.BlocksCached == 0 }},
		{"kill", "sim-1/kill", ``, 200, func(p PodInfo) bool { return p.State == "down" }},
		{"restart", "sim-1/restart", ``, 200, func(p PodInfo) bool { return p.State == "up" }},
		{"no such pod", "sim-7/kill", ``, 404, nil},
		{"no such action", "sim-1/explode", ``, 404, nil},
		{"a factor of nothing", "sim-1/slow", ``, 400, nil},
		{"health beyond", "sim-1/health", `{"value":2}`, 400, nil},
		{"no such way to fail", "sim-1/fail", `{"mode":"softly"}`, 400, nil},
		{"no such way to break a page", "sim-1/page", `{"mode":"softly"}`, 400, nil},
		{"an absurd temperature", "sim-1/gpu", `{"temperature":1000}`, 400, nil},
		{"no pressure", "sim-1/press", ``, 400, nil},
		{"more than all events", "sim-1/lose-events", `{"share":1.1}`, 400, nil},
		{"events of the past", "sim-1/delay-events", `{"ms":-1}`, 400, nil},
		{"unknown field", "sim-1/evict", `{"block":10}`, 400, nil},
		{"not JSON", "sim-1/evict", `ten`, 400, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := mustCall(t, http.MethodPost, srv.URL+"/v1/sim/pods/"+tt.path, tt.body)
			if r.status != tt.status {
				t.Fatalf("%d %s, want %d", r.status, r.body, tt.status)
			}
			if tt.check == nil {
				if !strings.HasPrefix(r.body, `{"error":{"message":`) {
					t.Errorf("an error without an error object: %s", r.body)
				}
				return
			}
			var list struct{ Pods []PodInfo }
			if err := json.Unmarshal([]byte(r.body), &list); err != nil || len(list.Pods) != 2 || !tt.check(list.Pods[1]) {
				t.Errorf("afterwards: %s (%v)", r.body, err)
			}
		})
	}
	if r := mustCall(t, http.MethodGet, srv.URL+"/v1/sim/pods", ""); r.status != 200 || !strings.Contains(r.body, `"name":"sim-0"`) {
		t.Errorf("GET pods: %d %s", r.status, r.body)
	}
}
