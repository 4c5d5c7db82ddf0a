package metricview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var capturedNames = []string{
	"eppctl-idle", "eppctl-busy-1", "eppctl-busy-2", "eppctl-after", "llmd-main", "llmd-v0.10.0", "llmd-v0.9.0",
	"vllm-idle", "vllm-busy", "vllm-dp2-busy", "vllm-lora-busy",
}

// An excerpt answers all that its page does, in every format.
func TestExcerptAnswersAsThePage(t *testing.T) {
	check := func(name string, body []byte, contentType string) {
		t.Helper()
		whole := parsed(t, body, contentType, name)
		excerpt, err := Excerpt(body, contentType)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(excerpt.Families) >= len(whole.Families)/2 {
			t.Errorf("%s: %d of %d families are left", name, len(excerpt.Families), len(whole.Families))
		}
		excerpt.Source, excerpt.At = whole.Source, whole.At
		opts := cmp.Options{cmpopts.IgnoreFields(PageInfo{}, "Families", "Series")}
		if diff := cmp.Diff(look(t, single(whole)), look(t, single(excerpt)), opts); diff != "" {
			t.Errorf("%s (-page +excerpt):\n%s", name, diff)
		}
		if diff := cmp.Diff(whole.Engine, excerpt.Engine); diff != "" {
			t.Errorf("%s as an engine's (-page +excerpt):\n%s", name, diff)
		}
	}
	for _, name := range capturedNames {
		check(name, raw(t, name+".txt"), "text/plain")
	}
	check("openmetrics", raw(t, "eppctl-after.openmetrics.txt"), openMetrics)
	check("protobuf", raw(t, "eppctl-after.pb"), protobuf)
}

func TestExcerptIsBounded(t *testing.T) {
	var page strings.Builder
	page.WriteString("# TYPE epp_queue_depth gauge\n")
	for i := range maxExcerpt + 1 {
		page.WriteString("epp_queue_depth{pod=\"" + strings.Repeat("x", i%7) + time.Duration(i).String() + "\"} 1\n")
	}
	if _, err := Excerpt([]byte(page.String()), ""); err == nil || !strings.Contains(err.Error(), "more than 20000 series of pods") {
		t.Errorf("error %v", err)
	}
	if p, err := Excerpt([]byte("what is this?\nepp_max_queue 20\n"), ""); err != nil || len(p.Families) != 1 {
		t.Errorf("%+v, %v: lines of no interest are not read", p, err)
	}
}

// What llm-d's picker and engines tell beside the questions.
func TestPortsAndVersions(t *testing.T) {
	for name, want := range map[string]string{
		"llmd-main": "main", "llmd-v0.10.0": "v0.10.0", "llmd-v0.9.0": "v0.9.0", "eppctl-after": "dev", "vllm-busy": "",
	} {
		if got := captured(t, name).Version(); got != want {
			t.Errorf("%s: version %q, want %q", name, got, want)
		}
	}
	want := map[string]string{"vllm-sim-0": "8001", "vllm-sim-1": "8002", "vllm-sim-2": "8003", "vllm-sim-3": "8004"}
	if diff := cmp.Diff(want, captured(t, "llmd-main").Ports()); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	two := text(t, `inference_extension_scheduler_attempts_total{pod_name="a",port="1",status="success"} 1
inference_extension_scheduler_attempts_total{pod_name="a",port="2",status="success"} 1
`)
	if got := two.Ports()["a"]; got != "" {
		t.Errorf("a pod with two ports has port %q", got)
	}
}

func TestEngineWork(t *testing.T) {
	page := func(hits, asked, quick, all int) *Page {
		return text(t, fmt.Sprintf(`vllm:num_requests_waiting{engine="0"} 0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0"} %d
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0"} %d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="1"} %d
vllm:time_to_first_token_seconds_bucket{le="2"} %[4]d
vllm:time_to_first_token_seconds_bucket{le="+Inf"} %[4]d
vllm:time_to_first_token_seconds_sum 9
vllm:time_to_first_token_seconds_count %[4]d
`, hits, asked, quick, all))
	}
	r := Replica{Before: page(10, 100, 5, 5), After: page(40, 200, 5, 15)}
	work := r.Engine()
	if work.HitRatio == nil || *work.HitRatio != .3 {
		t.Errorf("hit ratio %v, want 30 of 100 tokens", work.HitRatio)
	}
	if v, _ := work.TTFT.Quantile(.5); work.TTFT.Count != 10 || v != 1.5 {
		t.Errorf("p50 %v of %v, want 1.5 of 10", v, work.TTFT.Count)
	}
	if idle := (Replica{Before: r.After, After: r.After}).Engine(); idle.HitRatio != nil || idle.TTFT.Count != 0 {
		t.Errorf("nothing was done, and it is told: %+v", idle)
	}
	if none := (Replica{After: captured(t, "llmd-main")}).Engine(); none.HitRatio != nil || none.TTFT != nil {
		t.Errorf("a picker's page as an engine's: %+v", none)
	}
}
