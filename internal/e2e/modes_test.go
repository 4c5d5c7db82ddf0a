package e2e

import (
	"testing"

	"github.com/eppctl/eppctl/explain"
)

// What the picker is not shown it cannot tell: it says so, or Envoy's access log
// tells it.
func TestModesOfTheResponse(t *testing.T) {
	const soon = "extproc: {endTimeoutSeconds: 0.5}\n"
	for _, tt := range []struct {
		name   string
		flags  []string
		config string
		state  string
	}{
		{name: "headers only", flags: []string{"--response", "headers"}, state: explain.OutcomeUnknown},
		{name: "headers only, and the access log", flags: []string{"--response", "headers", "--access-log-service"}},
		{name: "nothing", flags: []string{"--response", "none"}, config: soon, state: explain.OutcomeUnknown},
		{name: "nothing, and the access log", flags: []string{"--response", "none", "--access-log-service"}},
		{name: "all, and the access log", flags: []string{"--access-log-service"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, cluster := range []string{originalDst, overrideHost} {
				r := build(t, setup{cluster: cluster, envoyFlags: tt.flags, config: tt.config})
				if tt.state == "" && tt.flags[0] == "--response" {
					r.logged(t)
				}
				sent := []*call{
					{body: small},
					{body: small, h2: true},
					{body: completion(model, 20, true), script: script{Events: 50}},
					{body: small, trailer: "after the body", script: script{Trailer: "from the pod"}},
				}
				answers := make([]*answer, len(sent))
				for i, c := range sent {
					answers[i] = r.send(t.Context(), c)
				}
				want := served
				want.state, want.usage = tt.state, tt.flags[0] != "--response"
				for i, c := range sent {
					got(t, c, answers[i])
					if tt.state == explain.OutcomeUnknown && tt.flags[1] == "none" {
						r.unseen(t, c)
						continue
					}
					r.tell(t, c, answers[i], want)
				}
			}
		})
	}
}

// logged sends requests until the picker gets the access log: Envoy opens that
// stream with the first entry.
func (r *rig) logged(t *testing.T) {
	t.Helper()
	until(t, "the picker gets the access log", func() bool {
		r.send(t.Context(), &call{body: small})
		return r.picker().metric("epp_extproc_access_log_entries_total") > 0
	})
}

// unseen checks the record of a request of whose answer the picker saw nothing.
func (r *rig) unseen(t *testing.T, c *call) {
	t.Helper()
	if o := r.record(t, c.id).Outcome; o.State != explain.OutcomeUnknown || o.Status != 0 || o.Error != "" || o.ServedEndpoint != "" {
		t.Errorf("the outcome is %+v, and nobody told it", o)
	}
}

// A change of the model's name is possible as long as the body passes.
func TestAliasesInOtherModes(t *testing.T) {
	for name, flags := range map[string][]string{
		"buffered": {"--request", "buffered"}, "without the response": {"--response", "none", "--access-log-service"},
	} {
		t.Run(name, func(t *testing.T) {
			r := build(t, setup{envoyFlags: flags})
			if len(flags) > 2 {
				r.logged(t)
			}
			c := &call{body: completion(alias, 100, false), renamed: true}
			a := r.send(t.Context(), c)
			want := served
			if want.usage = name == "buffered"; want.usage {
				got(t, c, a)
			}
			r.tell(t, c, a, want)
		})
	}
}
