package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gate lets ada read.
type gate struct{ away bool }

func (g gate) Access(_ context.Context, token, verb, path string) (string, bool, error) {
	switch {
	case g.away:
		return "", false, errors.New("connection refused by 10.0.0.1")
	case token != "s3cret":
		return "", false, nil
	}
	return "ada", verb == "get" && strings.HasPrefix(path, "/v1/"), nil
}

func TestAccess(t *testing.T) {
	tests := []struct {
		name, method, path, header string
		away                       bool
		status                     int
		text                       string
	}{
		{name: "may", method: "GET", path: "/v1/version", header: "Bearer s3cret", status: 200},
		{name: "scheme in another case", method: "GET", path: "/v1/version", header: "bearer s3cret", status: 200},
		{name: "head is get", method: "HEAD", path: "/v1/version", header: "Bearer s3cret", status: 200},
		{name: "may not", method: "PUT", path: "/v1/log-level", header: "Bearer s3cret", status: 403, text: `"\"ada\" may not put \"/v1/log-level\""`},
		{name: "what to grant", method: "PUT", path: "/v1/log-level", header: "Bearer s3cret", status: 403, text: "--verb=put --non-resource-url='/v1/*'"},
		{name: "to whom", method: "PUT", path: "/v1/log-level", header: "Bearer s3cret", status: 403, text: "--clusterrole=eppctl-writer --user=ada"},
		{name: "outside of what is granted", method: "GET", path: "/healthz", header: "Bearer s3cret", status: 403, text: "/healthz"},
		{name: "a path that does not exist", method: "GET", path: "/v1/x", header: "Bearer s3cret", status: 404},
		{name: "no token", method: "GET", path: "/v1/version", status: 401, text: "a bearer token is needed"},
		{name: "another scheme", method: "GET", path: "/v1/version", header: "Basic s3cret", status: 401},
		{name: "a token that nobody knows", method: "GET", path: "/v1/version", header: "Bearer no", status: 401, text: "does not know the token"},
		{name: "nobody to ask", method: "GET", path: "/v1/version", header: "Bearer s3cret", away: true, status: 503, text: "access-unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewServer(Deps{Access: gate{tt.away}})
			req := httptest.NewRequest(tt.method, "http://localhost"+tt.path, nil)
			if tt.header != "" {
				req.Header.Set("Authorization", tt.header)
			}
			got := httptest.NewRecorder()
			h.ServeHTTP(got, req)
			if body := got.Body.String(); got.Code != tt.status || !strings.Contains(body, tt.text) || strings.Contains(body, "s3cret") || strings.Contains(body, "10.0.0.1") {
				t.Errorf("%d: %s", got.Code, body)
			}
			if want := tt.status == 401; (got.Header().Get("WWW-Authenticate") == "Bearer") != want {
				t.Errorf("headers %v", got.Header())
			}
		})
	}
}

func TestClientShowsItsToken(t *testing.T) {
	server := httptest.NewTLSServer(NewServer(Deps{Access: gate{}}))
	defer server.Close()
	known := x509.NewCertPool()
	known.AddCert(server.Certificate())
	tests := []struct {
		name string
		opts ClientOptions
		err  string
	}{
		{"with an authority", ClientOptions{Token: "s3cret", TLS: &tls.Config{RootCAs: known}}, ""},
		{"without one", ClientOptions{Token: "s3cret"}, "certificate"},
		{"unchecked", ClientOptions{Token: "s3cret", TLS: &tls.Config{InsecureSkipVerify: true}}, ""},
		{"without a token", ClientOptions{TLS: &tls.Config{RootCAs: known}}, "a bearer token is needed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := NewClient(server.URL, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Version(t.Context())
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestATokenIsNotSentInTheClear(t *testing.T) {
	for server, ok := range map[string]bool{
		"http://10.0.0.1:9091": false, "epp.example:9091": false, "https://10.0.0.1:9091": true,
		"http://127.0.0.1:9091": true, "localhost:9091": true, "http://[::1]:9091": true,
	} {
		if _, err := NewClient(server, ClientOptions{Token: "t"}); (err == nil) != ok {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// door is a gate that somebody else opens and shuts.
type door struct {
	mu      sync.Mutex
	user    string
	allowed bool
	err     error
	asked   int
}

func (d *door) Access(context.Context, string, string, string) (string, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.user, d.allowed, d.err
}

func (d *door) set(change func(*door)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// Whose right to read is withdrawn does not read on for long, whoever has an open stream
// included; an API server that is away for a while ends none.
func TestStreamsEndWhenTheirReaderMayNotReadAnyMore(t *testing.T) {
	away := errors.New("connection refused")
	tests := []struct {
		name   string
		change func(d *door)
		ends   time.Duration // after the change; 0 = not in an hour
		reason string
	}{
		{"it may", func(*door) {}, 0, ""},
		{"it may not", func(d *door) { d.allowed = false }, reviewEvery, "may not read this any more"},
		{"the token has expired", func(d *door) { d.user = "" }, reviewEvery, "does not know the token any more"},
		{"nobody can tell", func(d *door) { d.err = away }, maxUnreviewed, "can't ask the cluster's API server"},
		{"nobody can tell for a while", func(d *door) {
			d.err = away
			time.AfterFunc(maxUnreviewed-time.Minute, func() { d.set(func(d *door) { d.err = nil }) })
		}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &door{user: "ada", allowed: true}
				deps := newDeps()
				deps.Access = d
				h := NewServer(deps)
				ctx, leave := context.WithCancel(t.Context())
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/stream?interval=1m", nil)
				w := httptest.NewRecorder()
				begun, took := time.Now(), time.Duration(0)
				var reading sync.WaitGroup
				reading.Go(func() {
					h.ServeHTTP(w, r)
					took = time.Since(begun)
				})
				synctest.Wait()
				d.set(tt.change)
				time.Sleep(time.Hour)
				leave()
				reading.Wait()
				want := tt.ends
				if want == 0 {
					want = time.Hour
				}
				if took != want || d.asked < 2 {
					t.Errorf("it ended after %v, want %v; asked %d times", took, want, d.asked)
				}
				if body := w.Body.String(); strings.Contains(body, `"end"`) != (tt.reason != "") || !strings.Contains(body, tt.reason) {
					t.Errorf("it ended with %s", body[max(0, len(body)-200):])
				}
			})
		})
	}
}
