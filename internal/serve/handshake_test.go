package serve

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever can connect must not be able to fill the log.
func TestFailedHandshakesAreToldOfOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		s := &handshakes{port: "ext_proc", logger: slog.New(slog.NewTextHandler(&lines, nil))}
		told := func(text string) int { return strings.Count(lines.String(), text) }
		fail := func(port int, err error) {
			client := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
			s.failed(client, &net.OpError{Op: "read", Net: "tcp", Addr: client, Err: err})
		}
		for port := range 100 {
			fail(port, os.ErrDeadlineExceeded)
			s.failed(&net.TCPAddr{}, tls.RecordHeaderError{Msg: "no TLS"})
			fail(port, io.EOF)
			fail(port, net.ErrClosed)
		}
		if got := s.all.Load(); got != 200 {
			t.Errorf("%d failures are counted, want 200", got)
		}
		if strings.Count(lines.String(), "\n") != 2 || told(`client=127.0.0.1:0 error="no TLS handshake came within 10s"`) != 1 || told("does not speak TLS") != 1 {
			t.Errorf("want each reason once:\n%s", lines.String())
		}
		for i := range 100 {
			fail(1, fmt.Errorf("reason %d", i))
		}
		if got := strings.Count(lines.String(), "\n"); got != maxReasons {
			t.Errorf("%d reasons are told of in a minute, want %d", got, maxReasons)
		}
		time.Sleep(time.Minute)
		fail(1, fmt.Errorf("reason 99"))
		if told(`"reason 99" failures=95`) != 1 {
			t.Errorf("the next minute does not tell of it, and of those that were left out:\n%s", lines.String())
		}
	})
}

// An HTTP server's own line for each failure becomes one a minute; its other lines stay.
func TestFailedHandshakesOfAnHTTPServer(t *testing.T) {
	var failures, others bytes.Buffer
	h := &handshakes{port: "admin", logger: slog.New(slog.NewTextHandler(&failures, nil))}
	server := slog.NewLogLogger(serverLog{slog.NewTextHandler(&others, nil), h}, slog.LevelWarn)
	for port := range 100 {
		server.Printf("http: TLS handshake error from 10.0.0.1:%d: client sent an HTTP request to an HTTPS server", port)
		server.Printf("http: TLS handshake error from [fd00::1]:%d: read tcp [fd00::2]:9091->[fd00::1]:%d: read: connection reset by peer", port, port)
		server.Printf("http: TLS handshake error from 10.0.0.1:%d: EOF", port)
	}
	server.Print("http: Accept error: too many open files")
	if got := h.all.Load(); got != 200 || strings.Count(others.String(), "\n") != 1 || !strings.Contains(others.String(), "http: Accept error: too many open files") {
		t.Errorf("%d failures are counted, want 200; others: %s", got, others.String())
	}
	want := []string{
		`port=admin client=10.0.0.1:0 error="client sent an HTTP request to an HTTPS server" failures=1`,
		`port=admin client=[fd00::1]:0 error="read: connection reset by peer" failures=1`,
	}
	for i, line := range strings.Split(strings.TrimSpace(failures.String()), "\n") {
		if i >= len(want) || !strings.Contains(line, want[i]) {
			t.Errorf("line %d: %s", i, line)
		}
	}
}
