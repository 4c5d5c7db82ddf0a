package gateway

import (
	"bufio"
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
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
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
		check(t, s.end(t), http.StatusOK, ErrorClientGone, address)
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
		check(t, s.end(t), 0, ErrorClientGone, "")
		<-gone
	})
	t.Run("without reading", func(t *testing.T) {
		address := newPod(t, func(w http.ResponseWriter, r *http.Request) {
			piece := make([]byte, 64<<10)
			for r.Context().Err() == nil { // until the gateway gives up
				w.Write(piece)
			}
		})
		s := newSite(t, func(set *setup) { set.gateway.StallTimeout = 50 * time.Millisecond }, address)
		res, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		check(t, s.end(t), http.StatusOK, ErrorClientGone, address)
	})
}

// case P2: a pod may be silent for long, also longer than a client may stall
func TestSilentPod(t *testing.T) {
	address := newPod(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		time.Sleep(60 * time.Millisecond) // it is time that is tested
		answerJSON(w, r)
	})
	s := newSite(t, func(set *setup) { set.gateway.StallTimeout = 20 * time.Millisecond }, address)
	for range 2 { // the second over the same connection
		if _, text := s.post(t, chatPath, chatBody); text != jsonAnswer {
			t.Errorf("got %q", text)
		}
		check(t, s.end(t), http.StatusOK, "", address)
	}
}

// case P2: upstream 500
func TestPodAnswersWithAnError(t *testing.T) {
	for _, tt := range []struct {
		status  int
		failure string
	}{{http.StatusInternalServerError, ErrorUpstreamStatus}, {http.StatusBadRequest, ""}, {http.StatusNoContent, ""}} {
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
		check(t, s.end(t), http.StatusOK, ErrorUpstreamClosed, address)
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
			check(t, s.end(t), http.StatusBadGateway, ErrorUpstreamFailed, "")
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
	dead := deadPod(t)
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
	s := newSite(t, nil, deadPod(t), deadPod(t), third)
	res, text := s.post(t, chatPath, chatBody)
	if e := errorOf(t, text); res.StatusCode != http.StatusBadGateway || deref(e.Code) != "upstream_failed" || e.Type != "server_error" {
		t.Errorf("%d %s, want 502 upstream_failed", res.StatusCode, text)
	}
	check(t, s.end(t), http.StatusBadGateway, ErrorUpstreamFailed, "")
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
	check(t, s.end(t), http.StatusOK, ErrorInternal, address)
}

func TestErrors(t *testing.T) {
	drained := func(set *setup) { set.models = []pool.ModelEntry{{Name: "m"}} }
	for _, tt := range []struct {
		name         string
		change       func(*setup)
		pods         int
		full         bool
		method, body string
		status       int
		code, param  string
		dropped      string
	}{
		{name: "bad JSON", pods: 1, body: `{"model":"m",`, status: 400, code: "invalid_request", param: "body"},
		{name: "no model", pods: 1, body: `{"messages":[]}`, status: 400, code: "invalid_request", param: "model"},
		{name: "no prompt", pods: 1, body: `{"model":"m"}`, status: 400, code: "invalid_request", param: "messages"},
		{name: "unknown model", change: drained, pods: 1, body: strings.Replace(chatBody, `"m"`, `"x"`, 1), status: 404, code: "model_not_found", param: "model"},
		{name: "CONNECT", pods: 1, method: http.MethodConnect, status: 405, code: "method_not_allowed"},
		// case P3
		{name: "no pods", body: chatBody, status: 503, code: "no_endpoints", dropped: "rejected-no-endpoints"},
		{name: "all pods full", pods: 2, full: true, body: chatBody, status: 429, code: "saturated", dropped: "rejected-saturated", change: func(set *setup) {
			set.picker.Weights.Saturation = score.Reject
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods := make([]string, tt.pods)
			for i := range pods {
				pods[i] = newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("a pod was asked") })
			}
			s := newSite(t, tt.change, pods...)
			if tt.full {
				s.queues(1e6, 1e6)
			}
			method := tt.method
			if method == "" {
				method = http.MethodPost
			}
			r := httptest.NewRequestWithContext(t.Context(), method, "http://gateway"+chatPath, strings.NewReader(tt.body))
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			e := errorOf(t, w.Body.String())
			if w.Code != tt.status || deref(e.Code) != tt.code || deref(e.Param) != tt.param || e.Message == "" || e.Type == "" {
				t.Errorf("%d %s, want %d with code %q, param %q", w.Code, w.Body, tt.status, tt.code, tt.param)
			}
			if got := w.Header().Get(headerDropped); got != tt.dropped {
				t.Errorf("dropped reason %q, want %q", got, tt.dropped)
			}
			if retry := w.Header().Get(headerRetryAfter); (retry == "1") != (tt.dropped != "") {
				t.Errorf("Retry-After %q", retry)
			}
			if w.Header().Get(headerRequestID) == "" || w.Header().Get(contentType) != "application/json" {
				t.Errorf("headers %v", w.Header())
			}
			if tt.full && !strings.Contains(e.Message, "pod-0 ") {
				t.Errorf("message %q does not say why of each pod", e.Message)
			}
		})
	}
}

