package serve

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/eppctl/eppctl/internal/certs"
	"github.com/eppctl/eppctl/internal/peers"
	"github.com/eppctl/eppctl/internal/report"
)

// buildPeers makes the exchange with other replicas, if there are any.
func (s *Server) buildPeers() (err error) {
	if len(s.opts.Peers) == 0 {
		return nil
	}
	if s.listeners.report == nil {
		return errors.New("--peers: other replicas ask at the address for reports, and there is none: give --report-addr")
	}
	cfg := peers.Config{Pool: s.pool, Replica: s.opts.Replica, Addresses: s.opts.Peers, Token: s.opts.ReportToken, Logger: s.log}
	if s.opts.TLS.Reports {
		if s.opts.TLS.CertFile == "" {
			return errors.New("--peers: with --report-tls replicas know each other by their certificate: give all of them the same --tls-cert and --tls-key")
		}
		current, err := s.certificate()
		if err != nil {
			return err
		}
		cfg.TLS = certs.Pinned(current)
	}
	s.peers, err = peers.New(cfg)
	if err != nil {
		return fmt.Errorf("--peers: %w", err)
	}
	type figures = []figure[peers.Stats]
	return register(s, s.peers.Stats, figures{
		{"epp_peer_messages_total", "Messages of other replicas about requests that they gave to pods.", func(p *peers.Stats) float64 { return float64(p.Messages) }},
		{"epp_peer_unknown_endpoints_total", "Endpoints in these messages that the pool does not have.", func(p *peers.Stats) float64 { return float64(p.Unknown) }},
		{"epp_peer_malformed_messages_total", "Messages of other replicas that were not taken.", func(p *peers.Stats) float64 { return float64(p.Malformed) }},
	}, figures{
		{"epp_peers", "Other replicas whose addresses are known.", func(p *peers.Stats) float64 { return float64(p.Wanted) }},
		{"epp_peers_connected", "Of these, those that tell of their requests.", func(p *peers.Stats) float64 { return float64(p.Connected) }},
	})
}

// reportsServer serves reports and other replicas, over TLS if that is wanted.
func (s *Server) reportsServer() (*http.Server, error) {
	server := s.plainServer(s.reportsHandler())
	if !s.opts.TLS.Reports || s.listeners.report == nil {
		return server, nil
	}
	return server, s.encrypt(server, "reports", "epp_report_handshake_failures_total")
}

// reportsHandler takes reports of pods, and tells other replicas.
func (s *Server) reportsHandler() http.Handler {
	reports := report.Handler(s.pool, s.opts.ReportToken, s.metrics.Report)
	if s.peers == nil {
		return reports
	}
	mux := http.NewServeMux()
	mux.Handle("/", reports)
	mux.Handle("GET "+peers.Path, s.peers)
	return mux
}
