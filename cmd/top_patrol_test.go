package cmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/tui"
)

// stockPicker answers as llm-d's picker with a pod that gets 30 more picks each time,
// and as the pod's engine, until it is told to fail.
func stockPicker(t *testing.T) (page string, fail *atomic.Bool) {
	t.Helper()
	var picks atomic.Int64
	fail = new(atomic.Bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fail.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/engine":
			fmt.Fprint(w, "vllm:num_requests_waiting 3\nvllm:num_requests_running 2\n")
		default:
			fmt.Fprintf(w, `llm_d_epp_per_endpoint_queue_size{name="p",model_server_endpoint="vllm-0"} 1
# TYPE llm_d_epp_scheduler_attempts_total counter
llm_d_epp_scheduler_attempts_total{endpoint_name="vllm-0",port="8000",status="success"} %d
`, 1000+picks.Add(30))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, fail
}

// A stock picker and an engine are looked at twice, and tell no decisions.
func TestTopOfAStockPicker(t *testing.T) {
	page, fail := stockPicker(t)
	args := []string{"top", "--metrics-url", page, "--engines", "vllm-0=" + page + "/engine", "--interval", "100ms", "-o", "json"}
	out, errOut, status := runTest(t, args...)
	var s explain.Snapshot
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != cli.ExitOK {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errOut)
	}
	if errOut != "looking twice, 100ms apart, for rates\n" {
		t.Errorf("standard error %q", errOut)
	}
	if len(s.Pods) != 1 || s.Windows[0].Decisions != 30 || s.Pods[0].Picks[0] != 30 || *s.Pods[0].Queue.Waiting != 3 || s.Source != explain.SourceMetrics {
		t.Errorf("snapshot %s", out)
	}
	if !strings.Contains(out, `"inFlight": null`) || strings.Contains(out, `"inFlight": 0`) {
		t.Errorf("what is not known is no null: %s", out)
	}
	table, _, _ := runTest(t, args[:len(args)-2]...)
	if row := strings.Join(strings.Fields(table[strings.Index(table, "vllm-0"):]), " "); row != "vllm-0 OK 100% – – 3 – – – – 0/– 0.0s" {
		t.Errorf("row %q", row)
	}

	fail.Store(true)
	out, errOut, status = runTest(t, args...)
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != cli.ExitUnreachable || s.Verdict.Code != explain.VerdictUnreachable || len(s.Pods) != 1 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
	if !strings.Contains(errOut, "no answer from the picker at "+page+": HTTP 503") {
		t.Errorf("standard error %q", errOut)
	}
}

// The source goes on when the picker comes back, and says that it knows no decisions.
func TestPatrolSource(t *testing.T) {
	page, fail := stockPicker(t)
	f := topFlags{metricsURLs: []string{page}}
	src, err := f.openPatrol(clock.Wall{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.done()
	fail.Store(true)
	pace := tui.NewPace(tui.MinInterval)
	u := news(t, src.source, pace, func(u tui.Update) bool { return u.Err != nil })
	if u.Snapshot != nil || u.Retry != tui.MinInterval || !strings.HasPrefix(u.Err.Error(), "HTTP 503") {
		t.Errorf("the picker fails, and the news are %+v", u)
	}
	fail.Store(false)
	news(t, src.source, pace, func(u tui.Update) bool { return u.Snapshot != nil && u.Snapshot.PicksKnown() })
	if _, err := src.source.Decision(t.Context(), "latest"); err == nil || !strings.Contains(err.Error(), "eppctl decisions -f") {
		t.Errorf("a decision: %v", err)
	}
	if _, err := src.source.Recent(t.Context(), 5); err == nil {
		t.Error("recent decisions are known")
	}
}

// Every address that can't be looked at is refused before anything is asked.
func TestTopRefusesAddresses(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--engines a=10.0.0.7:8000,a=10.0.0.8:8000", `--engines: the name "a" is given twice`},
		{"--engines ftp://10.0.0.7", "the scheme must be http or https"},
		{"--engines 10.0.0.7:8000,10.0.0.7:8000", "is given twice, and would count double"},
		{"--metrics-url http://", "--metrics-url: "},
		{"--metrics-url 10.0.0.1:9090 --demo", "--metrics-url and --engines look at metrics alone"},
		{"--engines 10.0.0.7:8000 --server 10.0.0.1:9091", "--metrics-url and --engines look at metrics alone"},
		{"--engines 10.0.0.7:8000 --token-file none", "--token-file: "},
		{"--server a:1,b:1", "--server: the dashboard follows one picker"},
		{"--server a:1 --server b:1", "--server: the dashboard follows one picker"},
	} {
		out, errOut, status := runTest(t, append([]string{"top"}, strings.Fields(tc.args)...)...)
		if status != cli.ExitUsage || !strings.Contains(errOut, tc.want) || out != "" {
			t.Errorf("%s: status %d, %q, want %q", tc.args, status, errOut, tc.want)
		}
	}
	many := topFlags{engines: make([]string, maxEngines+1)}
	for i := range many.engines {
		many.engines[i] = fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250)
	}
	if _, err := many.openPatrol(clock.Wall{}); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("%d engines: %v", len(many.engines), err)
	}
}
