package metricview

import (
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/golden"
)

var pages = []string{
	"eppctl-idle", "eppctl-busy-1", "eppctl-after",
	"llmd-main", "llmd-v0.10.0", "llmd-v0.9.0",
	"vllm-idle", "vllm-busy", "vllm-dp2-busy", "vllm-lora-busy",
}

func TestCapturedPages(t *testing.T) {
	for _, name := range pages {
		t.Run(name, func(t *testing.T) {
			d := look(t, single(captured(t, name)))
			golden.Equal(t, "testdata/"+name+".txt", written(t, cli.FormatTable, 0, d.Write))
			golden.Equal(t, "testdata/"+name+".json", asJSON(t, d))
		})
	}
}

// between is what was seen in the two seconds between two captured pages.
func between(t *testing.T) Observation {
	before, after := captured(t, "eppctl-busy-1"), captured(t, "eppctl-busy-2")
	after.At = before.At.Add(2010 * time.Millisecond)
	return Observation{Replicas: []Replica{{Before: before, After: after}}, Now: after.At}
}

func TestRatesBetweenTwoPages(t *testing.T) {
	d := look(t, between(t))
	golden.Equal(t, "testdata/rates.txt", written(t, cli.FormatTable, 0, d.Write))
	golden.Equal(t, "testdata/rates.json", asJSON(t, d))
}

func TestWideAndTerminals(t *testing.T) {
	d := look(t, between(t))
	golden.Equal(t, "testdata/rates.wide.txt", written(t, cli.FormatWide, 0, d.Write))
	for _, columns := range []int{120, 80, 40} {
		llmd := look(t, single(captured(t, "llmd-main")))
		got := written(t, cli.FormatTable, columns, llmd.Write)
		golden.Equal(t, "testdata/llmd-main."+Number(float64(columns))+".txt", got)
		for line := range strings.Lines(string(got)) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > columns && columns >= 80 {
				t.Errorf("%d columns in %d: %s", n, columns, line)
			}
		}
	}
}

// A page on which everything is wrong, with its tones.
func TestTrouble(t *testing.T) {
	s, out, _ := cli.Test()
	s.Color = cli.ColorAlways
	d := look(t, Observation{
		Replicas: []Replica{{After: text(t, troublePage)}}, Now: now,
		Failed: []Failure{{"http://10.0.0.2:9090/metrics", "connection refused: nothing listens there"}},
	})
	if err := d.Write(cli.Printer{Streams: s, Format: cli.FormatTable}); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/trouble.color.txt", out.Bytes())
	golden.Equal(t, "testdata/trouble.json", asJSON(t, d))
	if d.Status != Alert {
		t.Errorf("status %s, want ALERT", d.Status)
	}
}

const troublePage = `# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7960e+09
# TYPE epp_routing_decisions_total counter
epp_routing_decisions_total{model="a\"b\\c\nd` + "\x1b[31m" + `"} 70
epp_routing_decisions_total{model="other"} 30
# TYPE epp_stale_cache_routing_total counter
epp_stale_cache_routing_total 6
# TYPE epp_adapter_loads_triggered_total counter
epp_adapter_loads_triggered_total{adapter="sql-lora"} 40
# TYPE epp_cache_match_ratio histogram
epp_cache_match_ratio_bucket{le="0"} 80
epp_cache_match_ratio_bucket{le="0.5"} 90
epp_cache_match_ratio_bucket{le="1"} 100
epp_cache_match_ratio_bucket{le="+Inf"} 100
epp_cache_match_ratio_sum 12.5
epp_cache_match_ratio_count 100
# TYPE epp_composite_score histogram
epp_composite_score_bucket{le="0.3"} 50
epp_composite_score_bucket{le="0.4"} 95
epp_composite_score_bucket{le="1"} 100
epp_composite_score_bucket{le="+Inf"} 100
epp_composite_score_sum 31
epp_composite_score_count 100
# TYPE epp_scoring_latency_us histogram
epp_scoring_latency_us_bucket{le="1000"} 90
epp_scoring_latency_us_bucket{le="100000"} 98
epp_scoring_latency_us_bucket{le="+Inf"} 100
epp_scoring_latency_us_sum 2e+06
epp_scoring_latency_us_count 100
# TYPE epp_queue_depth gauge
epp_queue_depth{pod="pod-a"} 19
epp_queue_depth{pod="pod-b"} 3
# TYPE epp_max_queue gauge
epp_max_queue 20
# TYPE epp_pod_health_score gauge
epp_pod_health_score{pod="pod-a"} 0.94
epp_pod_health_score{pod="pod-b"} 0.29
epp_pod_health_score{pod="pod-c"} NaN
epp_pod_health_score{pod="pod-d"} 0.95
epp_pod_health_score{pod="pod-e"} 0.3
# TYPE epp_candidate_pods gauge
epp_candidate_pods 4
# TYPE epp_pool_pods gauge
epp_pool_pods 5
# TYPE epp_prefix_tree_nodes gauge
epp_prefix_tree_nodes 0
`
