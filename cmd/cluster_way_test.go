package cmd

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/nettest"
)

// way is one on which a picker is looked for, and what is wrong on it.
type way struct {
	name string
	// make gives the flags; what is wrong with the cluster is done to it. The pool chat is
	// well, with one replica that answers to nothing.
	make func(t *testing.T, api *kubetest.Server) []string
	line string // the command; "" = explain latest
}

// configWith writes a kubeconfig; more is put in it.
func configWith(t *testing.T, server, user, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "lab",
		"clusters": [{"name": "lab", "cluster": {"server": %q}}], "users": [{"name": "me", "user": %s}],
		"contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": "serving"}},
			{"name": "laboratory", "context": {"cluster": "lab"}}, {"name": "lost", "context": {"cluster": "gone"}}, {"name": "nobody", "context": {"cluster": "lab", "user": "gone"}}]%s}`, server, user, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refusing answers requests of a path with a status, in an API server's words.
func refusing(api *kubetest.Server, code int, suffix string) {
	api.Instead(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusUnauthorized: "Unauthorized", http.StatusNotFound: "NotFound"}[code]
		message := `pods "epp-0" not found`
		if code == http.StatusForbidden {
			message = fmt.Sprintf(`%s is forbidden: User "eve" cannot do this in the namespace "serving"`, strings.TrimPrefix(suffix, "/"))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
			"message": message,
		})
		return true
	})
}

// answering puts an HTTP server behind the admin port of the replica.
func answering(t *testing.T, api *kubetest.Server, answer http.HandlerFunc) []string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	api.Forward("epp-0", 9091, server.Listener.Addr().String())
	return nil
}

// asPicker answers with an error of the admin API.
func asPicker(status int, code, message, hint string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Eppctl-Api", admin.APIVersion)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(admin.Failure{Error: admin.FailureText{Code: code, Message: message, Hint: hint}})
	}
}

func put(list string, objects ...kubetest.Doc) func(*testing.T, *kubetest.Server) []string {
	return func(_ *testing.T, api *kubetest.Server) []string {
		for _, o := range objects {
			api.Put(list, o)
		}
		return nil
	}
}

func user(of func(t *testing.T) string) func(*testing.T, *kubetest.Server) []string {
	return func(t *testing.T, api *kubetest.Server) []string {
		server := httptest.NewTLSServer(api) // credentials go nowhere else
		t.Cleanup(server.Close)
		return []string{"--insecure-skip-tls-verify", "--kubeconfig", configWith(t, server.URL, of(t), "")}
	}
}

func given(args ...string) func(*testing.T, *kubetest.Server) []string {
	return func(*testing.T, *kubetest.Server) []string { return args }
}

func answeredWith(code int, suffix string) func(*testing.T, *kubetest.Server) []string {
	return func(_ *testing.T, api *kubetest.Server) []string {
		refusing(api, code, suffix)
		return nil
	}
}

// toTheCluster are ways that end before anything is asked of it, or with its silence.
var toTheCluster = []way{
	{name: "kubeconfig is not there", make: given("--kubeconfig", "/nowhere/config")},
	{name: "no kubeconfig at all", make: func(t *testing.T, _ *kubetest.Server) []string {
		noKubeconfig(t)
		return []string{"--kubeconfig="}
	}},
	{name: "kubeconfig is no YAML", make: func(t *testing.T, _ *kubetest.Server) []string {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte("a: [b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--kubeconfig", path}
	}},
	{name: "context is unknown", make: given("--context", "labb")},
	{name: "context of a cluster that is not there", make: given("--context", "lost")},
	{name: "context of a user that is not there", make: given("--context", "nobody")},
	{name: "cluster is not there", make: given("--cluster", "gone")},
	{name: "user is not there", make: given("--user", "gone")},
	{name: "namespace that can't be", make: given("-n", "Serving")},
	{name: "plugin for credentials is not installed", make: user(func(*testing.T) string {
		return `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never", "installHint": "get it from your admin"}}`
	})},
	{name: "plugin for credentials fails", make: user(func(*testing.T) string {
		return `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}}`
	})},
	{name: "file with the token is not there", make: user(func(*testing.T) string { return `{"tokenFile": "/nowhere/token"}` })},
	{name: "API server is down", make: func(t *testing.T, _ *kubetest.Server) []string {
		return []string{"--kube-server", "http://" + nettest.Refusing(t)}
	}},
	{name: "API server has another certificate", make: func(t *testing.T, _ *kubetest.Server) []string {
		server := httptest.NewUnstartedServer(nil)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // of handshakes
		server.StartTLS()
		t.Cleanup(server.Close)
		return []string{"--kube-server", server.URL}
	}},
	{name: "API server does not answer in time", make: func(_ *testing.T, api *kubetest.Server) []string {
		api.Instead(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
		return []string{"--request-timeout", "200ms"}
	}},
	{name: "something else is the API server", make: func(_ *testing.T, api *kubetest.Server) []string {
		api.Instead(func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "<html>log in</html>"); return true })
		return nil
	}},
	{name: "proxy is down", make: func(t *testing.T, _ *kubetest.Server) []string {
		return []string{"--kubeconfig", proxied(t, "http://"+nettest.Refusing(t))}
	}},
	{name: "token has expired", make: answeredWith(http.StatusUnauthorized, "/inferencepools")},
}

