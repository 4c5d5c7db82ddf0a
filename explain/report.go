package explain

import (
	"encoding/json"
	"time"

	"github.com/eppctl/eppctl/score"
)

// KindExplanation is the Kind of a [Report].
const KindExplanation = "Explanation"

// Report is one decision explained: the JSON document of 'eppctl explain -o json'
// and what [Report.Text] renders. A number that is not known is null, never 0;
// durations are seconds, ratios 0 to 1.
type Report struct {
	APIVersion        string    `json:"apiVersion"` // eppctl/v1
	Kind              string    `json:"kind"`       // Explanation
	RequestID         string    `json:"requestID"`
	RequestIDReplaced bool      `json:"requestIDReplaced,omitempty"`
	DecisionID        string    `json:"decisionID"`
	Time              time.Time `json:"time"`
	TimeScale         float64   `json:"timeScale"`
	Path              string    `json:"path"`
	Stream            bool      `json:"stream"`
	Model             string    `json:"model"` // as asked for
	ModelUnchecked    bool      `json:"modelUnchecked,omitempty"`
	BaseModel         string    `json:"baseModel"`
	Adapter           string    `json:"adapter"` // "" when none is needed
	Rewrite           *Rewrite  `json:"rewrite,omitempty"`
	PromptTokens      int       `json:"promptTokens"`
	Prompts           int       `json:"prompts"`
	TokensFrom        string    `json:"tokensFrom"`
	PrefixTokens      int       `json:"prefixTokens"`
	BlockSize         int       `json:"blockSize"`
	Blocks            int       `json:"blocks"`
	NoPrefix          string    `json:"noPrefix,omitempty"`
	Policy            string    `json:"policy"`
	Gateway           *Gateway  `json:"gateway"`          // null for the picker's own
	Origin            *Origin   `json:"origin,omitempty"` // set when another picker decided

	// Verdict is the decision in one sentence, Cause the code of what made it so,
	// and Notes all that is remarkable about it, the gravest first.
	Verdict string `json:"verdict"`
	Cause   string `json:"cause"`
	Notes   []Note `json:"notes"`

	Picked *Pick `json:"picked"` // null when the request was refused
	// Margin, DecidedBy and RunnerUp are those of the scores, also when another
	// policy picked. Margin is null without a runner-up.
	Margin    *float64     `json:"margin"`
	DecidedBy string       `json:"decidedBy"`
	RunnerUp  *Pick        `json:"runnerUp"`
	Ties      *Ties        `json:"ties"` // null unless several pods had the best score
	Seed      uint64       `json:"seed"`
	Relaxed   bool         `json:"relaxed"`
	Refused   string       `json:"refused,omitempty"` // saturated (429) or no-endpoint (503)
	Replay    Verification `json:"replay"`

	Candidates []Standing   `json:"candidates"` // could win, best first
	Excluded   []Exclusion  `json:"excluded"`   // could not, what would have scored most first
	Flips      []PodChanges `json:"whatWouldFlip"`
	// Ladder is null when there was no prefix to reuse.
	Ladder *Ladder `json:"ladder"`
	// Conversation is set by who found the other requests of it.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Versus is the picked pod against one that was asked for, see [WhyNot].
	Versus *Versus `json:"versus,omitempty"`

	Outcome  ReportOutcome `json:"outcome"`
	Attempts []Attempt     `json:"attempts"`
	Timings  Timings       `json:"timings"`
	Weights  Weights       `json:"weights"`
	Analysis *Analysis     `json:"analysis"` // null when the weights can't be read
}

// Note is something remarkable about a decision.
type Note struct {
	Cause string `json:"cause"` // for programs, see [Causes]
	Text  string `json:"text"`  // for people
	// Evidence is what other decisions say that the note rests on; what stands in
	// this one is in the text.
	Evidence []Evidence `json:"evidence"`

	minor bool // it did not change the pick
}

// Evidence is a fact in the record of another decision.
type Evidence struct {
	RequestID  string `json:"requestID"`
	DecisionID string `json:"decisionID"`
	Text       string `json:"text"`
}

// Pick is a pod with its score.
type Pick struct {
	Pod      string  `json:"pod"`
	Endpoint string  `json:"endpoint"`
	Score    float64 `json:"score"`
}

// Ties says how equal best scores were told apart.
type Ties struct {
	Tied int      `json:"tied"` // pods with the best score
	Pods []string `json:"pods"` // their names, in the order of the decision
	By   string   `json:"by"`   // tieLoad, tieQueue or tieSeed
}

// Standing is a pod that could win.
type Standing struct {
	Pod      string  `json:"pod"`
	Endpoint string  `json:"endpoint"`
	Score    float64 `json:"score"` // as recorded
	Picked   bool    `json:"picked"`
	// Tie says how the pod was put behind the one before it when their scores are
	// equal: tieLoad, tieQueue or tieSeed; "" else.
	Tie     string   `json:"tie,omitempty"`
	Factors []Factor `json:"factors"` // empty when the record can't be replayed
	// Reported is what the pod said of itself; only of foreign pickers.
	Reported *Reported `json:"reported,omitempty"`
}

// Exclusion is a pod that could not win.
type Exclusion struct {
	Pod      string  `json:"pod"`
	Endpoint string  `json:"endpoint"`
	Reason   string  `json:"reason"`
	Detail   string  `json:"detail"`
	Score    float64 `json:"score"` // always 0
	// WouldScore is the formula without cutoffs; null when an input is missing.
	WouldScore *float64  `json:"wouldScore"`
	Factors    []Factor  `json:"factors"`
	Reported   *Reported `json:"reported,omitempty"`
}

