package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/nettest"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

func TestErrors(t *testing.T) {
	drained := func(set *setup) { set.models = []pool.ModelEntry{{Name: "m"}} }
	for _, tt := range []struct {
		name         string
		change       func(*setup)
		pods         int
		prepare      func(*site)
		method, body string
		status       int
		code, param  string
		dropped      string
		message      string
	}{
		{name: "bad JSON", pods: 1, body: `{"model":"m",`, status: 400, code: "invalid_request", param: "body"},
		{name: "no model", pods: 1, body: `{"messages":[]}`, status: 400, code: "invalid_request", param: "model"},
		{name: "no prompt", pods: 1, body: `{"model":"m"}`, status: 400, code: "invalid_request", param: "messages"},
		{name: "unknown model", change: drained, pods: 1, body: strings.Replace(chatBody, `"m"`, `"x"`, 1), status: 404, code: "model_not_found", param: "model"},
		{name: "CONNECT", pods: 1, method: http.MethodConnect, status: 405, code: "method_not_allowed"},
		// case P3
		{name: "no pods", body: chatBody, status: 503, code: "no_endpoints", dropped: "rejected-no-endpoints"},
		{name: "all pods excluded", prepare: func(s *site) {
			if err := s.pool.Set([]pool.Member{{Name: "pod-0", Address: "127.0.0.1:1", NotReady: true}, {Name: "pod-1", Address: "127.0.0.1:2", Terminating: true}}); err != nil {
				t.Fatal(err)
			}
		}, body: chatBody, status: 503, code: "no_endpoints", dropped: "rejected-no-endpoints", message: "pod-0 not-ready, pod-1 terminating"},
		{name: "all pods full", pods: 2, prepare: func(s *site) { s.queues(1e6, 1e6) }, message: "pod-0 queue-full", body: chatBody, status: 429, code: "saturated", dropped: "rejected-saturated", change: func(set *setup) {
			set.picker.Weights.Saturation = score.Reject
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods := make([]string, tt.pods)
			for i := range pods {
				pods[i] = newPod(t, func(http.ResponseWriter, *http.Request) { t.Error("a pod was asked") })
			}
			s := newSite(t, tt.change, pods...)
			if tt.prepare != nil {
				tt.prepare(s)
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
			if !strings.Contains(e.Message, tt.message) {
				t.Errorf("message %q, want %q in it", e.Message, tt.message)
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
	check(t, s.end(t), http.StatusGatewayTimeout, picker.ErrorUpstreamTimeout, "")
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
			t.Parallel() // a connection that is closed at once lingers half a second
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
	}, nettest.Refusing(t), address)
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
