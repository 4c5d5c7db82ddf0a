package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// serverTLS is TLS for a gRPC server that takes clients which offer no protocol
// by ALPN, as Envoy's health checks do; gRPC's own refuses them. It tells of
// handshakes that fail: the client's side seldom says why.
type serverTLS struct {
	config   *tls.Config
	failures *handshakes
}

// ServerHandshake implements [credentials.TransportCredentials]. The server has
// set a deadline.
func (s *serverTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, s.config)
	if err := conn.HandshakeContext(context.Background()); err != nil {
		s.failures.failed(raw.RemoteAddr(), err)
		_ = conn.Close() // it was of no use
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// handshakes counts the TLS handshakes of a port that fail, and tells of them now and
// then: whoever can connect must not be able to fill the log.
type handshakes struct {
	port   string
	logger *slog.Logger
	all    atomic.Uint64

	mu     sync.Mutex
	said   map[string]bool // in the minute that began then
	minute time.Time
	told   uint64 // of all, those that the log has
}

// maxReasons bounds the reasons of failures that are told of in a minute: clients
// can make up any number.
const maxReasons = 8

// failed counts a failure. Who connects and says nothing only wanted to know whether
// the port is open; a closed connection was closed at the end, by this side.
func (h *handshakes) failed(client net.Addr, err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		h.count(client.String(), reasonOf(err))
	}
}

// count tells of a failure, and how many there were since the last line, unless its
// reason was told in this minute.
func (h *handshakes) count(client, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all.Add(1)
	if now := (clock.Wall{}).Now(); now.Sub(h.minute) >= time.Minute {
		h.said, h.minute = map[string]bool{}, now
	}
	if h.said[reason] || len(h.said) == maxReasons {
		return
	}
	h.said[reason] = true
	h.logger.Warn("a client failed to connect", slog.String(logkey.Port, h.port), slog.String(logkey.Client, client), slog.String(logkey.Error, reason), slog.Uint64(logkey.Failures, all-h.told))
	h.told = all
}

// reasonOf leaves out what differs from one connection to the next.
func reasonOf(err error) string {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return "the client does not speak TLS: let it, or start the picker with --plaintext"
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "no TLS handshake came within " + handshakeTimeout.String()
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		err = network.Err
	}
	return err.Error()
}

// serverLog is the log of an HTTP server, which has a line for every failed handshake:
// that goes to failures, the rest on.
type serverLog struct {
	slog.Handler
	failures *handshakes
}

// Enabled implements [slog.Handler]: failures are counted at every level.
func (l serverLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l serverLog) Handle(ctx context.Context, line slog.Record) error {
	failure, ok := strings.CutPrefix(line.Message, "http: TLS handshake error from ")
	client, reason, hasReason := strings.Cut(failure, ": ")
	switch {
	case !ok || !hasReason:
		if !l.Handler.Enabled(ctx, line.Level) {
			return nil
		}
		return l.Handler.Handle(ctx, line)
	case reason == io.EOF.Error() || strings.HasSuffix(reason, net.ErrClosed.Error()): // see failed
		return nil
	}
	if _, addresses, network := strings.Cut(reason, "->"); network { // read tcp A->B: why
		_, reason, _ = strings.Cut(addresses, ": ")
	}
	l.failures.count(client, reason)
	return nil
}

// newHandshakes makes the count of a port's failed handshakes, and shows it as metric.
func (s *Server) newHandshakes(port, metric string) (*handshakes, error) {
	h := &handshakes{port: port, logger: s.log}
	return h, s.metrics.Registry().Register(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: metric, Help: "Connections that ended before TLS was spoken."},
		func() float64 { return float64(h.all.Load()) },
	))
}

// Info implements [credentials.TransportCredentials].
func (s *serverTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements [credentials.TransportCredentials]; a server makes no copy.
func (s *serverTLS) Clone() credentials.TransportCredentials { return s }

// OverrideServerName implements [credentials.TransportCredentials].
func (s *serverTLS) OverrideServerName(string) error { return errNoClient }

// ClientHandshake implements [credentials.TransportCredentials].
func (s *serverTLS) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNoClient
}

var errNoClient = errors.New("these credentials are a server's")
