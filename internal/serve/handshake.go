package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/eppctl/eppctl/internal/clock"
)

// serverTLS is TLS for a gRPC server that takes clients which offer no protocol
// by ALPN, as Envoy's health checks do; gRPC's own refuses them. It tells of
// handshakes that fail: the client's side seldom says why.
type serverTLS struct {
	config   *tls.Config
	logger   *slog.Logger
	failures atomic.Uint64

	mu     sync.Mutex
	said   string
	saidAt time.Time
}

// ServerHandshake implements [credentials.TransportCredentials]. The server has
// set a deadline.
func (s *serverTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, s.config)
	if err := conn.HandshakeContext(context.Background()); err != nil {
		s.failed(err)
		_ = conn.Close() // it was of no use
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// failed counts a failure, and tells of it unless that was done a minute ago. Who
// connects and says nothing only wanted to know whether the port is open.
func (s *serverTLS) failed(err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	s.failures.Add(1)
	text := err.Error()
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		text = "the client does not speak TLS: let it, or start the picker with --plaintext"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Wall{}.Now()
	if text == s.said && now.Sub(s.saidAt) < time.Minute {
		return
	}
	s.said, s.saidAt = text, now
	s.logger.Warn("a client of ext_proc failed to connect", slog.String("error", text))
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
