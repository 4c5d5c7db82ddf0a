package explain

import (
	"fmt"
	"time"
)

// KindSnapshot is the Kind of a [Snapshot].
const KindSnapshot = "Snapshot"

// The verdicts on a fleet, the gravest first.
const (
	VerdictUnreachable = "router-unreachable" // nobody answers who could tell
	VerdictNoEndpoints = "no-endpoints"       // no pod may be picked
	VerdictSaturated   = "saturated"          // every queue is full
	VerdictIndexDead   = "index-dead"         // nothing is heard of what the pods hold
	VerdictStale       = "metrics-stale"      // a pod's figures are old, and traffic goes by them
	VerdictFlapping    = "health-flapping"    // a pod is in and out of the running
	VerdictHerd        = "herd"               // picks come faster than a pod's queue shows them
	VerdictHotPod      = "hot-pod"            // one pod takes much more than the others, and is slow for it
	VerdictThrash      = "adapter-thrash"     // adapters are loaded again and again
	VerdictOK          = "ok"
)

// The sources of a snapshot.
const (
	SourcePicker  = "picker"  // the one that decides
	SourceRecords = "records" // of a file
	SourceMetrics = "metrics" // of another picker
)

// Snapshot is what is known of a fleet at one moment: the document of 'eppctl top
// -o json' and what its screen shows. What is not known is null, never 0.
type Snapshot struct {
	APIVersion string    `json:"apiVersion"` // eppctl/v1
	Kind       string    `json:"kind"`       // Snapshot
	Time       time.Time `json:"time"`
	// TimeScale is how many of these seconds pass in one of the wall's.
	TimeScale float64 `json:"timeScale"`
	// Source is who says so, one of the Source… constants.
	Source  string       `json:"source"`
	Router  RouterState  `json:"router"`
	Verdict FleetVerdict `json:"verdict"`
	// Windows are the last 5, 60 and 300 seconds.
	Windows []WindowRates `json:"windows"`
	Index   IndexState    `json:"index"`
	Pods    []PodSnapshot `json:"pods"`   // by name
	Events  []FleetEvent  `json:"events"` // newest first, few
	// Missing are the parts that this source can't tell, in words.
	Missing []string `json:"missing"`
}

// RouterState is what the picker says of itself.
type RouterState struct {
	Server  string `json:"server"`  // where it was asked; "" for a file
	Replica string `json:"replica"` // its name; "" for the only one
	Version string `json:"version"` // "" when not told
	Models  string `json:"models"`  // base models served, in words
	Pool    string `json:"pool"`    // "" when it has no name
	// Role is "leader" or "standby" where replicas elect one that picks, and Leader the
	// name of that one, as far as is known; "" where all pick.
	Role   string `json:"role,omitempty"`
	Leader string `json:"leader,omitempty"`
	// Silence is what there is no news of from the cluster; absent while all is up to date,
	// and outside of one.
	Silence  *Silence `json:"silence,omitempty"`
	Uptime   float64  `json:"uptimeSeconds"`
	MaxQueue int      `json:"maxQueue"` // 0 when not known
	Weights  Weights  `json:"weights"`
	InFlight int      `json:"inFlight"` // requests that have not ended
	Streams  int      `json:"streams"`  // readers of this
	Dropped  uint64   `json:"dropped"`  // snapshots and rows that such readers were too slow for
}

// Silence is what a picker has no news of from its cluster. It routes on what it knew.
type Silence struct {
	Since time.Time `json:"since"`
	// Of is a list of objects; "" is all: the API server is away.
	Of   string `json:"of"`
	Pods int    `json:"pods"` // the last known
}

// Text is the silence in a sentence, at a time.
func (s *Silence) Text(at time.Time) string {
	what := "API server away"
	if s.Of != "" {
		what = "no news of " + s.Of
	}
	pods := fmt.Sprintf("%d pods", s.Pods)
	if s.Pods == 1 {
		pods = "1 pod"
	}
	return fmt.Sprintf("cluster: %s for %s, routing on the last known %s", what, max(at.Sub(s.Since).Truncate(time.Second), 0), pods)
}

