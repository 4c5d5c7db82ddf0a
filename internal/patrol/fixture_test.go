package patrol

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/scrape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// captured is a page of the repository, as it is read at a moment.
func captured(t *testing.T, name string, at time.Time) *metricview.Page {
	t.Helper()
	file, err := os.Open("../../testdata/metrics/" + name + ".txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page, err := scrape.ReadFrom(file, name)
	if err != nil {
		t.Fatal(err)
	}
	page.At = at
	return page
}

// page is a page that a test writes itself, as it is read at a moment.
func page(t *testing.T, at time.Time, text string) *metricview.Page {
	t.Helper()
	p, err := metricview.Excerpt([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	p.Source, p.At = "http://10.0.0.1:9090/metrics", at
	return p
}

// llmd is a page of llm-d's picker: the picks by pod, of those that it lists.
func llmd(picks map[string]int, queues map[string]int) string {
	var b strings.Builder
	b.WriteString("llm_d_epp_info{build_ref=\"v0.10.0\"} 1\n# TYPE llm_d_epp_scheduler_attempts_total counter\n")
	for pod, n := range picks {
		fmt.Fprintf(&b, "llm_d_epp_scheduler_attempts_total{endpoint_name=\"%s\",port=\"8000\",status=\"success\",target_model_name=\"m\"} %d\n", pod, n)
		fmt.Fprintf(&b, "inference_extension_scheduler_attempts_total{pod_name=\"%s\",port=\"8000\",status=\"success\",target_model_name=\"m\"} %d\n", pod, n)
	}
	b.WriteString("# TYPE llm_d_epp_per_endpoint_queue_size gauge\n")
	for pod, n := range queues {
		fmt.Fprintf(&b, "llm_d_epp_per_endpoint_queue_size{name=\"pool\",model_server_endpoint=\"%s\"} %d\n", pod, n)
	}
	return b.String()
}

// vllm is a page of an engine that was started at a moment.
func vllm(waiting int, started float64) string {
	return fmt.Sprintf("process_start_time_seconds %v\nvllm:num_requests_waiting{engine=\"0\"} %d\nvllm:num_requests_running{engine=\"0\"} 2\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n",
		started, waiting)
}

// story tells a fleet what is read second by second.
type story struct {
	t     *testing.T
	fleet *fleet
	now   time.Time
	err   error // of the last round
}

func newStory(t *testing.T, pickers, engines int) *story {
	t.Helper()
	var pages []string
	for i := range pickers {
		pages = append(pages, fmt.Sprintf("http://10.0.1.%d:9090/metrics", i))
	}
	var list []Engine
	for i := range engines {
		list = append(list, Engine{Name: fmt.Sprintf("pod-%d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000/metrics", i)})
	}
	return &story{t: t, fleet: newFleet(Pages{Pickers: pages, Engines: list}), now: noon}
}

// errDown is what is read of a page in vain.
var errDown = errors.New("HTTP 500 Internal Server Error")

// after lets time pass, and gives the pages of a round; "" is one that can't be read.
func (s *story) after(d time.Duration, pickers, engines []string) *explain.Snapshot {
	s.t.Helper()
	s.now = s.now.Add(d)
	read := func(texts []string) (out []answer) {
		for _, text := range texts {
			if text == "" {
				out = append(out, answer{err: errDown})
				continue
			}
			out = append(out, answer{page: page(s.t, s.now, text)})
		}
		return out
	}
	var snapshot *explain.Snapshot
	snapshot, s.err = s.fleet.see(&round{at: s.now, pickers: read(pickers), engines: read(engines)})
	return snapshot
}
