package explain

import (
	"time"
)

// APIVersion is the version of the JSON documents of this package.
const APIVersion = "eppctl/v1"

// KindDecision is the Kind of a [Record].
const KindDecision = "Decision"

// Record is one decision with all its inputs and, once known, its outcome. It
// holds no prompt, header value, key, cookie or salt.
type Record struct {
	APIVersion string    `json:"apiVersion"` // eppctl/v1
	Kind       string    `json:"kind"`       // Decision
	DecisionID string    `json:"decisionID"` // UUID v4, unique
	RequestID  string    `json:"requestID"`  // the client's when usable, else a UUID v4
	Time       time.Time `json:"time"`       // arrival, by the picker's clock
	// TimeScale is how many seconds of the picker's clock pass in one of the
	// wall's; 1 unless the fleet is simulated.
	TimeScale float64 `json:"timeScale"`
	// RequestIDReplaced: the client sent an ID that can't be kept.
	RequestIDReplaced bool `json:"requestIDReplaced,omitempty"`
	// Policy is "scores", or the policy that picked in their place: random,
	// round-robin, least-connections.
	Policy  string  `json:"policy"`
	Request Request `json:"request"`
	Weights Weights `json:"weights"`
	Seed    uint64  `json:"seed"` // 53 bits
	// Gateway is what the gateway in front said of the request; nil for the picker's
	// own. The decision knows of it by the reasons of candidates only.
	Gateway *Gateway `json:"gateway,omitempty"`
	// Origin is set when another picker decided, whose log this was read from.
	Origin *Origin `json:"origin,omitempty"`

	// Candidates are all pods of the pool, eligible or not, in the order in which
	// the engine saw them.
	Candidates []Candidate `json:"candidates"`
	Result     Result      `json:"result"`
	Attempts   []Attempt   `json:"attempts,omitempty"` // set when there was more than one
	Timings    Timings     `json:"timings"`
	Outcome    Outcome     `json:"outcome"`
	// Check holds a CRC-32 of each kind of input over all candidates, see [Record.Seal].
	Check map[string]string `json:"check,omitempty"`
}

// Request is what a record keeps of a request.
type Request struct {
	Path    string `json:"path"`
	Model   string `json:"model"`             // as asked for
	Base    string `json:"baseModel"`         // as resolved
	Adapter string `json:"adapter,omitempty"` // as resolved; "" when none
	// ModelUnchecked: nobody vouched for the name, as no catalogue of models was
	// available, or has it.
	ModelUnchecked bool `json:"modelUnchecked,omitempty"`
	// Rewrite is how the name asked for became the engines' own; nil when no rule did
	// that. Aliases of a configured catalogue are none.
	Rewrite      *Rewrite `json:"rewrite,omitempty"`
	PromptTokens int      `json:"promptTokens"` // over all prompts
	Prompts      int      `json:"prompts"`
	// TokensFrom is "ids" (the client's own), "engine" or "render" (a server's for this
	// wording), "joined" (a server's, in two parts), or "approximate".
	TokensFrom string `json:"tokensFrom"`
	BlockSize  int    `json:"blockSize"` // tokens per block
	Blocks     int    `json:"blocks"`    // full blocks of the routed prompt
	NoPrefix   string `json:"noPrefix,omitempty"`
	Stream     bool   `json:"stream,omitempty"`
	// PrefixTokens is the length of the prompt that was routed by, in tokens.
	PrefixTokens int `json:"prefixTokens"`
	// Chain holds keyed ids of some of the prompt's blocks, see [ChainBlock]. Equal
	// ids mean equal prefixes, under one key.
	Chain []string `json:"chain,omitempty"`
}

// Rewrite is how the name that a client used became the engines' own.
type Rewrite struct {
	To string `json:"to"` // what the body said to the pod
	// By is the rule: "InferenceModel prod/chat", "InferenceModelRewrite prod/chat rule
	// 2", or the header x-llm-d-model-name-rewrite.
	By string `json:"by"`
	// Criticality is Critical, Standard or Sheddable; "" when the rule does not say.
	Criticality string `json:"criticality,omitempty"`
	// The name was one of Targets, and had Weight of their WeightSum. All are 0 when
	// the rule has no targets.
	Targets   int `json:"targets,omitempty"`
	Weight    int `json:"weight,omitempty"`
	WeightSum int `json:"weightSum,omitempty"`
}

