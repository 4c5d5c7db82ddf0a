package metricview

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/eppctl/eppctl/internal/cli"
)

func TestPagesThatAreRefused(t *testing.T) {
	frame := func(size uint64) []byte { return append(binary.AppendUvarint(nil, size), "short"...) }
	for _, tc := range []struct {
		name, contentType string
		body              []byte
		want              string
	}{
		{"HTML by its type", "text/html; charset=utf-8", []byte("<p>no</p>"), "HTML"},
		{"HTML that calls itself text", "text/plain", []byte("\n <!DOCTYPE html><html>"), "HTML"},
		{"JSON", "application/json", []byte("{}"), `"application/json"`},
		{"a type that is none", ";;;", nil, `";;;"`},
		{"protobuf of another kind", "application/vnd.google.protobuf; proto=a.B; encoding=text", nil, "protobuf"},
		{"longer than anything", "", bytes.Repeat([]byte("# x\n"), maxBody/4+1), "more than 16777216 bytes"},
		{"more series than anything", "", bytes.Repeat([]byte("a 1\n"), maxSeries+1), "more than 150000 series"},
		{"more labels than anything", "", []byte("a{" + strings.Repeat(`b="",`, maxLabels+1) + "} 1\n"), "more than 900000 labels"},
		{"long protobuf", protobuf, make([]byte, maxProtoBytes+1), "bytes of protobuf"},
		{"a protobuf frame that is cut", protobuf, frame(100), "cut"},
		{"a protobuf frame of all memory", protobuf, frame(math.MaxUint64), "cut"},
		{"protobuf that is none", protobuf, frame(5), "malformed"},
		{"text that is none", "", []byte("what is this?\n"), "malformed"},
		{"a family with two types", "", []byte("# TYPE a counter\na 1\n# TYPE a gauge\na 2\n"), "malformed"},
		{"a line without an end of its label", "", []byte("a{b=\"c} 1\n"), "malformed"},
		{"OpenMetrics without its end", openMetrics, []byte("# TYPE a gauge\na 1\n"), "it is cut"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse(tc.body, tc.contentType)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
	if _, err := Parse(nil, "text/html"); !errors.Is(err, ErrHTML) {
		t.Errorf("HTML: %v", err)
	}
}

// Values that are none are unknown, and neither 0 nor in a sum.
func TestOddValues(t *testing.T) {
	page := text(t, `# TYPE epp_routing_decisions_total counter
epp_routing_decisions_total{model="nan"} NaN
epp_routing_decisions_total{model="negative"} -4
epp_routing_decisions_total{model="infinite"} +Inf
epp_routing_decisions_total{model="right"} 5
epp_queue_depth{pod="a"} NaN
epp_queue_depth{pod="b"} -Inf
epp_candidate_pods NaN
epp_max_queue 0
epp_queue_depth{pod="c"} 3
# TYPE epp_cache_match_ratio histogram
epp_cache_match_ratio_bucket{le="1"} NaN
epp_cache_match_ratio_bucket{le="+Inf"} 3
epp_cache_match_ratio_sum NaN
epp_cache_match_ratio_count 3
# TYPE epp_composite_score histogram
epp_composite_score_bucket{le="0.5"} 9
epp_composite_score_bucket{le="1"} 3
epp_composite_score_bucket{le="+Inf"} 10
epp_composite_score_sum NaN
epp_composite_score_count 10
# TYPE epp_scoring_latency_us gauge
epp_scoring_latency_us 7
`)
	d := look(t, single(page))
	if d.Routing.Total != 5 || len(d.Routing.Models) != 1 {
		t.Errorf("routing %+v, want 5 decisions of one model", d.Routing)
	}
	if d.CandidatePods != nil || len(d.Pods) != 1 || d.Pods[0].Pod != "c" || d.Pods[0].QueueShare != nil {
		t.Errorf("candidates %v, pods %+v", d.CandidatePods, d.Pods)
	}
	if d.CompositeScore.P50 == nil || d.CompositeScore.Mean != nil || d.CompositeScore.Buckets[1].Count != 0 {
		t.Errorf("a histogram that falls: %+v", d.CompositeScore)
	}
	if d.ScoringLatencyUs != nil || len(d.Notes) == 0 {
		t.Errorf("a gauge in place of a histogram: %+v, notes %q", d.ScoringLatencyUs, d.Notes)
	}
	asJSON(t, d) // has no NaN
	written(t, cli.FormatWide, 0, d.Write)
}

// A counter without a usable value is not known: it is no count of 0.
func TestCounterWithoutCounts(t *testing.T) {
	d := look(t, single(text(t, "# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"a\"} NaN\n")))
	if d.Routing != nil || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "a count is none") {
		t.Errorf("routing %+v, notes %q", d.Routing, d.Notes)
	}
}

// A series that stands on a page twice counts once, and that is said.
func TestRepeatedSeries(t *testing.T) {
	d := look(t, single(text(t, "# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"a\"} 5\nepp_routing_decisions_total{model=\"a\"} 7\n")))
	if d.Routing.Total != 5 || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "1 series more than once") {
		t.Errorf("%v decisions, notes %q", d.Routing.Total, d.Notes)
	}
}

