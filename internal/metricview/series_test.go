package metricview

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/golden"
)

func selectors(t *testing.T, texts ...string) []Selector {
	t.Helper()
	var list []Selector
	for _, text := range texts {
		s, err := ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func TestSelect(t *testing.T) {
	for _, tc := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"a name", []string{"epp_candidate_pods"}, "epp_candidate_pods"},
		{"a name with a label", []string{`epp_queue_depth{pod="sim-1"}`}, `epp_queue_depth pod="sim-1"`},
		{"labels alone", []string{`{tier="gpu",pod="sim-0"}`}, `epp_kv_blocks pod="sim-0",tier="gpu"`},
		{"a glob", []string{"epp_pod_h*"}, `epp_pod_health_score pod="sim-0"; epp_pod_health_score pod="sim-1"; epp_pod_health_score pod="sim-2"; epp_pod_health_score pod="sim-3"`},
		{"a part of a histogram", []string{"epp_composite_score_bucket"}, "epp_composite_score"},
		{"the same twice", []string{"epp_max_queue", "epp_max_*"}, "epp_max_queue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := Select(single(captured(t, "eppctl-after")), selectors(t, tc.texts...))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range d.Items {
				name := item.Name
				if len(item.labels) > 0 {
					name += " " + labelText(item.labels)
				}
				got = append(got, name)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectTables(t *testing.T) {
	d, err := Select(between(t), selectors(t, "epp_routing_*", "epp_*_us", "go_gc_duration_seconds", "epp_max_queue"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/series.txt", written(t, cli.FormatTable, 0, d.Write))
	golden.Equal(t, "testdata/series.wide.txt", written(t, cli.FormatWide, 0, d.Write))
	golden.Equal(t, "testdata/series.json", asJSON(t, d))
}

// Of two replicas counters are added up, and gauges told of each.
func TestSelectFromReplicas(t *testing.T) {
	page := func(source, body string) Replica {
		p := text(t, body)
		p.Source = source
		return Replica{After: p}
	}
	o := Observation{Now: now, Replicas: []Replica{
		page("http://a:1/metrics", "# TYPE c counter\nc 1\n# TYPE g gauge\ng 5\n"),
		page("http://b:1/metrics", "# TYPE c counter\nc 2\n# TYPE g gauge\ng 6\n"),
	}}
	d, err := Select(o, selectors(t, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range d.Items {
		got = append(got, item.Name+" "+labelText(item.labels)+" "+Number(*item.Value))
	}
	want := []string{"c - 3", `g instance="a:1" 5`, `g instance="b:1" 6`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestSelectRates(t *testing.T) {
	before, after := text(t, "# TYPE c_total counter\nc_total 10\n"), text(t, "# TYPE c_total counter\nc_total 30\n")
	after.At = now.Add(4 * time.Second)
	d, err := Select(Observation{Replicas: []Replica{{before, after}}, Now: now}, selectors(t, "c_total"))
	if err != nil {
		t.Fatal(err)
	}
	if item := d.Items[0]; *item.Value != 30 || *item.PerSecond != 5 {
		t.Errorf("value %v, rate %v, want 30 and 5", *item.Value, *item.PerSecond)
	}
}

func TestNothingSelected(t *testing.T) {
	_, err := Select(single(captured(t, "eppctl-after")), selectors(t, "epp_candidate_pods", "epp_match_ratio"))
	e, ok := errors.AsType[*NoSeriesError](err)
	if !ok || e.Selector != "epp_match_ratio" || len(e.Near) == 0 || e.Near[0] != "epp_cache_match_ratio" {
		t.Errorf("error %v, near %v", err, e)
	}
}

func TestSelectorsThatAreNone(t *testing.T) {
	for _, text := range []string{"a[", `a{b="c"`, "a{b=c}", `a{="c"}`, `a{b!="c"}`, `a{b="c\"}`} {
		if s, err := ParseSelector(text); err == nil {
			t.Errorf("ParseSelector(%q) = %+v, want an error", text, s)
		}
	}
	s, err := ParseSelector(`a{b="c\"d\\e\nf", g="}"}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Label{{"b", "c\"d\\e\nf"}, {"g", "}"}}, s.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
