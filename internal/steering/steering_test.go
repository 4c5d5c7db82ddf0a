package steering

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// case X6
func TestIs(t *testing.T) {
	pattern := regexp.MustCompile("^(?:" + strings.Join(Patterns(), "|") + ")$")
	for _, name := range []string{
		Endpoint, Pod, Dropped, Destination, Subset, Served, Scores,
		"x_gateway_destination_endpoint", "x-prefiller-host-port", "x-prefiller-url", "x-encoder-hosts-ports",
		"x-data-parallel-host-port", "x-data-parallel-rank", "x-kv-cache-source-host-port",
		"x-llm-d-model-name-rewrite", "x-llm-d-inference-objective", "x-llm-d-prefiller-host-port",
		"x-gateway-model-name-rewrite", "x-gateway-inference-objective", "x-envoy-original-dst-host",
	} {
		for _, as := range []string{name, strings.ToUpper(name), http.CanonicalHeaderKey(name)} {
			if !Is(as) {
				t.Errorf("%s does not steer, want that it does", as)
			}
		}
		if !pattern.MatchString(name) {
			t.Errorf("%s does not match %s", name, pattern)
		}
	}
	for _, name := range []string{"", "x", "x-", "X-Mine", RequestID, "X-Forwarded-For", "x-envoy", "my-x-envoy-", "authorization"} {
		if Is(name) {
			t.Errorf("%q steers, want that it does not", name)
		}
		if pattern.MatchString(strings.ToLower(name)) {
			t.Errorf("%q matches %s", name, pattern)
		}
	}
}

func TestIsAllocatesNothing(t *testing.T) {
	for _, name := range []string{"Content-Type", "ACCEPT", "x-mine", Destination} {
		if n := testing.AllocsPerRun(10, func() { Is(name) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func TestStrip(t *testing.T) {
	h := http.Header{
		"X-Eppctl-Pod": {"a", "b"}, "x_envoy_retry_on": {"5xx"}, "X-Llm-D-Any": nil,
		"X-Request-Id": {"1"}, "Host": {"h"},
	}
	Strip(h)
	if diff := cmp.Diff(http.Header{"X-Request-Id": {"1"}, "Host": {"h"}}, h); diff != "" {
		t.Error(diff)
	}
	Strip(nil)
}
