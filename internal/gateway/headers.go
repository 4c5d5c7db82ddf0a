package gateway

import (
	"net/http"
	"strings"
)

// The headers that the gateway sets, in canonical form.
const (
	headerRequestID  = "X-Request-Id"
	headerEndpoint   = "X-Eppctl-Endpoint"
	headerPod        = "X-Eppctl-Pod"
	headerDropped    = "X-Llm-D-Request-Dropped-Reason"
	headerRetryAfter = "Retry-After"
)

// steering lists beginnings of header names, in lower case, by which gateways,
// pickers and sidecars tell each other where a request goes. They are nobody
// else's to set: a client could choose its pod (or read where others went), and
// a pod's own would pass for ours.
var steering = []string{
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

// strip removes the steering headers, in any letter case, also with _ for -,
// which some servers take for the same.
func strip(h http.Header) {
	for name := range h {
		if isSteering(name) {
			delete(h, name)
		}
	}
}

func isSteering(name string) bool {
	if len(name) == 0 || name[0]|0x20 != 'x' {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, prefix := range steering {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// allowed picks the headers that custom scorers may see; names are canonical.
func allowed(h http.Header, names []string) map[string][]string {
	var out map[string][]string
	for _, name := range names {
		if values, ok := h[name]; ok {
			if out == nil {
				out = make(map[string][]string, len(names))
			}
			out[name] = values
		}
	}
	return out
}
