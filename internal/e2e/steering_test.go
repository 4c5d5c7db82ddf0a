package e2e

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// attack are headers with which a client could choose where its request goes.
func attack(address string) http.Header {
	h := http.Header{}
	for _, name := range []string{
		"x-gateway-destination-endpoint", "X-GATEWAY-Destination-Endpoint", "X-Gateway-Destination-Endpoint-Subset",
		"x-gateway-destination-endpoint-served", "x-gateway-destination-endpoint-scores", "x_gateway_destination_endpoint",
		"x-prefiller-host-port", "X-PREFILLER-HOST-PORT", "x-prefiller-url", "x-data-parallel-host-port", "x-llm-d-anything",
		"x-envoy-original-dst-host",
	} {
		h[name] = []string{address, address}
	}
	return h
}

// unsteered checks that nothing of an attack reached a pod.
func unsteered(t *testing.T, a *arrival, address string) {
	t.Helper()
	for name, values := range a.header {
		if name == destination {
			if !slices.Equal(values, []string{a.pod.address}) {
				t.Errorf("the pod %s got the destination %q", a.pod.address, values)
			}
			continue
		}
		if slices.Contains(values, address) || strings.HasPrefix(strings.ToLower(name), "x-prefiller") {
			t.Errorf("%s reached the pod: %q", name, values)
		}
	}
}

// case X6, with a picker.
func TestClientsCannotChooseTheirPod(t *testing.T) {
	for _, cluster := range []string{originalDst, overrideHost} {
		t.Run(cluster, func(t *testing.T) {
			f := newFleet(t, 3)
			decoy := newPod(t, f, "decoy")
			r := build(t, setup{cluster: cluster, failOpen: cluster == overrideHost, fleet: f, strangers: []*pod{decoy}})
			for range 10 {
				for _, c := range []*call{{body: small}, {body: small, h2: true}, {method: http.MethodGet, path: "/v1/models"}} {
					c.header = attack(decoy.address)
					a := r.send(t.Context(), c)
					r.tell(t, c, a, served)
					got(t, c, a)
					for _, seen := range r.fleet.seen(c.id) {
						unsteered(t, seen, decoy.address)
					}
				}
			}
		})
	}
}

// case X6, fail-open and nobody to ask: Envoy chooses, and not the client.
func TestClientsCannotChooseTheirPodWithoutAPicker(t *testing.T) {
	f := newFleet(t, 3)
	r := build(t, setup{cluster: overrideHost, failOpen: true, fleet: f})
	r.picker().end(syscall.SIGKILL)
	until(t, "Envoy knows that the picker is away", func() bool { return len(r.envoy.healthy(t, "picker")) == 0 })
	want := f.pods[1]
	asked := map[*pod]int{}
	for i := range 30 {
		c := &call{body: completionOf(1 << (10 + i%12)), header: attack(want.address), h2: i%2 == 0}
		a := r.send(t.Context(), c)
		got(t, c, a)
		arrivals := r.arrivals(t, c, served)
		if a.status != http.StatusOK || len(arrivals) != 1 {
			t.Fatalf("status %d, error %v; the access log says\n%s", a.status, a.err, r.envoy.entry(t, c.id).line)
		}
		asked[arrivals[0].pod]++
		for name, values := range arrivals[0].header {
			if slices.Contains(values, want.address) {
				t.Errorf("%s reached the pod: %q", name, values)
			}
		}
	}
	if len(asked) < 2 {
		t.Errorf("all requests went to the pod that the client named: %v", asked)
	}
}

// subsetHeader is turned into the hint that gateways give the picker.
const subsetHeader = "X-E2e-Subset"

// withSubsets makes metadata of the header, as a gateway would of its rules.
func withSubsets(c envoyConfig) {
	c.insert(map[string]any{
		"name": "envoy.filters.http.header_to_metadata",
		"typed_config": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
			"request_rules": []any{map[string]any{
				"header": strings.ToLower(subsetHeader),
				"on_header_present": map[string]any{
					"metadata_namespace": "envoy.lb.subset_hint", "key": "x-gateway-destination-endpoint-subset",
					"type": "PROTOBUF_VALUE", "encode": "BASE64",
				},
				"remove": true,
			}},
		},
	})
}

// subset encodes a hint.
func subset(t *testing.T, hint any) http.Header {
	t.Helper()
	v, err := structpb.NewValue(hint)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{subsetHeader: {base64.StdEncoding.EncodeToString(raw)}}
}

// case X7
func TestSubsetHints(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			s := d.setup
			s.patch = withSubsets
			r := build(t, s)
			first, second := r.fleet.pods[0].address, r.fleet.pods[1].address
			host := "127.0.0.1:1"
			for _, tt := range []struct {
				name    string
				hint    any
				allowed []string // none = 503
			}{
				{"a list of one", []any{second}, []string{second}},
				{"a list of two", []any{first, second}, []string{first, second}},
				{"one string", second, []string{second}},
				{"a comma string", first + ", " + second, []string{first, second}},
				{"a list with unknown ones", []any{"10.9.9.9:8000", second, "nonsense"}, []string{second}},
				{"the same hosts with another port", []any{host}, nil},
				{"an empty list", []any{}, nil},
				{"an empty string", "", nil},
				{"unknown pods only", "10.9.9.9:8000", nil},
			} {
				t.Run(tt.name, func(t *testing.T) {
					for _, c := range []*call{{body: small}, {body: completionOf(200 << 10), h2: true}, {method: http.MethodGet, path: "/v1/models"}} {
						c.header = subset(t, tt.hint)
						if tt.allowed == nil {
							r.refuses(t, c, refusal{status: 503, code: "no_endpoints", dropped: "rejected-no-endpoints", refused: "no-endpoint"})
							continue
						}
						a := r.send(t.Context(), c)
						rec := r.tell(t, c, a, served)
						got(t, c, a)
						if rec != nil && !slices.Contains(tt.allowed, rec.Result.Endpoint) {
							t.Errorf("picked was %s, allowed were %q", rec.Result.Endpoint, tt.allowed)
						}
					}
				})
			}
		})
	}
}
