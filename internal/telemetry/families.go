package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/score"
)

// decide registers what is counted with a decision. Ten names of this package
// are fixed, dashboards and alerts use them: epp_routing_decisions_total,
// epp_cache_match_ratio, epp_composite_score, epp_scoring_latency_us,
// epp_queue_depth, epp_pod_health_score, epp_candidate_pods,
// epp_prefix_tree_nodes, epp_stale_cache_routing_total and
// epp_adapter_loads_triggered_total.
func (m *Metrics) decide() {
	m.decisions = newCapped(m.counters("epp_routing_decisions_total", "Requests that a pod was picked for, by base model.", "model"))
	m.adapterLoads = newCapped(m.counters("epp_adapter_loads_triggered_total", "Picks of a pod that had not loaded the adapter which the request needs.", "adapter"))
	// Zero stands apart: a cold pick is another thing than a short match.
	m.matchRatio = m.histogram("epp_cache_match_ratio", "Share of the prompt's blocks that the picked pod holds, where it is known.",
		0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1)
	m.score = m.histogram("epp_composite_score", "Composite score of the picked pod.",
		.1, .2, .3, .4, .5, .55, .6, .65, .7, .75, .8, .85, .9, .95, 1)
	// 1 ms is what p99 should stay under, 5 ms a red flag.
	m.latency = m.histogram("epp_scoring_latency_us", "Wall time from the prompt's token ids to the decision, in microseconds: look-up, custom scorers, scores and reservation.",
		5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 100_000)
	m.relaxed = m.counter("epp_relaxed_decisions_total", "Decisions for which the queue cutoff was let go, as every queue was full.")
	m.replacing = m.counter("epp_request_ids_replaced_total", "Requests whose ID could not be kept.")
	m.ties = m.counters("epp_ties_total", "Picks between pods of equal score, by what broke the tie.", "by")
	m.refused = m.counters("epp_refused_total", "Requests that no pod was picked for.", "reason")
	m.scorers = m.counters("epp_scorer_failures_total", "Custom scorers that cost their factor.", "scorer", "how")
	m.reports = m.counters("epp_reports_total", "Status reports received.", "result")
}

// outcomes registers what is counted with the end of a request.
func (m *Metrics) outcomes() {
	m.stale = m.counter("epp_stale_cache_routing_total", "Picks for a cache that the pod turned out not to have.")
	m.requests = m.counters("epp_requests_total", "Requests that ended after a pick, by class of the status that the client got; unknown where nobody told how they ended.", "code")
	m.ttft = m.histogram("epp_time_to_first_token_seconds", "From arrival to the first byte of the answer's body, by the picker's clock.",
		.01, .025, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120)
	m.duration = m.histogram("epp_request_duration_seconds", "From arrival to the end, by the picker's clock.",
		.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 1200)
	m.prompt = m.counter("epp_prompt_tokens_total", "Prompt tokens, as the engines counted them.")
	m.output = m.counter("epp_output_tokens_total", "Generated tokens, as the engines counted them.")
	m.predicted = m.counter("epp_predicted_cached_tokens_total", "Tokens that the picked pods should have found in their cache, where the engine told how many it found.")
	m.cached = m.counter("epp_cached_tokens_total", "Tokens that the engines found in their cache, where there was a prediction.")
}

// resolve looks up once the series that requests count into, which also shows
// them at zero from the start.
func (m *Metrics) resolve() {
	for r := range m.refusals {
		if r := score.Refusal(r); r != score.Picked {
			m.refusals[r] = m.refused.WithLabelValues(r.String())
		}
	}
	m.refusals[score.Picked] = m.refusals[score.NoEndpoint] // never: a refusal has a reason
	for i, by := range []string{"tieLoad", "tieQueue", "tieSeed"} {
		m.tiesBy[i] = m.ties.WithLabelValues(by)
	}
	for i, class := range codeClasses {
		m.codes[i] = m.requests.WithLabelValues(class)
	}
	m.unknown = m.requests.WithLabelValues(codeUnknown)
}

