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

// The keys of log attributes. Durations are numbers with the unit in the key.
const (
	KeyRequestID  = "requestID"
	KeyDecisionID = "decisionID"
	KeyError      = "error"
	KeyReason     = "reason"

	KeyModel       = "model"
	KeyAdapter     = "adapter"
	KeyPath        = "path"
	KeyStream      = "stream"
	KeyInputTokens = "inputTokens"
	KeyTokensFrom  = "tokensFrom"

	KeySelectedPod     = "selectedPod"
	KeyPodIP           = "podIP"
	KeyEndpoint        = "endpoint"
	KeyPolicy          = "policy"
	KeyCompositeScore  = "compositeScore"
	KeyCacheMatchRatio = "cacheMatchRatio"
	KeyRelaxed         = "relaxed"

	KeyCandidates = "candidates"
	KeyEligible   = "eligible"
	KeyMargin     = "margin"
	KeyDecidedBy  = "decidedBy"
	KeyBlocks     = "blocks"
	KeyBlockSize  = "blockSize"
	KeyMatched    = "matchedBlocks"
	KeyChain      = "chain"
	KeyRecord     = "record"
	KeyWeights    = "weights"
	KeyGeneration = "generation"
	KeyScorer     = "scorer"
	KeyHow        = "how"

	KeyParseUs   = "parseUs"
	KeyTokensUs  = "tokensUs"
	KeyLookupUs  = "lookupUs"
	KeyScorersUs = "scorersUs"
	KeyDecideUs  = "decideUs"
	KeyTotalUs   = "totalUs"

	KeyPod      = "pod"
	KeyDrained  = "drained"
	KeyInFlight = "inFlight"

	KeyStatus          = "status"
	KeyServedEndpoint  = "servedEndpoint"
	KeyAttempts        = "attempts"
	KeyOutcomeUnknown  = "outcomeUnknown"
	KeyFlags           = "flags"
	KeyCodeDetails     = "codeDetails"
	KeyTTFTMs          = "ttftMs"
	KeyDurationMs      = "durationMs"
	KeyPromptTokens    = "promptTokens"
	KeyCachedTokens    = "cachedTokens"
	KeyPredictedCached = "predictedCachedTokens"
	KeyOutputTokens    = "outputTokens"
	KeyStaleRouting    = "staleRouting"

	KeyStack    = "stack"
	KeyLevel    = "logLevel"
	KeyPrevious = "previous"
)
