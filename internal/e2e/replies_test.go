package e2e

import (
	"net/http"
	"testing"
)

// Answers that Envoy gives in a pod's place are not taken for the pod's.
func TestAnswersOfEnvoyItself(t *testing.T) {
	t.Run("the pod takes longer than the route allows", func(t *testing.T) {
		r := build(t, setup{patch: func(c envoyConfig) { c.route()["timeout"] = "0.2s" }})
		c := &call{body: small, script: script{Hold: beforeAnswer}}
		a := r.send(t.Context(), c)
		r.tell(t, c, a, story{status: http.StatusGatewayTimeout, attempts: 1, flags: "UT", details: "response_timeout", err: "gateway-reply"})
	})
	t.Run("the pod is gone", func(t *testing.T) {
		r := build(t, setup{pods: 1})
		r.fleet.pods[0].server.Close()
		c := &call{body: small}
		a := r.send(t.Context(), c)
		r.tell(t, c, a, story{status: http.StatusServiceUnavailable, flags: "UF", details: "upstream_reset_before_response_started", err: "gateway-reply"})
	})
}

// Without a list Envoy has nowhere else to go.
func TestDeadPodWithoutFallbacks(t *testing.T) {
	r := build(t, setup{cluster: overrideHost, pods: 1})
	r.fleet.pods[0].server.Close()
	c := &call{body: small}
	a := r.send(t.Context(), c)
	r.tell(t, c, a, story{status: http.StatusServiceUnavailable, flags: "U", details: "upstream_reset_before_response_started", err: "gateway-reply"})
}

// case P2: a pod that hangs up.
func TestPodHangsUp(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			r := build(t, d.setup)
			t.Run("before it answers", func(t *testing.T) {
				c := &call{body: small, script: script{Abort: beforeAnswer}}
				a := r.send(t.Context(), c)
				r.tell(t, c, a, story{
					status: http.StatusServiceUnavailable, attempts: 1, flags: "U", details: "upstream_reset_before_response_started", err: "gateway-reply",
				})
			})
			t.Run("in the middle of a stream", func(t *testing.T) {
				c := &call{body: completion(model, 20, true), script: script{Events: 20, Hold: midAnswer, Abort: midAnswer}}
				res, err := r.open(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				r.fleet.release(c.id)
				a := read(res, nil)
				if a.err == nil {
					t.Error("the client took half a stream for the whole")
				}
				// The picker is not told who broke off.
				r.tell(t, c, a, story{
					status: http.StatusOK, attempts: 1, flags: "U", details: "upstream_reset_after_response_started", err: "aborted",
				})
			})
		})
	}
}

// case B8: another name of the model does not cost a request its trailers, also
// where Envoy holds the body and the picker gives back a new one.
func TestAliasKeepsTrailersWhereEnvoyHoldsTheBody(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		r := build(t, setup{h2: h2, envoyFlags: []string{"--request", "buffered"}})
		c := &call{body: completion(alias, 100, false), renamed: true, trailer: "after the body"}
		a := r.send(t.Context(), c)
		r.tell(t, c, a, served)
		got(t, c, a)
	}
}
