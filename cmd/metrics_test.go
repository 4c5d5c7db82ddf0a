package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/metricview"
)

// leaps is a clock that nobody has to wait for; its end ends what waits.
type leaps struct {
	now    time.Time
	sleeps int // that are left before it ends
}

var errClockEnds = errors.New("the clock has ended")

func (c *leaps) Now() time.Time { return c.now }

func (c *leaps) Sleep(_ context.Context, d time.Duration) error {
	if c.sleeps--; c.sleeps < 0 {
		return errClockEnds
	}
	c.now = c.now.Add(d)
	return nil
}

func (c *leaps) Scale() float64 { return 1 }

// metricsPage is a picker that has made n more decisions each time, of a queue that
// is full.
func metricsPageOf(t *testing.T) string {
	t.Helper()
	var pages atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"m\"} %d\nepp_max_queue 20\nepp_queue_depth{pod=\"a\"} 19\n", 40*pages.Add(1))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// runMetrics runs the command by a clock that leaps.
func runMetrics(t *testing.T, s *cli.Streams, sleeps int, set func(*metricsFlags), args ...string) error {
	t.Helper()
	c := newMetrics(s)
	f := metricsFlags{clock: &leaps{s.Now(), sleeps}, timeout: 5 * time.Second, interval: defaultInterval}
	set(&f)
	c.SetContext(t.Context())
	return f.run(c, s, args)
}

func TestMetricsRates(t *testing.T) {
	s, out, errOut := cli.Test()
	s.ErrIsTerminal = true
	err := runMetrics(t, s, 10, func(f *metricsFlags) { f.span, f.output = 2*time.Second, "json" }, metricsPageOf(t))
	if err != nil {
		t.Fatal(err)
	}
	var doc metricview.Document
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Kind != "Metrics" || *doc.Routing.PerSecond != 20 || *doc.Window.Seconds != 2 {
		t.Errorf("kind %s, %v a second in %v s, want Metrics, 20, 2", doc.Kind, *doc.Routing.PerSecond, *doc.Window.Seconds)
	}
	if want := "\rmeasuring: 0s of 2s\x1b[K\rmeasuring: 1s of 2s\x1b[K\r\x1b[K"; errOut.String() != want {
		t.Errorf("progress %q, want %q", errOut, want)
	}
	s.ErrIsTerminal = false
	errOut.Reset()
	if err := runMetrics(t, s, 10, func(f *metricsFlags) { f.span = 2 * time.Second }, metricsPageOf(t)); err != nil || errOut.Len() > 0 {
		t.Errorf("without a terminal: %v, %q", err, errOut)
	}
}

// An alert that asks for five minutes ends --watch --fail-on alert after five.
func TestMetricsWatch(t *testing.T) {
	s, out, _ := cli.Test()
	err := runMetrics(t, s, 100, func(f *metricsFlags) { f.watch, f.interval, f.output, f.failOn = true, time.Minute, "jsonl", "alert" }, metricsPageOf(t))
	if cli.Status(err) != cli.ExitFindings {
		t.Fatalf("error %v, want status 5", err)
	}
	var statuses, windows []string
	for line := range bytes.Lines(out.Bytes()) {
		var doc metricview.Document
		if err := json.Unmarshal(line, &doc); err != nil {
			t.Fatal(err)
		}
		statuses, windows = append(statuses, string(doc.Status)), append(windows, doc.Window.Kind)
	}
	if diff := cmp.Diff([]string{"WARN", "WARN", "WARN", "WARN", "WARN", "ALERT"}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if windows[0] != "start" || windows[1] != "scrapes" {
		t.Errorf("windows %v", windows)
	}
}

// A picker that goes away while it is watched is waited for.
func TestMetricsWatchWaits(t *testing.T) {
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := reads.Add(1); n > 1 && n < 4 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "epp_candidate_pods 1\n")
	}))
	defer server.Close()
	s, out, errOut := cli.Test()
	s.OutIsTerminal, s.Width = true, 80
	s.Color = cli.ColorNever
	err := runMetrics(t, s, 4, func(f *metricsFlags) { f.watch = true }, server.URL)
	if !errors.Is(err, errClockEnds) {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), clearScreen); n != 3 {
		t.Errorf("%d screens, want 3 of 5 readings", n)
	}
	if n := strings.Count(errOut.String(), "trying again every 2s"); n != 1 {
		t.Errorf("told %d times that it is away, want once:\n%s", n, errOut)
	}
}

func TestMetricsToken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "epp_candidate_pods 1\n")
	}))
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong, none := write("right", "secret-word\n"), write("wrong", "secret words"), write("none", "\n")
	for _, tc := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--token-file", right}, cli.ExitOK, ""},
		{nil, cli.ExitError, "hint: the page wants a token"},
		{[]string{"--token-file", wrong}, cli.ExitUsage, "holds no token"},
		{[]string{"--token-file", none}, cli.ExitUsage, "holds no token"},
		{[]string{"--token-file", ""}, cli.ExitUsage, "the value is empty"},
		{[]string{"--token-file", right + "x"}, cli.ExitUsage, "no such file"},
	} {
		_, errOut, status := runTest(t, append([]string{"metrics", server.URL}, tc.args...)...)
		if status != tc.status || !strings.Contains(errOut, tc.says) {
			t.Errorf("%q: status %d, %q, want %d with %q", tc.args, status, errOut, tc.status, tc.says)
		}
		if strings.Contains(errOut, "secret") {
			t.Errorf("%q: the token is told: %q", tc.args, errOut)
		}
	}
}

func TestPageAddress(t *testing.T) {
	for _, tc := range []struct{ server, listens, want string }{
		{"http://127.0.0.1:9091", "127.0.0.1:9090", "http://127.0.0.1:9090/metrics"},
		{"http://localhost:9091", "127.0.0.1:9090", "http://127.0.0.1:9090/metrics"},
		{"http://picker.prod:9091", "0.0.0.0:9090", "http://picker.prod:9090/metrics"},
		{"http://picker.prod:9091", "[::]:9090", "http://picker.prod:9090/metrics"},
		{"http://[fd00::1]:9091", ":9090", "http://[fd00::1]:9090/metrics"},
		{"http://10.0.0.1:9091", "10.0.0.2:9090", "http://10.0.0.2:9090/metrics"},
		{"http://10.0.0.1:9091", "127.0.0.1:9090", ""},
		{"http://10.0.0.1:9091", "", ""},
		{"http://10.0.0.1:9091", "nowhere", ""},
	} {
		got, err := pageAddress(tc.server, tc.listens)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("pageAddress(%q, %q) = %q, %v, want %q", tc.server, tc.listens, got, err, tc.want)
		}
	}
}

func TestMetricsFieldsAreDocumented(t *testing.T) {
	page := document(t, "docs/metrics.md")
	fields := map[string]bool{}
	names(reflect.TypeFor[metricview.Document](), "json", "", fields)
	names(reflect.TypeFor[metricview.SeriesDocument](), "json", "", fields)
	for field := range fields {
		if last := field[strings.LastIndex(field, ".")+1:]; !strings.Contains(page, "`"+last+"`") {
			t.Errorf("docs/metrics.md does not tell of `%s` (%s)", last, field)
		}
	}
}
