package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/nettest"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/record"
)

// check compares what an outcome says of the way out.
func check(t *testing.T, o record.Outcome, status int, failure, served string) {
	t.Helper()
	if o.Status != status || o.Error != failure || o.ServedEndpoint != served {
		t.Errorf("outcome %d %q served by %q, want %d %q by %q", o.Status, o.Error, o.ServedEndpoint, status, failure, served)
	}
}

// case P2: client hangs up
func TestClientHangsUp(t *testing.T) {
	t.Run("in the middle of the answer", func(t *testing.T) {
		gone := make(chan struct{})
		address := newPod(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(contentType, "text/event-stream")
			io.WriteString(w, "data: {}\n\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done() // the pod is told
			close(gone)
		})
		s := newSite(t, nil, address)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		res, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody)).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(res.Body, make([]byte, 8))
		cancel()
		res.Body.Close()
		check(t, s.end(t), http.StatusOK, picker.ErrorClientGone, address)
		<-gone
	})
	t.Run("before there is one", func(t *testing.T) {
		arrived, gone := make(chan struct{}), make(chan struct{})
		s := newSite(t, nil, newPod(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // the server watches its connection only then
			close(arrived)
			<-r.Context().Done()
			close(gone)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody)).WithContext(ctx))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
		check(t, s.end(t), 0, picker.ErrorClientGone, "")
		<-gone
	})
	t.Run("without reading", func(t *testing.T) {
		address := newPod(t, func(w http.ResponseWriter, r *http.Request) {
			piece := make([]byte, 64<<10)
			for r.Context().Err() == nil { // until the gateway gives up
				w.Write(piece)
			}
		})
		s := newSite(t, func(set *setup) { set.gateway.StallTimeout = time.Second / 2 }, address)
		res, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		check(t, s.end(t), http.StatusOK, picker.ErrorClientGone, address)
	})
}

// case P2: a pod may be silent for long, also longer than a client may stall
func TestSilentPod(t *testing.T) {
	inBubble(t, func(set *setup) { set.gateway.StallTimeout = time.Minute }, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		time.Sleep(time.Hour)
		answerJSON(w, r)
	}, func(t *testing.T, s *site) {
		for range 2 { // the second over the same connection
			if _, text := s.post(t, chatPath, chatBody); text != jsonAnswer {
				t.Errorf("got %q", text)
			}
			check(t, s.end(t), http.StatusOK, "", podAddress)
		}
	})
}

// case P2: upstream 500
func TestPodAnswersWithAnError(t *testing.T) {
	for _, tt := range []struct {
		status  int
		failure string
	}{{http.StatusInternalServerError, picker.ErrorUpstreamStatus}, {http.StatusBadRequest, ""}, {http.StatusNoContent, ""}} {
		t.Run(http.StatusText(tt.status), func(t *testing.T) {
			address := newPod(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(contentType, "application/json")
				w.WriteHeader(tt.status)
				if tt.status != http.StatusNoContent {
					io.WriteString(w, `{"object":"error","usage":{"prompt_tokens":3}}`)
				}
			})
			s := newSite(t, nil, address)
			res, text := s.post(t, chatPath, chatBody)
			if res.StatusCode != tt.status || tt.status >= 400 && !strings.Contains(text, `"object":"error"`) {
				t.Errorf("the client got %d %q, want the pod's own answer", res.StatusCode, text)
			}
			o := s.end(t)
			check(t, o, tt.status, tt.failure, address)
			if o.PromptTokens != -1 {
				t.Errorf("%d prompt tokens of an error, want unknown", o.PromptTokens)
			}
		})
	}
}

// breaker is a pod that reads a request, writes this much of an answer and
// hangs up.
func breaker(t *testing.T, answer string) (address string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.Copy(io.Discard, r.Body)
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, answer)
		c.Close()
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), requests
}

// case P2: upstream closes mid-stream
func TestPodBreaksOff(t *testing.T) {
	spare := func(t *testing.T) string {
		return newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent twice") })
	}
	t.Run("in the middle of the answer", func(t *testing.T) {
		address, _ := breaker(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"+jsonAnswer)
		s := newSite(t, nil, address, spare(t))
		res, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err == nil || string(text) != jsonAnswer {
			t.Errorf("the client got %q, %v; want what there was, and an error", text, err)
		}
		check(t, s.end(t), http.StatusOK, picker.ErrorUpstreamClosed, address)
	})
	for name, answer := range map[string]string{
		"before the answer": "", "in the middle of the header": "HTTP/1.1 200 OK\r\nContent-", "with something else": "SSH-2.0-secret\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			address, requests := breaker(t, answer)
			s := newSite(t, nil, address, spare(t))
			r := s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody))
			r.Header.Set("Idempotency-Key", "1") // net/http repeats such requests, if it can
			res, text := s.do(t, r)
			if e := errorOf(t, text); res.StatusCode != http.StatusBadGateway || deref(e.Code) != "upstream_failed" || strings.Contains(text, "SSH") {
				t.Errorf("the client got %d %s, want 502 upstream_failed", res.StatusCode, text)
			}
			check(t, s.end(t), http.StatusBadGateway, picker.ErrorUpstreamFailed, "")
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1: its bytes had been sent", n)
			}
			if rec := s.newest(t); len(rec.Attempts) != 0 {
				t.Errorf("attempts %+v, want none recorded", rec.Attempts)
			}
		})
	}
}

