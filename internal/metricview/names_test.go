package metricview

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// without takes the lines of families off a text page.
func without(page []byte, prefixes ...string) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(page) {
		name := bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("# HELP ")), []byte("# TYPE "))
		keep := true
		for _, prefix := range prefixes {
			keep = keep && !bytes.HasPrefix(name, []byte(prefix))
		}
		if keep {
			b.Write(line)
		}
	}
	return b.Bytes()
}

// A page of llm-d's picker has new and old names side by side. Each alone says the
// same as both.
func TestOldAndNewNamesOfLLMD(t *testing.T) {
	for _, name := range []string{"llmd-main", "llmd-v0.10.0", "llmd-v0.9.0"} {
		page := raw(t, name+".txt")
		both := look(t, single(parsed(t, page, "", name)))
		for alone, body := range map[string][]byte{
			"new": without(page, "inference_"),
			"old": without(page, "llm_d_"),
		} {
			got := look(t, single(parsed(t, body, "", name)))
			opts := cmp.Options{cmpopts.IgnoreFields(Document{}, "Families"), cmpopts.IgnoreFields(PageInfo{}, "Families", "Series")}
			if diff := cmp.Diff(both, got, opts); diff != "" {
				t.Errorf("%s with %s names alone (-both +alone):\n%s", name, alone, diff)
			}
		}
	}
}

// What llm-d's picker did is known from its requests: 98 picks, 82 % for one model.
func TestLLMDCounts(t *testing.T) {
	d := look(t, single(captured(t, "llmd-main")))
	if d.Routing.Total != 98 || d.Routing.Models[0].Total != 80 {
		t.Errorf("%v decisions, %v of the first model, want 98 and 80", d.Routing.Total, d.Routing.Models[0].Total)
	}
	if d.ScoringLatencyUs.Count != 98 || *d.ScoringLatencyUs.P50 < 200 || *d.ScoringLatencyUs.P50 > 500 {
		t.Errorf("scoring latency %+v, want 98 around 400 µs", d.ScoringLatencyUs)
	}
	if d.CompositeScore != nil || d.Stale != nil {
		t.Errorf("composite score %v, stale %v: not on that page", d.CompositeScore, d.Stale)
	}
}

// The three formats of one moment say the same.
func TestFormatsSayTheSame(t *testing.T) {
	want := look(t, single(captured(t, "eppctl-after")))
	for _, tc := range []struct{ file, contentType, format string }{
		{"eppctl-after.openmetrics.txt", openMetrics, "openmetrics"},
		{"eppctl-after.pb", protobuf, "protobuf"},
	} {
		d := look(t, single(parsed(t, raw(t, tc.file), tc.contentType, "eppctl-after")))
		if d.Pages[0].Format != tc.format {
			t.Errorf("%s was read as %s", tc.file, d.Pages[0].Format)
		}
		opts := cmp.Options{cmpopts.IgnoreFields(PageInfo{}, "Format", "Families", "Series"), cmpopts.IgnoreFields(Document{}, "Time")}
		if diff := cmp.Diff(want, d, opts); diff != "" {
			t.Errorf("text and %s (-text +other):\n%s", tc.file, diff)
		}
	}
}

// All that OpenMetrics has and the classic format has not, read as prometheus/common
// reads it.
func TestOpenMetrics(t *testing.T) {
	const page = `# HELP a Some \\ "help".
# TYPE a counter
# UNIT a seconds
a_total{b="x } # y",c="\"\\ \n"} 3.5 1796000000.5 # {trace_id="1"} 1 2
a_created{b="x } # y",c="\"\\ \n"} 1796000000
# TYPE h histogram
# HELP h Help behind the type.
h_bucket{le="1.0"} 2 # {trace_id="a b"} 0.5
h_bucket{le="+Inf"} 3
h_count 3
h_sum 4.5
h_created 1796000000
# TYPE build info
build_info{version="1"} 1
# TYPE s summary
s{quantile="0.5"} 7
s_count 2
s_sum 14
# TYPE g gauge
g -1e3
# EOF
`
	got := parsed(t, []byte(page), openMetrics, "page")
	decoder := expfmt.NewDecoder(strings.NewReader(page), openMetrics)
	for {
		want := new(dto.MetricFamily)
		if err := decoder.Decode(want); err != nil {
			break
		}
		f := got.Family(want.GetName())
		if f == nil {
			t.Errorf("no family %s", want.GetName())
			continue
		}
		if diff := cmp.Diff(seriesOf(want.GetMetric()[0]), f.Series[0]); diff != "" || f.Help != want.GetHelp() || len(f.Series) != len(want.GetMetric()) {
			t.Errorf("%s, help %q, want %q (-oracle +got):\n%s", f.Name, f.Help, want.GetHelp(), diff)
		}
	}
	if len(got.Families) != 5 {
		t.Errorf("%d families, want 5", len(got.Families))
	}
}

