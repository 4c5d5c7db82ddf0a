package e2e

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// The decisions of llm-d's picker are in the logs of its pods.
func TestKubeLogOfLLMD(t *testing.T) {
	l := newLaptop(t, "create, get")
	l.replica("chat-epp-1", "llm-d-inference-scheduler", nil)
	log := l.cluster.Log("chat-epp-1", "llm-d-inference-scheduler")
	all := llmdLog(t, "v0.10.0.jsonl.gz")
	for _, line := range all {
		log.Print(line)
	}
	l.says([]string{"explain", "latest", "--pool", "chat"}, "llm-d's picker chat-epp-1 of pool "+l.cluster.Namespace+"/chat (context e2e, log)", "replay: identical")
	out, complaints, status := l.eppctl("decisions", "--pool", "chat", "-o", "name")
	ids := strings.Fields(out)
	if status != 0 || len(ids) < 10 {
		t.Fatalf("%d decisions, status %d\n%s", len(ids), status, complaints)
	}
	seen := l.watch("decisions", "--pool", "chat", "--watch", "--limit", "1", "-o", "name")
	seen.until(ids[0])
	for _, line := range all { // the same again, by another process an hour later
		log.Print(later(t, line))
	}
	seen.until(ids[0])
}

// What llm-d's picker and the engines count is read from their pages.
func TestKubeMetricsOfLLMD(t *testing.T) {
	l := newLaptop(t, "create, get")
	l.replica("chat-epp-1", "llm-d-inference-scheduler", nil)
	l.cluster.Forward("chat-epp-1", 9090, page(t, "llmd-v0.10.0.txt.gz"))
	l.cluster.Pod(cluster.Pod{Name: "vllm-sim-0", IP: "127.0.0.3", Labels: map[string]string{"app": "engine"}})
	l.cluster.Forward("vllm-sim-0", 8000, page(t, "vllm-idle.txt.gz"))
	l.says([]string{"metrics", "--pool", "chat"}, "llm-d's picker chat-epp-1", "llm-d since the start", "http://chat-epp-1:9090/metrics")
	l.says([]string{"top", "--once", "--pool", "chat"}, "llm-d's picker chat-epp-1", "vllm-sim-0", "vllm-sim-1")
}

// page is the address of a metrics page that was saved.
func page(t *testing.T, name string) string {
	t.Helper()
	text := strings.Join(packed(t, filepath.Join("../../testdata/metrics", name)), "\n") + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestKubeLogTellsTooLittle(t *testing.T) {
	l := newLaptop(t, "create, get")
	l.replica("chat-epp-1", "llm-d-inference-scheduler", nil)
	for _, line := range llmdLog(t, "default.jsonl.gz") {
		l.cluster.Log("chat-epp-1", "llm-d-inference-scheduler").Print(line)
	}
	_, complaints, status := l.eppctl("explain", "latest", "-n", l.cluster.Namespace)
	if status != 3 || !strings.Contains(complaints, "log of chat-epp-1: no pick in this log: it was written at -v=2") {
		t.Errorf("status %d\n%s", status, complaints)
	}
}

// llmdLog are the lines of a log that llm-d's picker wrote.
func llmdLog(t *testing.T, name string) []string {
	t.Helper()
	return packed(t, filepath.Join("../llmdlog/testdata", name))
}

// packed are the lines of a file that gzip made.
func packed(t *testing.T, name string) []string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	scan := bufio.NewScanner(unpacked)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		all = append(all, scan.Text())
	}
	if scan.Err() != nil || len(all) == 0 {
		t.Fatalf("%s: %d lines, %v", name, len(all), scan.Err())
	}
	return all
}

// later is a line of a log as it would be an hour later.
func later(t *testing.T, line string) string {
	t.Helper()
	var stamp struct{ TS json.Number }
	if err := json.Unmarshal([]byte(line), &stamp); err != nil {
		return line // not every line is one of the picker's own
	}
	at, err := stamp.TS.Float64()
	if err != nil {
		return line
	}
	return strings.Replace(line, `"ts":`+stamp.TS.String(), `"ts":`+strconv.FormatFloat(at+3600, 'f', -1, 64), 1)
}
