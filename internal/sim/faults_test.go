package sim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		{"drop", "sim-1/drop", ``, 200, func(p PodInfo) bool { return p.DropsReports }},
		{"recover", "*/recover", ``, 200, func(p PodInfo) bool {
			return p.State == "up" && p.Slow == 1 && p.Health == 1 && !p.DropsReports
		}},
		{"evict", "*/evict", `{"blocks":10}`, 200, func(p PodInfo) bool { return p.BlocksCached == 0 }},
		{"kill", "sim-1/kill", ``, 200, func(p PodInfo) bool { return p.State == "down" }},
		{"restart", "sim-1/restart", ``, 200, func(p PodInfo) bool { return p.State == "up" }},
		{"no such pod", "sim-7/kill", ``, 404, nil},
		{"no such action", "sim-1/explode", ``, 404, nil},
		{"a factor of nothing", "sim-1/slow", ``, 400, nil},
		{"health beyond", "sim-1/health", `{"value":2}`, 400, nil},
		{"no such way to fail", "sim-1/fail", `{"mode":"softly"}`, 400, nil},
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
