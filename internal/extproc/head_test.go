package extproc

import (
	"fmt"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/eppctl/eppctl/internal/steering"
)

// Headers may come as text, as other gateways than Envoy send them.
func TestHeadersAsText(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		m := post(steering.RequestID, "my-id")
		for _, h := range m.GetRequestHeaders().GetHeaders().GetHeaders() {
			h.Value, h.RawValue = string(h.GetRawValue()), nil
		}
		f.send(m, requestBody(chatBody, true)).done()
		if r := s.record(t); r.RequestID != "my-id" || r.Request.Path != chatPath || r.Request.NoPrefix != "" {
			t.Errorf("recorded as %q of %+v", r.RequestID, r.Request)
		}
	})
}

func TestClientAddress(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3:4567": "10.1.2.3", "[fd00::1]:80": "fd00::1", "10.1.2.3": "10.1.2.3", "": "",
	} {
		m := told(&message{}, map[string]any{"source.address": address})
		if got := sourceAddress(m.GetAttributes()); got != want {
			t.Errorf("client of %q is %q, want %q", address, got, want)
		}
	}
	if got := sourceAddress(nil); got != "" {
		t.Errorf("client of nothing is %q", got)
	}
}

// Of several hints the first one counts, and none after the decision.
func TestFirstSubsetHint(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post(), with(requestBody(chatBody[:9], false), subset(podAddress(1))), with(requestBody(chatBody[9:], true), subset(podAddress(2))))
		f.send(with(jsonHead(), subset(podAddress(2))), responseBody("{}", true)).done()
		if to, _ := f.destination(); to != podAddress(1) || s.record(t).Outcome.ServedEndpoint != to {
			t.Errorf("sent to %s, want %s", to, podAddress(1))
		}
	})
}

// case X7
func TestSubsetHint(t *testing.T) {
	second, third := podAddress(1), podAddress(2)
	for _, tt := range []struct {
		name string
		hint *core.Metadata
		to   string // "" = 503
		n    int    // addresses in the record
	}{
		{"none", nil, podAddress(0), -1},
		{"another namespace", metadata(namespaceLB, steering.Subset, second), podAddress(0), -1},
		{"another key", metadata(namespaceSubset, "x", second), podAddress(0), -1},
		{"a list", subset([]any{third, second}), second, 2},
		{"one string", subset(second), second, 1},
		{"a comma string with spaces", subset(" " + third + " , " + second + ",, "), second, 2},
		{"a list with a comma string", subset([]any{third + "," + second, ""}), second, 2},
		{"one of them unknown", subset([]any{"10.9.9.9:1", third}), third, 2},
		{"another port", subset([]any{"10.0.0.2:8001"}), "", 1},
		{"no port", subset("10.0.0.2"), "", 1},
		{"an empty list", subset([]any{}), "", 0},
		{"an empty string", subset(""), "", 0},
		{"only commas", subset(" , "), "", 0},
		{"unknown pods only", subset("10.9.9.9:1,10.9.9.8:1"), "", 2},
		{"null", subset(nil), "", 0},
		{"a number", subset(7), "", 0},
		{"a struct", subset(map[string]any{"a": second}), "", 0},
		{"a list of other things", subset([]any{7, nil, true, []any{second}}), "", 0},
	} {
		for where := range 4 {
			t.Run(fmt.Sprintf("%s on %d", tt.name, where), func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, s *site) {
					f := s.open(t, fullDuplex, fullDuplex)
					ms := []*message{post(), requestBody(chatBody, false), requestTrailers("x-sum", "1")}
					if where < 3 {
						ms[where] = with(ms[where], tt.hint)
					} else {
						f.every = tt.hint
					}
					f.send(ms...).done()
					r := s.record(t)
					if to, agreed := f.destination(); tt.to != "" && (to != tt.to || !agreed) {
						t.Errorf("sent to %q, want %q; %v", to, tt.to, f.sequence)
					}
					if tt.to == "" && f.immediate.GetStatus().GetCode() != 503 {
						t.Errorf("%v, want a 503", f.sequence)
					}
					switch g := r.Gateway; {
					case (g.Subset == nil) != (tt.n < 0):
						t.Errorf("subset in the record: %+v", g.Subset)
					case g.Subset != nil && (g.Subset.Count != tt.n || len(g.Subset.Addresses) != tt.n):
						t.Errorf("subset in the record: %+v, want %d", g.Subset, tt.n)
					}
					s.abandon(t)
				})
			})
		}
	}
}
