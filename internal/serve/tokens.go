package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/tokens"
)

// buildTokens makes the tokeniser, unless nobody is to be asked.
func (s *Server) buildTokens() (err error) {
	c := &s.opts.Config.Tokens
	source := tokens.Source(c.Source)
	if source == tokens.SourceAuto && s.opts.Sim != nil && c.RenderURL == "" {
		source = tokens.SourceApproximate // which is exact for simulated pods
	}
	if source == tokens.SourceApproximate {
		return nil
	}
	s.tokens, err = tokens.New(tokens.Config{
		Source: source, RenderURL: c.RenderURL, Servers: s.tokenServers, Logger: s.log,
		Timeout: config.Milliseconds(c.TimeoutMs), CacheBytes: int64(c.CacheMiB) << 20,
	})
	return err
}

// tokenServers are the pods that can be asked for ids of a model.
func (s *Server) tokenServers(base string) []tokens.Server {
	serving := s.pool.Serving(base)
	list := make([]tokens.Server, 0, len(serving))
	for _, e := range serving {
		list = append(list, tokens.Server(e))
	}
	return list
}

// registerTokens adds the tokeniser's counts to the metrics page.
func (s *Server) registerTokens() error {
	if s.tokens == nil {
		return nil
	}
	return s.metrics.Registry().Register(&tokensCollector{stats: s.tokens.Stats})
}

// tokensCollector shows what the tokeniser counts.
type tokensCollector struct{ stats func() tokens.Stats }

func tokensDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("epp_tokens_"+name, help, labels, nil)
}

var (
	tokensRequests   = tokensDesc("requests_total", "Requests in words, by where their token ids came from.", "source")
	tokensCalls      = tokensDesc("calls_total", "Calls for token ids, by outcome.", "outcome")
	tokensLatency    = tokensDesc("call_seconds", "How long calls for token ids took that were not given up.")
	tokensHits       = tokensDesc("cache_hits_total", "Prompts whose token ids were in the cache.")
	tokensMisses     = tokensDesc("cache_misses_total", "Prompts whose token ids were not in the cache.")
	tokensCoalesced  = tokensDesc("coalesced_total", "Prompts that waited for the call of an equal one.")
	tokensInVain     = tokensDesc("waited_in_vain_total", "Prompts that waited for the whole timeout.")
	tokensBusy       = tokensDesc("busy_total", "Calls that were not made because too many ran.")
	tokensMismatches = tokensDesc("mismatches_total", "Requests of which the server counted other prompt tokens than it gave ids.")
	tokensBytes      = tokensDesc("cache_bytes", "Memory that the cache holds now.")
	tokensCallsNow   = tokensDesc("calls", "Calls that run now.")
	tokensOpen       = tokensDesc("breaker_open", "1 while there is a model of which nobody is asked because too many calls failed.")
	tokensOpenOf     = tokensDesc("breaker_open_servers", "Servers that are not asked because calls to them failed, counted for each model.")
)

// Describe implements [prometheus.Collector].
func (c *tokensCollector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements [prometheus.Collector].
func (c *tokensCollector) Collect(to chan<- prometheus.Metric) {
	s := c.stats()
	number := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for source, n := range s.Requests {
		number(tokensRequests, prometheus.CounterValue, float64(n), source)
	}
	for outcome, n := range s.Calls {
		number(tokensCalls, prometheus.CounterValue, float64(n), outcome)
	}
	number(tokensHits, prometheus.CounterValue, float64(s.Hits))
	number(tokensMisses, prometheus.CounterValue, float64(s.Misses))
	number(tokensCoalesced, prometheus.CounterValue, float64(s.Coalesced))
	number(tokensInVain, prometheus.CounterValue, float64(s.WaitedInVain))
	number(tokensBusy, prometheus.CounterValue, float64(s.Busy))
	number(tokensMismatches, prometheus.CounterValue, float64(s.Mismatches))
	number(tokensBytes, prometheus.GaugeValue, float64(s.CacheBytes))
	number(tokensCallsNow, prometheus.GaugeValue, float64(s.CallsNow))
	number(tokensOpenOf, prometheus.GaugeValue, float64(s.OpenServers))
	open := 0.0
	if s.Open {
		open = 1
	}
	number(tokensOpen, prometheus.GaugeValue, open)
	buckets := make(map[float64]uint64, len(s.Latency.Buckets))
	for _, b := range s.Latency.Buckets {
		buckets[b.Bound.Seconds()] = b.Count
	}
	to <- prometheus.MustNewConstHistogram(tokensLatency, s.Latency.Count, s.Latency.Sum.Seconds(), buckets)
}
