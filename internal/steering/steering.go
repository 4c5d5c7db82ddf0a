// Package steering knows the headers by which gateways, pickers and sidecars
// tell each other where a request goes.
//
// The one idea: these headers are nobody else's to set. A client could choose
// its pod with them (or read where others went), and a pod's own would pass for
// ours. So whoever passes a request or an answer on strips them first and then
// sets what it has to say itself.
//
// The package says nothing of what the headers' values mean.
package steering

import (
	"net/http"
	"strings"
)

// The headers that we set, or that gateways set for us, in lower case.
const (
	// RequestID is the ID of a request and its answer. It is the client's own
	// where that is fit, so [Is] leaves it alone.
	RequestID = "x-request-id"
	// Endpoint is, in an answer, the host:port of the pod that gave it.
	Endpoint = "x-eppctl-endpoint"
	// Pod is, in an answer, the name of the pod that gave it.
	Pod = "x-eppctl-pod"
	// Dropped says, in an answer, why no pod was asked: llm-d's name for it.
	Dropped = "x-llm-d-request-dropped-reason"

	// Those of Gateway API Inference Extension: Destination is the endpoint that
	// the picker chose, with fallbacks behind it; Subset the ones that the gateway
	// allows; Served the one that answered; Scores what each was worth.
	Destination = "x-gateway-destination-endpoint"
	Subset      = "x-gateway-destination-endpoint-subset"
	Served      = "x-gateway-destination-endpoint-served"
	Scores      = "x-gateway-destination-endpoint-scores"

	// Model is the name of the model that a route puts in place of the body's;
	// OldModel is the older spelling.
	Model    = "x-llm-d-model-name-rewrite"
	OldModel = "x-gateway-model-name-rewrite"
)

// prefixes are beginnings of header names, in lower case.
var prefixes = []string{
	"x-eppctl-",
	"x-envoy-",
	// Gateway API Inference Extension, and its older spelling of what is x-llm-d- now.
	"x-gateway-destination-endpoint",
	"x-gateway-inference-",
	"x-gateway-model-name-rewrite",
	// llm-d: control headers, and those of its routing sidecar (prefill, encode,
	// data parallel, source of KV blocks).
	"x-llm-d-",
	"x-prefiller-",
	"x-encoder-host",
	"x-kv-cache-source-",
	// X-data-parallel-host-port of llm-d, X-data-parallel-rank of vLLM.
	"x-data-parallel-",
}

// Is reports whether a header steers, in any letter case, also with _ for -,
// which some servers take for the same.
func Is(name string) bool {
	if name == "" || name[0]|0x20 != 'x' {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Patterns are [Is] as regular expressions (RE2), one of which matches the whole of
// a name in lower case: for gateways, which strip before we see a request.
func Patterns() []string {
	patterns := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		patterns[i] = strings.ReplaceAll(prefix, "-", "[-_]") + ".*"
	}
	return patterns
}

// Strip removes the headers that steer.
func Strip(h http.Header) {
	for name := range h {
		if Is(name) {
			delete(h, name)
		}
	}
}
