package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
	"github.com/eppctl/eppctl/internal/nettest"
)

// cliObjects are a pool, the Service of its picker, and what a person may who looks at
// it: %s are the verbs for forwards.
const cliObjects = `
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: engine}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: chat-epp, port: {number: 9002}}
---
apiVersion: v1
kind: Service
metadata: {name: chat-epp}
spec: {selector: {app: chat-epp}, ports: [{port: 9002}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: viewer}
rules:
- {apiGroups: [inference.networking.k8s.io], resources: [inferencepools], verbs: [get, list]}
- {apiGroups: [""], resources: [services, pods, pods/log], verbs: [get, list]}
- {apiGroups: [""], resources: [pods/portforward], verbs: [%s]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer}]
`

// A laptop is where somebody types eppctl, with a kubeconfig and no picker at hand.
type laptop struct {
	t          *testing.T
	cluster    *cluster.Cluster
	kubeconfig string
}

func newLaptop(t *testing.T, verbs string) *laptop {
	c := cluster.Start(t)
	c.Apply(fmt.Sprintf(cliObjects, verbs))
	return &laptop{t: t, cluster: c, kubeconfig: c.Kubeconfig(c.Token("viewer"))}
}

// replica makes a pod of the picker, whose image is as named, before a process.
func (l *laptop) replica(name, image string, p *picker) {
	l.t.Helper()
	l.cluster.Pod(cluster.Pod{Name: name, IP: "127.0.0.2", Labels: map[string]string{"app": "chat-epp"}, Containers: []string{image}})
	if p != nil {
		l.cluster.Forward(name, 9091, p.at.Admin)
		l.cluster.Forward(name, 9090, p.at.Metrics)
	}
}

// eppctl runs it to its end.
func (l *laptop) eppctl(args ...string) (out, complaints string, status int) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), program(l.t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.kubeconfig, "EPPCTL_SERVER=", "NO_COLOR=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		l.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), status
}

// says fails unless a command succeeds and says all of these, on either stream.
func (l *laptop) says(args []string, words ...string) {
	l.t.Helper()
	out, complaints, status := l.eppctl(args...)
	for _, w := range words {
		if !strings.Contains(out+complaints, w) {
			l.t.Errorf("eppctl %s does not say %q", strings.Join(args, " "), w)
		}
	}
	if status != 0 || l.t.Failed() {
		l.t.Fatalf("eppctl %s: status %d\n%s\n%s", strings.Join(args, " "), status, out, complaints)
	}
}

// simulated is a picker with pods of its own.
func simulated(t *testing.T) *picker {
	t.Helper()
	return serve(t, "{}", "127.0.0.1:0", "--sim", "2", "--sim-model", model, "--sim-speed", "1", "--drain", "0s", "--allow-write", "--report-addr", "127.0.0.1:0")
}

// ask sends a request with an ID through a picker's gateway.
func ask(t *testing.T, p *picker, id string) {
	t.Helper()
	body := fmt.Sprintf(`{"model": %q, "prompt": "hello there", "max_tokens": 2}`, model)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.at.Gateway+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", id)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("request %s: %s", id, resp.Status)
	}
}

// What is typed on a laptop reaches both replicas, by forwards through the API server.
func TestKubeCommandsFindThePicker(t *testing.T) {
	l := newLaptop(t, "create, get")
	one, two := simulated(t), simulated(t)
	ask(t, one, "asked-one")
	ask(t, two, "asked-two")
	l.replica("chat-epp-1", "eppctl", one)
	l.replica("chat-epp-2", "eppctl", two)
	ns := l.cluster.Namespace
	l.says([]string{"explain", "asked-one", "--context", "e2e"}, "replay: identical", "pickers chat-epp-1, chat-epp-2 of pool "+ns+"/chat (context e2e, port-forward)")
	l.says([]string{"explain", "asked-two", "--pool", "chat"}, "replay: identical")
	l.says([]string{"decisions", "--pool", ns + "/chat"}, "asked-one", "asked-two")
	l.says([]string{"top", "--once", "-n", ns}, "sim-0  chat-epp-1", "sim-0  chat-epp-2", "pickers chat-epp-1, chat-epp-2 of pool "+ns+"/chat")
	l.says([]string{"metrics", "-n", ns}, "chat-epp-1, chat-epp-2", "2 decisions")
	l.says([]string{"pools", "-n", ns, "--no-headers"}, "chat  eppctl", "  2/2  0/0  8000", "down: it selects no pod")
	l.says([]string{"drain", "sim-0", "--pool", "chat"}, "pod sim-0 drained")
	for _, p := range []*picker{one, two} {
		pods, err := p.admin.Pods(t.Context())
		if err != nil || pods.Items[0].State == "ready" {
			t.Errorf("not drained at both replicas: %+v, %v", pods, err)
		}
	}
	l.says([]string{"__complete", "explain", "-n", ns, "asked-"}, "asked-one")
	l.says([]string{"__complete", "explain", "--pool", ""}, "chat")
}

// Where nobody answers on this host, the current context's cluster is meant.
func TestKubeContextIsTheDefault(t *testing.T) {
	if conn, err := net.Dial("tcp", admin.DefaultServer); err == nil {
		conn.Close()
		t.Skip("somebody answers at " + admin.DefaultServer)
	}
	l := newLaptop(t, "create, get")
	one := simulated(t)
	ask(t, one, "asked-one")
	l.replica("chat-epp-1", "eppctl", one)
	l.says([]string{"explain", "latest"}, "asked-one", "picker chat-epp-1 of pool "+l.cluster.Namespace+"/chat")
	l.says([]string{"top", "--once"}, "sim-0", "picker chat-epp-1 of pool "+l.cluster.Namespace+"/chat")
}

