package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// deaf is a transport that knows nothing of contexts.
type deaf struct {
	answer chan struct{}
	closed bool // the answer's body
}

func (d *deaf) RoundTrip(*http.Request) (*http.Response, error) {
	<-d.answer
	return &http.Response{Body: d}, nil
}

func (d *deaf) Read([]byte) (int, error) { return 0, io.EOF }

func (d *deaf) Close() error {
	d.closed = true
	return nil
}

func TestRequestsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api", nil)
		if err != nil {
			t.Fatal(err)
		}
		next, why := &deaf{answer: make(chan struct{})}, errors.New("why")
		go cancel(why)
		if _, err := (unwaited{next}).RoundTrip(req); !errors.Is(err, why) {
			t.Errorf("error %v", err)
		}
		close(next.answer)
		synctest.Wait()
		if !next.closed {
			t.Error("the late answer is not closed")
		}
	})
}

func TestContextWithoutACluster(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an empty file":       {"", "no cluster is known: no kubeconfig names one"},
		"no such cluster":     {`{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "gone"}}]}`, `the context "a" is of the cluster "gone", which is not there`},
		"one without address": {`{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "b"}}], "clusters": [{"name": "b", "cluster": {}}]}`, `cluster "b"`},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "") // as on a laptop
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Connect(ConnectOptions{Kubeconfig: file}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What a kubeconfig holds may be anybody's: names are not run, and a program that gets
// no credentials is no API server that does not answer.
func TestOddKubeconfig(t *testing.T) {
	const config = `
apiVersion: v1
kind: Config
current-context: "a'; rm -rf x"
contexts: [{name: "a'; rm -rf x", context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: "false", interactiveMode: Never}}}]
`
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := Connect(ConnectOptions{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	_, err = cluster.Pools(t.Context(), "prod", "")
	step, ok := errors.AsType[*StepError](err)
	if !ok || step.Trouble != Forbidden || !strings.HasPrefix(step.Error(), "log in to https://127.0.0.1:1: getting credentials: ") {
		t.Fatalf("error %v", err)
	}
	if want := `kubectl auth whoami --context 'a'\''; rm -rf x' --kubeconfig ` + file; !strings.HasSuffix(step.Hint, want) {
		t.Errorf("hint %q, want %s", step.Hint, want)
	}
}
