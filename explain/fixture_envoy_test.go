package explain_test

import (
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// gateway has weights under which no cache is enough, and a weight with more
// decimals than most.
func gateway() scene {
	w, err := score.Preset("api-gateway")
	if err != nil {
		panic(err)
	}
	w.Cache, w.Load, w.Generation = .4005, .1995, 3
	s := clearWin()
	s.weights, s.req.Adapter = w, "fr"
	s.edit = func(rec *explain.Record) { rec.RequestID = "nightly-summary-" + strings.Repeat("x", 60) }
	return s
}

// envoy is a request that came through an Envoy which allowed two of three pods,
// and one that the picker doesn't know.
func envoy() scene {
	s := clearWin()
	s.pods[2].Excluded = score.NotInSubset
	s.edit = func(rec *explain.Record) {
		rec.Gateway = &explain.Gateway{
			Kind: "envoy", RequestBody: "FULL_DUPLEX_STREAMED", ResponseBody: "FULL_DUPLEX_STREAMED",
			Subset:    &explain.Subset{Count: 3, Unknown: 1, Addresses: []string{"10.0.0.0:8000", "10.0.0.2:8000", "10.0.0.9:8000"}},
			Fallbacks: []string{"10.0.0.0:8000"},
		}
		rec.Timings.Body = new(0.8125)
		rec.Outcome.Attempts = new(1)
		rec.Outcome.CodeDetails = "via_upstream"
	}
	return s
}

func envoyMoved() scene {
	s := envoy()
	edit := s.edit
	s.edit = func(rec *explain.Record) {
		edit(rec)
		rec.Attempts = []explain.Attempt{
			{Pod: "sim-2", Endpoint: "10.0.0.2:8000", Error: explain.MovedByGateway},
			{Pod: "sim-0", Endpoint: "10.0.0.0:8000"},
		}
		rec.Outcome.ServedEndpoint, rec.Outcome.Attempts = "10.0.0.0:8000", new(2)
		rec.Outcome.Flags, rec.Outcome.CodeDetails = "UF,URX", "upstream_reset_before_response_started{connection_failure}"
		rec.Outcome.CachedTokens = new(1280)
	}
	return s
}

// envoySilent is one that does not show the response's body to the picker, and
// had an endpoint serve that the pool doesn't have.
func envoySilent() scene {
	s := envoy()
	s.pods[2].Excluded = score.Eligible
	edit := s.edit
	s.edit = func(rec *explain.Record) {
		edit(rec)
		rec.Gateway.Subset, rec.Gateway.Fallbacks, rec.Gateway.ResponseBody = nil, []string{}, "NONE"
		rec.Outcome = explain.Outcome{
			State: explain.OutcomeUnknown, Detail: "response body not sent to the picker", Status: 200,
			ServedEndpoint: "10.9.9.9:8000",
		}
	}
	return s
}

// envoySubset is one that allows only what nobody has.
func envoySubset() scene {
	s := clearWin()
	for i := range s.pods {
		s.pods[i].Excluded = score.NotInSubset
	}
	s.edit = func(rec *explain.Record) {
		failed(503)(rec)
		rec.Gateway = &explain.Gateway{Kind: "envoy", Fallbacks: []string{}, Subset: &explain.Subset{
			Count: 12, Unknown: 12, Addresses: []string{"10.9.0.0:1", "10.9.0.1:1", "10.9.0.2:1", "10.9.0.3:1", "10.9.0.4:1", "10.9.0.5:1", "10.9.0.6:1", "10.9.0.7:1"},
		}}
	}
	return s
}