// Factor is one factor of one pod.
type Factor struct {
	Name   string   `json:"name"`
	Value  *float64 `json:"value"` // null when there is none: it then counts 0
	Weight float64  `json:"weight"`
	// Contribution is what the factor added to the score.
	Contribution float64     `json:"contribution"`
	State        string      `json:"state"` // known, clamped, stale, unknown, notApplicable
	Detail       string      `json:"detail"`
	Input        FactorInput `json:"input"`
}

// Missing reports whether the factor's input was stale or unknown.
func (f *Factor) Missing() bool {
	return f.State == score.Unknown.String() || f.State == score.Stale.String()
}

// FactorInput is the raw input of a factor. Exactly one field is set, and its
// fields are the JSON object.
type FactorInput struct {
	Cache   *CacheInput
	Load    *LoadInput
	Queue   *QueueInput
	Health  *HealthInput
	Adapter *AdapterInput
	Custom  *CustomInput
}

// MarshalJSON writes the one input that is set.
func (in FactorInput) MarshalJSON() ([]byte, error) {
	switch {
	case in.Cache != nil:
		return json.Marshal(in.Cache)
	case in.Load != nil:
		return json.Marshal(in.Load)
	case in.Queue != nil:
		return json.Marshal(in.Queue)
	case in.Health != nil:
		return json.Marshal(in.Health)
	case in.Adapter != nil:
		return json.Marshal(in.Adapter)
	}
	return json.Marshal(in.Custom)
}

// CacheInput is the raw input of cacheMatch.
type CacheInput struct {
	MatchedBlocks *float64 `json:"matchedBlocks"` // by weight, when some are not on the GPU
	TotalBlocks   int      `json:"totalBlocks"`
	// Tiers are what MatchedBlocks is made of, when some are not on the GPU.
	Tiers []TierBlocks `json:"tiers,omitempty"`
	Reading
}

// LoadInput is the raw input of load.
type LoadInput struct {
	Utilization    *float64 `json:"utilization"`
	MaxUtilization float64  `json:"maxUtilization"`
	Reading
}

// QueueInput is the raw input of queueDepth.
type QueueInput struct {
	Waiting *float64 `json:"waiting"` // as the engine last reported
	Pending int      `json:"pending"` // picks that report can't have seen
	// PeerPending are those of other replicas, as they told.
	PeerPending int `json:"peerPending,omitempty"`
	InFlight    int `json:"inFlight"` // of this replica alone
	Max         int `json:"max"`
	Reading
}

// HealthInput is the raw input of health.
type HealthInput struct {
	Score *float64 `json:"score"`
	Reading
}

// AdapterInput is the raw input of adapterMatch.
type AdapterInput struct {
	Adapter *string `json:"adapter"` // null when none is needed
	Loaded  *bool   `json:"loaded"`  // null when not known
	Count   *int    `json:"count"`   // loaded adapters; null when not known
	Max     *int    `json:"max"`     // adapter slots; null when not known
	State   string  `json:"state"`
}

// CustomInput is what a custom scorer answered.
type CustomInput struct {
	Value *float64 `json:"value"`
	State string   `json:"state"`
}

// Reading says where a raw input came from.
type Reading struct {
	State      string   `json:"state"`
	Source     string   `json:"source,omitempty"`
	AgeSeconds *float64 `json:"ageSeconds"` // null when there is no value
}

// PodChanges lists what would have made one pod win.
type PodChanges struct {
	Pod     string   `json:"pod"`
	Changes []Change `json:"changes"` // one per factor
}

// Change is the smallest change of one input that would have made the pod win,
// everything else being as it was.
type Change struct {
	Factor   string   `json:"factor"`
	Possible bool     `json:"possible"`
	From     *float64 `json:"from"` // null when the input was not usable
	// FromState is the input's state: known, clamped, stale, unknown, notApplicable.
	FromState string   `json:"fromState"`
	To        *float64 `json:"to"` // null when no value is enough
	Unit      string   `json:"unit"`
	Why       string   `json:"why,omitempty"` // why it is impossible

	best float64 // rounding goes towards it
}

// ReportOutcome is how the request went. What was not learned is null.
type ReportOutcome struct {
	State                 string   `json:"state"` // pending, done, unknown
	Detail                string   `json:"detail,omitempty"`
	Status                *int     `json:"status"`
	Error                 string   `json:"error,omitempty"`
	ServedEndpoint        *string  `json:"servedEndpoint"`
	TTFTSeconds           *float64 `json:"ttftSeconds"`
	DurationSeconds       *float64 `json:"durationSeconds"`
	PromptTokens          *int     `json:"promptTokens"`
	CachedTokens          *int     `json:"cachedTokens"`
	OutputTokens          *int     `json:"outputTokens"`
	PredictedCachedTokens *int     `json:"predictedCachedTokens"`
	Cache                 string   `json:"cache"`                // see the Cache… constants
	Prediction            string   `json:"prediction,omitempty"` // see the Prediction… constants
	Attempts              *int     `json:"attempts"`             // of the gateway in front; null when not told
	Flags                 string   `json:"flags,omitempty"`
	CodeDetails           string   `json:"codeDetails,omitempty"`
}

// How predicted and actual cached tokens compare.
const (
	CacheAsPredicted  = "asPredicted"
	CacheStale        = "staleCache"        // the engine had fewer than predicted
	CacheMore         = "moreThanPredicted" // the engine had more than predicted
	CacheNotReported  = "notReported"       // the engine's count is not known
	CacheNotPredicted = "notPredicted"      // there was no prediction
	CacheOtherPod     = "otherPod"          // another pod served than the prediction was for
)
