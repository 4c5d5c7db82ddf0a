package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// kubeconfigFile writes a kubeconfig with one cluster, user, context and namespace, all
// called alike.
func kubeconfigFile(t *testing.T, name string, current bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: %[1]s, cluster: {server: "https://%[1]s.test"}}]
users: [{name: %[1]s, user: {token: %[1]s-token}}]
contexts: [{name: %[1]s, context: {cluster: %[1]s, user: %[1]s, namespace: %[1]s-ns}}]
`, name)
	if current {
		text += "current-context: " + name + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Which cluster is meant, and who asks, is decided as kubectl does.
func TestConnectIsAsKubectl(t *testing.T) {
	one, two := kubeconfigFile(t, "one", true), kubeconfigFile(t, "two", true)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, tc := range []struct {
		name string
		env  string // $KUBECONFIG
		set  ConnectOptions
		want string // server, context, namespace, token
	}{
		{"a file of the variable", two, ConnectOptions{}, "https://two.test two two-ns two-token"},
		{"several, of which the first says the context", one + string(os.PathListSeparator) + two, ConnectOptions{}, "https://one.test one one-ns one-token"},
		{"several, of which one is not there", "/nowhere" + string(os.PathListSeparator) + two, ConnectOptions{}, "https://two.test two two-ns two-token"},
		{"a context of another of them", one + string(os.PathListSeparator) + two, ConnectOptions{Context: "two"}, "https://two.test two two-ns two-token"},
		{"--kubeconfig goes before the variable", one, ConnectOptions{Kubeconfig: two}, "https://two.test two two-ns two-token"},
		{"--namespace goes before the context's", one, ConnectOptions{Namespace: "prod"}, "https://one.test one prod one-token"},
		{"another cluster", one + string(os.PathListSeparator) + two, ConnectOptions{Cluster: "two"}, "https://two.test one one-ns one-token"},
		{"another user", one + string(os.PathListSeparator) + two, ConnectOptions{User: "two"}, "https://one.test one one-ns two-token"},
		{"--server", one, ConnectOptions{KubeServer: "https://else.test"}, "https://else.test one one-ns one-token"},
		{"--token goes before the user's", one, ConnectOptions{Token: "mine"}, "https://one.test one one-ns mine"},
		{"--server alone", "/nowhere", ConnectOptions{KubeServer: "https://else.test"}, "https://else.test  default "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.env)
			c, err := Connect(tc.set)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join([]string{c.Server(), c.Context, c.Namespace, c.config.BearerToken}, " "); got != tc.want {
				t.Errorf("connected to %q, want %q", got, tc.want)
			}
			if c.NamespaceGiven != (tc.set.Namespace != "") {
				t.Errorf("namespace given: %t", c.NamespaceGiven)
			}
		})
	}
}

func TestConnectActsAs(t *testing.T) {
	file := kubeconfigFile(t, "one", true)
	c, err := Connect(ConnectOptions{
		Kubeconfig: file, As: "eve", AsUID: "7", AsGroups: []string{"a", "b"}, RequestTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := rest.ImpersonationConfig{UserName: "eve", UID: "7", Groups: []string{"a", "b"}}
	if got := c.config.Impersonate; got.UserName != want.UserName || got.UID != want.UID || strings.Join(got.Groups, ",") != "a,b" || c.config.Timeout != time.Minute {
		t.Errorf("acts as %+v within %s", got, c.config.Timeout)
	}
	if got, want := c.Kubectl("get", "pods"), "kubectl get pods --context one --kubeconfig "+file+" --as eve --as-group a --as-group b"; got != want {
		t.Errorf("to be typed is %q, want %q", got, want)
	}
}

// Where nobody can be asked, as in a completion, a program that gets credentials is told
// so.
func TestConnectUnattended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := `{"clusters": [{"name": "a", "cluster": {"server": "https://a.test"}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a",
		"users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "IfAvailable"}}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, unattended := range []bool{true, false} {
		c, err := Connect(ConnectOptions{Kubeconfig: path, Unattended: unattended})
		if err != nil || c.config.ExecProvider.StdinUnavailable != unattended {
			t.Errorf("unattended %t: %v, %v", unattended, c.config.ExecProvider, err)
		}
	}
}

func TestConnectFails(t *testing.T) {
	noContext := kubeconfigFile(t, "one", false)
	for _, tc := range []struct {
		name, kubeconfig, host, says string
	}{
		{"no file", "/nowhere", "", "looked at /nowhere"},
		{"several files", "/nowhere" + string(os.PathListSeparator) + "/else", "", "looked at /nowhere, /else"},
		{"no current context", noContext, "", "no kubeconfig names one"},
		{"a pod without a service account", "/nowhere", "10.0.0.1", "this pod has no token of a service account"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.kubeconfig)
			t.Setenv("KUBERNETES_SERVICE_HOST", tc.host)
			t.Setenv("KUBERNETES_SERVICE_PORT", tc.host)
			_, err := Connect(ConnectOptions{})
			if _, none := errors.AsType[*NoConfigError](err); !none || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one with %q", err, tc.says)
			}
		})
	}
}

func TestNear(t *testing.T) {
	names := []string{"prod/chat", "prod/chat-large", "prod/code", "test/chat"}
	for name, want := range map[string]string{
		"prod/chta": "prod/chat", "prod/chat-lareg": "prod/chat-large", "tset/chat": "test/chat", "x": "", "": "",
	} {
		if got := strings.Join(near(name, names), " "); got != want {
			t.Errorf("near(%q) = %q, want %q", name, got, want)
		}
	}
}
