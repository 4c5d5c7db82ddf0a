package record

import (
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// Handle names a record in the ring; 0 means that nothing was recorded.
type Handle uint64

// Entry is what is to be remembered of one decision. All memory stays the
// caller's: [Ring.Append] copies and keeps no reference.
type Entry struct {
	DecisionID        [16]byte // the bytes of a UUID v4
	RequestID         string
	RequestIDReplaced bool    // the client's ID could not be kept
	TimeScale         float64 // seconds of the picker's clock in one of the wall's
	Policy            string  // "scores", or the policy that picked in their place
	Path              string
	Model             string // as asked for; as resolved it stands in Inputs.Request
	ModelUnchecked    bool   // nobody vouched for the model
	Rewrite           Rewrite
	Stream            bool
	Prompts           int
	PrefixTokens      int    // length of the routed prompt
	BlockSize         int    // tokens per block
	TokensFrom        string // as in the record, see [explain.Request]
	// Fingerprints of the routed prompt, one per full block. Few are kept, see
	// [explain.ChainBlock].
	Fingerprints []uint64

	Inputs   *score.Inputs
	Decision *score.Decision
	// Picked is the index of the picked pod: Decision.Winner, or what another
	// policy picked; −1 when refused.
	Picked int
	// Roster is the version of the pool's membership: equal versions mean the same
	// pods (names and endpoints) in the same order.
	Roster  uint64
	Timings Timings
	// PredictedCached is how many cached tokens the engine should report; −1 when
	// that is not known.
	PredictedCached int

	// Gateway in front, that asked the picker; nil for the embedded one.
	Gateway *Gateway
	// Subset is the addresses that it allows, of which the first few are kept; nil
	// when it allows all. SubsetUnknown of them no pod has.
	Subset        []string
	SubsetUnknown int
	// Fallbacks is how many endpoints behind the picked one it was given, in the
	// decision's order.
	Fallbacks int
}

// Timings are the stages of a pick, in wall time. Tokens is 0 when tokenising was no
// stage of its own: it is then part of Parse, and the record leaves it out. BodyWait
// is the wait for the rest of the body, which is not the picker's and no part of
// Total; 0 when it was not told.
type Timings struct {
	Parse, Tokens, Lookup, Scorers, Decide, Total time.Duration
	BodyWait                                      time.Duration
}

// Outcome is how a request went. What was not learned is −1.
type Outcome struct {
	Status         int    // HTTP status that the client got; 0 when none
	Error          string // client-gone, upstream-error, …; "" when it went well; cut to 64 bytes
	ServedEndpoint string // "" when none
	TTFT           time.Duration
	Duration       time.Duration
	PromptTokens   int
	CachedTokens   int
	OutputTokens   int
	// Prediction is one of [explain.Predictions]; "" for none. Unsettled says that
	// another outcome may follow that says it better: no file has the record yet.
	Prediction string
	Unsettled  bool
	// Unknown is why nobody knows how it ended; "" when that is known; cut to 64 bytes.
	Unknown string
	// Sent is how often a gateway in front sent it, up to 255; 0 when not told.
	Sent int
	// Flags and Details are what a gateway in front said of the response: its
	// response flags and response code details, cut to 32 and 120 bytes. They are
	// kept only with what else it said, see [Entry].
	Flags, Details string
	// Attempts to reach a pod; the first four are kept, and of their texts what
	// fits into 120 bytes together with the error. Pods of the decision cost none.
	Attempts []explain.Attempt
}
