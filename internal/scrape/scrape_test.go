package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/nettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leaps is a clock that nobody has to wait for: sleeping moves it on.
type leaps struct {
	mu  sync.Mutex
	now time.Time
}

func newLeaps() *leaps { return &leaps{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *leaps) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *leaps) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return nil
}

func (c *leaps) Scale() float64 { return 1 }

// serve answers at an address of its own until the test ends.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

func client(t *testing.T, opts Options) *Client {
	t.Helper()
	if opts.Clock == nil {
		opts.Clock = newLeaps()
	}
	c := NewClient(opts)
	t.Cleanup(c.Close)
	return c
}

const small = "# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"a\"} %d\n"

func TestRead(t *testing.T) {
	var accept, auth string
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		accept, auth = r.Header.Get("Accept"), r.Header.Get("Authorization")
		fmt.Fprintf(w, small, 7)
	})
	clock := newLeaps()
	page, err := client(t, Options{Clock: clock, Token: "word"}).Read(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if page.Source != address || !page.At.Equal(clock.Now()) || len(page.Families) != 1 {
		t.Errorf("page of %s at %v with %d families", page.Source, page.At, len(page.Families))
	}
	if auth != "Bearer word" || accept != metricview.Accept {
		t.Errorf("asked with %q, accepting %q", auth, accept)
	}
}

// Every failure says what is wrong and what to do.
func TestFailures(t *testing.T) {
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	other := serve(t, answer(200, "text/plain", "epp_x 1\n"))
	for _, tc := range []struct {
		name       string
		handler    http.HandlerFunc
		kind       ErrorKind
		says, hint string
	}{
		{"401", answer(401, "text/plain", "Unauthorized"), Forbidden, "HTTP 401", "--token-file"},
		{"403", answer(403, "text/plain", "no"), Forbidden, "HTTP 403", "--metrics-endpoint-auth=false"},
		{"404", answer(404, "text/plain", "no"), NotFound, "HTTP 404", "at /metrics"},
		{"500", answer(500, "text/html; charset=utf-8", "<html>"), Refused, "HTTP 500 Internal Server Error, with a page of HTML", "log"},
		{"503", answer(503, "text/plain", ""), Refused, "too many", "log"},
		{"a web page", answer(200, "text/html", "<html>"), NotMetrics, "HTML", "proxy"},
		{"a web page as text", answer(200, "text/plain", "<!doctype html>"), NotMetrics, "HTML", "dashboard"},
		{"an API", answer(200, "application/json", "{}"), NotMetrics, `"application/json"`, "--server"},
		{"nonsense", answer(200, "text/plain", "<<<"), NotMetrics, "malformed", "curl"},
		{"a page without end", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("# and so on\n", 1000)); err != nil {
					return
				}
			}
		}, NotMetrics, "more than 16777216 bytes", "Prometheus server"},
		{"a page that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "epp_x 1\n")
		}, Unreachable, "broke off", "running"},
		{"another server", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }, Refused, "redirects to another server", "log"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address := serve(t, tc.handler)
			_, err := client(t, Options{}).Read(t.Context(), address)
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("error %v is no *Error", err)
			}
			if e.Kind != tc.kind || !strings.Contains(e.Reason(), tc.says) || !strings.Contains(e.Hint(), tc.hint) || !strings.HasPrefix(e.Error(), address) {
				t.Errorf("kind %d: %v; hint %s\nwant kind %d, %q and %q", e.Kind, e, e.Hint(), tc.kind, tc.says, tc.hint)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	_, err := client(t, Options{}).Read(t.Context(), "http://"+nettest.Refusing(t)+"/metrics")
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Unreachable || !strings.Contains(e.Reason(), "connection refused") || !strings.Contains(e.Hint(), "port-forward") {
		t.Errorf("error %v", err)
	}
}

// What went wrong between here and a page is told for certificates, for the wrong
// scheme, and for a proxy that is not there.
func TestOnTheWay(t *testing.T) {
	failed := func(name string, err error) error {
		return &url.Error{Op: "Get", URL: name, Err: err}
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 3128}, Err: syscall.ECONNREFUSED}
	for _, tc := range []struct {
		name       string
		err        error
		says, hint string
	}{
		{"another name", &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}}, "certificate", "SSL_CERT_FILE"},
		{"too old", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "expired", "SSL_CERT_FILE"},
		{"no TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "it speaks http", "http://"},
		{"no proxy", refused, "nothing listens at 10.0.0.1:3128", "running"},
	} {
		e := &Error{Source: "https://a:9090/metrics", Err: failed("https://a:9090/metrics", tc.err)}
		if !strings.Contains(e.Reason(), tc.says) || !strings.Contains(e.Hint(), tc.hint) {
			t.Errorf("%s: %s; hint %s", tc.name, e.Reason(), e.Hint())
		}
	}
}