// The roles of a replica.
const (
	RoleLeader  = "leader"
	RoleStandby = "standby"
)

// FleetVerdict is the one sentence.
type FleetVerdict struct {
	Code    string     `json:"code"`    // of the Verdict… constants
	Message string     `json:"message"` // with pod, size and cause
	Pod     string     `json:"pod"`     // "" when it is of no single one
	Since   *time.Time `json:"since"`   // null when ok
	// Evidence is the figures that it rests on, and Key the key of the dashboard that
	// shows them.
	Evidence []string `json:"evidence"`
	Key      string   `json:"key"`
	// Also are the codes of the lesser verdicts that hold at the same time.
	Also []string `json:"also"`
}

// WindowRates are counts and distributions of the last so many seconds.
type WindowRates struct {
	Seconds      int `json:"seconds"`
	Decisions    int `json:"decisions"`
	Refused      int `json:"refused"`
	Shed         int `json:"shed"` // of these, because all queues were full
	Relaxed      int `json:"relaxed"`
	Ties         int `json:"ties"`
	Completed    int `json:"completed"`
	Failed       int `json:"failed"` // of these, without a success
	Stale        int `json:"stale"`  // of these, picks for a cache that was gone
	AdapterLoads int `json:"adapterLoads"`
	// MatchRatio is the mean of the picks' cache match ratios; the others are
	// quantiles of the picker's own time and of the time to first token.
	MatchRatio      *float64 `json:"matchRatio"`
	PickP50         *float64 `json:"pickP50Seconds"`
	PickP99         *float64 `json:"pickP99Seconds"`
	TTFTP50         *float64 `json:"ttftP50Seconds"`
	TTFTP95         *float64 `json:"ttftP95Seconds"`
	PredictedTokens int      `json:"predictedCachedTokens"` // of completed requests whose engine told
	CachedTokens    int      `json:"cachedTokens"`
}

// IndexState is the prefix tree, and what feeds it.
type IndexState struct {
	Blocks          *int     `json:"blocks"`
	Bytes           *int64   `json:"bytes"`
	EventsPerSecond *float64 `json:"eventsPerSecond"` // null without event streams
	// LastHeard is how long ago a pod last told what it holds, by events or report;
	// null when none ever did.
	LastHeard *float64 `json:"lastHeardSeconds"`
	Gaps      uint64   `json:"gaps"`
	Orphans   uint64   `json:"orphans"`
	Streams   int      `json:"streams"`   // of events, wanted
	Connected int      `json:"connected"` // of these
}

// The states of a pod, in words that are short enough for a column.
const (
	PodOK       = "OK"
	PodHot      = "HOT"   // it takes far more than its share and is slow for it
	PodFull     = "FULL"  // its queue is full
	PodStale    = "STALE" // its figures are old
	PodSick     = "SICK"  // its health is below 0.7, and it may still be picked
	PodDown     = "DOWN"  // its health keeps it out
	PodDraining = "DRAIN"
	PodNotReady = "NOTREADY"
	PodPrefill  = "PREFILL" // it computes prompts for other pods, and gets no requests
	PodGone     = "GONE"    // it left the pool and still has requests
	PodUnknown  = "UNKNOWN"
)

