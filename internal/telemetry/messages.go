package telemetry

// The messages of the events that every request leaves behind. Three of them
// and the key requestID are fixed: tools filter logs by them.
const (
	MsgRequestReceived  = "request received"  // DEBUG
	MsgScoringComplete  = "scoring complete"  // DEBUG
	MsgPodSelected      = "pod selected"      // INFO
	MsgRequestRefused   = "request refused"   // INFO, in place of pod selected
	MsgRequestCompleted = "request completed" // INFO
	MsgPrefixWalk       = "prefix walk"       // TRACE
	MsgWeightedFactors  = "weighted factors"  // TRACE
	MsgScorerFailed     = "scorer failed"     // DEBUG
)
