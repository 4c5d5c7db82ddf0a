package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Tokens of users. Those of service accounts are of [Cluster.Token].
const (
	Admin    = "admin-token"    // may do everything
	Stranger = "stranger-token" // may do nothing
)

// A Cluster is what one test sees of the servers: a namespace of its own. What goes
// wrong fails the test.
type Cluster struct {
	Namespace string

	tb      testing.TB
	servers *servers
}

// shared are the servers of this test binary.
var shared struct {
	sync.Mutex
	servers *servers
	err     error
	tests   int
}

// Start returns a namespace in the cluster that the tests of this binary share, with
// all of [CRDs].
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	binaries := binaries(tb)
	shared.Lock()
	if shared.servers == nil && shared.err == nil {
		shared.servers, shared.err = launch(binaries, CRDs)
	}
	servers, err := shared.servers, shared.err
	shared.Unlock()
	if err != nil {
		tb.Fatal(err)
	}
	return begin(tb, servers)
}

// StartOwn returns a namespace in a cluster of the test's own, which has these
// resources and no others, and ends with the test.
func StartOwn(tb testing.TB, crds ...CRD) *Cluster {
	tb.Helper()
	servers, err := launch(binaries(tb), crds)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(servers.stop)
	return begin(tb, servers)
}

// Stop ends the servers that the tests shared; TestMain calls it at the end.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.servers != nil {
		shared.servers.stop()
		shared.servers = nil
	}
}

// Later in the place of a real program's path leaves the tests that need it to the run
// of their part, .ci/e2e PART: once is enough in one run of everything.
const Later = "later"

// binaries is the directory with the servers.
func binaries(tb testing.TB) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts real programs")
	}
	dir := os.Getenv("EPPCTL_E2E_KUBE")
	switch dir {
	case Later:
		tb.Skip("'.ci/e2e kube' runs this test")
	case "":
		const reason = "EPPCTL_E2E_KUBE is not set: run '.ci/e2e kube', which builds what this test needs"
		if os.Getenv("CI") == "true" {
			tb.Fatal(reason)
		}
		tb.Skip(reason)
	}
	return dir
}

func begin(tb testing.TB, s *servers) *Cluster {
	tb.Helper()
	shared.Lock()
	shared.tests++
	c := &Cluster{Namespace: fmt.Sprintf("test-%d", shared.tests), tb: tb, servers: s}
	shared.Unlock()
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("--- the end of the API server's log\n%s--- the end of etcd's log\n%s", s.api.tail(), s.etcd.tail())
		}
	})
	c.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + c.Namespace + "}}")
	return c
}

// Server is the URL of the API server.
func (c *Cluster) Server() string { return c.servers.url }

// Kubeconfig writes a file for the user with a token, in whose only context, "e2e",
// the namespace is the test's. It returns the file's path.
func (c *Cluster) Kubeconfig(token string) string {
	c.tb.Helper()
	type named = map[string]any
	config, err := yaml.Marshal(named{
		"apiVersion": "v1", "kind": "Config", "current-context": "e2e",
		"clusters": []named{{"name": "e2e", "cluster": named{"server": c.servers.url, "certificate-authority": c.servers.authority()}}},
		"users":    []named{{"name": "e2e", "user": named{"token": token}}},
		"contexts": []named{{"name": "e2e", "context": named{"cluster": "e2e", "user": "e2e", "namespace": c.Namespace}}},
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	path := filepath.Join(c.tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		c.tb.Fatal(err)
	}
	return path
}

// Token makes a service account, unless it is there, and returns a token for it. What
// the account may do is for the roles that the test applies.
func (c *Cluster) Token(account string) string {
	c.tb.Helper()
	c.Apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: " + account + "}}")
	path := "/api/v1/namespaces/" + c.Namespace + "/serviceaccounts/" + account + "/token"
	answer := c.must(http.MethodPost, path, jsonType, []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))
	var request authenticationv1.TokenRequest
	if err := json.Unmarshal(answer, &request); err != nil {
		c.tb.Fatal(err)
	}
	return request.Status.Token
}

// KillAPIServer kills the API server; etcd and the kubelet go on.
func (c *Cluster) KillAPIServer() { c.servers.api.stop(syscall.SIGKILL) }

// StartAPIServer starts it again, on the same data and port, and waits until it is
// ready.
func (c *Cluster) StartAPIServer() {
	c.tb.Helper()
	if err := c.servers.startAPI(); err != nil {
		c.tb.Fatal(err)
	}
}

// Expire restarts the API server such that no watch can go on from where it was: the
// answer to it is 410, and the client must list anew.
func (c *Cluster) Expire() {
	c.tb.Helper()
	c.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: expiry}}") // a revision that no client has seen
	c.KillAPIServer()
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	c.etcd("/v3/maintenance/status", "{}", &status)
	c.etcd("/v3/kv/compaction", fmt.Sprintf(`{"revision": %q, "physical": true}`, status.Header.Revision), nil)
	c.StartAPIServer()
}

// etcd posts to etcd.
func (c *Cluster) etcd(path, body string, into any) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.servers.etcdURL+path, strings.NewReader(body))
	if err != nil {
		c.tb.Fatal(err)
	}
	answer, err := answer(http.DefaultClient, req)
	if err != nil {
		c.tb.Fatalf("etcd: %v", err)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(answer, into); err != nil {
		c.tb.Fatalf("etcd: %v", err)
	}
}

// May reports whether a service account may do something to a resource, named or not,
// by the API server's own word. A role counts a moment after it was applied.
func (c *Cluster) May(account string, do authorizationv1.ResourceAttributes) bool {
	c.tb.Helper()
	do.Namespace = c.Namespace
	body, err := json.Marshal(authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + c.Namespace + ":" + account, ResourceAttributes: &do,
		},
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	var review authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(c.must(http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", jsonType, body), &review); err != nil {
		c.tb.Fatal(err)
	}
	return review.Status.Allowed
}