// A watch goes on with the replica that comes in place of another.
func TestKubeWatchSurvivesItsPicker(t *testing.T) {
	l := newLaptop(t, "create") // as older roles have it, which allows no WebSocket
	one, two := simulated(t), simulated(t)
	ask(t, one, "before")
	l.replica("chat-epp-1", "eppctl", one)
	seen := l.watch("decisions", "--pool", "chat", "--watch", "--interval", "100ms", "-o", "name")
	seen.until("before")
	one.end(syscall.SIGTERM)
	l.cluster.Delete(cluster.PodRef("chat-epp-1"))
	l.replica("chat-epp-2", "eppctl", two)
	ask(t, two, "after")
	seen.until("after")
}

// A picker that was restarted behind the same name is found again, also after its port
// was closed.
func TestKubePickerRestarts(t *testing.T) {
	l := newLaptop(t, "create, get")
	one := simulated(t)
	l.replica("chat-epp-1", "eppctl", one)
	seen := l.watch("top", "--pool", "chat", "--watch", "--interval", "200ms", "-o", "jsonl")
	seen.until(`"sim-0"`)
	l.cluster.Forward("chat-epp-1", 9091, "")
	one.end(syscall.SIGTERM)
	seen.until(`"router-unreachable"`)
	two := simulated(t)
	l.cluster.Forward("chat-epp-1", 9091, two.at.Admin)
	seen.until(`"sim-0"`)
}

func TestKubeForwardIsForbidden(t *testing.T) {
	l := newLaptop(t, "list") // which says nothing for forwards
	l.replica("chat-epp-1", "eppctl", nil)
	_, complaints, status := l.eppctl("explain", "latest", "--pool", "chat")
	for _, words := range []string{
		`cannot create resource "pods/portforward"`, "kubectl auth can-i create pods --subresource=portforward -n " + l.cluster.Namespace + " --context e2e",
	} {
		if !strings.Contains(complaints, words) {
			t.Errorf("a forward that is forbidden: does not say %q", words)
		}
	}
	if status != 1 || t.Failed() {
		t.Errorf("status %d\n%s", status, complaints)
	}
}

func TestKubeAdminPortIsClosed(t *testing.T) {
	l := newLaptop(t, "create, get")
	l.replica("chat-epp-1", "eppctl", nil)
	l.cluster.Forward("chat-epp-1", 9091, nettest.Refusing(t))
	_, complaints, status := l.eppctl("explain", "latest", "--pool", "chat")
	if status != 4 || !strings.Contains(complaints, "connect to port 9091 of pod "+l.cluster.Namespace+"/chat-epp-1: connection refused") {
		t.Errorf("status %d\n%s", status, complaints)
	}
}

// output is what a command that goes on prints.
type output struct {
	t     *testing.T
	lines chan string
}

// watch starts a command that ends with the test.
func (l *laptop) watch(args ...string) *output {
	l.t.Helper()
	o := &output{l.t, make(chan string, 1000)}
	command := append([]string{"KUBECONFIG=" + l.kubeconfig, "EPPCTL_SERVER=", program(l.t)}, args...)
	launch(l.t, "eppctl "+args[0], func(text string) { o.lines <- text }, "env", command...)
	return o
}

// until waits for a line with a text.
func (o *output) until(text string) {
	o.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case line := <-o.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-timer.C:
			o.t.Fatalf("waited in vain for %q", text)
		}
	}
}

// guarded is a replica that asks the cluster who may use its admin API.
const guarded = `
apiVersion: v1
kind: Pod
metadata: {name: chat-epp-1, labels: {app: chat-epp}}
spec: {nodeName: node, containers: [{name: picker, image: eppctl, args: [serve, --admin-auth]}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s-reader}
rules: [{nonResourceURLs: ["/v1/*"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s-reader}
subjects: [{kind: ServiceAccount, name: viewer, namespace: %[1]s}]
`

// A picker that asks who somebody is gets the token that was meant for it, and no other.
func TestKubeTokenForThePicker(t *testing.T) {
	l := newLaptop(t, "create, get")
	c := l.cluster
	c.Apply(manifests(t, poolName, "-n", c.Namespace, "-l", "app=engine", "--admin-auth",
		"--only", "ServiceAccount,Role,RoleBinding,ClusterRole,ClusterRoleBinding"))
	c.Apply(fmt.Sprintf(guarded, c.Namespace))
	c.Run("chat-epp-1", "127.0.0.2")
	p := serve(t, kubeConfig, "127.0.0.1:0", "--plaintext", "--pool", c.Namespace+"/"+poolName, "--admin-auth",
		"--kubeconfig", c.Kubeconfig(c.Token(poolName+"-epp")))
	c.Forward("chat-epp-1", 9091, p.at.Admin)
	_, complaints, status := l.eppctl("decisions", "--pool", poolName)
	if status == 0 || !strings.Contains(complaints, "a bearer token is needed") || !strings.Contains(complaints, "--admin-token-file") {
		t.Errorf("without a token: status %d\n%s", status, complaints)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(c.Token("viewer")), 0o600); err != nil {
		t.Fatal(err)
	}
	l.says([]string{"decisions", "--pool", poolName, "--admin-token-file", file}, "no decisions match")
	l.says([]string{"top", "--once", "--pool", poolName, "--admin-token-file", file}, "picker chat-epp-1 of pool "+c.Namespace+"/"+poolName)
}