// Sheddable is the criticality of requests that full queues refuse, whatever the
// weights say: those of the record say reject then.
const Sheddable = "Sheddable"

// Gateway is what a gateway in front of the picker said, and got.
type Gateway struct {
	Kind string `json:"kind"` // envoy
	// RequestBody and ResponseBody are its modes of sending bodies to the picker, in
	// its own words; "" when it did not tell.
	RequestBody  string  `json:"requestBody,omitempty"`
	ResponseBody string  `json:"responseBody,omitempty"`
	Subset       *Subset `json:"subset"` // null when it allowed all pods
	// Fallbacks are the endpoints that it was given behind the picked one, best first.
	Fallbacks []string `json:"fallbacks"`
}

// Subset is the endpoints that a gateway allows for a request.
type Subset struct {
	Count     int      `json:"count"`
	Unknown   int      `json:"unknown"`   // how many of them no pod has
	Addresses []string `json:"addresses"` // the first 8
}

// Weights are the weights and limits that were in force.
type Weights struct {
	Cache          float64        `json:"cache"`
	Load           float64        `json:"load"`
	Queue          float64        `json:"queue"`
	Health         float64        `json:"health"`
	Adapter        float64        `json:"adapter"`
	Custom         []CustomWeight `json:"custom,omitempty"`
	MaxQueue       int            `json:"maxQueue"`
	MaxUtilization float64        `json:"maxUtilization"`
	Saturation     string         `json:"saturation"` // relax or reject
	Generation     uint64         `json:"generation"`
}

// CustomWeight is a custom scorer's weight.
type CustomWeight struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// Input is one raw input of a candidate. Value is null when there is none or
// when JSON can't hold it (Detail then says "NaN" or the like).
type Input struct {
	Value      *float64 `json:"value"`
	State      string   `json:"state"`
	Source     string   `json:"source,omitempty"`
	AgeSeconds float64  `json:"ageSeconds"`
	Detail     string   `json:"detail,omitempty"` // why it is what it is, in words
	// Tiers are the parts of a cache match that has blocks beside the GPU's, the
	// heaviest first: Value is the sum of blocks times weight.
	Tiers []TierBlocks `json:"tiers,omitempty"`
}

// TierBlocks is the blocks of a cache match that are in tiers of one weight.
type TierBlocks struct {
	Tier   string  `json:"tier"`   // gpu, cpu, disk, external; of equal weight with a + between
	Blocks int     `json:"blocks"` // beyond those of the parts before
	Weight float64 `json:"weight"`
}

