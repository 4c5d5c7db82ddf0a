package gateway

import (
	"net/http"

	"github.com/eppctl/eppctl/internal/steering"
)

// The headers that the gateway sets, as [http.Header] has them.
var (
	headerRequestID = http.CanonicalHeaderKey(steering.RequestID)
	headerEndpoint  = http.CanonicalHeaderKey(steering.Endpoint)
	headerPod       = http.CanonicalHeaderKey(steering.Pod)
	headerDropped   = http.CanonicalHeaderKey(steering.Dropped)
)

const headerRetryAfter = "Retry-After"

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