// Families that come in pieces, as protobuf allows, are one.
func TestFamiliesInPieces(t *testing.T) {
	var b bytes.Buffer
	for i := range 3 {
		f := &dto.MetricFamily{Name: new("epp_routing_decisions_total"), Type: dto.MetricType_COUNTER.Enum(), Metric: []*dto.Metric{{
			Label: []*dto.LabelPair{{Name: new("model"), Value: new(fmt.Sprint(i))}}, Counter: &dto.Counter{Value: new(2.)},
		}}}
		if _, err := protodelim.MarshalTo(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	if d := look(t, single(parsed(t, b.Bytes(), protobuf, "page"))); d.Routing.Total != 6 || len(d.Routing.Models) != 3 {
		t.Errorf("routing %+v, want 6 decisions of 3 models", d.Routing)
	}
}

// Labels can't act on a terminal, in a table or in JSON.
func TestEscapesInLabels(t *testing.T) {
	d := look(t, single(text(t, troublePage)))
	for name, got := range map[string][]byte{
		"table": written(t, cli.FormatTable, 0, d.Write), "terminal": written(t, cli.FormatTable, 80, d.Write), "json": asJSON(t, d),
	} {
		if bytes.ContainsAny(got, "\x1b\r") {
			t.Errorf("%s lets an escape through:\n%s", name, got)
		}
	}
}

// A page of many pods and models is short in a table, and whole in -o wide.
func TestManyRows(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "epp_queue_depth{pod=\"pod-%03d\"} %d\n", i, i%7)
	}
	d := look(t, single(text(t, b.String())))
	if got := written(t, cli.FormatTable, 0, d.Write); bytes.Count(got, []byte("pod-")) > maxRows+1 || !bytes.Contains(got, []byte("and 280 more, see -o wide")) {
		t.Errorf("table:\n%s", got)
	}
	if got := written(t, cli.FormatWide, 0, d.Write); bytes.Count(got, []byte("\npod-")) != 300 {
		t.Errorf("wide has %d pods", bytes.Count(got, []byte("\npod-")))
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"eppctl-after.txt", "vllm-lora-busy.txt"} {
		f.Add(raw(f, name), "")
	}
	f.Add(raw(f, "eppctl-after.openmetrics.txt"), openMetrics)
	f.Add(raw(f, "eppctl-after.pb"), protobuf)
	f.Add([]byte(troublePage), "text/plain")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		if len(body) > 1<<20 {
			return
		}
		p, err := Parse(body, contentType)
		if err != nil {
			return
		}
		o := single(p)
		if d, err := Look(o, new(Held)); err == nil {
			asJSON(t, d)
			written(t, cli.FormatWide, 80, d.Write)
		}
		if d, err := Select(o, []Selector{{Name: "*"}}); err == nil {
			asJSON(t, d)
			written(t, cli.FormatTable, 0, d.Write)
		}
	})
}
