package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
)

// exchange is one request and its answer. It belongs to the handler's goroutine.
type exchange struct {
	gateway    *Gateway
	w          http.ResponseWriter
	control    *http.ResponseController
	id         string
	idReplaced bool

	body          *payload
	asked, served string // the client's and the engine's name of the model; served is "" when they agree
	pick          *picker.Pick
	answer        *watched // nil until the pod has answered

	status  int    // sent to the client, or just about to be
	sent    bool   // status is on its way: no other answer can be given
	failure string // one of picker's Error… constants
}

type exchangeKey struct{}

// of is the exchange that a proxied request belongs to.
func of(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// end is the one way out of every exchange. It must be deferred itself, since it
// recovers.
func (x *exchange) end(ctx context.Context) {
	caught := recover()
	err, _ := caught.(error)
	aborted := errors.Is(err, http.ErrAbortHandler)
	if caught != nil && !aborted {
		aborted = x.panicked(caught)
	}
	if x.body != nil {
		x.body.release()
	}
	if x.answer != nil {
		_ = x.control.SetWriteDeadline(time.Time{}) // the connection may go on
	}
	if x.pick != nil {
		x.pick.Done(x.outcome(ctx, aborted))
	}
	if aborted {
		panic(http.ErrAbortHandler) // net/http cuts the connection and says nothing
	}
}

// panicked answers for a panic, and reports whether the connection must be cut
// because the answer has begun. The panic's text may hold anything of the
// request, so only its type is told, and what the runtime says of itself.
func (x *exchange) panicked(caught any) (abort bool) {
	x.gateway.counts.panics.Add(1)
	what := fmt.Sprintf("%T", caught)
	if e, ok := caught.(runtime.Error); ok {
		what = e.Error()
	}
	x.gateway.cfg.Logger.Error("panic in an exchange",
		slog.String(logkey.RequestID, x.id), slog.String(logkey.Panic, what), slog.String(logkey.Stack, string(debug.Stack())))
	x.failure = picker.ErrorInternal
	if x.sent {
		return true
	}
	x.writeError(&request.Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "internal error"})
	return false
}

// outcome is what the pick is told.
func (x *exchange) outcome(ctx context.Context, aborted bool) picker.End {
	e := picker.End{Error: x.failure, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}
	if x.sent {
		e.Status = x.status
	}
	a := x.answer
	if a == nil {
		return e
	}
	e.ServedEndpoint = x.pick.Endpoint()
	if a.usage != nil {
		u := a.usage.Found()
		e.PromptTokens, e.CachedTokens, e.OutputTokens = u.Prompt, u.Cached, u.Output
	}
	switch {
	case e.Error != "":
	case a.complete && !aborted:
		if x.status >= http.StatusInternalServerError {
			e.Error = picker.ErrorUpstreamStatus
		}
	case a.broken != nil && ctx.Err() == nil:
		e.Error = picker.ErrorUpstreamClosed
	default: // cancelled, or the client could not be written to
		e.Error = picker.ErrorClientGone
	}
	return e
}

// allowWrite gives the client time anew for the piece that is written next.
func (x *exchange) allowWrite() {
	_ = x.control.SetWriteDeadline(in(x.gateway.cfg.StallTimeout)) // not every ResponseWriter has deadlines
}
