package admin

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestDrain(t *testing.T) {
	var log bytes.Buffer
	deps := newDeps()
	deps.AllowWrite, deps.Logger = true, logTo(&log)
	drained := map[string]bool{}
	deps.Drain = func(pod string, on bool) bool {
		drained[pod] = on
		return pod == "pod-1" || pod == "../odd"
	}
	_, c := serve(t, deps)
	list, err := c.Drain(t.Context(), "pod-1", true)
	if err != nil || len(list.Items) != 1 || list.Items[0].Pod != "pod-1" || list.Items[0].InFlight != 2 {
		t.Fatalf("Drain(pod-1) = %+v, %v; want its endpoint with 2 in flight", list, err)
	}
	if !drained["pod-1"] || !strings.Contains(log.String(), `"pod":"pod-1","drained":true,"inFlight":2`) {
		t.Errorf("drained %v, log %s", drained, log.String())
	}
	if _, err := c.Drain(t.Context(), "pod-1", false); err != nil || drained["pod-1"] {
		t.Errorf("undrained: %v, drained %v", err, drained)
	}
	if _, err := c.Drain(t.Context(), "../odd", true); err != nil || !drained["../odd"] {
		t.Errorf("an odd name: %v, drained %v", err, drained)
	}
	_, err = c.Drain(t.Context(), "pod-9", true)
	if e, ok := errors.AsType[*RequestError](err); !ok || e.Status != 404 || e.Code != CodeNoSuchPod || e.Hint != "there are: pod-1, pod-2" {
		t.Errorf("Drain(pod-9) = %#v, want the pods that there are", err)
	}
}

func TestDrainRefused(t *testing.T) {
	const path = "/v1/pods/pod-1/drain"
	for _, test := range []struct {
		name, method, body string
		allow              bool
		status             int
		want               string
	}{
		{"not allowed", "PUT", `{"drained":true}`, false, 403, "this picker may not be changed from here"},
		{"nothing said", "PUT", `{}`, true, 400, "drained is missing"},
		{"no answer to the question", "PUT", `{"drained":"yes"}`, true, 400, "the body: "},
		{"unknown field", "PUT", `{"drain":true}`, true, 400, `unknown field "drain"`},
		{"another method", "POST", `{"drained":true}`, true, 405, "POST is not possible here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			deps := newDeps()
			deps.AllowWrite = test.allow
			deps.Drain = func(string, bool) bool { t.Error("something was changed"); return true }
			w := ask(t, NewServer(deps), request{method: test.method, path: path, body: test.body})
			var f Failure
			decode(t, w, &f)
			if w.Code != test.status || !strings.Contains(f.Error.Message, test.want) {
				t.Errorf("answer = %d %+v, want %d with %q", w.Code, f.Error, test.status, test.want)
			}
		})
	}
}
