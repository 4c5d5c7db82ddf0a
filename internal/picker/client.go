package picker

import (
	"errors"
	"net/http"
	"strings"

	"github.com/eppctl/eppctl/internal/request"
)

// The errors with which requests end, as they stand in [End] and in records.
const (
	// ErrorClientGone: the client hung up, or left its answer unread, before the end.
	ErrorClientGone = "client-gone"
	// ErrorUpstreamStatus: the pod answered with a status of 500 or more.
	ErrorUpstreamStatus = "upstream-error"
	// ErrorUpstreamFailed: the pod could not be reached, or broke off before it answered.
	ErrorUpstreamFailed = "upstream-failed"
	// ErrorUpstreamTimeout: the pod did not answer in the time that the gateway allows.
	ErrorUpstreamTimeout = "upstream-timeout"
	// ErrorUpstreamClosed: the pod broke off in the middle of its answer.
	ErrorUpstreamClosed = "upstream-closed"
	// ErrorGatewayReply: the gateway in front answered in the pod's place.
	ErrorGatewayReply = "gateway-reply"
	// ErrorAborted: the exchange ended before its end; whose fault it was is not known.
	ErrorAborted = "aborted"
	// ErrorInternal: the gateway or the picker itself failed.
	ErrorInternal = "internal-error"
)

// ClientError is an error of reading or picking as the client may know it; what
// it doesn't know becomes a plain 500.
func ClientError(err error) *request.Error {
	if e, ok := errors.AsType[*request.Error](err); ok {
		if e.Code == "" && e.Status == http.StatusBadRequest {
			e = &request.Error{Status: e.Status, Param: e.Param, Code: "invalid_request", Message: e.Message}
		}
		return e
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		e := &request.Error{Status: r.Status, Code: strings.ReplaceAll(r.Reason, "-", "_"), Message: r.Detail}
		if r.Status == http.StatusNotFound {
			e.Param = "model"
		}
		return e
	}
	return &request.Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "internal error"}
}

// Dropped is the reason that stock pickers give in a header for a request that
// was dropped for want of a pod, or of room here; "" for any other error.
func Dropped(e *request.Error) string {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "rejected-" + strings.ReplaceAll(e.Code, "_", "-")
	}
	return ""
}