// PodSnapshot is one endpoint.
type PodSnapshot struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	State    string `json:"state"`  // of the Pod… constants
	Reason   string `json:"reason"` // why, in words; "" for OK
	// Picks are those of the windows, in their order, and PicksShare its part of the
	// middle one's, null when there were none.
	Picks      []int    `json:"picks"`
	PicksShare *float64 `json:"picksShare"`
	// DecidedBy counts its picks of the middle window by what decided.
	DecidedBy map[string]int `json:"decidedBy"`
	// Served are the requests that it ended in the middle window.
	Served int `json:"served"`
	// ComputedTokens are the prompt tokens of one of them, in the mean, that its engine
	// did not find in its cache; null when it never said.
	ComputedTokens *float64 `json:"computedTokens"`
	// CachedBlocks are what it is known to hold, CacheSource by what: events, report,
	// assumed, none.
	CachedBlocks *int   `json:"cachedBlocks"`
	CacheSource  string `json:"cacheSource"`
	// CacheHitRatio is the share of prompt tokens that its engine found in its cache,
	// in the middle window, and KVUsage how full that is.
	CacheHitRatio *float64      `json:"cacheHitRatio"`
	KVUsage       *float64      `json:"kvUsage"`
	Queue         QueueSnapshot `json:"queue"`
	Running       *float64      `json:"running"` // requests, as its engine says
	Load          *float64      `json:"load"`    // 0 to 1
	LoadSource    string        `json:"loadSource"`
	Health        *float64      `json:"health"`
	Signals       []string      `json:"signals"` // what cost points of health
	Adapters      AdapterState  `json:"adapters"`
	TTFTP95       *float64      `json:"ttftP95Seconds"` // of the middle window
	AgeSeconds    *float64      `json:"ageSeconds"`     // of its figures; null when it never told any
	// Stream is its events; null without.
	Stream *StreamState `json:"stream"`
	Flaps  int          `json:"flaps"` // how often it left or came back, in the longest window
}

// QueueSnapshot is a pod's queue.
type QueueSnapshot struct {
	Waiting *float64 `json:"waiting"` // as the engine says
	Pending int      `json:"pending"` // picks that this can't have seen
	// PeerPending are those of other replicas, as they told.
	PeerPending int  `json:"peerPending,omitempty"`
	InFlight    int  `json:"inFlight"` // of this replica alone
	Max         int  `json:"max"`
	Stale       bool `json:"stale"` // waiting is older than its limit
}

// AdapterState is a pod's LoRA adapters.
type AdapterState struct {
	Loaded []string `json:"loaded"` // null when not known
	Max    *int     `json:"max"`    // slots
	Loads  int      `json:"loads"`  // by picks, in the middle window
	// Reloads are those of them of an adapter that a pick had made it load less than
	// the longest window before: it was unloaded meanwhile.
	Reloads int `json:"reloads"`
}

// StreamState is the KV events of a pod, over its ranks.
type StreamState struct {
	Ranks           int      `json:"ranks"`
	Connected       int      `json:"connected"`
	EventsPerSecond float64  `json:"eventsPerSecond"`
	AgeSeconds      *float64 `json:"ageSeconds"` // of the last message
	Gaps            uint64   `json:"gaps"`
	Orphans         uint64   `json:"orphans"`
	DecodeErrors    uint64   `json:"decodeErrors"`
	Replays         uint64   `json:"replays"`
	Degraded        string   `json:"degraded"` // "" when the picture is whole
}

// FleetEvent is something that happened to the fleet.
type FleetEvent struct {
	Time time.Time `json:"time"`
	Pod  string    `json:"pod"`  // "" when it is of no single one
	Code string    `json:"code"` // of the Event… constants
	Text string    `json:"text"`
}

// The codes of events.
const (
	EventVerdict    = "verdict" // another one
	EventJoined     = "pod-joined"
	EventLeft       = "pod-left"
	EventDrained    = "pod-drained" // or no longer so
	EventDown       = "pod-down"
	EventUp         = "pod-up"
	EventQueueFull  = "queue-full"
	EventRestart    = "engine-restart"
	EventGap        = "stream-gap"
	EventDegraded   = "stream-degraded"
	EventRestored   = "stream-restored"
	EventStreamLost = "stream-lost"
	EventStreamBack = "stream-back"
	EventWeights    = "weights-changed"
)
