package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
)

// A refusal is what a client is told in a pod's place.
type refusal struct {
	status  int
	code    string // of the error object
	dropped string // why no pod was asked, in the header that stock pickers use
	refused string // the same in the record; "" = the picker was not asked for a pod
}

// What the picker refuses no pod sees, and the client gets an error object as
// OpenAI's clients understand it.
func TestRefusals(t *testing.T) {
	cases := []struct {
		name string
		call call
		want refusal
	}{
		{"no JSON", call{body: []byte(`{"model":"base-model","prompt":`)}, refusal{status: 400, code: "invalid_request"}},
		{"no model", call{body: []byte(`{"prompt":"a"}`)}, refusal{status: 400, code: "invalid_request"}},
		{"no JSON in many pieces", call{body: make([]byte, 60<<10), pieces: 30}, refusal{status: 400, code: "invalid_request"}},
		{"no JSON and trailers", call{body: []byte("no"), trailer: "after the body"}, refusal{status: 400, code: "invalid_request"}},
		{"a model that nobody serves", call{body: completion("unheard-of", 10, false)}, refusal{status: 404, code: "model_not_found"}},
		{"a body over the limit", call{body: completionOf(100 << 10)}, refusal{status: 413, code: "request_too_large"}},
		{"8 MB over the limit", call{body: completionOf(8 << 20)}, refusal{status: 413, code: "request_too_large"}},
		{"8 MB over the limit, chunked", call{body: completionOf(8 << 20), pieces: 200}, refusal{status: 413, code: "request_too_large"}},
	}
	for _, d := range doors {
		if d.setup.buffered() {
			continue // Envoy itself looks at the size, see below
		}
		t.Run(d.name, func(t *testing.T) {
			s := d.setup
			s.pickerFlags = []string{"--max-body", "64KiB"}
			r := build(t, s)
			for _, tt := range cases {
				t.Run(tt.name, func(t *testing.T) { r.refuses(t, &tt.call, tt.want) })
			}
		})
	}
}

// Where Envoy holds the body, it is the one to refuse it.
func TestEnvoyRefusesWhatItCannotHold(t *testing.T) {
	r := build(t, setup{cluster: overrideHost, envoyFlags: append([]string{"--max-body", "64KiB"}, retries...)})
	for _, c := range []*call{{}, {pieces: 50}, {h2: true}, {h2: true, pieces: 50}} {
		c.body = completionOf(8 << 20)
		a := r.send(t.Context(), c)
		r.tell(t, c, a, story{status: 413, details: "request_payload_too_large", unpicked: true})
	}
}

// case P3: all pods at maxQueue.
func TestRefusalWhenAllPodsAreBusy(t *testing.T) {
	f := newFleet(t, 3)
	for _, p := range f.pods {
		p.waiting.Store(50)
	}
	r := build(t, setup{fleet: f, pickerFlags: []string{"--saturation", "reject", "--max-queue", "8"}})
	r.refuses(t, &call{body: small}, refusal{status: 429, code: "saturated", dropped: "rejected-saturated", refused: "saturated"})
}

// case P3: all pods excluded.
func TestRefusalWhenAllPodsAreSick(t *testing.T) {
	f := newFleet(t, 3)
	for _, p := range f.pods {
		p.sick.Store(true)
	}
	r := build(t, setup{fleet: f, cluster: overrideHost})
	until(t, "the picker knows that all pods are sick", func() bool { return r.picker().ready() == 0 })
	want := refusal{status: 503, code: "no_endpoints", dropped: "rejected-no-endpoints", refused: "no-endpoint"}
	r.refuses(t, &call{body: small}, want)
	r.refuses(t, &call{method: http.MethodGet, path: "/v1/models"}, want)
}

// ready is how many pods can be picked.
func (p *picker) ready() int {
	p.t.Helper()
	pods, err := p.admin.Pods(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for _, pod := range pods.Items {
		if pod.State == admin.StateReady {
			n++
		}
	}
	return n
}

// refuses sends a request that must be refused, over each version of HTTP.
func (r *rig) refuses(t *testing.T, c *call, want refusal) {
	t.Helper()
	for _, h2 := range []bool{false, true} {
		c.h2, c.id = h2, ""
		a := r.send(t.Context(), c)
		if a.err != nil {
			t.Errorf("h2 %t: the answer broke off: %v", h2, a.err)
		}
		r.tell(t, c, a, story{status: want.status, details: "eppctl_" + want.code, unpicked: want.refused == "", refused: want.refused, err: strings.TrimPrefix(want.dropped, "rejected-")})
		var doc struct {
			Error struct{ Message, Type, Code string } `json:"error"`
		}
		if err := json.Unmarshal(a.body, &doc); err != nil || doc.Error.Message == "" || doc.Error.Type == "" || doc.Error.Code != want.code {
			t.Errorf("h2 %t: not an error object with the code %s: %v: %q", h2, want.code, err, a.body)
		}
		got := fmt.Sprintf("%s, %s, %s", a.header.Get("Content-Type"), a.header.Get("X-Request-Id"), a.header.Get("X-Llm-D-Request-Dropped-Reason"))
		if want := fmt.Sprintf("application/json, %s, %s", c.id, want.dropped); got != want {
			t.Errorf("h2 %t: the headers are %s, want %s", h2, got, want)
		}
	}
}
