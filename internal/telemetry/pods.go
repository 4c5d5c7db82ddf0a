package telemetry

import (
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/score"
)

// podCollector asks for the pods when it is scraped, so that pods which are
// gone, and values which are not known, are absent.
type podCollector struct {
	pods    func() []score.PodState
	engines func() map[string]float64
	picks   *perPod
	peers   bool

	queue, pending, peerPending, inFlight, engine, health, utilization, picked, candidates, members *prometheus.Desc
}

func newPodCollector(s Sources, picks *perPod) *podCollector {
	perPod := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"pod"}, nil)
	}
	return &podCollector{
		pods: s.Pods, engines: s.Engines, picks: picks, peers: s.Peers,
		queue:       perPod("epp_queue_depth", "Requests waiting at the pod as it last said, and picks that it can't have counted yet."),
		pending:     perPod("epp_pod_pending_requests", "Picks that the pod's last report can't have counted and that it has not answered."),
		peerPending: perPod("epp_pod_peer_pending_requests", "Those of other replicas, as they told."),
		inFlight:    perPod("epp_pod_in_flight_requests", "Requests given to the pod that have not ended."),
		engine:      perPod("epp_pod_engine_requests", "Requests that the pod's engine last said it has, running and waiting. Where it stays below what all pickers have in flight, requests have leaked."),
		health:      perPod("epp_pod_health_score", "Health from 0 (failed) to 1; a pod below 0.3 gets no new requests."),
		utilization: perPod("epp_pod_utilization_ratio", "Utilization that the load factor is computed from."),
		picked:      perPod("epp_pod_picks_total", "Requests that the pod was picked for."),
		candidates:  prometheus.NewDesc("epp_candidate_pods", "Pods that could be picked for some request: ready, not terminating, not known to be unhealthy.", nil, nil),
		members:     prometheus.NewDesc("epp_pool_pods", "Pods of the pool, whatever their state.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *podCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.queue, c.pending, c.peerPending, c.inFlight, c.engine, c.health, c.utilization, c.picked, c.candidates, c.members} {
		ch <- d
	}
}

// podFigures are what is told of one pod; NaN stands for not known.
type podFigures struct {
	queue, health, utilization float64
	pending, peers, inFlight   int
}

// Collect implements [prometheus.Collector].
func (c *podCollector) Collect(ch chan<- prometheus.Metric) {
	states := c.pods()
	candidates := 0
	figures := make(map[string]podFigures, len(states))
	there := make(map[string]bool, len(states))
	for i := range states {
		s := &states[i]
		if candidate(s) {
			candidates++
		}
		f, again := figures[s.Pod]
		figures[s.Pod] = f.with(s, again)
		there[s.Pod] = true
	}
	c.picks.keep(there)
	var engines map[string]float64
	if c.engines != nil {
		engines = c.engines()
	}
	for pod, f := range figures {
		label := strings.ToValidUTF8(pod, "\uFFFD")
		gauge(ch, c.queue, f.queue, label)
		gauge(ch, c.health, f.health, label)
		gauge(ch, c.utilization, f.utilization, label)
		gauge(ch, c.pending, float64(f.pending), label)
		if c.peers {
			gauge(ch, c.peerPending, float64(f.peers), label)
		}
		gauge(ch, c.inFlight, float64(f.inFlight), label)
		if n, known := engines[pod]; known {
			gauge(ch, c.engine, n, label)
		}
		ch <- prometheus.MustNewConstMetric(c.picked, prometheus.CounterValue, float64(c.picks.count(pod)), label)
	}
	gauge(ch, c.candidates, float64(candidates))
	gauge(ch, c.members, float64(len(states)))
}

// with adds an endpoint to the figures of its pod: several ranks may share a
// name. Queues add up, and are unknown if one of them is; the least health and
// the highest utilization count.
func (f podFigures) with(s *score.PodState, again bool) podFigures {
	depth, known := s.QueueDepth()
	if !known {
		depth = math.NaN()
	}
	if !again {
		f = podFigures{queue: 0, health: math.NaN(), utilization: math.NaN()}
	}
	f.queue += depth
	f.health = pick(f.health, number(s.Health), math.Min)
	f.utilization = pick(f.utilization, number(s.Utilization), math.Max)
	f.pending += s.Pending
	f.peers += s.PeerPending
	f.inFlight += s.InFlight
	return f
}

// pick is the better of two values of which each may be unknown.
func pick(a, b float64, better func(a, b float64) float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return better(a, b)
}

// number is the value of a reading, NaN when there is none to compute with.
func number(r score.Reading) float64 {
	if !r.State.Usable() || math.IsInf(r.Value, 0) || r.Value < 0 {
		return math.NaN()
	}
	return r.Value
}

// candidate reports whether a pod could be picked for some request.
func candidate(s *score.PodState) bool {
	if s.Excluded != score.Eligible {
		return false
	}
	return !(number(s.Health) < score.HealthCutoff) // also when not known
}

func gauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	if math.IsNaN(value) {
		return
	}
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}
