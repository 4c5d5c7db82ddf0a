package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A page to log in at, or another server, is not shown the user's token.
func TestRedirectsElsewhere(t *testing.T) {
	var shown atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { shown.Add(1) }))
	defer other.Close()
	for _, c := range []struct{ name, to, says string }{
		{"another server", other.URL + "/login", "sends on to " + other.URL},
		{"itself without TLS", "", "sends on to http://127.0.0.1"},
		{"itself for ever", "/again", "it only ever sends on to itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				to := c.to
				if to == "" {
					to = "http://" + r.Host + r.URL.Path
				}
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}))
			defer api.Close()
			t.Setenv("KUBECONFIG", "none")
			cluster, err := Connect(ConnectOptions{KubeServer: api.URL, Token: "the user's", Insecure: true})
			if err != nil {
				t.Fatal(err)
			}
			for way, err := range map[string]error{
				"a list": func() error { _, err := cluster.Pools(t.Context(), "", ""); return err }(),
				"a forward by SPDY": func() error {
					client, err := cluster.core()
					if err != nil {
						return err
					}
					_, err = cluster.spdy(t.Context(), client.Post().Resource("pods").URL())
					return cluster.forwardFailed(t.Context(), Name{"a", "b"}, err)
				}(),
			} {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: error %v, want %q", way, err, c.says)
				}
			}
		})
	}
	if n := shown.Load(); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
}
