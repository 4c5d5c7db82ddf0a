package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
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
	said   map[string]bool // in the minute that began then
	minute time.Time
}

// maxReasons bounds the reasons of failures that are told of in a minute: clients
// can make up any number.
const maxReasons = 8

// ServerHandshake implements [credentials.TransportCredentials]. The server has
// set a deadline.
func (s *serverTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, s.config)
	if err := conn.HandshakeContext(context.Background()); err != nil {
		s.failed(raw.RemoteAddr(), err)
		_ = conn.Close() // it was of no use
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// failed counts a failure, and tells of it unless its reason was told in this
// minute. Who connects and says nothing only wanted to know whether the port is
// open; a closed connection was closed at the end, by this side.
func (s *serverTLS) failed(client net.Addr, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	s.failures.Add(1)
	if reason := reasonOf(err); s.isNews(reason) {
		s.logger.Warn("a client of ext_proc failed to connect", slog.String("client", client.String()), slog.String("error", reason))
	}
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

// isNews reports whether a reason is to be told of.
func (s *serverTLS) isNews(reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := (clock.Wall{}).Now(); now.Sub(s.minute) >= time.Minute {
		s.said, s.minute = map[string]bool{}, now
	}
	if s.said[reason] || len(s.said) == maxReasons {
		return false
	}
	s.said[reason] = true
	return true
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
