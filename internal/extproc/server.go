package extproc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"github.com/eppctl/eppctl/internal/body"
)

// Server is the ext_proc service, and Envoy's access log service beside it. It is
// safe for concurrent use.
type Server struct {
	extproc.UnimplementedExternalProcessorServer
	accesslog.UnimplementedAccessLogServiceServer

	cfg     Config
	bodies  *body.Budget
	counts  counts
	waiting waiting

	draining context.Context // ends with Drain
	drain    context.CancelFunc
}

type counts struct {
	streams, logs atomic.Int64 // open now

	requests, refused, overloaded, panics, secondEnds, mismatches atomic.Uint64
	localReply, unknown, idle, accessLogs                         atomic.Uint64
}

// Stats are counts since the start, and what is held now.
type Stats struct {
	Streams   int64 // open now
	BodyBytes int64 // memory that request bodies hold now
	Waiting   int64 // picks whose stream has ended and whose end is not known yet

	Requests   uint64 // all that came
	Refused    uint64 // answered with an error in the pod's place
	Overloaded uint64 // of the refused: for want of memory or streams
	Panics     uint64
	SecondEnds uint64 // end_of_stream seen again and ignored
	Mismatches uint64 // messages that fit no mode we know
	LocalReply uint64 // answers that the gateway itself gave in a pod's place
	Unknown    uint64 // requests whose end nobody told
	Idle       uint64 // streams ended because nothing came any more
	AccessLogs uint64 // entries of the access log service that ended a request
}

// New checks the configuration and makes a server.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ext_proc: %w", err)
	}
	cfg.withDefaults()
	s := &Server{cfg: cfg, bodies: body.NewBudget(cfg.MaxBodies)}
	s.waiting.server = s
	s.draining, s.drain = context.WithCancel(context.Background())
	return s, nil
}

// Register adds the services to a gRPC server, which must have been made with
// [Server.Options].
func (s *Server) Register(r grpc.ServiceRegistrar) {
	extproc.RegisterExternalProcessorServer(r, s)
	accesslog.RegisterAccessLogServiceServer(r, s)
}

const (
	// Beside the body, a message of a buffering gateway holds headers and
	// metadata.
	messageOverhead = 1 << 20
	// What a stream may send before it is read. Envoy sends pieces of 1 MiB at
	// most, and all are read at once.
	streamWindow = 1 << 20
	connWindow   = 16 << 20
	// How many streams more than MaxStreams a connection may open, to be told so.
	surplusStreams = 1000
	// The gRPC headers of a stream are few, whatever the request's are.
	maxGRPCHeaders = 16 << 10
	// Envoy's connection keepalive may ping every few seconds, also an idle
	// connection.
	minPing = time.Second
)

// Options are the limits that the gRPC server must have: the size of messages and
// headers, keepalive, and a way for [Server] to end a stream that says nothing.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		// A piece that is too large for gRPC would be a 500; one that is too large for
		// us is a 413.
		grpc.MaxRecvMsgSize(int(s.cfg.MaxBody) + messageOverhead),
		grpc.MaxHeaderListSize(maxGRPCHeaders),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		// Those above MaxStreams are answered with 503; these only bound what a
		// connection may hold before it says anything.
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams) + surplusStreams),
		grpc.InTapHandle(cancellable),
		grpc.WaitForHandlers(true),
		grpc.ForceServerCodecV2(ownCodec),
		// Goroutines that stay, with the stack that a stream needs: growing one costs
		// as much as the decision. More streams than these get one of their own.
		grpc.NumStreamWorkers(uint32(8 * runtime.GOMAXPROCS(0))),
	}
}

type cancelKey struct{}

// cancellable makes streams that can be ended from this side while the handler
// waits for a message; gRPC offers no other way.
func cancellable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// Stats returns the server's counts.
func (s *Server) Stats() Stats {
	c := &s.counts
	return Stats{
		Streams: c.streams.Load(), BodyBytes: s.bodies.Used(), Waiting: s.waiting.count(),
		Requests: c.requests.Load(), Refused: c.refused.Load(), Overloaded: c.overloaded.Load(), Panics: c.panics.Load(),
		SecondEnds: c.secondEnds.Load(), Mismatches: c.mismatches.Load(), LocalReply: c.localReply.Load(),
		Unknown: c.unknown.Load(), Idle: c.idle.Load(), AccessLogs: c.accessLogs.Load(),
	}
}

// Close ends the requests whose end has not been told by now. The gRPC server
// must have ended.
func (s *Server) Close() {
	s.drain()
	s.waiting.close()
}

// Process implements the external processing service: one call for one HTTP
// request.
func (s *Server) Process(stream extproc.ExternalProcessor_ProcessServer) (err error) {
	defer s.contain(&err) // what panics at the end
	x := newExchange(s, stream)
	defer x.end(&err)
	for {
		if err := stream.RecvMsg(&x.in); err != nil {
			return x.closed(err)
		}
		err := x.take(&x.in.ProcessingRequest)
		x.in.Reset() // while the next one is waited for, the body in it counts no more
		x.answer.aborted = err != nil
		if errors.Is(err, errSend) {
			err = x.drain()
		}
		if err != nil {
			return err
		}
	}
}
