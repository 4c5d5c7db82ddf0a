package serve

import "github.com/prometheus/client_golang/prometheus"

// registerGateway adds the gateway's own counts to the metrics page.
func (s *Server) registerGateway() error {
	for _, c := range []struct {
		name, help string
		value      func() uint64
	}{
		{"epp_gateway_requests_total", "Requests that came to the gateway.", func() uint64 { return s.gateway.Stats().Requests }},
		{"epp_gateway_refused_total", "Requests answered with an error before a pod was asked.", func() uint64 { return s.gateway.Stats().Refused }},
		{"epp_gateway_overloaded_total", "Of the refused, those for want of memory for bodies.", func() uint64 { return s.gateway.Stats().Overloaded }},
		{"epp_gateway_retries_total", "Requests sent to a second pod after a connection failed.", func() uint64 { return s.gateway.Stats().Retries }},
		{"epp_gateway_reconnects_total", "Requests sent again after a dead keep-alive connection.", func() uint64 { return s.gateway.Stats().Reconnects }},
		{"epp_gateway_panics_total", "Requests that ended in a panic of the gateway.", func() uint64 { return s.gateway.Stats().Panics }},
	} {
		collector := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, func() float64 { return float64(c.value()) })
		if err := s.metrics.Registry().Register(collector); err != nil {
			return err
		}
	}
	return s.metrics.Registry().Register(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "epp_gateway_body_bytes", Help: "Memory that request bodies hold now."},
		func() float64 { return float64(s.gateway.Stats().BodyBytes) },
	))
}