// scrape registers what is asked for on each scrape.
func (m *Metrics) scrape(s Sources) {
	if s.Pods != nil {
		m.registry.MustRegister(newPodCollector(s, m.picks))
	}
	if s.Streams != nil {
		m.registry.MustRegister(newStreamCollector(s.Streams))
	}
	if s.Inbound != nil {
		m.scrapeInbound(s.Inbound)
	}
	if s.Open != nil {
		m.gaugeFunc("epp_open_requests", "Picks that have not ended: the ledger.", func() float64 { return float64(s.Open()) })
	}
	if s.FilesFailed != nil {
		m.counterFunc("epp_record_file_failures_total", "Decisions that could not be written to a file.", func() float64 { return float64(s.FilesFailed()) })
	}
	m.scrapeTree(s)
	m.scrapeRecorder(s)
	if s.Weights != nil {
		m.registry.MustRegister(newWeightCollector(s.Weights))
	}
}

func (m *Metrics) scrapeTree(s Sources) {
	if s.Tree == nil {
		return
	}
	m.gaugeFunc("epp_prefix_tree_nodes", "Distinct blocks that at least one pod holds.", func() float64 { return float64(s.Tree().Blocks) })
	m.gaugeFunc("epp_prefix_tree_bytes", "Memory of the prefix tree, as estimated.", func() float64 { return float64(s.Tree().BytesEstimate) })
	m.counterFunc("epp_prefix_tree_stale_messages_total", "Messages dropped because the pod has been replaced.", func() float64 { return float64(s.Tree().StaleMessages) })
	m.counterFunc("epp_prefix_tree_dropped_blocks_total", "Blocks that the tree had no place for.", func() float64 { return float64(s.Tree().DroppedBlocks) })
}

func (m *Metrics) scrapeRecorder(s Sources) {
	if s.Recorder == nil {
		return
	}
	m.gaugeFunc("epp_record_decisions", "Decisions in the ring.", func() float64 { return float64(s.Recorder().Records) })
	m.gaugeFunc("epp_record_bytes", "Memory of the ring in use.", func() float64 { return float64(s.Recorder().Bytes) })
	m.gaugeFunc("epp_record_span_seconds", "Time that the ring covers, by the picker's clock.", func() float64 {
		stats := s.Recorder()
		return stats.Span().Seconds()
	})
	m.counterFunc("epp_record_evicted_total", "Decisions that left the ring to make room.", func() float64 { return float64(s.Recorder().Evicted) })
	m.counterFunc("epp_record_skipped_total", "Decisions that could not be recorded.", func() float64 { return float64(s.Recorder().Skipped) })
}

func (m *Metrics) gaugeFunc(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

func (m *Metrics) counterFunc(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
}

func (m *Metrics) build(info buildinfo.Info) {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "epp_build_info", Help: "Which eppctl this is; always 1."}, []string{"version", "revision", "goversion"})
	m.registry.MustRegister(g)
	g.WithLabelValues(info.Version, info.Revision, info.Go).Set(1)
}

// weightCollector tells the weights and limits in force, which queue alerts and
// graphs compare with.
type weightCollector struct {
	weights                      func() *score.Weights
	weight, maxQueue, generation *prometheus.Desc
}

func newWeightCollector(weights func() *score.Weights) *weightCollector {
	return &weightCollector{
		weights:    weights,
		weight:     prometheus.NewDesc("epp_weight", "Weight of a factor.", []string{"factor"}, nil),
		maxQueue:   prometheus.NewDesc("epp_max_queue", "Queue depth at which a pod counts as full.", nil, nil),
		generation: prometheus.NewDesc("epp_weights_generation", "Changes of the weights since the start.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *weightCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.weight, c.maxQueue, c.generation} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *weightCollector) Collect(ch chan<- prometheus.Metric) {
	w := c.weights()
	for f := range w.Factors() {
		gauge(ch, c.weight, w.Weight(f), w.FactorName(f))
	}
	gauge(ch, c.maxQueue, float64(w.MaxQueue))
	gauge(ch, c.generation, float64(w.Generation))
}
