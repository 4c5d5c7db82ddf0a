package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
)

// exchange is one HTTP request and its answer: one stream. It belongs to the
// stream's goroutine, but for what its timer touches.
type exchange struct {
	server *Server
	stream extproc.ExternalProcessor_ProcessServer
	in     incoming
	out    piece
	send   sync.Mutex // of the stream, over and the head's ID: the timer may answer too
	over   bool       // an error was the answer; nothing may follow it

	modes modes
	head  head
	body  gathered
	// The client's and the engine's name of the model; served is "" when they
	// agree.
	asked, served string
	began         moment // of the request's headers
	pick          *picker.Pick
	answer        answered

	surplus  bool         // more streams are open than may be
	progress atomic.Int32 // one of the states below
	armed    atomic.Bool  // the timer waits for messages, no longer for the body
	timer    *time.Timer
}

// The states of an exchange.
const (
	gathering int32 = iota // the request has not all come
	decided                // the request is with the gateway again
	refused                // it got an error instead; nothing more is answered
	overtaken              // the gateway answered by itself before all had come
)

func newExchange(s *Server, stream extproc.ExternalProcessor_ProcessServer) *exchange {
	s.counts.requests.Add(1)
	surplus := s.counts.streams.Add(1) > int64(s.cfg.MaxStreams)
	x := &exchange{server: s, stream: stream, surplus: surplus, modes: modesOf(nil), body: gathered{budget: s.bodies}}
	x.timer = time.AfterFunc(s.cfg.BodyTimeout, x.expire)
	return x
}

// take handles one message of the gateway.
func (x *exchange) take(m *extproc.ProcessingRequest) error {
	if m.GetObservabilityMode() {
		return x.mismatch("observability_mode is on: the gateway ignores what the picker says")
	}
	if !x.modes.told { // what comes first tells; that is the answer when another filter gave it
		x.modes = modesOf(m.GetProtocolConfig())
	}
	switch x.progress.Load() {
	case refused:
		return nil
	case decided, overtaken:
		x.timer.Reset(x.server.cfg.IdleTimeout)
	default:
		x.head.hint(m.GetMetadataContext())
	}
	switch r := m.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return x.requestHeaders(m, r.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		return x.requestBody(r.RequestBody)
	case *extproc.ProcessingRequest_RequestTrailers:
		return x.requestTrailers(r.RequestTrailers)
	case *extproc.ProcessingRequest_ResponseHeaders:
		return x.responseHeaders(m, r.ResponseHeaders)
	case *extproc.ProcessingRequest_ResponseBody:
		return x.responseBody(r.ResponseBody)
	case *extproc.ProcessingRequest_ResponseTrailers:
		return x.responseTrailers(r.ResponseTrailers)
	}
	return nil // window updates and what later versions may add
}

// mismatch ends a stream with which nothing can be done. The gateway answers its
// client with 500; the text stands in its access log and in ours.
func (x *exchange) mismatch(what string) error {
	x.server.counts.mismatches.Add(1)
	x.server.cfg.Logger.Error("the gateway's ext_proc filter does not fit",
		slog.String(logkey.RequestID, x.head.id), slog.String(logkey.Reason, what), slog.String(logkey.Modes, x.modes.String()))
	return status.Error(codes.FailedPrecondition, "eppctl: "+what)
}

var (
	errIdle = errors.New("nothing came for too long")
	errSlow = errors.New("the body did not come in time")
)

// expire is what the timer does: it ends a stream on which nothing comes any
// more, and one whose body does not come to its end, which is answered with 408.
func (x *exchange) expire() {
	var err error // is told by contain
	defer x.server.contain(&err)
	cause := errIdle
	switch {
	case x.progress.CompareAndSwap(gathering, refused):
		cause = errSlow
		_ = x.sendRefusal(&request.Error{ // the stream may have ended just now
			Status: 408, Code: "body_timeout", Param: "body",
			Message: "the body did not come within " + x.server.cfg.BodyTimeout.String(),
		})
	case x.progress.Load() == decided && !x.armed.Load():
		return // the body has just come; the timer is about to be set again
	}
	if cancel, ok := x.stream.Context().Value(cancelKey{}).(context.CancelCauseFunc); ok {
		cancel(cause)
	}
}

// drain reads a stream that can't be written to any more to its end, which says
// why.
func (x *exchange) drain() error {
	for {
		if err := x.stream.RecvMsg(&x.in); err != nil {
			return x.closed(err)
		}
	}
}

// closed turns the error with which receiving ended into the one to return.
func (x *exchange) closed(err error) error {
	x.answer.clientGone = errors.Is(err, io.EOF)
	switch cause := context.Cause(x.stream.Context()); {
	case errors.Is(cause, errIdle):
		x.server.counts.idle.Add(1)
		x.answer.aborted = true
		return status.Error(codes.DeadlineExceeded, "eppctl: "+errIdle.Error())
	case errors.Is(cause, errSlow):
		return status.Error(codes.DeadlineExceeded, "eppctl: "+errSlow.Error())
	}
	if x.answer.clientGone && x.progress.Load() != gathering {
		return nil
	}
	return errEnded
}

// errEnded is how most streams end: the gateway resets them.
var errEnded = status.Error(codes.Canceled, "eppctl: the gateway ended the stream")

// end is the one way out of every exchange. It must be deferred itself, since it
// recovers.
func (x *exchange) end(err *error) {
	defer x.server.counts.streams.Add(-1)
	if caught := recover(); caught != nil {
		*err = x.panicked(caught)
	}
	x.timer.Stop()
	x.body.release()
	if x.pick != nil {
		x.finish()
	}
}

// panicked answers for a panic.
func (x *exchange) panicked(caught any) error {
	x.server.caught(caught, x.head.id)
	x.answer.failed = true
	if !x.answer.seen && x.progress.Swap(refused) != refused {
		_ = x.sendRefusal(&request.Error{Status: 500, Code: "internal_error", Message: "internal error"}) // there is nobody else to tell
	}
	return errInternal
}

var errInternal = status.Error(codes.Internal, "eppctl: internal error")

// caught counts a panic and tells of it. Its text may hold anything of the
// request, so only its type is told, and what the runtime says of itself.
func (s *Server) caught(caught any, id string) {
	s.counts.panics.Add(1)
	what := fmt.Sprintf("%T", caught)
	if e, ok := caught.(runtime.Error); ok {
		what = e.Error()
	}
	s.cfg.Logger.Error("panic in a stream",
		slog.String(logkey.RequestID, id), slog.String(logkey.Panic, what), slog.String(logkey.Stack, string(debug.Stack())))
}

// contain keeps a panic from ending the process. It must be deferred itself.
func (s *Server) contain(err *error) {
	if caught := recover(); caught != nil {
		s.caught(caught, "")
		*err = errInternal
	}
}
