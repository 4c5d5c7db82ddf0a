package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/nettest"
)

// ask makes one query of a real server.
func ask(t testing.TB, base string) Scrape {
	t.Helper()
	w := newWatch(NewWatcher(Config{}, nil), Target{ID: "x", BaseURL: base})
	defer w.close()
	return w.scrape(t.Context())
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestScrapeOverHTTP(t *testing.T) {
	page := fixture(t, "vllm-busy.txt")
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); r.URL.Path != "/metrics" || got != "identity" {
			t.Errorf("asked for %s, encoding %q", r.URL.Path, got)
		}
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8") // as vLLM says
		fmt.Fprint(w, page)
	})
	s := ask(t, server.URL+"/")
	if s.Err != nil {
		t.Fatal(s.Err)
	}
	if diff := cmp.Diff(parse(t, page), s.Page); diff != "" {
		t.Errorf("page (-file +scraped):\n%s", diff)
	}
	if s.End.Before(s.Start) || s.Start.IsZero() {
		t.Errorf("scrape from %v to %v", s.Start, s.End)
	}
}

// cases M5 and M8 on real sockets
func TestScrapeReasonsOverHTTP(t *testing.T) {
	dead := "http://" + nettest.Refusing(t)
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect led to another host") })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(r.URL.Path, "/metrics") {
		case "/long":
			w.Header().Set("Content-Length", "5242880")
			fmt.Fprint(w, strings.Repeat("# padding\n", 100))
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "\x1f\x8b")
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "vllm:num_requests_waiting 3\n")
		case "/slash":
			http.Redirect(w, r, "/slash/metrics/", http.StatusTemporaryRedirect)
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/secure":
			http.Redirect(w, r, "https://"+r.Host+"/slash/metrics/", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop/metrics", http.StatusTemporaryRedirect)
		case "/slash/metrics/":
			w.Header().Set("Content-Type", textPlain)
			fmt.Fprint(w, twoWaiting)
		default:
			http.NotFound(w, r)
		}
	})
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	tests := []struct{ name, base, want string }{
		{"404 (M5)", server.URL + "/none", "HTTP 404 on port " + port},
		{"refused", dead, "connection refused on port " + dead[strings.LastIndex(dead, ":")+1:]},
		{"says that it is 5 MB (M8)", server.URL + "/long", "read page: longer than 4194304 bytes"},
		{"encoded unasked", server.URL + "/gzip", `answer is encoded ("gzip") though that was not accepted`},
		{"cut", server.URL + "/cut", "connection closed by the server on port " + port},
		{"redirect to a slash", server.URL + "/slash", "<nil>"},
		{"redirect to TLS", server.URL + "/secure", "HTTP 307 on port " + port},
		{"redirect to itself", server.URL + "/loop", "HTTP 307 on port " + port},
		{"redirect to another host", server.URL + "/away", "HTTP 307 on port " + port},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := ask(t, tt.base)
			if got := fmt.Sprint(s.Err); got != tt.want {
				t.Errorf("error %s, want %s", got, tt.want)
			}
			if s.Page.Waiting.Known != (s.Err == nil) {
				t.Errorf("waiting = %+v with error %v", s.Page.Waiting, s.Err)
			}
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/metrics") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"data":[]}`)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	pod := newWatch(NewWatcher(Config{}, nil), Target{BaseURL: server.URL})
	defer pod.close()
	for range 20 {
		if s := pod.scrape(t.Context()); s.Err == nil {
			t.Fatal("a 404 was read as a page")
		}
		err := pod.models.do(t.Context(), func(r *http.Response) error {
			_, err := ParseModels(r.Body)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := conns.Load(); got != 1 {
		t.Errorf("%d connections for 40 requests one after the other, want 1", got)
	}
}

func TestRunAgainstARealServer(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			fmt.Fprint(w, twoWaiting)
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
		}
	})
	sink := &firstAnswers{all: make(chan struct{})}
	w := NewWatcher(Config{}, sink)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	w.SetTargets([]Target{{ID: "x", Name: "x", BaseURL: server.URL}})
	<-sink.all
	cancel()
	wg.Wait()
	if idle := w.watches["x"].askers[0].(*transport).idle; len(idle) > 0 {
		t.Errorf("%d connections are left open", len(idle))
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	if err := errors.Join(sink.errs...); err != nil || !sink.healthy {
		t.Errorf("healthy %v, errors %v", sink.healthy, err)
	}
}

// firstAnswers is a [Sink] that waits for one answer of each kind.
type firstAnswers struct {
	mu                       sync.Mutex
	scraped, healthy, listed bool
	errs                     []error
	all                      chan struct{}
	once                     sync.Once
}

func (f *firstAnswers) note(set *bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*set = true
	f.errs = append(f.errs, err)
	if f.scraped && f.healthy && f.listed {
		f.once.Do(func() { close(f.all) })
	}
}

func (f *firstAnswers) Scraped(_ Target, s Scrape)            { f.note(&f.scraped, s.Err) }
func (f *firstAnswers) Measured(Target, Measurement)          {}
func (f *firstAnswers) Generated(Target, Probe)               {}
func (f *firstAnswers) Probed(Target, Probe)                  { f.note(&f.healthy, nil) }
func (f *firstAnswers) Listed(_ Target, _ []Model, err error) { f.note(&f.listed, err) }
