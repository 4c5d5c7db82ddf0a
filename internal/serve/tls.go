package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/eppctl/eppctl/internal/certs"
)

// certificate is the server's own: of two files, or made now.
func (s *Server) certificate() (current func() *tls.Certificate, err error) {
	switch {
	case s.current != nil:
	case s.opts.TLS.CertFile != "":
		if s.certs, err = certs.Open(s.opts.TLS.CertFile, s.opts.TLS.KeyFile, s.log); err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		s.current = s.certs.Certificate
	default:
		own, err := certs.SelfSigned()
		if err != nil {
			return nil, err
		}
		s.current = func() *tls.Certificate { return own }
	}
	return s.current, nil
}

// How the ext_proc listener speaks, as the admin API shows it.
const (
	tlsSelfSigned = "self-signed"
	tlsFiles      = "files"
	tlsPlaintext  = "plaintext"
)

func (s *Server) tlsMode() string {
	switch {
	case s.opts.TLS.Plaintext:
		return tlsPlaintext
	case s.opts.TLS.CertFile != "":
		return tlsFiles
	}
	return tlsSelfSigned
}

// adminServer serves the admin API, over TLS where clients show tokens.
func (s *Server) adminServer() (*http.Server, error) {
	server := s.plainServer(s.adminHandler())
	if s.opts.Access == nil {
		return server, nil
	}
	return server, s.encrypt(server, "admin", "epp_admin_handshake_failures_total")
}

// encrypt lets a server speak TLS, with HTTP/1.1. Failed handshakes are logged with the
// name of its port and counted by metric.
func (s *Server) encrypt(server *http.Server, port, metric string) error {
	current, err := s.certificate()
	if err != nil {
		return err
	}
	failures, err := s.newHandshakes(port, metric)
	if err != nil {
		return err
	}
	server.TLSConfig = certs.Config(current)
	server.TLSConfig.NextProtos = []string{"http/1.1"}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.ErrorLog = slog.NewLogLogger(serverLog{s.log.Handler(), failures}, slog.LevelWarn)
	return nil
}
