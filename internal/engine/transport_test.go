package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a server that answers the requests of a connection with the given
// bytes, one after the other, and then closes it.
type script struct {
	addr string

	mu    sync.Mutex
	conns int
	heads []string // of the requests
}

// scripted starts a server; answers are those of the first connection, the
// second, and so on, whose last goes on for all that follow.
func scripted(t *testing.T, answers ...[]string) *script {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{addr: ln.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = ln.Close() })
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			n := min(s.conns, len(answers)-1)
			s.conns++
			s.mu.Unlock()
			all.Go(func() { s.serve(c, answers[n]) })
		}
	})
	return s
}

func (s *script) serve(c net.Conn, answers []string) {
	defer c.Close()
	in := bufio.NewReader(c)
	for _, answer := range answers {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.heads = append(s.heads, fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Host, " ", req.Header.Get("X-Test")))
		s.mu.Unlock()
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// get asks once and reads the answer to its end.
func get(ctx context.Context, rt http.RoundTripper, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Test", "yes")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.Status + " " + string(b), err
}

const (
	okA     = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
	okB     = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n\r\n"
	closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nc"
	noEnd   = "HTTP/1.1 200 OK\r\n\r\nuntil it closes"
	early   = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okA
	surplus = okA + "HTTP/1.1 200 OK\r\n\r\nnobody asked"
)

func TestTransportKeepsConnectionsThatAreInOrder(t *testing.T) {
	tests := []struct {
		name    string
		answers [][]string
		want    []string
		conns   int
	}{
		{"kept", [][]string{{okA, okB, early, okA}}, []string{"200 OK a", "200 OK b", "200 OK a", "200 OK a"}, 1},
		{"the server closes after each", [][]string{{okA}}, []string{"200 OK a", "200 OK a", "200 OK a"}, 3},
		{"the server says that it closes", [][]string{{closing, okA}}, []string{"200 OK c", "200 OK c"}, 2},
		{"an answer that ends with its connection", [][]string{{noEnd}}, []string{"200 OK until it closes", "200 OK until it closes"}, 2},
		{"more than one answer to one question", [][]string{{surplus, okB}, {okB}}, []string{"200 OK a", "200 OK b"}, 2},
		{"cut", [][]string{{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na"}, {okA}}, []string{"unexpected EOF", "200 OK a"}, 2},
		{"cut in the header, on a connection that was kept", [][]string{{okA, "HTTP/1.1 200"}, {okB}}, []string{"200 OK a", "unexpected EOF", "200 OK b"}, 2},
		{"no HTTP", [][]string{{"SSH-2.0-x\r\n"}, {okA}}, []string{`malformed HTTP response "SSH-2.0-x"`, "200 OK a"}, 2},
		{"a header without end", [][]string{{"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000)}}, []string{"answer's header is longer than 65536 bytes"}, 1},
		{"only announcements", [][]string{{strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20_000)}}, []string{"answer's header is longer than 65536 bytes"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := scripted(t, tt.answers...)
			rt := new(transport)
			defer rt.CloseIdleConnections()
			for i, want := range tt.want {
				got, err := get(t.Context(), rt, "http://"+s.addr+"/a metrics?b=c")
				if err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("answer %d = %q, want %q", i, got, want)
				}
			}
			if got := s.count(); got != tt.conns {
				t.Errorf("%d connections, want %d", got, tt.conns)
			}
			if want := "GET /a%20metrics?b=c " + s.addr + " yes"; s.heads[0] != want {
				t.Errorf("request %q, want %q", s.heads[0], want)
			}
		})
	}
}

func TestTransportGivesUpWithItsContext(t *testing.T) {
	for name, answer := range map[string]string{
		"before the header": "",
		"in the header":     "HTTP/1.1 200 OK\r\n",
		"in the body":       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na",
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				c, err := ln.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, err := io.WriteString(c, answer); err != nil {
					t.Error(err)
				}
				_, _ = http.ReadRequest(bufio.NewReader(c))
				cancel(nil)
				_, _ = io.Copy(io.Discard, c) // until the client has gone
			})
			rt := new(transport)
			_, err = get(ctx, rt, "http://"+ln.Addr().String()+"/")
			timeout, isNet := errors.AsType[net.Error](err)
			if !errors.Is(err, context.Canceled) && !(isNet && timeout.Timeout()) {
				t.Errorf("error %v, want that of the context or of its deadline", err)
			}
			if len(rt.idle) > 0 {
				t.Error("a connection with half an answer on it was kept")
			}
			all.Wait()
		})
	}
}

func TestTransportKeepsFewConnections(t *testing.T) {
	s := scripted(t, []string{okA, okA})
	rt := new(transport)
	var open []*http.Response
	for range maxIdle + 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	for _, resp := range open {
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second is of no effect
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := len(rt.idle); got != maxIdle {
		t.Errorf("%d idle connections, want %d", got, maxIdle)
	}
	for i, c := range rt.idle {
		if slices.Contains(rt.idle[:i], c) {
			t.Error("a connection was kept twice")
		}
	}
	rt.idle[0].since = time.Now().Add(-2 * idleTimeout)
	if _, err := get(t.Context(), rt, "http://"+s.addr+"/"); err != nil {
		t.Fatal(err)
	}
	if got := len(rt.idle); got != maxIdle-1 {
		t.Errorf("%d idle connections after a long time, want %d", got, maxIdle-1)
	}
	rt.CloseIdleConnections()
	if len(rt.idle) != 0 {
		t.Error("idle connections were kept")
	}
}

func TestTransportDropsConnectionsWithHalfAnAnswer(t *testing.T) {
	long := "HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000)
	s := scripted(t, []string{long, okA})
	rt := new(transport)
	defer rt.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, 60_000); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || len(rt.idle) > 0 {
		t.Errorf("error %v, %d connections kept", err, len(rt.idle))
	}
}

func TestTransportToAnotherHost(t *testing.T) {
	a, b := scripted(t, []string{okA, okA}), scripted(t, []string{okB, okB})
	rt := new(transport)
	defer rt.CloseIdleConnections()
	for _, tt := range []struct{ addr, want string }{{a.addr, "200 OK a"}, {b.addr, "200 OK b"}} {
		if got, err := get(t.Context(), rt, "http://"+tt.addr+"/"); got != tt.want || err != nil {
			t.Errorf("answer %q, error %v, want %q", got, err, tt.want)
		}
	}
}
