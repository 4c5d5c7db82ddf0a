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
		var log bytes.Buffer
		s := &serverTLS{logger: slog.New(slog.NewTextHandler(&log, nil))}
		told := func(text string) int { return strings.Count(log.String(), text) }
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
		if got := s.failures.Load(); got != 200 {
			t.Errorf("%d failures are counted, want 200", got)
		}
		if strings.Count(log.String(), "\n") != 2 || told(`client=127.0.0.1:0 error="no TLS handshake came within 10s"`) != 1 || told("does not speak TLS") != 1 {
			t.Errorf("want each reason once:\n%s", log.String())
		}
		for i := range 100 {
			fail(1, fmt.Errorf("reason %d", i))
		}
		if got := strings.Count(log.String(), "\n"); got != maxReasons {
			t.Errorf("%d reasons are told of in a minute, want %d", got, maxReasons)
		}
		time.Sleep(time.Minute)
		fail(1, fmt.Errorf("reason 99"))
		if told("reason 99") != 1 {
			t.Error("it is not told of in the next minute")
		}
	})
}