// Adapters is what was known of a candidate's LoRA adapters.
type Adapters struct {
	State  string `json:"state"`
	Match  bool   `json:"match"`  // the requested adapter is loaded
	Loaded int    `json:"loaded"` // number of loaded adapters
	Max    int    `json:"max"`    // adapter slots; 0 when not known
	// Waiting is the number of adapters that requests wait for; only foreign
	// pickers know it.
	Waiting *int   `json:"waiting,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// CustomValue is a custom scorer's answer for a candidate.
type CustomValue struct {
	Name   string   `json:"name"`
	Value  *float64 `json:"value"`
	State  string   `json:"state"`
	Detail string   `json:"detail,omitempty"`
}

// Candidate is one pod as the engine saw it.
type Candidate struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	// Reason is why it was excluded; "" when it could win.
	Reason  string `json:"reason,omitempty"`
	Cache   Input  `json:"cache"`   // consecutive blocks held
	Load    Input  `json:"load"`    // utilization, compared with maxUtilization
	Waiting Input  `json:"waiting"` // as the engine last reported
	Pending int    `json:"pending"` // picks that report can't have seen
	// PeerPending are those of other replicas, as they told.
	PeerPending int `json:"peerPending,omitempty"`
	InFlight    int `json:"inFlight"` // of this replica alone
	// Running is how many requests the engine said it runs; only in the records of
	// foreign pickers.
	Running  *float64      `json:"running,omitempty"`
	Health   Input         `json:"health"`
	Adapters Adapters      `json:"adapters"`
	Custom   []CustomValue `json:"custom,omitempty"`
	Score    float64       `json:"score"` // 0 when excluded
	// Check is a CRC-32 over this candidate's inputs, see [Record.Seal].
	Check string `json:"check,omitempty"`
}

// Result is what was decided.
type Result struct {
	// Pod and Endpoint of the pick; empty when Refused. With another Policy than
	// scores this is that policy's pick, and the scores are what they would be.
	Pod      string   `json:"pod,omitempty"`
	Endpoint string   `json:"endpoint,omitempty"`
	Index    int      `json:"index"` // into Candidates, −1 when refused
	Score    float64  `json:"score"`
	Margin   *float64 `json:"margin"` // null without a runner-up
	// DecidedBy is a factor's name, tieLoad, tieQueue, tieSeed or onlyCandidate.
	DecidedBy string `json:"decidedBy"`
	Relaxed   bool   `json:"relaxed"`
	Refused   string `json:"refused,omitempty"` // saturated or no-endpoint
	// Order holds the indices of the first 16 eligible candidates, best first.
	Order []int `json:"order"`
}

// MovedByGateway is the error of an attempt of which only this is known: that the
// gateway in front had the request served by another endpoint in the end.
const MovedByGateway = "the gateway went on to another"

// Attempt is one try to send the request to a pod.
type Attempt struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	Error    string `json:"error,omitempty"` // "" for the one that answered
}

// Timings are the stages of the picker, in seconds of wall time.
type Timings struct {
	// Body is the wait for the rest of the body: not the picker's time and no part
	// of Total. Null when nobody told it.
	Body  *float64 `json:"bodySeconds"`
	Parse float64  `json:"parseSeconds"` // the body, and its text into tokens
	// Tokens is tokenising, when it is a stage of its own; else it is part of Parse.
	Tokens  *float64 `json:"tokensSeconds,omitempty"`
	Lookup  float64  `json:"lookupSeconds"` // fingerprints and prefix tree
	Scorers float64  `json:"scorersSeconds"`
	Decide  float64  `json:"decideSeconds"` // state, decision and reservation
	Total   float64  `json:"totalSeconds"`
}

// Outcome statuses beside an HTTP status.
const (
	OutcomePending = "pending" // the request is still running
	OutcomeDone    = "done"    // it ended and the rest of the outcome is known
	OutcomeUnknown = "unknown" // nobody told how it ended
)

// Outcome is how the request went. What was not learned is null.
type Outcome struct {
	State           string   `json:"state"`                 // pending, done, unknown
	Detail          string   `json:"detail,omitempty"`      // why it is unknown
	Status          int      `json:"status,omitempty"`      // HTTP status that the client got
	Error           string   `json:"error,omitempty"`       // client-gone, upstream-error, upstream-closed, …
	ServedEndpoint  string   `json:"servedEndpoint"`        // "" when none
	TTFTSeconds     *float64 `json:"ttftSeconds"`           // arrival to the first byte of the body
	DurationSeconds *float64 `json:"durationSeconds"`       // arrival to the end
	PromptTokens    *int     `json:"promptTokens"`          // the engine's count
	CachedTokens    *int     `json:"cachedTokens"`          // the engine's count
	OutputTokens    *int     `json:"outputTokens"`          // the engine's count
	PredictedCached *int     `json:"predictedCachedTokens"` // by the engine's rule; null when not known
	// Prediction is how the engine's count compares with it, and why: see the
	// Prediction… constants; "" when nothing was predicted, or the end is not known.
	Prediction string `json:"prediction,omitempty"`
	// Attempts is how often a gateway in front sent the request, Flags and
	// CodeDetails what it says of the response: Envoy's response flags (UF,URX) and
	// response code details.
	Attempts    *int   `json:"attempts"` // null when not told
	Flags       string `json:"flags,omitempty"`
	CodeDetails string `json:"codeDetails,omitempty"`
}
