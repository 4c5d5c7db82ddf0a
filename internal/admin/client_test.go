package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/nettest"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func TestClientReadsEveryDocument(t *testing.T) {
	_, c := serve(t, newDeps())
	ctx := t.Context()
	pods, err := c.Pods(ctx)
	if err != nil || len(pods.Items) != 3 || *pods.Items[0].Cache.Blocks != 12 || pods.Items[1].Waiting.Value != nil {
		t.Errorf("Pods() = %+v, %v", pods, err)
	}
	tree, err := c.Tree(ctx)
	if err != nil || tree.Blocks != 12 || len(tree.PerPod) != 2 {
		t.Errorf("Tree() = %+v, %v", tree, err)
	}
	ledger, err := c.Ledger(ctx)
	if err != nil || ledger.Open != 3 || ledger.InFlight != 3 || ledger.Pending != 1 {
		t.Errorf("Ledger() = %+v, %v", ledger, err)
	}
	config, err := c.Config(ctx)
	if err != nil || !cmp.Equal(config.Config, any(map[string]any{"blockSize": 16.})) {
		t.Errorf("Config() = %+v, %v", config, err)
	}
	version, err := c.Version(ctx)
	if err != nil || version.Version != "v0.1.0" {
		t.Errorf("Version() = %+v, %v", version, err)
	}
	if level, err := c.LogLevel(ctx); err != nil || level != "info" {
		t.Errorf("LogLevel() = %q, %v", level, err)
	}
}

