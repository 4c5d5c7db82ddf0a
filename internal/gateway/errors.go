package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
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

// clientError is err as the client may know it; what it doesn't know becomes a
// plain 500.
func clientError(err error) *request.Error {
	if e, ok := errors.AsType[*request.Error](err); ok {
		if e.Code == "" && e.Status == http.StatusBadRequest {
			e = &request.Error{Status: e.Status, Param: e.Param, Code: "invalid_request", Message: e.Message}
		}
		return e
	}
	if r, ok := errors.AsType[*picker.Refusal](err); ok {
		e := &request.Error{Status: r.Status, Code: strings.ReplaceAll(r.Reason, "-", "_"), Message: r.Detail}
		if r.Status == http.StatusNotFound {
			e.Param = "model"
		}
		return e
	}
	return &request.Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "internal error"}
}

// writeError answers with an OpenAI error object. Requests that were dropped
// for want of a pod say so in the header that stock pickers use.
func (x *exchange) writeError(e *request.Error) {
	h := x.w.Header()
	h.Set(headerRequestID, x.id)
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set(headerDropped, "rejected-"+strings.ReplaceAll(e.Code, "_", "-"))
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
