package gateway

// Keys of log attributes.
const (
	keyRequestID = "requestID"
	keyPod       = "pod"
	keyEndpoint  = "endpoint"
	keyReason    = "reason"
	keyStatus    = "status"
	keyPanic     = "panic"
	keyStack     = "stack"
)

// The errors with which exchanges end, as they stand in records.
const (
	// ErrorClientGone: the client hung up, or left its answer unread, before the end.
	ErrorClientGone = "client-gone"
	// ErrorUpstreamStatus: the pod answered with a status of 500 or more.
	ErrorUpstreamStatus = "upstream-error"
	// ErrorUpstreamFailed: the pod could not be reached, or broke off before it answered.
	ErrorUpstreamFailed = "upstream-failed"
	// ErrorUpstreamTimeout: the pod did not answer within the AnswerTimeout.
	ErrorUpstreamTimeout = "upstream-timeout"
	// ErrorUpstreamClosed: the pod broke off in the middle of its answer.
	ErrorUpstreamClosed = "upstream-closed"
	// ErrorInternal: the gateway itself failed.
	ErrorInternal = "internal-error"
)
