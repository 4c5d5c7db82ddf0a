package serve

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A watch has no end of its own and must not keep a server from its.
func TestWatchesOfHealthEndWithTheServer(t *testing.T) {
	opts := serveOptions(1)
	opts.Linger = time.Millisecond
	r := start(t, opts)
	watches := map[string]healthgrpc.Health_WatchClient{}
	for port, conn := range map[string]*grpc.ClientConn{
		"ext_proc": r.grpc(r.at.Extproc, anyTLS()), "health": r.grpc(r.at.Health, insecure.NewCredentials()),
	} {
		w, err := healthgrpc.NewHealthClient(conn).Watch(r.ctx, &healthgrpc.HealthCheckRequest{Service: "readiness"})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := w.Recv(); err != nil || m.GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
			t.Fatalf("%s listener: %v, %v", port, m, err)
		}
		watches[port] = w
	}
	r.stop()
	for port, w := range watches {
		m, err := w.Recv()
		if err != nil || m.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%s listener: %v, %v", port, m, err)
		}
		if _, err = w.Recv(); err == nil || status.Code(err) == codes.DeadlineExceeded {
			t.Errorf("%s listener: the watch ends with %v", port, err)
		}
	}
	r.over()
}

// Readiness that comes after the signal is none.
func TestHealthIsNotWelcomingAfterTheEnd(t *testing.T) {
	h := newHealth()
	h.end()
	h.welcome()
	m, err := h.states.Check(context.Background(), &healthgrpc.HealthCheckRequest{})
	if err != nil || m.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING || h.whyNot() == "" {
		t.Errorf("%q: %v, %v", h.whyNot(), m, err)
	}
}