// The server holds its answer back until the client has given up.
func TestTimeout(t *testing.T) {
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := client(t, Options{Timeout: 20 * time.Millisecond}).Read(t.Context(), address)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Slow || !strings.Contains(e.Error(), "no page within 20ms") || !strings.Contains(e.Hint(), "--timeout") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("interrupted")
	cancel(gone)
	if _, err := client(t, Options{}).Read(ctx, address); !errors.Is(err, gone) {
		t.Errorf("interrupted: %v", err)
	}
}

// A redirect on the same server is followed; the token goes along there alone.
func TestRedirect(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/" {
			http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
			return
		}
		fmt.Fprintf(w, small, 7)
	})
	if _, err := client(t, Options{Token: "word"}).Read(t.Context(), address); err != nil {
		t.Error(err)
	}
}

func TestURL(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.7:9090": "http://10.0.0.7:9090/metrics", "http://a": "http://a/metrics", "http://a/": "http://a/metrics",
		"https://a:1/x/metrics?x=1": "https://a:1/x/metrics?x=1", "[::1]:9090": "http://[::1]:9090/metrics",
		"": "", "ftp://a": "", "http://u:p@a": "", "http://": "", "http://a b": "",
	} {
		got, err := URL(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("URL(%q) = %q, %v, want %q", text, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("URL(%q): the error tells the password: %v", text, err)
		}
	}
}

func TestReadFrom(t *testing.T) {
	text := fmt.Sprintf(small, 7)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"text": text, "gzip": packed.String(), "openmetrics": "# TYPE epp_routing_decisions counter\nepp_routing_decisions_total{model=\"a\"} 7\n# EOF\n"} {
		page, err := ReadFrom(strings.NewReader(body), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f := page.Family("epp_routing_decisions_total"); f == nil || f.Series[0].Value != 7 {
			t.Errorf("%s: %+v", name, page.Families)
		}
	}
	if _, err := ReadFrom(strings.NewReader("\x1f\x8bno"), "x"); err == nil {
		t.Error("no error for gzip that is none")
	}
	bomb := new(bytes.Buffer)
	z = gzip.NewWriter(bomb)
	_, _ = io.Copy(z, io.LimitReader(zeros{}, 64<<20))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFrom(bomb, "bomb"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a bomb: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// counting is a server whose counter goes up with each page; it is down while
// down says so.
type counting struct {
	mu    sync.Mutex
	count int
	step  int
	down  bool
}

func (c *counting) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	c.count += c.step
	fmt.Fprintf(w, small, c.count)
}

func (c *counting) set(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Rates of two replicas, ten seconds apart by a clock that leaps.
func TestRates(t *testing.T) {
	a, b := serve(t, (&counting{step: 20}).ServeHTTP), serve(t, (&counting{step: 5}).ServeHTTP)
	c := client(t, Options{})
	watch := c.NewWatch([]string{a, b})
	if _, err := watch.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	var told []time.Duration
	if err := c.Wait(t.Context(), 2500*time.Millisecond, func(d time.Duration) { told = append(told, d) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second}, told); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	seen, err := watch.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := metricview.Look(seen, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Routing.Decisions != 25 || *d.Routing.PerSecond != 10 || *d.Window.Seconds != 2.5 || d.Window.Kind != "scrapes" {
		t.Errorf("%v decisions, %v a second in %v s", d.Routing.Decisions, *d.Routing.PerSecond, *d.Window.Seconds)
	}
}

// A replica that goes away is named, and begins anew when it is back.
func TestReplicaThatGoesAway(t *testing.T) {
	steady, shaky := &counting{step: 1}, &counting{step: 1}
	a, b := serve(t, steady.ServeHTTP), serve(t, shaky.ServeHTTP)
	watch := client(t, Options{}).NewWatch([]string{a, b})
	for i, step := range []struct {
		down     bool
		replicas int
		failed   string
	}{
		{false, 2, ""}, {false, 2, ""}, {true, 1, "HTTP 500"}, {false, 1, "first page"}, {false, 2, ""},
	} {
		shaky.set(step.down)
		seen, err := watch.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(seen.Replicas) != step.replicas || (len(seen.Failed) > 0) != (step.failed != "") {
			t.Fatalf("reading %d: %d replicas, failed %v", i, len(seen.Replicas), seen.Failed)
		}
		if step.failed != "" && (seen.Failed[0].Source != b || !strings.Contains(seen.Failed[0].Error, step.failed)) {
			t.Errorf("reading %d: failed %v, want %s: %s", i, seen.Failed, b, step.failed)
		}
	}
	steady.set(true)
	shaky.set(true)
	if _, err := watch.Next(t.Context()); err == nil {
		t.Error("both are down: no error")
	}
}
