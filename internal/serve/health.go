package serve

import (
	"context"
	"net/http"
	"strings"
	"sync"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// liveness is the name under which gRPC's health service tells that the process
// lives, readyNames are those that tell whether requests are welcome.
const liveness = "liveness"

var readyNames = []string{"", "readiness", "inference-extension", extproc.ExternalProcessor_ServiceDesc.ServiceName}

// health tells whether requests are welcome, over HTTP and gRPC.
type health struct {
	mu             sync.Mutex
	welcomed, over bool
	// standby says who is to be asked in this one's place; "" = nobody, nil = nobody
	// ever.
	standby func() string
	// missing says what a picker waits for that is not ready yet; nil = for nothing
	// that is worth a word.
	missing func() string
	states  *grpchealth.Server
	server  *grpc.Server // behind the HTTP listener
}

// healthRequest bounds a request of the health service in bytes.
const healthRequest = 4 << 10

func newHealth() *health {
	h := &health{
		states: grpchealth.NewServer(),
		server: grpc.NewServer(grpc.MaxRecvMsgSize(healthRequest), grpc.WaitForHandlers(true)),
	}
	h.states.SetServingStatus(liveness, healthgrpc.HealthCheckResponse_SERVING)
	h.tell()
	healthgrpc.RegisterHealthServer(h.server, h.states)
	return h
}

// tell tells those who follow it.
func (h *health) tell() {
	state := healthgrpc.HealthCheckResponse_NOT_SERVING
	if h.unready() == "" {
		state = healthgrpc.HealthCheckResponse_SERVING
	}
	for _, name := range readyNames {
		h.states.SetServingStatus(name, state)
	}
}

// welcome says that requests are welcome, unless the end has come already.
func (h *health) welcome() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.welcomed = true
	h.tell()
}

// review tells what has changed meanwhile.
func (h *health) review() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell()
}

// end says that nobody should send anything new.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.tell()
}

// unready is why requests are not welcome; "" = they are.
func (h *health) unready() string {
	switch {
	case h.over, !h.welcomed && h.missing == nil:
		return "not ready"
	case !h.welcomed:
		return "not ready: " + h.missing()
	}
	if h.standby != nil {
		return h.standby()
	}
	return ""
}

func (h *health) whyNot() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unready()
}

// handler serves HTTP and gRPC on one port.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := h.whyNot(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			h.server.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// mortal is a health service whose watches end with a context: a watch has no end
// of its own, and a server that lets its streams finish would wait for it in vain.
type mortal struct {
	healthgrpc.HealthServer
	life context.Context
}

// Watch implements [healthgrpc.HealthServer].
func (m mortal) Watch(in *healthgrpc.HealthCheckRequest, stream healthgrpc.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	err := m.HealthServer.Watch(in, watch{stream, ctx})
	if m.life.Err() != nil {
		return status.Error(codes.Unavailable, "shutting down")
	}
	return err
}

// watch is a stream with a context of its own.
type watch struct {
	healthgrpc.Health_WatchServer
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (w watch) Context() context.Context { return w.ctx }
