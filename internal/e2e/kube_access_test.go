package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
	servepkg "github.com/eppctl/eppctl/internal/serve"
)

// readers may read the admin API, by the account of that name.
const readers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: epp-readers-NAMESPACE}
rules: [{nonResourceURLs: ["/v1/*"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: epp-readers-NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: epp-readers-NAMESPACE}
subjects: [{kind: ServiceAccount, name: reader, namespace: NAMESPACE}]
`

// TestKubeAdminAuth asks a picker's admin API with several tokens. The picker has the
// roles of `eppctl manifests --admin-auth`, then not all of them, then no API server.
func TestKubeAdminAuth(t *testing.T) {
	c := cluster.Start(t)
	shipped := []string{poolName, "-n", c.Namespace, "-l", "app=engine", "--admin-auth", "--only"}
	c.Apply(manifests(t, append(shipped, "InferencePool,ServiceAccount,Role,RoleBinding,ConfigMap,ClusterRole,ClusterRoleBinding")...))
	c.Apply(strings.ReplaceAll(readers, "NAMESPACE", c.Namespace))
	a := &access{t: t, cluster: c}
	a.start()
	reader := c.Token("reader")
	until(t, "the reader's role counts", func() bool { return a.ask(reader, http.MethodGet) == nil })
	for _, tt := range []struct{ name, token, method, want string }{
		{"who may do everything reads", cluster.Admin, http.MethodGet, ""},
		{"who may do everything writes", cluster.Admin, http.MethodPut, ""},
		{"a reader reads", reader, http.MethodGet, ""},
		{"a reader writes", reader, http.MethodPut, `may not put "/v1/log-level"`},
		{"a stranger reads", cluster.Stranger, http.MethodGet, `may not get "/v1/log-level"`},
		{"a token of nobody's", "nobody's-token", http.MethodGet, "the cluster does not know the token"},
		{"no token", "", http.MethodGet, "a bearer token is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) { a.expect(t, tt.token, tt.method, tt.want) })
	}

	t.Run("without the right to ask", func(t *testing.T) {
		for resource, group := range reviews {
			c.Apply(strings.ReplaceAll(manifests(t, append(shipped, "ClusterRole")...), resource, "nothing"))
			until(t, "the right is gone, and the other is there", func() bool {
				for other, group := range reviews {
					if a.may(other, group) == (other == resource) {
						return false
					}
				}
				return true
			})
			a.expect(t, c.Token("fresh-"+resource), http.MethodGet, "can't ask the cluster's API server") // one that is not remembered
			want := "a ClusterRole must grant create on " + resource + "." + group
			until(t, "the picker names what it may not do", func() bool { return strings.Contains(a.process.output(), want) })
		}
		c.Apply(manifests(t, append(shipped, "ClusterRole")...))
	})

	t.Run("without an API server", func(t *testing.T) {
		last := c.Token("last")
		until(t, "the picker may ask again", func() bool { return a.ask(reader, http.MethodGet) == nil })
		c.KillAPIServer()
		defer c.StartAPIServer()
		a.expect(t, reader, http.MethodGet, "") // remembered
		a.expect(t, last, http.MethodGet, "can't ask the cluster's API server")
	})
	for _, token := range []string{reader, cluster.Admin, cluster.Stranger, "nobody's-token"} {
		if strings.Contains(a.process.output(), token) {
			t.Error("a token is in the log")
		}
	}
}

// reviews are what the picker asks for, with their groups.
var reviews = map[string]string{"tokenreviews": "authentication.k8s.io", "subjectaccessreviews": "authorization.k8s.io"}

// may reports whether the picker may ask for a review. They are in no namespace.
func (a *access) may(resource, group string) bool {
	return a.cluster.May(poolName+"-epp", authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: "create"})
}

// access is a picker that asks who may use its admin API.
type access struct {
	t       *testing.T
	cluster *cluster.Cluster
	process *process
	admin   string // where
}

func (a *access) start() {
	a.t.Helper()
	const anyPort = "127.0.0.1:0"
	file := filepath.Join(a.t.TempDir(), "addresses.json")
	a.process = launch(a.t, "eppctl serve", nil, program(a.t), "serve",
		"--kubeconfig", a.cluster.Kubeconfig(a.cluster.Token(poolName+"-epp")), "--pool", a.cluster.Namespace+"/"+poolName,
		"--admin-auth", "--allow-write", "--addr-file", file, "--extproc-addr", anyPort, "--health-addr", anyPort, "--metrics-addr", anyPort,
		"--admin-addr", anyPort, "--log-level", "info")
	var at servepkg.Addresses
	until(a.t, "it listens", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &at) == nil || a.process.gone()
	})
	if a.process.gone() {
		a.t.Fatalf("it ended:\n%s", a.process.output())
	}
	a.admin = "https://" + at.Admin
}

// ask reads the log level, or sets it to what it is.
func (a *access) ask(token, method string) error {
	client, err := admin.NewClient(a.admin, admin.ClientOptions{Token: token, TLS: &tls.Config{InsecureSkipVerify: true}})
	if err != nil {
		return err
	}
	defer client.Close()
	if method == http.MethodGet {
		_, err = client.LogLevel(a.t.Context())
		return err
	}
	return client.SetLogLevel(a.t.Context(), "info")
}

func (a *access) expect(t *testing.T, token, method, want string) {
	t.Helper()
	err := a.ask(token, method)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", method, err, want)
	}
}