// A family that is not there is named, and its values are null.
func TestMissingFamilies(t *testing.T) {
	page := raw(t, "eppctl-after.txt")
	for _, q := range []*question{&decisions, &cacheMatch, &compositeScore, &scoringLatency, &queueDepth, &health, &candidates, &treeNodes, &stale, &adapterLoads} {
		t.Run(q.name, func(t *testing.T) {
			d := look(t, single(parsed(t, without(page, q.sources[0].name), "", "page")))
			if len(d.Missing) != 1 || d.Missing[0].Question != q.name || d.Missing[0].Reason == "" || d.Missing[0].Families[0] != q.sources[0].name {
				t.Errorf("missing %+v, want %s alone, with a reason", d.Missing, q.name)
			}
		})
	}
}

// Every question has a reason for each maker.
func TestReasons(t *testing.T) {
	for _, q := range []*question{&decisions, &picks, &cacheMatch, &compositeScore, &scoringLatency, &queueDepth, &maxQueue, &health, &candidates, &poolPods, &treeNodes, &treeBytes, &stale, &adapterLoads} {
		for _, m := range []Maker{Eppctl, LLMD} {
			if q.why.of(m) == "" {
				t.Errorf("%s: no reason why a page of %s lacks it", q.name, m)
			}
		}
	}
}

func TestPagesThatCannotBeLookedAt(t *testing.T) {
	_, err := Look(Observation{Replicas: []Replica{{After: captured(t, "eppctl-after")}, {After: captured(t, "vllm-busy")}}}, nil)
	if e, ok := errors.AsType[*MixedError](err); !ok || e.First != Eppctl || e.Second != Engine {
		t.Errorf("a picker and an engine: %v", err)
	}
	_, err = Look(single(text(t, "go_goroutines 7\nup 1\n")), nil)
	if e, ok := errors.AsType[*StrangerError](err); !ok || !strings.Contains(err.Error(), "go_goroutines, up") {
		t.Errorf("somebody else's page: %v (%v)", err, e)
	}
	if _, err := Look(single(text(t, "")), nil); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty page: %v", err)
	}
	if _, err := Look(Observation{}, nil); err == nil {
		t.Error("no page: no error")
	}
}

func TestEngines(t *testing.T) {
	busy := look(t, single(captured(t, "vllm-dp2-busy"))).Engines[0]
	if len(busy.Ranks) != 3 || busy.Ranks[2].Rank != "all" || *busy.Ranks[2].Waiting != 12 || *busy.Ranks[0].Running != 8 {
		t.Errorf("ranks of a data parallel engine: %+v", busy.Ranks)
	}
	if got, want := *busy.Ranks[1].PrefixHitRatio, 144./730; got != want {
		t.Errorf("prefix hits of rank 1 are %v, want %v", got, want)
	}
	idle := look(t, single(captured(t, "vllm-idle"))).Engines[0]
	if idle.Ranks[0].PrefixHitRatio != nil {
		t.Errorf("prefix hits of an engine without requests are %v, want unknown", *idle.Ranks[0].PrefixHitRatio)
	}
	sglang := text(t, "sglang:num_queue_reqs{dp_rank=\"0\"} 1\nsglang:num_running_reqs{dp_rank=\"0\"} 2\nsglang:token_usage{dp_rank=\"0\"} 0.5\nsglang:cache_hit_rate{dp_rank=\"0\"} 0.25\n")
	if r := look(t, single(sglang)).Engines[0].Ranks[0]; *r.PrefixHitRatio != .25 || *r.Waiting != 1 {
		t.Errorf("SGLang: %+v", r)
	}
	// Between two pages only what was new counts.
	before, after := captured(t, "vllm-idle"), captured(t, "vllm-idle")
	set := func(p *Page, hits, queries float64) {
		p.Family("vllm:prefix_cache_hits_total").Series[0].Value = hits
		p.Family("vllm:prefix_cache_queries_total").Series[0].Value = queries
	}
	set(before, 100, 1000)
	set(after, 190, 1100)
	d := look(t, Observation{Replicas: []Replica{{before, after}}, Now: now})
	if got := *d.Engines[0].Ranks[0].PrefixHitRatio; got != .9 {
		t.Errorf("prefix hits between the pages are %v, want 0.9", got)
	}
}