// proxied is a kubeconfig with a proxy.
func proxied(t *testing.T, proxy string) string {
	t.Helper()
	path := configWith(t, "https://api.example", "{}", "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"cluster": {"server"`, fmt.Sprintf(`"cluster": {"proxy-url": %q, "server"`, proxy), 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// toThePicker are ways that end between the pool and a pod.
var toThePicker = []way{
	{name: "no such kind", make: func(t *testing.T, _ *kubetest.Server) []string {
		return []string{"--kube-server", kubetest.New(t).URL}
	}},
	{name: "namespace is not there", make: namespaces("servnig")},
	{name: "namespace without a pool", make: namespaces("empty")},
	{name: "namespace without a pool of that name", make: func(t *testing.T, api *kubetest.Server) []string {
		return append(namespaces("empty")(t, api), "--pool", "chat")
	}},
	{name: "several pools", make: put(kubetest.Pools, kubetest.Pool("code", "engine", 8000))},
	{name: "no pool of that name", make: given("--pool", "chta")},
	{name: "no pool of that name, among several", make: func(t *testing.T, api *kubetest.Server) []string {
		put(kubetest.Pools, kubetest.Pool("chat-large", "engine", 8000), kubetest.Pool("code", "engine", 8000))(t, api)
		return []string{"--pool", "chat-lage"}
	}},
	{name: "pool and namespace contradict each other", make: given("--pool", "prod/chat", "-n", "serving")},
	{name: "pools are forbidden", make: answeredWith(http.StatusForbidden, "/inferencepools")},
	{name: "no endpointPickerRef", make: put(kubetest.Pools, kubetest.Pool("chat", "engine", 8000))},
	{name: "endpointPickerRef to something else", make: func(_ *testing.T, api *kubetest.Server) []string {
		pool := kubetest.PickedBy(kubetest.Pool("chat", "engine", 8000), "chat-epp")
		pool["spec"].(kubetest.Doc)["endpointPickerRef"].(kubetest.Doc)["kind"] = "Deployment"
		api.Put(kubetest.Pools, pool)
		return nil
	}},
	{name: "Service is not there", make: put(kubetest.Pools, kubetest.PickedBy(kubetest.Pool("chat", "engine", 8000), "chat-eep"))},
	{name: "Service without a selector", make: put(kubetest.Services, kubetest.Service("chat-epp", ""))},
	{name: "Service whose selector matches nothing", make: put(kubetest.Services, kubetest.Service("chat-epp", "other"))},
	{name: "Services are forbidden", make: answeredWith(http.StatusForbidden, "/services/chat-epp")},
	{name: "pods are forbidden", make: answeredWith(http.StatusForbidden, "/pods")},
	{name: "no pod runs", make: put(kubetest.Pods, replicaPod("epp-0", kubetest.Waiting("ImagePullBackOff")))},
}

// namespaces asks in one of them; there are serving and empty.
func namespaces(ask string) func(*testing.T, *kubetest.Server) []string {
	return func(_ *testing.T, api *kubetest.Server) []string {
		for _, name := range []string{"serving", "empty"} {
			api.Put("/api/v1/namespaces", kubetest.Doc{"kind": "Namespace", "apiVersion": "v1", "metadata": kubetest.Doc{"name": name}})
		}
		api.Install(strings.Replace(kubetest.Pools, "/serving/", "/"+ask+"/", 1), strings.Replace(kubetest.OldPools, "/serving/", "/"+ask+"/", 1))
		everywhere := strings.Replace(kubetest.Pools, "/namespaces/serving", "", 1)
		api.Put(everywhere, kubetest.PickedBy(kubetest.Pool("chat", "engine", 8000), "chat-epp"))
		return []string{"-n", ask}
	}
}

// toAnAnswer are ways that end at the pod.
var toAnAnswer = []way{
	{name: "forwards are forbidden", make: answeredWith(http.StatusForbidden, "/portforward")},
	{name: "pod is gone", make: answeredWith(http.StatusNotFound, "/portforward")},
	{name: "nothing listens at the admin port", make: given()},
	{name: "nobody is ready, and nothing listens", make: put(kubetest.Pods, replicaPod("epp-0", kubetest.NotReady))},
	{name: "another program answers", make: func(t *testing.T, api *kubetest.Server) []string {
		return answering(t, api, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	}},
	{name: "admin wants a token", make: func(t *testing.T, api *kubetest.Server) []string {
		return answering(t, api, asPicker(http.StatusUnauthorized, admin.CodeUnauthorized, "a bearer token is needed", "give --admin-token-file FILE"))
	}},
	{name: "admin refuses the token", make: func(t *testing.T, api *kubetest.Server) []string {
		return answering(t, api, asPicker(http.StatusForbidden, "forbidden", "eve may not get /v1/decisions", "ask for a role with get on nonResourceURL /v1/decisions"))
	}},
	{name: "connection is lost in the answer", make: func(t *testing.T, api *kubetest.Server) []string {
		return answering(t, api, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Eppctl-Api", admin.APIVersion)
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"apiVersion": `)
		})
	}},
	{name: "picker of another version", make: func(t *testing.T, api *kubetest.Server) []string {
		return answering(t, api, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Eppctl-Api", "eppctl/v9") })
	}},
	{name: "nobody knows whose picker, and nothing listens", make: put(kubetest.Pods, replicaPod("epp-0", kubetest.Image("registry.local:5000/picker")))},
	{name: "logs of llm-d's picker are forbidden", make: func(t *testing.T, api *kubetest.Server) []string {
		put(kubetest.Pods, replicaPod("epp-0", kubetest.Image(llmdImage)))(t, api)
		return answeredWith(http.StatusForbidden, "/log")(t, api)
	}},
	{name: "llm-d's picker has no log", make: put(kubetest.Pods, replicaPod("epp-0", kubetest.Image(llmdImage)))},
	{name: "llm-d's picker logs something else", make: func(t *testing.T, api *kubetest.Server) []string {
		api.Log("epp-0", "hello\n")
		return put(kubetest.Pods, replicaPod("epp-0", kubetest.Image(llmdImage)))(t, api)
	}},
	{name: "top, and nothing listens", line: "top --once", make: given()},
	{name: "metrics, and nothing listens", line: "metrics", make: given()},
	{name: "top of llm-d's picker, and nothing listens", line: "top -o json --interval 100ms", make: put(kubetest.Pods, replicaPod("epp-0", kubetest.Image(llmdImage)))},
}

// Whatever ends the way to a picker is told with its step, its object and what to type,
// and has the status that it should.
func TestWaysThatEnd(t *testing.T) {
	for file, ways := range map[string][]way{"cluster": toTheCluster, "picker": toThePicker, "answer": toAnAnswer} {
		t.Run(file, func(t *testing.T) {
			var all strings.Builder
			for _, w := range ways {
				fmt.Fprintf(&all, "# %s\n%s\n", w.name, w.end(t))
			}
			golden.Equal(t, filepath.Join("..", "testdata", "ways", file+".txt"), all.String())
		})
	}
}

var (
	loopback  = regexp.MustCompile(`127\.0\.0\.1:\d{5}`)
	temporary = regexp.MustCompile(`/[^ "]*/\d{3}/`)
)

// end goes the way, and returns what is said and the status.
func (w *way) end(t *testing.T) string {
	t.Helper()
	api, _ := servingCluster(t, replicaPod("epp-0"))
	args := append(strings.Fields(w.line), "--color", "never")
	if w.line == "" {
		args = slices.Insert(args, 0, "explain", "latest")
	}
	args = append(args, "--kubeconfig", configWith(t, api.URL, "{}", ""))
	s, out, complaints := cli.Test()
	status := run(t.Context(), s, append(args, w.make(t, api)...))
	if status == cli.ExitOK {
		t.Errorf("%s: status 0: %s", w.name, out)
	}
	text := strings.ReplaceAll(complaints.String(), api.URL, "http://api.test")
	text = temporary.ReplaceAllString(loopback.ReplaceAllString(text, "127.0.0.1:PORT"), "/tmp/")
	return fmt.Sprintf("%sstatus %d\n", text, status)
}
