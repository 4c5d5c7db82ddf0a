package serve

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/extproc"
	"github.com/eppctl/eppctl/internal/gateway"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/score"
)

// figure is a number of a part of the picker, by its name on the metrics page.
type figure[Stats any] struct {
	name, help string
	value      func(*Stats) float64
}

// register adds counters and gauges of a part, which is asked on each scrape.
func register[Stats any](s *Server, stats func() Stats, counters, gauges []figure[Stats]) error {
	value := func(f figure[Stats]) func() float64 {
		return func() float64 {
			now := stats()
			return f.value(&now)
		}
	}
	var collectors []prometheus.Collector
	for _, f := range counters {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: f.name, Help: f.help}, value(f)))
	}
	for _, f := range gauges {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: f.name, Help: f.help}, value(f)))
	}
	for _, c := range collectors {
		if err := s.metrics.Registry().Register(c); err != nil {
			return err
		}
	}
	return nil
}

// metricSources are what the metrics page is read from.
func (s *Server) metricSources() telemetry.Sources {
	sources := telemetry.Sources{
		Pods: func() []score.PodState {
			pods, _ := s.pool.States(nil, &pool.Query{})
			return pods
		},
		Engines:  s.engineRequests,
		Tree:     s.tree.Stats,
		Recorder: s.ring.Stats,
		Weights:  func() *score.Weights { return s.picker.Weights() },
		Open:     func() int { return s.picker.Open() },
		Peers:    len(s.opts.Peers) > 0,
	}
	if s.feeds != nil {
		sources.Streams = s.streams
		if s.listeners.events != nil {
			sources.Inbound = s.feeds.Inbound
		}
	}
	if s.files != nil {
		sources.FilesFailed = func() uint64 { return s.files.Stats().Errors }
	}
	return sources
}

// engineRequests are those that the engines last said they have, by pod. Ranks of
// one pod add up, and are not known when one of them is not.
func (s *Server) engineRequests() map[string]float64 {
	requests, unknown := map[string]float64{}, map[string]bool{}
	for _, v := range s.pool.Views() {
		if v.Departed {
			continue
		}
		n, known := v.EngineRequests()
		requests[v.State.Pod] += n
		unknown[v.State.Pod] = unknown[v.State.Pod] || !known
	}
	maps.DeleteFunc(requests, func(pod string, _ float64) bool { return unknown[pod] })
	return requests
}

// registerGateway adds the gateway's own counts to the metrics page.
func (s *Server) registerGateway() error {
	type figures = []figure[gateway.Stats]
	return register(s, s.gateway.Stats, figures{
		{"epp_gateway_requests_total", "Requests that came to the gateway.", func(g *gateway.Stats) float64 { return float64(g.Requests) }},
		{"epp_gateway_refused_total", "Requests answered with an error before a pod was asked.", func(g *gateway.Stats) float64 { return float64(g.Refused) }},
		{"epp_gateway_overloaded_total", "Of the refused, those for want of memory for bodies.", func(g *gateway.Stats) float64 { return float64(g.Overloaded) }},
		{"epp_gateway_retries_total", "Requests sent to a second pod after a connection failed.", func(g *gateway.Stats) float64 { return float64(g.Retries) }},
		{"epp_gateway_reconnects_total", "Requests sent again after a dead keep-alive connection.", func(g *gateway.Stats) float64 { return float64(g.Reconnects) }},
		{"epp_gateway_panics_total", "Requests that ended in a panic of the gateway.", func(g *gateway.Stats) float64 { return float64(g.Panics) }},
	}, figures{
		{"epp_gateway_body_bytes", "Memory that request bodies hold now.", func(g *gateway.Stats) float64 { return float64(g.BodyBytes) }},
	})
}

// registerExtproc adds the counts of ext_proc to the metrics page.
func (s *Server) registerExtproc() error {
	type figures = []figure[extproc.Stats]
	return register(s, s.extproc.service.Stats, figures{
		{"epp_extproc_requests_total", "Requests that came through ext_proc.", func(e *extproc.Stats) float64 { return float64(e.Requests) }},
		{"epp_extproc_refused_total", "Requests answered with an error in a pod's place.", func(e *extproc.Stats) float64 { return float64(e.Refused) }},
		{"epp_extproc_overloaded_total", "Of the refused, those for want of memory for bodies or of streams.", func(e *extproc.Stats) float64 { return float64(e.Overloaded) }},
		{"epp_extproc_panics_total", "Streams that ended in a panic of the picker.", func(e *extproc.Stats) float64 { return float64(e.Panics) }},
		{"epp_extproc_second_ends_total", "Ends of a body that came again and were ignored.", func(e *extproc.Stats) float64 { return float64(e.SecondEnds) }},
		{"epp_extproc_mode_mismatches_total", "Streams whose messages fit no processing mode that is known.", func(e *extproc.Stats) float64 { return float64(e.Mismatches) }},
		{"epp_extproc_local_replies_total", "Answers that Envoy gave in a pod's place.", func(e *extproc.Stats) float64 { return float64(e.LocalReply) }},
		{"epp_extproc_unknown_ends_total", "Requests whose end nobody told.", func(e *extproc.Stats) float64 { return float64(e.Unknown) }},
		{"epp_extproc_idle_streams_total", "Streams ended because nothing came any more.", func(e *extproc.Stats) float64 { return float64(e.Idle) }},
		{"epp_extproc_access_log_entries_total", "Requests whose end the access log service told.", func(e *extproc.Stats) float64 { return float64(e.AccessLogs) }},
	}, figures{
		{"epp_extproc_streams", "Streams that are open now.", func(e *extproc.Stats) float64 { return float64(e.Streams) }},
		{"epp_extproc_body_bytes", "Memory that request bodies hold now.", func(e *extproc.Stats) float64 { return float64(e.BodyBytes) }},
		{"epp_extproc_waiting_picks", "Picks whose stream has ended and whose end is not known yet.", func(e *extproc.Stats) float64 { return float64(e.Waiting) }},
	})
}
