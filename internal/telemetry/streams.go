package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

// PodStreams are the streams of a pod's KV events.
type PodStreams struct {
	Pod     string
	Streams []kvfeed.Stats
}

// scrapeInbound registers the figures of connections that engines make for their KV
// events.
func (m *Metrics) scrapeInbound(inbound func() kvfeed.Inbound) {
	counter := func(name, help string, value func(*kvfeed.Inbound) uint64) {
		m.counterFunc(name, help, func() float64 {
			in := inbound()
			return float64(value(&in))
		})
	}
	m.gaugeFunc("epp_kv_event_inbound_connections", "Connections of publishers to the picker.", func() float64 { return float64(inbound().Connections) })
	m.gaugeFunc("epp_kv_event_inbound_unassigned", "Connections to the picker of which no batch of a pod has come yet.", func() float64 { return float64(inbound().Unassigned) })
	counter("epp_kv_event_inbound_refused_total", "Connections to the picker beyond a limit.", func(in *kvfeed.Inbound) uint64 { return in.Refused })
	counter("epp_kv_event_inbound_failed_total", "Connections to the picker that were none of a publisher.", func(in *kvfeed.Inbound) uint64 { return in.Failed })
	counter("epp_kv_event_inbound_strangers_total", "Messages on connections to the picker that fit no pod.", func(in *kvfeed.Inbound) uint64 { return in.Strangers })
}

// streamCollector asks for the streams of KV events when it is scraped, so that
// those of pods that are gone are absent. Ranks are added up.
type streamCollector struct {
	streams func() []PodStreams
	events  *prometheus.Desc // by kind
	blocks  *prometheus.Desc // by tier
	figures []streamFigure
}

// streamFigure is a number of a stream by its name on the metrics page.
type streamFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*kvfeed.Stats) float64
}

func newStreamCollector(streams func() []PodStreams) *streamCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"pod"}, labels...), nil)
	}
	counter := func(name, help string, value func(*kvfeed.Stats) uint64) streamFigure {
		return streamFigure{desc(name, help), prometheus.CounterValue, func(s *kvfeed.Stats) float64 { return float64(value(s)) }}
	}
	yes := func(name, help string, value func(*kvfeed.Stats) bool) streamFigure {
		return streamFigure{desc(name, help), prometheus.GaugeValue, func(s *kvfeed.Stats) float64 {
			if value(s) {
				return 1
			}
			return 0
		}}
	}
	return &streamCollector{
		streams: streams,
		events:  desc("epp_kv_events_total", "KV events that were applied, by kind.", "event"),
		blocks:  desc("epp_kv_blocks", "Blocks of the engine that its KV events say it holds, by tier.", "tier"),
		figures: []streamFigure{
			yes("epp_kv_event_streams_connected", "Streams of KV events that are connected; one for each rank.", func(s *kvfeed.Stats) bool { return s.Connected }),
			yes("epp_kv_event_streams_degraded", "Streams behind a gap that no replay has closed.", func(s *kvfeed.Stats) bool { return s.Degraded == kvindex.Gapped }),
			counter("epp_kv_event_connections_total", "Connections that were made for KV events.", func(s *kvfeed.Stats) uint64 { return s.Connections }),
			counter("epp_kv_event_gaps_total", "Jumps of the sequence number.", func(s *kvfeed.Stats) uint64 { return s.Gaps }),
			counter("epp_kv_event_batches_missed_total", "Batches that the sequence number skipped.", func(s *kvfeed.Stats) uint64 { return s.Missed }),
			counter("epp_kv_event_batches_recovered_total", "Batches that came by replay.", func(s *kvfeed.Stats) uint64 { return s.Recovered }),
			counter("epp_kv_event_replays_total", "Replays that were asked for.", func(s *kvfeed.Stats) uint64 { return s.Replays - min(s.Replays, s.ReplaysSpared) }),
			counter("epp_kv_event_replay_failures_total", "Replays that broke off.", func(s *kvfeed.Stats) uint64 { return s.ReplaysFailed }),
			counter("epp_kv_event_restarts_total", "Engines that began anew.", func(s *kvfeed.Stats) uint64 { return s.Restarts }),
			counter("epp_kv_event_decode_errors_total", "Messages, batches and events that could not be read.", func(s *kvfeed.Stats) uint64 {
				return s.Unreadable + s.DecodeErrors + s.Skipped
			}),
			counter("epp_kv_event_strangers_total", "Messages whose topic names a pod that no endpoint is.", func(s *kvfeed.Stats) uint64 { return s.Strangers }),
			counter("epp_kv_event_unknown_parents_total", "Events that follow a block which nobody had told of.", func(s *kvfeed.Stats) uint64 { return s.UnknownParents }),
			counter("epp_kv_event_dropped_blocks_total", "Blocks that were not taken for want of room.", func(s *kvfeed.Stats) uint64 { return s.Dropped + s.OrphansDropped }),
		},
	}
}

// Describe implements [prometheus.Collector].
func (c *streamCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.events
	ch <- c.blocks
	for _, f := range c.figures {
		ch <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *streamCollector) Collect(ch chan<- prometheus.Metric) {
	pods := map[string][]kvfeed.Stats{}
	for _, p := range c.streams() { // of one name there may be several endpoints for a while
		pods[p.Pod] = append(pods[p.Pod], p.Streams...)
	}
	for pod, streams := range pods {
		c.pod(ch, strings.ToValidUTF8(pod, "\uFFFD"), streams)
	}
}

func (c *streamCollector) pod(ch chan<- prometheus.Metric, pod string, streams []kvfeed.Stats) {
	sum := func(value func(*kvfeed.Stats) float64) (n float64) {
		for i := range streams {
			n += value(&streams[i])
		}
		return n
	}
	for kind := kvevent.Stored; kind <= kvevent.Cleared; kind++ {
		n := sum(func(s *kvfeed.Stats) float64 { return float64(s.Stats.Events[kind]) })
		ch <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, n, pod, kind.String())
	}
	told := slices.ContainsFunc(streams, func(s kvfeed.Stats) bool { return s.Connections > 0 })
	for tier := kvevent.GPU; tier <= kvevent.OtherTier; tier++ {
		n := sum(func(s *kvfeed.Stats) float64 { return float64(s.Tiers[tier]) })
		if tier == kvevent.GPU && told || n > 0 { // none is not known before there was a connection
			gauge(ch, c.blocks, n, pod, tier.String())
		}
	}
	for _, f := range c.figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, sum(f.value), pod)
	}
}
