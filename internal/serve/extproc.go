package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/eppctl/eppctl/internal/certs"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/extproc"
)

// extprocServer is what Envoy calls: ext_proc and gRPC's health service.
type extprocServer struct {
	service  *extproc.Server
	server   *grpc.Server
	listener *counted

	endWatches context.CancelFunc
	stopped    chan struct{} // closed when every stream has ended by itself
	closeOnce  sync.Once
}

// handshakeTimeout bounds how long a new connection may take to begin speaking.
const handshakeTimeout = 10 * time.Second

// buildExtproc makes the ext_proc server, unless it has no address.
func (s *Server) buildExtproc() (err error) {
	if s.listeners.extproc == nil {
		return nil
	}
	c := &s.opts.Config.Extproc
	e := &extprocServer{listener: s.listeners.extproc, stopped: make(chan struct{})}
	e.service, err = extproc.New(extproc.Config{
		Picker: s.picker, Clock: s.clock, Logger: s.log, AllowHeaders: s.opts.Config.AllowHeaders,
		MaxBody: s.opts.MaxBody, MaxBodies: s.opts.MaxBodies,
		Fallbacks: c.Fallbacks, ScoresMetadata: c.ScoresMetadata, MaxStreams: c.MaxStreams,
		BodyTimeout: config.Seconds(c.BodyTimeoutSeconds),
		IdleTimeout: config.Seconds(c.IdleTimeoutSeconds),
		EndTimeout:  config.Seconds(c.EndTimeoutSeconds),
	})
	if err != nil {
		return err
	}
	creds, err := s.secure()
	if err != nil {
		return err
	}
	e.server = grpc.NewServer(append(e.service.Options(), grpc.Creds(creds), grpc.ConnectionTimeout(handshakeTimeout))...)
	e.service.Register(e.server)
	var life context.Context
	life, e.endWatches = context.WithCancel(context.Background())
	healthgrpc.RegisterHealthServer(e.server, mortal{s.health.states, life})
	s.extproc = e
	return s.registerExtproc()
}

// secure chooses the listener's credentials.
func (s *Server) secure() (credentials.TransportCredentials, error) {
	if s.opts.TLS.Plaintext {
		return insecure.NewCredentials(), nil
	}
	current, err := s.certificate()
	if err != nil {
		return nil, err
	}
	failures, err := s.newHandshakes("ext_proc", "epp_extproc_handshake_failures_total")
	return &serverTLS{config: certs.Config(current), failures: failures}, err
}

// serve serves until the server is stopped.
func (e *extprocServer) serve() error {
	if err := e.server.Serve(e.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("ext_proc server: %w", err)
	}
	return nil
}

// stop takes no more streams and lets the open ones end, until ctx does. It
// reports whether all have ended. [extprocServer.end] has to follow.
func (e *extprocServer) stop(ctx context.Context) bool {
	e.endWatches()
	e.service.Drain()
	go func() {
		defer close(e.stopped)
		e.server.GracefulStop()
	}()
	select {
	case <-e.stopped:
		e.close()
		return true
	case <-ctx.Done():
		return false
	}
}

// end cuts what stop has left.
func (e *extprocServer) end() {
	e.listener.cut() // also those whose handshake the server would wait for
	e.server.Stop()
	<-e.stopped
	e.close()
}

// close ends the picks that wait for word of their end.
func (e *extprocServer) close() { e.closeOnce.Do(e.service.Close) }