// What is written in Prometheus' format is what was read.
func TestPromIsThePageAgain(t *testing.T) {
	for _, name := range []string{"eppctl-after", "llmd-main", "vllm-busy"} {
		page := captured(t, name)
		var b bytes.Buffer
		if err := WriteProm(&b, single(page), nil); err != nil {
			t.Fatal(err)
		}
		again := parsed(t, b.Bytes(), string(expfmt.NewFormat(expfmt.TypeTextPlain)), name)
		if diff := cmp.Diff(page.Families, again.Families, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-page +again):\n%s", name, diff)
		}
	}
	var b bytes.Buffer
	two := Observation{Replicas: []Replica{{After: text(t, "up 1\n")}, {After: &Page{Source: "http://b:1/metrics", Families: []Family{{Name: "up", Kind: Gauge, Series: []Series{{Value: 0}}}}}}}}
	if err := WriteProm(&b, two, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`up{instance="10.0.0.1:9090"} 1`, `up{instance="b:1"} 0`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func TestResets(t *testing.T) {
	page := func(start, count, le1, inf float64, at time.Duration) *Page {
		p := text(t, fmt.Sprintf("process_start_time_seconds %v\n# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"a\"} %v\n"+
			"# TYPE epp_cache_match_ratio histogram\nepp_cache_match_ratio_bucket{le=\"1\"} %v\nepp_cache_match_ratio_bucket{le=\"+Inf\"} %v\nepp_cache_match_ratio_sum 1\nepp_cache_match_ratio_count %v\n",
			start, count, le1, inf, inf))
		p.At = now.Add(at)
		return p
	}
	began := float64(now.Unix())
	for _, tc := range []struct {
		name               string
		before, after      *Page
		decisions, matches float64
		rate               float64
		restarted          bool
	}{
		{"counted on", page(1, 100, 50, 100, 0), page(1, 130, 60, 130, 10*time.Second), 30, 30, 3, false},
		{"fell", page(1, 100, 50, 100, 0), page(1, 20, 5, 20, 10*time.Second), 20, 20, 2, false},
		{"a bucket fell though the count did not", page(1, 100, 50, 100, 0), page(1, 110, 40, 110, 10*time.Second), 10, 110, 1, false},
		{"restarted and overtook", page(1, 100, 50, 100, 0), page(began+5, 110, 60, 110, 10*time.Second), 110, 110, 22, true},
		{"restarted, with a clock that goes after", page(1, 100, 50, 100, 0), page(5, 110, 60, 110, 10*time.Second), 110, 110, 11, true},
		{"restarted, with a clock that goes before", page(1, 100, 50, 100, 0), page(began+60, 110, 60, 110, 10*time.Second), 110, 110, 11, true},
		{"stood still", page(1, 100, 50, 100, 0), page(1, 100, 50, 100, 10*time.Second), 0, 0, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := look(t, Observation{Replicas: []Replica{{tc.before, tc.after}}, Now: now})
			if d.Routing.Decisions != tc.decisions || d.CacheMatch.Count != tc.matches || *d.Routing.PerSecond != tc.rate || d.Pages[0].Restarted != tc.restarted {
				t.Errorf("decisions %v, matches %v, rate %v, restarted %v; want %v, %v, %v, %v",
					d.Routing.Decisions, d.CacheMatch.Count, *d.Routing.PerSecond, d.Pages[0].Restarted, tc.decisions, tc.matches, tc.rate, tc.restarted)
			}
			if tc.matches == 0 && d.CacheMatch.P50 != nil {
				t.Errorf("p50 of nothing is %v, want unknown", *d.CacheMatch.P50)
			}
		})
	}
}

// A series that was not there began at 0; one that is gone is gone.
func TestSeriesThatComeAndGo(t *testing.T) {
	before := text(t, "# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"gone\"} 5\nepp_routing_decisions_total{model=\"stays\"} 5\n")
	after := text(t, "# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"stays\"} 6\nepp_routing_decisions_total{model=\"new\"} 3\n")
	after.At = now.Add(time.Second)
	d := look(t, Observation{Replicas: []Replica{{before, after}}, Now: now})
	got := map[string]float64{}
	for _, m := range d.Routing.Models {
		got[m.Model] = m.Decisions
	}
	if diff := cmp.Diff(map[string]float64{"stays": 1, "new": 3}, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}