func TestAnswerTimeout(t *testing.T) {
	release := make(chan struct{})
	address := newPod(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	spare := newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent twice") })
	s := newSite(t, func(set *setup) { set.gateway.AnswerTimeout = 20 * time.Millisecond }, address, spare)
	res, text := s.post(t, chatPath, chatBody)
	if e := errorOf(t, text); res.StatusCode != http.StatusGatewayTimeout || deref(e.Code) != "upstream_timeout" {
		t.Errorf("%d %s, want 504", res.StatusCode, text)
	}
	check(t, s.end(t), http.StatusGatewayTimeout, ErrorUpstreamTimeout, "")
}

func TestBodyLimits(t *testing.T) {
	// An answer is read although the client is still sending.
	send := func(t *testing.T, s *site, header, body string) (*http.Response, openAIError) {
		raw, err := net.Dial("tcp", s.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		fmt.Fprintf(raw, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", chatPath, header, body)
		res, err := http.ReadResponse(bufio.NewReader(raw), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res, errorOf(t, string(text))
	}
	small := func(set *setup) { set.gateway.MaxBody = 100 }
	for _, tt := range []struct {
		name         string
		change       func(*setup)
		header, body string
		status       int
		code         string
	}{
		{"announced too long", small, "Content-Length: 101", "", 413, "request_too_large"},
		{"too long in chunks", small, "Transfer-Encoding: chunked", "65\r\n" + strings.Repeat("x", 101), 413, "request_too_large"},
		{"half a body, then nothing", func(set *setup) { set.gateway.BodyTimeout = 20 * time.Millisecond }, "Content-Length: 60", `{"model":`, 408, "body_timeout"},
		{"no memory left", func(set *setup) { set.gateway.MaxBodies = 40 << 10 }, "Content-Length: 60000", strings.Repeat("x", 60000), 503, "overloaded"},
		{"wrong framing", nil, "Transfer-Encoding: chunked", "zz\r\n", 400, "body_incomplete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.change, newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("a pod was asked") }))
			res, e := send(t, s, tt.header, tt.body)
			if res.StatusCode != tt.status || deref(e.Code) != tt.code {
				t.Errorf("%d %v %s, want %d %s", res.StatusCode, deref(e.Code), e.Message, tt.status, tt.code)
			}
			if !res.Close {
				t.Error("the connection stays open with half a body on it")
			}
			s.server.Close() // waits for the handler
			if n := s.Stats().BodyBytes; n != 0 {
				t.Errorf("%d bytes are still held", n)
			}
		})
	}
}

// case P5
func TestNothingOfARequestIsLogged(t *testing.T) {
	var log bytes.Buffer
	address, _ := breaker(t, "s3cret-answer\r\n")
	s := newSite(t, func(set *setup) {
		set.gateway.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	}, deadPod(t), address)
	r := s.request(t, http.MethodPost, chatPath, strings.NewReader(`{"model":"m","prompt":"s3cret","messages":[{"role":"user","content":"s3cret"}],"cache_salt":"s3cret"}`))
	for _, name := range []string{"Authorization", "Cookie", "X-Other"} {
		r.Header.Set(name, "s3cret")
	}
	_, text := s.do(t, r)
	s.end(t)
	if log.Len() == 0 || strings.Contains(log.String()+text, "s3cret") {
		t.Errorf("log %s, answer %s: want some of the first, and no secret", log.String(), text)
	}
}
