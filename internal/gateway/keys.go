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