func TestRefusedConnectionGoesToTheSecondBest(t *testing.T) {
	dead := nettest.Refusing(t)
	got := make(chan string, 1)
	live := newPod(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		answerJSON(w, r)
	})
	s := newSite(t, nil, dead, live)
	res, text := s.post(t, chatPath, chatBody)
	if res.StatusCode != http.StatusOK || text != jsonAnswer || res.Header.Get(headerPod) != "pod-1" || res.Header.Get(headerEndpoint) != live {
		t.Errorf("%d from %s, want pod-1's answer", res.StatusCode, res.Header.Get(headerPod))
	}
	if body := <-got; body != chatBody {
		t.Errorf("the second pod got %q", body)
	}
	check(t, s.end(t), http.StatusOK, "", live)
	want := []explain.Attempt{
		{Pod: "pod-0", Endpoint: dead, Error: "connection refused"},
		{Pod: "pod-1", Endpoint: live},
	}
	if diff := cmp.Diff(want, s.newest(t).Attempts); diff != "" {
		t.Errorf("attempts differ:\n%s", diff)
	}
	if n := s.Stats().Retries; n != 1 {
		t.Errorf("%d retries, want 1", n)
	}
}

func TestOnlyOneRetry(t *testing.T) {
	third := newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("a third pod was tried") })
	s := newSite(t, nil, nettest.Refusing(t), nettest.Refusing(t), third)
	res, text := s.post(t, chatPath, chatBody)
	if e := errorOf(t, text); res.StatusCode != http.StatusBadGateway || deref(e.Code) != "upstream_failed" || e.Type != "server_error" {
		t.Errorf("%d %s, want 502 upstream_failed", res.StatusCode, text)
	}
	check(t, s.end(t), http.StatusBadGateway, picker.ErrorUpstreamFailed, "")
	if got := len(s.newest(t).Attempts); got != 2 {
		t.Errorf("%d attempts in the record, want 2", got)
	}
}

// brokenConn takes no more bytes once it is broken.
type brokenConn struct {
	net.Conn
	broken *atomic.Bool
	spill  int // bytes that go out all the same
}

func (c *brokenConn) Write(b []byte) (int, error) {
	if !c.broken.Load() {
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:c.spill])
	return n, syscall.EPIPE
}

func TestDeadKeepAliveConnection(t *testing.T) {
	for _, tt := range []struct {
		name       string
		spill      int
		status     int
		reconnects uint64
	}{
		{"no byte was written: again to the same pod", 0, http.StatusOK, 1},
		{"a byte was written: not again", 1, http.StatusBadGateway, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			address := newPod(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				answerJSON(w, r)
			})
			s := newSite(t, nil, address, newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("another pod was tried") }))
			var broken atomic.Bool
			first := true
			s.upstream.transport.DialContext = func(ctx context.Context, network, a string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, a)
				if err != nil || !first {
					return &conn{Conn: c}, err
				}
				first = false
				return &conn{Conn: &brokenConn{Conn: c, broken: &broken, spill: tt.spill}}, nil
			}
			s.post(t, chatPath, chatBody)
			s.end(t)
			broken.Store(true)
			if res, text := s.post(t, chatPath, chatBody); res.StatusCode != tt.status {
				t.Errorf("%d %s, want %d", res.StatusCode, text, tt.status)
			}
			s.end(t)
			if st := s.Stats(); st.Reconnects != tt.reconnects || st.Retries != 0 {
				t.Errorf("%+v, want %d reconnects and no retry", st, tt.reconnects)
			}
			if want := 1 + int64(tt.reconnects); requests.Load() != want {
				t.Errorf("the pod got %d requests, want %d", requests.Load(), want)
			}
		})
	}
}

// panicking is a picker whose own code fails.
type panicking struct{ value any }

func (p panicking) Pick(context.Context, *picker.Call) (*picker.Pick, error) { panic(p.value) }

// case P5: panics
func TestPanicBeforeTheAnswer(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, func(set *setup) {
		set.gateway.Picker = panicking{"the prompt was s3cret"}
		set.gateway.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	})
	res, text := s.post(t, chatPath, chatBody)
	if e := errorOf(t, text); res.StatusCode != http.StatusInternalServerError || deref(e.Code) != "internal_error" {
		t.Errorf("%d %s, want 500 internal_error", res.StatusCode, text)
	}
	if res.Header.Get(headerRequestID) == "" || strings.Contains(text+log.String(), "s3cret") || !strings.Contains(log.String(), "panic") {
		t.Errorf("answer %q, log %s: want a request ID, the panic and no secret", text, log.String())
	}
	if n := s.Stats().Panics; n != 1 {
		t.Errorf("%d panics counted, want 1", n)
	}
}

// cursed is a ResponseWriter that panics when the body begins.
type cursed struct{ http.ResponseWriter }

func (cursed) Write([]byte) (int, error)     { panic(fmt.Errorf("s3cret")) }
func (c cursed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestPanicInTheMiddleOfTheAnswer(t *testing.T) {
	address := newPod(t, answerJSON)
	s := newSite(t, nil, address)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(cursed{w}, r) }))
	defer server.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+chatPath, strings.NewReader(chatBody))
	if res, err := server.Client().Do(r); err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			t.Errorf("the client got a whole answer, %d", res.StatusCode)
		}
	}
	check(t, s.end(t), http.StatusOK, picker.ErrorInternal, address)
}
