package admin

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/pool"
)

func TestDocuments(t *testing.T) {
	h := NewServer(newDeps())
	for path, file := range map[string]string{
		"/v1/pods":              "pods.golden.json",
		"/v1/tree":              "tree.golden.json",
		"/v1/ledger":            "ledger.golden.json",
		"/v1/names":             "names.golden.json",
		"/v1/config":            "config.golden.json",
		"/v1/config/weights":    "weights.golden.json",
		"/v1/version":           "version.golden.json",
		"/v1/log-level":         "log-level.golden.json",
		"/v1/decisions?limit=1": "decisions.golden.json",
		"/v1/decisions/beta":    "decision.golden.json",
		"/v1/decisions/al":      "ambiguous.golden.json",
		"/v1/decisions/zz":      "not-found.golden.json",
	} {
		t.Run(path, func(t *testing.T) {
			w := ask(t, h, request{path: path})
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("content type = %q, want application/json", got)
			}
			golden.Equal(t, "testdata/"+file, indented(t, w.Body.Bytes()))
		})
	}
}

func TestHealthz(t *testing.T) {
	if w := ask(t, NewServer(newDeps()), request{path: "/healthz"}); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("healthz = %d %q, want 200 ok", w.Code, w.Body)
	}
}

func TestErrorsOfPathMethodHostAndOrigin(t *testing.T) {
	for _, test := range []struct {
		name    string
		request request
		status  int
		code    string
		allow   string
	}{
		{"no such path", request{path: "/v2/pods"}, 404, CodeNoSuchPath, ""},
		{"root", request{path: "/"}, 404, CodeNoSuchPath, ""},
		{"an empty ID", request{path: "/v1/decisions/"}, 404, CodeNoSuchPath, ""},
		{"no simulated fleet", request{method: "POST", path: "/v1/sim/hold"}, 404, CodeNoSuchPath, ""},
		{"read only", request{method: "POST", path: "/v1/pods"}, 405, CodeMethod, "GET, HEAD"},
		{"delete of weights", request{method: "DELETE", path: "/v1/config/weights"}, 405, CodeMethod, "GET, HEAD, PUT"},
		{"another site's name for us", request{path: "/v1/pods", header: map[string]string{"Host": "evil.example:9091"}}, 403, CodeHost, ""},
		{"no host", request{path: "/v1/pods", header: map[string]string{"Host": ""}}, 403, CodeHost, ""},
		{"a page that writes", request{method: "PUT", path: "/v1/config/weights", header: map[string]string{"Origin": "http://localhost:9091"}}, 403, CodeOrigin, ""},
		{"a page without an origin that writes", request{method: "PUT", path: "/v1/log-level", header: map[string]string{"Origin": ""}}, 403, CodeOrigin, ""},
		{"writes are off", request{method: "PUT", path: "/v1/config/weights"}, 403, CodeReadOnly, ""},
		{"log level is off", request{method: "PUT", path: "/v1/log-level"}, 403, CodeReadOnly, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := ask(t, NewServer(newDeps()), test.request)
			var f Failure
			decode(t, w, &f)
			if w.Code != test.status || f.Error.Code != test.code || f.Error.Message == "" {
				t.Errorf("answer = %d %+v, want %d %s", w.Code, f.Error, test.status, test.code)
			}
			if got := w.Header().Get("Allow"); got != test.allow {
				t.Errorf("Allow = %q, want %q", got, test.allow)
			}
		})
	}
}

func TestHostsThatAreAnswered(t *testing.T) {
	deps := newDeps()
	deps.Hosts = []string{"epp.internal"}
	h := NewServer(deps)
	for _, host := range []string{"localhost", "LOCALHOST:9091", "127.0.0.1:9091", "127.0.0.2", "[::1]:9091", "[::1]", "epp.internal:80"} {
		if w := ask(t, h, request{path: "/v1/version", header: map[string]string{"Host": host}}); w.Code != 200 {
			t.Errorf("Host %s: status %d, want 200", host, w.Code)
		}
	}
	outside := httptest.NewRequest(http.MethodGet, "/v1/version", nil)
	outside.Host = "epp.example"
	outside = outside.WithContext(context.WithValue(outside.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9091}))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, outside); w.Code != 200 {
		t.Errorf("not on loopback: status %d, want 200 for any host", w.Code)
	}
}

func TestAReadFromABrowserIsAnswered(t *testing.T) {
	w := ask(t, NewServer(newDeps()), request{path: "/v1/pods", header: map[string]string{"Origin": "null"}})
	if w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("answer = %d, %v: want 200, without leave for the page to read it", w.Code, w.Header())
	}
}

func TestHeadHasNoBody(t *testing.T) {
	for _, path := range []string{"/v1/pods", "/v1/decisions", "/v1/decisions?format=jsonl", "/v1/decisions/beta"} {
		if w := ask(t, NewServer(newDeps()), request{method: "HEAD", path: path}); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD %s = %d with %d bytes, want 200 with none", path, w.Code, w.Body.Len())
		}
	}
}

func TestSimIsMounted(t *testing.T) {
	deps := newDeps()
	var got string
	deps.Sim = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusNoContent)
	})
	h := NewServer(deps)
	if w := ask(t, h, request{method: "POST", path: "/v1/sim/hold"}); w.Code != http.StatusNoContent || got != "POST /v1/sim/hold" {
		t.Errorf("sim = %d %q, want 204 from the fleet's handler", w.Code, got)
	}
	if w := ask(t, h, request{method: "POST", path: "/v1/sim/hold", header: map[string]string{"Origin": "http://evil.example"}}); w.Code != 403 {
		t.Errorf("sim from a page = %d, want 403", w.Code)
	}
}

// case P5: what a handler panics with may hold anything.
func TestAPanicIsAnsweredAndNotShown(t *testing.T) {
	var log bytes.Buffer
	deps := newDeps()
	deps.Logger = logTo(&log)
	deps.Pods = func() []pool.View { panic(secrets[1]) }
	w := ask(t, NewServer(deps), request{path: "/v1/pods"})
	var f Failure
	decode(t, w, &f)
	if w.Code != 500 || f.Error.Code != CodeInternal {
		t.Errorf("answer = %d %+v, want 500 internal", w.Code, f.Error)
	}
	if strings.Contains(log.String(), secrets[1]) || !strings.Contains(log.String(), "panic of type string") {
		t.Errorf("log = %s, want the panic's type alone", log.String())
	}
}

func TestPodsUnderOtherWeights(t *testing.T) {
	deps := newDeps()
	full := pod("pod-1", 0, 20)
	sick := pod("pod-2", 0, 0)
	sick.Health.Value = .29
	deps.Pods = func() []pool.View { return []pool.View{{State: full}, {State: sick}, {State: pod("pod-3", 0, 19)}} }
	var list PodList
	decode(t, ask(t, NewServer(deps), request{path: "/v1/pods"}), &list)
	var got []string
	for _, p := range list.Items {
		got = append(got, p.Pod+" "+p.State+" "+p.Reason)
	}
	want := []string{"pod-1 excluded queue-full", "pod-2 excluded unhealthy", "pod-3 ready "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
