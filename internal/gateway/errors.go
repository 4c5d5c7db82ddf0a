package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
)

func tooLarge(limit int64) error {
	return &request.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Param: "body",
		Message: fmt.Sprintf("the body is longer than %d bytes", limit),
	}
}

// writeError answers with an OpenAI error object. Requests that were dropped
// for want of a pod say so in the header that stock pickers use.
func (x *exchange) writeError(e *request.Error) {
	h := x.w.Header()
	h.Set(headerRequestID, x.id)
	if dropped := picker.Dropped(e); dropped != "" {
		h.Set(headerDropped, dropped)
		h.Set(headerRetryAfter, strconv.Itoa(int((x.gateway.cfg.RetryAfter+time.Second-1)/time.Second)))
	}
	x.status, x.sent = e.Status, true
	request.WriteError(x.w, e)
}

// reason names the cause of a failed connection. Errors of net/http may quote
// what the pod sent; these words may stand in records and logs.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the pod"
	case isTimeout(err):
		return "timed out"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "unknown host name"
	}
	return "connection failed"
}

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}
