package score

// State says how an input or a factor's value came to be what it is.
type State uint8

// The states of an input. The zero value is Unknown on purpose: a reading that
// nobody filled in must never pass for a measured zero.
const (
	// Unknown: there is no value (no scrape yet, HTTP 404, NaN, infinite, negative).
	Unknown State = iota
	// Known: a value within range and within its age limit.
	Known
	// Clamped: above the range and cut to it; the raw value is kept.
	Clamped
	// Stale: a last value exists but is older than its limit. It contributes
	// nothing and is kept for display.
	Stale
	// NotApplicable: the request has no use for this input, for example a prompt
	// shorter than one block or a request without an adapter.
	NotApplicable
)

var stateNames = [...]string{"unknown", "known", "clamped", "stale", "notApplicable"}

// String is the state's spelling in JSON and on screens.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// ParseState is the inverse of [State.String].
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return Unknown, false
}

// Usable reports whether a value in this state may be computed with.
func (s State) Usable() bool { return s == Known || s == Clamped }

// Source says where a reading was taken from.
type Source uint8

// The sources of readings.
const (
	SourceNone    Source = iota
	SourceMetrics        // the engine's /metrics page
	SourceReport         // a status report pushed by the pod
	SourceEvents         // the engine's KV event stream
	SourceAssumed        // what this picker sent there, never confirmed
	SourceDCGM           // NVIDIA DCGM exporter
	SourceRunning        // running requests / the engine's maximum
	SourceKVUsage        // share of the KV cache in use
	SourceProbe          // a health probe
	SourceManual         // set by an operator
)

var sourceNames = [...]string{
	"none", "metrics", "report", "events", "assumed", "dcgm", "running/max", "kv-usage", "probe", "manual",
}

// String is the source's spelling in JSON and on screens.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "invalid"
}

// ParseSource is the inverse of [Source.String].
func ParseSource(name string) (Source, bool) {
	for i, n := range sourceNames {
		if n == name {
			return Source(i), true
		}
	}
	return SourceNone, false
}

// Reason says why a pod was not eligible for a request.
type Reason uint8

// The exclusion reasons. The first six are found by the pool before the
// decision ([PodState.Excluded]); the last two follow from the pod's inputs and
// are found by [Decide].
const (
	Eligible Reason = iota
	NotReady
	Terminating
	NotInPool
	NotInSubset
	ModelNotServed
	PrefillOnly
	Unhealthy
	QueueFull
)

var reasonNames = [...]string{
	"", "not-ready", "terminating", "not-in-pool", "not-in-subset", "model-not-served", "prefill-only", "unhealthy", "queue-full",
}

// String is the reason's spelling in JSON and on screens; "" for an eligible pod.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "invalid"
}

// ParseReason is the inverse of [Reason.String].
func ParseReason(name string) (Reason, bool) {
	for i, n := range reasonNames {
		if n == name {
			return Reason(i), true
		}
	}
	return Eligible, false
}
