package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
)

// doors are the ways to stand between Envoy and the pods: each kind of cluster,
// each version of HTTP, with and without TLS to the picker.
var doors = []struct {
	name  string
	setup setup
}{
	{"original destination, h1 pods, TLS", setup{cluster: originalDst}},
	{"original destination, h2 pods, plaintext", setup{cluster: originalDst, h2: true, plaintext: true}},
	{"override host, h1 pods, plaintext, retries", setup{cluster: overrideHost, plaintext: true, fallbacks: 2, envoyFlags: retries}},
	{"override host, h2 pods, TLS", setup{cluster: overrideHost, h2: true}},
}

// retries let Envoy follow the list of endpoints: it then holds the body.
var retries = []string{"--retries", "2", "--request", "buffered"}

// small is a body of 1 KB.
var small = completionOf(1 << 10)

func TestTraffic(t *testing.T) {
	cases := []struct {
		name string
		call call
		want story
	}{
		{name: "GET", call: call{method: http.MethodGet, path: "/v1/models"}},
		{name: "POST without a body", call: call{path: "/reset_prefix_cache"}},
		{name: "1 KB", call: call{body: small}},
		{name: "200 KB", call: call{body: completionOf(200 << 10)}},
		{name: "8 MB", call: call{body: completionOf(8 << 20)}},
		{name: "1 KB chunked", call: call{body: small, pieces: 3}},
		{name: "200 KB chunked", call: call{body: completionOf(200 << 10), pieces: 7}},
		{name: "8 MB chunked", call: call{body: completionOf(8 << 20), pieces: 100}},
		{name: "chat", call: call{path: chat, body: []byte(`{"model":"base-model","messages":[{"role":"user","content":"hi"}]}`)}},
		{name: "request trailers", call: call{body: small, trailer: "after the body"}},
		{name: "200 KB with request trailers", call: call{body: completionOf(200 << 10), pieces: 5, trailer: "after the body"}},
		{name: "events", call: call{body: completion(model, 20, true), script: script{Events: 50}}},
		{name: "response trailers", call: call{body: small, script: script{Trailer: "from the pod"}}},
		{name: "events and response trailers", call: call{body: completion(model, 20, true), script: script{Events: 10, Trailer: "from the pod"}}},
		{name: "trailers both ways", call: call{body: small, trailer: "after the body", script: script{Trailer: "from the pod"}}},
		{name: "another name of the model", call: call{body: completion(alias, 200, false), renamed: true}},
		{name: "events under another name of the model", call: call{body: completion(alias, 200, true), renamed: true, script: script{Events: 50}}},
		{name: "500 of the pod", call: call{body: small, script: script{Status: 500}}, want: story{status: 500, err: "upstream-error"}},
		{name: "429 of the pod", call: call{body: small, script: script{Status: 429}}, want: story{status: 429}},
	}
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			r := build(t, d.setup)
			for _, tt := range cases {
				for _, h2 := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, h2 %t", tt.name, h2), func(t *testing.T) {
						c := tt.call
						c.h2 = h2
						want := tt.want
						want.attempts, want.details = 1, "via_upstream"
						if want.status == 0 {
							want.status, want.usage = http.StatusOK, true
						}
						a := r.send(t.Context(), &c)
						r.tell(t, &c, a, want)
						got(t, &c, a)
					})
				}
			}
		})
	}
}

// got checks that a client got all of what the pod sent, and nothing else.
func got(t *testing.T, c *call, a *answer) {
	t.Helper()
	if a.err != nil {
		t.Errorf("the answer broke off: %v", a.err)
	}
	if want := c.expected(); !bytes.Equal(a.body, want) {
		t.Errorf("the client got %d bytes: %.200q, want %d: %.200q", len(a.body), a.body, len(want), want)
	}
	if v := a.trailer.Get(trailerName); v != c.script.Trailer {
		t.Errorf("the client got the trailer %q, the pod sent %q", v, c.script.Trailer)
	}
	if v := a.header.Get("Content-Type"); v != c.script.contentType() {
		t.Errorf("the client got %q, the pod sent %q", v, c.script.contentType())
	}
	if v := a.header.Get("X-Request-Id"); v != c.id {
		t.Errorf("the client got the request ID %q, sent was %q", v, c.id)
	}
	for _, name := range []string{destination, destination + "-Served", "X-E2e-Script"} {
		if v, ok := a.header[name]; ok {
			t.Errorf("the client got %s: %q", name, v)
		}
	}
}

// destination is the header in which the picker tells Envoy where to.
const destination = "X-Gateway-Destination-Endpoint"
