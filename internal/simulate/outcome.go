package simulate

import "time"

// Ending is how a request ended.
type Ending uint8

// The endings. A request that was rejected was given to no pod; one that was refused
// is longer than its pod can serve; one that failed was on a pod that died.
const (
	Completed Ending = iota
	Rejected
	Refused
	Failed
)

// An Outcome is what came of one request under one policy.
type Outcome struct {
	Ending Ending
	Pod    int32 // −1: none
	Cached int32 // tokens of the prompt that the engine found in its cache
	// TTFT and E2E are from the arrival to the first and to the last token.
	TTFT, E2E time.Duration
	Ended     time.Duration
}
