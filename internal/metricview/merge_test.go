package metricview

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"
)

// replica is a picker that counts.
type replica struct {
	registry              *prometheus.Registry
	decisions, adapters   *prometheus.CounterVec
	picks                 *prometheus.CounterVec
	match, score, latency prometheus.Histogram
	stale                 prometheus.Counter
}

func newReplica() *replica {
	r := &replica{registry: prometheus.NewRegistry()}
	vec := func(name, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{label})
		r.registry.MustRegister(v)
		return v
	}
	histogram := func(name string, buckets ...float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Buckets: buckets})
		r.registry.MustRegister(h)
		return h
	}
	r.decisions, r.adapters, r.picks = vec("epp_routing_decisions_total", "model"), vec("epp_adapter_loads_triggered_total", "adapter"), vec("epp_pod_picks_total", "pod")
	r.match = histogram("epp_cache_match_ratio", 0, .25, .5, .75, 1)
	r.score = histogram("epp_composite_score", .2, .4, .6, .8, 1)
	r.latency = histogram("epp_scoring_latency_us", 10, 100, 1000)
	r.stale = prometheus.NewCounter(prometheus.CounterOpts{Name: "epp_stale_cache_routing_total"})
	r.registry.MustRegister(r.stale)
	return r
}

// decision is what a replica counts of one. Values are multiples of 1/8, so that
// sums do not depend on their order.
type decision struct {
	model, pod            string
	match, score, latency float64
	stale, load           bool
}

func (r *replica) see(d decision) {
	r.decisions.WithLabelValues(d.model).Inc()
	r.picks.WithLabelValues(d.pod).Inc()
	r.match.Observe(d.match)
	r.score.Observe(d.score)
	r.latency.Observe(d.latency)
	if d.stale {
		r.stale.Inc()
	}
	if d.load {
		r.adapters.WithLabelValues("adapter-of-" + d.model).Inc()
	}
}

func (r *replica) page(t *rapid.T) *Page {
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Parse(b.Bytes(), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	p.At = now
	return p
}

func drawDecision(t *rapid.T) decision {
	eighths := func(name string, most int) float64 { return float64(rapid.IntRange(0, most).Draw(t, name)) / 8 }
	return decision{
		model: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "model"), pod: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pod"),
		match: eighths("match", 8), score: eighths("score", 8), latency: eighths("latency", 20_000),
		stale: rapid.Bool().Draw(t, "stale"), load: rapid.Bool().Draw(t, "load"),
	}
}

// What two replicas saw between two pages each, added up, is what one would have
// seen alone.
func TestTwoReplicasEqualOneThatSawBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other, both := newReplica(), newReplica(), newReplica()
		see := func(name string) {
			for _, d := range rapid.SliceOfN(rapid.Custom(drawDecision), 0, 30).Draw(t, name) {
				both.see(d)
				if rapid.Bool().Draw(t, "which") {
					one.see(d)
				} else {
					other.see(d)
				}
			}
		}
		see("before")
		firsts := []*Page{one.page(t), other.page(t), both.page(t)}
		see("after")
		lasts := []*Page{one.page(t), other.page(t), both.page(t)}
		for _, p := range lasts {
			p.At = now.Add(8e9)
		}
		split, err := Look(Observation{Replicas: []Replica{{firsts[0], lasts[0]}, {firsts[1], lasts[1]}}, Now: now}, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Look(Observation{Replicas: []Replica{{firsts[2], lasts[2]}}, Now: now}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, split, cmpopts.IgnoreFields(Document{}, "Pages"), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Fatalf("one replica and two (-one +two):\n%s", diff)
		}
	})
}

func TestReplicasWithOtherBuckets(t *testing.T) {
	a := &Histogram{Buckets: []Bucket{{1, 1}, {2, 4}, {4, 6}, {posInf, 8}}, Count: 8, Sum: 20}
	b := &Histogram{Buckets: []Bucket{{2, 3}, {3, 4}, {posInf, 5}}, Count: 5, Sum: 9}
	want := &Histogram{Buckets: []Bucket{{2, 7}, {posInf, 13}}, Count: 13, Sum: 29}
	for name, got := range map[string]*Histogram{"a+b": a.Plus(b), "b+a": b.Plus(a)} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Gauges are views of the same things, and not added up, but for what each replica
// has of its own.
func TestGaugesOfTwoReplicas(t *testing.T) {
	page := func(queue, health, candidates, nodes, inFlight string) Replica {
		return Replica{After: text(t, "epp_queue_depth{pod=\"a\"} "+queue+"\nepp_pod_health_score{pod=\"a\"} "+health+"\nepp_candidate_pods "+candidates+
			"\nepp_prefix_tree_nodes "+nodes+"\nepp_pod_in_flight_requests{pod=\"a\"} "+inFlight+"\n")}
	}
	d := look(t, Observation{Replicas: []Replica{page("3", "1", "4", "100", "2"), page("5", ".5", "3", "90", "7")}, Now: now})
	p := d.Pods[0]
	got := []float64{*p.Queue, *p.Health, *d.CandidatePods, *d.PrefixTree.Nodes, *p.InFlight}
	if diff := cmp.Diff([]float64{5, .5, 3, 100, 9}, got); diff != "" {
		t.Errorf("queue, health, candidates, nodes, in flight (-want +got):\n%s", diff)
	}
}
