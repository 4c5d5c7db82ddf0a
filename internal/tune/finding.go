package tune

// The codes of findings; programs may rely on them.
const (
	CodeCacheOutweighed    = "cache-outweighed"
	CodeCacheEvicted       = "cache-evicted"
	CodeOwnerFull          = "owner-queue-full"
	CodeNoReuse            = "no-reuse"
	CodeHotPods            = "hot-pods"
	CodeDeepQueues         = "deep-queues"
	CodeDeepEverywhere     = "deep-queues-everywhere"
	CodeThrashConcentrated = "adapter-thrash-concentrated"
	CodeThrashSpread       = "adapter-thrash-spread"
	CodeThrashTooMany      = "adapter-thrash-too-many"
	CodeDegraded           = "degraded-picked"
	CodeStale              = "stale-routing"
	CodeMaxQueue           = "max-queue-out-of-range"
	CodeInputMissing       = "input-missing"
)

// Finding is a symptom with what it was seen by.
type Finding struct {
	Code     string   `json:"code"`
	Text     string   `json:"text"`
	Evidence []Figure `json:"evidence"`
	// Lever is what could be turned, "" when no weight helps; then Do says what does.
	Lever string `json:"lever,omitempty"`
	Do    string `json:"do"`
	// Risk is what turning it too far would do; "" without a lever.
	Risk string `json:"risk,omitempty"`
	// WhatIf is what the smallest move of the lever would have done to the recorded
	// picks, each taken alone; null without a lever.
	WhatIf *Counterfactual `json:"whatIf"`

	moves []*Move
}

// Figure is a number that a finding rests on. Shares are from 0 to 1.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// The units of figures.
const (
	unitShare = "share"
	unitCount = "count"
	unitPods  = "pods"
)

// The opposite risks of levers.
const (
	riskCache    = "too much of it lets pods with popular prefixes saturate while others idle"
	riskLoad     = "too much of it scatters conversations, and their prefixes are computed again elsewhere"
	riskQueue    = "too much of it makes requests leave their cache for a slightly shorter queue"
	riskMaxQueue = "too low a limit turns pods with the cache away at every burst"
	riskDeeper   = "too high a limit lets requests wait behind a hot pod while others idle"
	riskHealth   = "too much of it makes small dips of health move whole conversations"
	riskAdapter  = "too much of it piles all requests of a popular adapter on one pod"
	riskInterval = "each report costs the pod and the picker; below 500 ms they pay more than they gain"
)