func TestClientFindsDecisions(t *testing.T) {
	_, c := serve(t, newDeps())
	ctx := t.Context()
	list, err := c.Decisions(ctx, Filter{Pod: "pod-1", Model: "llama", Since: "59s", Until: "1s", Limit: 2})
	if err != nil || !cmp.Equal(requestIDs(list.Items), []string{"twin", "twin"}) || !list.More {
		t.Errorf("Decisions() = %+v, %v, want the two twins and more", list, err)
	}
	got, err := c.Decision(ctx, "twin", 2)
	if err != nil || got.Count != 2 || got.Item.Time.Sub(start) != 3*time.Second {
		t.Errorf("Decision(twin, 2) = %+v, %v, want the older one of 2", got, err)
	}

	var walked []*explain.Record
	err = c.Walk(ctx, Filter{}, func(rec *explain.Record) error {
		walked = append(walked, rec)
		return nil
	})
	if err != nil || len(walked) != 6 {
		t.Errorf("Walk() visited %v, %v, want all 6", requestIDs(walked), err)
	}
	stop := errors.New("enough")
	if err := c.Walk(ctx, Filter{Refused: true}, func(*explain.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Walk() = %v, want what visit returned", err)
	}
}

func TestClientFailures(t *testing.T) {
	_, c := serve(t, newDeps())
	ctx := t.Context()

	_, err := c.Decision(ctx, "zz", 1)
	if e, ok := errors.AsType[*NotFoundError](err); !ok || e.Coverage.Ring.Decisions != 6 || e.Reach() != "decisions are known back to 2026-11-30T10:00:00Z: 6 in memory" {
		t.Errorf("Decision(zz) = %v, want not found with coverage", err)
	}
	_, err = c.Decision(ctx, "al", 1)
	if e, ok := errors.AsType[*AmbiguousError](err); !ok || len(e.Candidates) != 2 || e.Candidates[0].RequestID != "alpha-2" || e.Candidates[0].Pod != "pod-1" {
		t.Errorf("Decision(al) = %v, want two candidates", err)
	}
	_, err = c.Decisions(ctx, Filter{Since: "yesterday"})
	if e, ok := errors.AsType[*RequestError](err); !ok || e.Status != 400 || !strings.Contains(err.Error(), "parameter since") {
		t.Errorf("Decisions(since=yesterday) = %v, want a 400 that names the parameter", err)
	}
	_, err = c.SetWeights(ctx, explain.RecordWeights(new(score.Default())))
	if e, ok := errors.AsType[*RequestError](err); !ok || e.Code != CodeReadOnly || !strings.HasPrefix(e.Hint, "start it with --allow-write") {
		t.Errorf("SetWeights() = %v, want read-only", err)
	}
	if err := c.SetLogLevel(ctx, "debug"); err == nil {
		t.Error("SetLogLevel() = nil, want read-only")
	}
	if _, err := c.Decision(ctx, "", 1); err == nil {
		t.Error("Decision of an empty ID = nil, want an error")
	}
}

func TestClientSetsWeights(t *testing.T) {
	deps := newDeps()
	deps.AllowWrite = true
	_, c := serve(t, deps)
	ctx := t.Context()
	w, err := c.Weights(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old := w.Weights
	w.Cache, w.Load = .5, .3
	got, err := c.SetWeights(ctx, w.Weights)
	if err != nil || got.Generation != 1 || got.Cache != .5 {
		t.Fatalf("SetWeights() = %+v, %v, want generation 1", got, err)
	}
	_, err = c.SetWeights(ctx, old)
	if e, ok := errors.AsType[*GenerationError](err); !ok || e.Current != 1 {
		t.Errorf("SetWeights() of an old generation = %v, want the current one", err)
	}
	if err := c.SetLogLevel(ctx, "trace"); err != nil {
		t.Errorf("SetLogLevel(trace) = %v", err)
	}
}

// A request ID may be anything printable.
func TestClientFindsOddIDs(t *testing.T) {
	ring := record.NewRing(record.RingConfig{})
	ids := []string{"a/b", "..", ".", "a/../b", "a//b", "x?nth=2", "100%", "with space", "#", "~!@$&'()*+,;=:"}
	for n, id := range ids {
		decide(ring, n, id, "llama", pod("pod-1", 0, 0))
	}
	deps := newDeps()
	deps.Decisions = record.NewStore(ring, nil)
	_, c := serve(t, deps)
	for _, id := range ids {
		if got, err := c.Decision(t.Context(), id, 1); err != nil || got.Item.RequestID != id {
			t.Errorf("Decision(%q) = %v, %v", id, got, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	answers := func(h http.HandlerFunc) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	for _, test := range []struct {
		name, server, want string
		answered           bool
	}{
		{"nothing listens", nettest.Refusing(t), "connection refused", false},
		{"HTML", answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") }), "something else answers there: 200 OK, text/html", false},
		{"a redirect", answers(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }), "something else answers there: 302 Found", false},
		{"not JSON", answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(apiHeader, APIVersion)
			_, _ = io.WriteString(w, "oops")
		}), "the answer to /v1/pods can't be read", true},
		{"broken off", answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(apiHeader, APIVersion)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"items":[`)
		}), "the connection was closed", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newClient(t, test.server).Pods(t.Context())
			e, ok := errors.AsType[*UnreachableError](err)
			if !ok || !strings.Contains(err.Error(), test.want) || strings.Contains(e.Hint(), "eppctl serve --sim 4") == test.answered {
				t.Errorf("Pods() = %v, want unreachable with %q", err, test.want)
			}
		})
	}
}

func TestWhatToDoAboutTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	inTheClear := strings.Replace(server.URL, "https:", "http:", 1)
	for _, test := range []struct {
		name, server, want, hint string
	}{
		{"asked without", inTheClear, "it speaks https, not http", "give its address as " + server.URL},
		{"a certificate of its own", server.URL, "certificate", "give --pool"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := newClient(t, test.server).Pods(t.Context())
			e, ok := errors.AsType[*UnreachableError](err)
			if !ok || !strings.Contains(err.Error(), test.want) || !strings.Contains(e.Hint(), test.hint) {
				t.Errorf("Pods() = %v, want %q and the hint %q", err, test.want, test.hint)
			}
		})
	}
}

func TestAnotherVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(apiHeader, "eppctl/v2")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	_, err := newClient(t, server.URL).Pods(t.Context())
	if e, ok := errors.AsType[*VersionError](err); !ok || e.Theirs != "eppctl/v2" {
		t.Errorf("Pods() = %v, want another version", err)
	}
}

// A list that the picker can't complete must not look complete.
func TestAListThatBreaksOff(t *testing.T) {
	deps := newDeps()
	var records []*explain.Record
	if err := deps.Decisions.Walk(t.Context(), record.Query{}, func(rec *explain.Record) bool {
		records = append(records, rec)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for range 6 { // more than is held back until the end
		records = append(records, records...)
	}
	deps.Decisions = broken{records, errors.New("disk gone")}
	_, c := serve(t, deps)
	err := c.Walk(t.Context(), Filter{}, func(*explain.Record) error { return nil })
	if _, ok := errors.AsType[*UnreachableError](err); !ok {
		t.Errorf("Walk() = %v, want that it broke off", err)
	}
}

func TestClientGivesUp(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	c := newClient(t, server.URL)

	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	if _, err := c.Pods(ctx); !errors.Is(err, interrupted) {
		t.Errorf("Pods() of a cancelled context = %v, want its cause", err)
	}
	short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	_, err := c.Pods(short)
	if _, ok := errors.AsType[*UnreachableError](err); !ok || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("Pods() of a picker that hangs = %v, want unreachable", err)
	}
}

func TestServerNames(t *testing.T) {
	for _, test := range []struct{ server, want, wantErr string }{
		{"127.0.0.1:9091", "http://127.0.0.1:9091", ""},
		{"[::1]:9091", "http://[::1]:9091", ""},
		{"epp", "http://epp", ""},
		{"https://epp.example/admin/", "https://epp.example/admin", ""},
		{"", "", "give a URL or host:port"},
		{"ftp://epp", "", "the scheme must be http or https"},
		{"http://user:s3cret@epp", "", "a URL with a user or password is not taken"},
		{"http://epp?x=1", "", "a query or fragment has no meaning"},
		{"http://[::1", "", "give a URL or host:port"},
		{":9091", "", "give a URL or host:port"},
	} {
		c, err := NewClient(test.server, ClientOptions{})
		if test.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), test.wantErr) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("NewClient(%q) = %v, want %q", test.server, err, test.wantErr)
			}
			continue
		}
		if err != nil || c.Server() != test.want {
			t.Errorf("NewClient(%q) = %v, %v, want %s", test.server, c, err, test.want)
		}
	}
}

func TestLocate(t *testing.T) {
	server, _ := serve(t, newDeps())
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	env := func(value string) func(string) string {
		return func(name string) string {
			if name == EnvServer {
				return value
			}
			return ""
		}
	}
	up := locator{server.URL, 10 * time.Second}
	for _, test := range []struct {
		name    string
		locator locator
		flag    string
		env     string
		want    Location
	}{
		{"flag", up, "flag:1", "env:1", Location{"flag:1", "--server"}},
		{"environment", up, "", "env:1", Location{"env:1", EnvServer}},
		{"default", up, "", "", Location{server.URL, "default"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.locator.locate(t.Context(), test.flag, env(test.env))
			if err != nil || got != test.want {
				t.Errorf("locate() = %v, %v, want %v", got, err, test.want)
			}
		})
	}
	down := locator{silent.Addr().String(), 20 * time.Millisecond}
	if got, err := down.locate(t.Context(), "", env("")); err == nil {
		t.Errorf("locate() = %v for a server that never answers, want an error", got)
	} else if _, ok := errors.AsType[*UnreachableError](err); !ok {
		t.Errorf("locate() failed with %T %v, want unreachable", err, err)
	}
}

func TestReachInWords(t *testing.T) {
	for name, test := range map[string]struct {
		coverage Coverage
		want     string
	}{
		"nothing":  {Coverage{}, "nothing is recorded yet"},
		"dropped":  {Coverage{Oldest: &start, Ring: RingCoverage{Decisions: 5, Dropped: 7}}, "decisions are known back to 2026-11-30T10:00:00Z: 5 in memory, 7 older ones dropped (--record-memory, --record)"},
		"in files": {Coverage{Oldest: &start, Ring: RingCoverage{Decisions: 5, Dropped: 7}, Files: &FilesCoverage{Files: 2}}, "decisions are known back to 2026-11-30T10:00:00Z: 5 in memory, more in 2 files"},
	} {
		if got := (&NotFoundError{Coverage: test.coverage}).Reach(); got != test.want {
			t.Errorf("%s: Reach() = %q, want %q", name, got, test.want)
		}
	}
}
