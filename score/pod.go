package score

import (
	"math"
	"slices"
	"time"
)

// InferenceRequest is what a decision may know of a request. It holds token ids
// and never text; Decide itself looks only at Blocks, Adapter and NoPrefix, the
// rest is for custom scorers.
type InferenceRequest struct {
	ID      string    // the request ID
	Model   string    // the base model that serves it
	Adapter string    // the LoRA adapter that it needs; "" when none
	Tokens  []uint32  // token ids of the prompt; nil in a replay
	Count   int       // number of prompt tokens, over all prompts of the request
	Blocks  int       // full KV blocks of the prompt that prefixes are matched for
	Arrival time.Time // when the picker received it
	Client  string    // the client's identity as the gateway told it; "" when unknown

	// NoPrefix says why the request has no prefix to match ("/v1/embeddings has
	// no prompt prefix"); "" when it has one.
	NoPrefix string
	// Headers holds the allow-listed request headers, by canonical name.
	Headers map[string][]string
}

// Reading is one measured input of a pod.
type Reading struct {
	Value  float64
	Age    time.Duration // how old the value was when the decision was taken
	State  State
	Source Source
}

// Read makes a Known reading of the given value and source.
func Read(value float64, source Source) Reading {
	return Reading{Value: value, State: Known, Source: source}
}

// PodState is everything a decision knows of one candidate pod.
type PodState struct {
	Pod      string // the pod's name
	Endpoint string // host:port that requests are sent to
	nameHash uint64 // NameHash(Pod, Endpoint), or 0 when not computed yet

	// Excluded is the pool's verdict; a pod with a reason keeps its factors and
	// what it would have scored, but cannot win.
	Excluded Reason

	Cache       Reading // Value: consecutive prompt blocks that the pod holds, by weight
	Utilization Reading // compared with Weights.MaxUtilization
	Waiting     Reading // requests that the engine last reported as waiting
	Pending     int     // picks that the engine's last report can't have seen yet
	PeerPending int     // those of other replicas, as they told
	InFlight    int     // requests given to the pod and not yet ended
	Health      Reading // 0 (failed, draining) to 1

	// CacheTiers are the parts of Cache.Value where it has blocks beside the GPU's,
	// the heaviest first; nil for most pods.
	CacheTiers []TierBlocks

	AdapterState State    // of Adapters
	Adapters     []string // LoRA adapters that are loaded
	MaxAdapters  int      // adapter slots of the engine; 0 when not known

	Labels      map[string]string
	Annotations map[string]string
	// Notes explains readings in words ("HTTP 404 on port 8000"); nil for most pods.
	Notes *Notes
}

// Notes are explanations of a pod's readings, by built-in factor; "" where
// there is nothing to say.
type Notes [NumFactors]string

// NewPod is a PodState with its names set and their hash computed once. A
// literal PodState decides the same, a little slower.
func NewPod(pod, endpoint string) PodState {
	return PodState{Pod: pod, Endpoint: endpoint, nameHash: NameHash(pod, endpoint)}
}

// NameHash is FNV-1a (64 bit) over the pod's name, a zero byte, and its
// endpoint; ties are broken by it together with the seed.
func NameHash(pod, endpoint string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(pod) {
		h = (h ^ uint64(pod[i])) * prime
	}
	h *= prime // the zero byte
	for i := range len(endpoint) {
		h = (h ^ uint64(endpoint[i])) * prime
	}
	return h
}

// HasAdapter reports whether the adapter is loaded on the pod.
func (p *PodState) HasAdapter(adapter string) bool { return slices.Contains(p.Adapters, adapter) }

// QueueDepth is the depth that cutoff and ties go by: waiting + pending, or
// pending alone when the engine's waiting is unknown or stale. What is pending of
// other replicas counts as this one's own. Known says which.
func (p *PodState) QueueDepth() (depth float64, known bool) {
	pending := float64(p.Pending + p.PeerPending)
	if !number(p.Waiting) {
		return pending, false
	}
	return p.Waiting.Value + pending, true
}

// note is the pod's explanation of a factor, or "".
func (p *PodState) note(f int) string {
	if p.Notes == nil {
		return ""
	}
	return p.Notes[f]
}

// number reports whether a reading holds a value that can be computed with:
// usable by state, finite, and not negative.
func number(r Reading) bool {
	return r.State.Usable() && r.Value >= 0 && r.Value <= math.MaxFloat64
}
