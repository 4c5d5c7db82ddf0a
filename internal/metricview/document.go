package metricview

import (
	"time"

	"github.com/eppctl/eppctl/explain"
)

// The kinds of the documents.
const (
	KindMetrics = "Metrics"
	KindSeries  = "MetricSeries"
)

// Document is the answer to all questions: the JSON document of kind Metrics. What
// is not known is null.
type Document struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Time       time.Time `json:"time"`

	Maker  Maker      `json:"maker"` // eppctl, llm-d or engine
	Pages  []PageInfo `json:"pages"`
	Failed []Failure  `json:"failed"`
	Window Window     `json:"window"`

	Status Status  `json:"status"` // the worst of the checks
	Checks []Check `json:"checks"`

	Routing          *Routing      `json:"routing"`
	CacheMatch       *Distribution `json:"cacheMatch"`
	CompositeScore   *Distribution `json:"compositeScore"`
	ScoringLatencyUs *Distribution `json:"scoringLatencyUs"`
	Pods             []Pod         `json:"pods"`
	MaxQueue         *float64      `json:"maxQueue"`
	CandidatePods    *float64      `json:"candidatePods"`
	PoolPods         *float64      `json:"poolPods"`
	PrefixTree       Tree          `json:"prefixTree"`
	Stale            *Stale        `json:"stale"`
	Adapters         []Adapter     `json:"adapters"`

	Engines []EngineState `json:"engines"`

	Missing  []Missing         `json:"missing"`
	Notes    []string          `json:"notes"`
	Families map[string]string `json:"families"` // which family answered which question
}

// PageInfo is a page that was read.
type PageInfo struct {
	Source string `json:"source"`
	// Format is text, openmetrics or protobuf.
	Format    string     `json:"format"`
	Families  int        `json:"families"`
	Series    int        `json:"series"`
	StartedAt *time.Time `json:"startedAt"` // of the process
	Restarted bool       `json:"restarted"` // between the two pages
}

// Window is the time that counters and distributions are about.
type Window struct {
	// Kind is "start" when one page was read, which counts since the start of its
	// process, and "scrapes" for the time between two.
	Kind string `json:"kind"`
	// Seconds is the shortest of the replicas.
	Seconds *float64 `json:"seconds"`
}

// Status is a judgement.
type Status string

// The judgements, from the best.
const (
	OK      Status = "OK"
	Warn    Status = "WARN"
	Alert   Status = "ALERT"
	Unknown Status = "UNKNOWN" // there is nothing to judge by
)

// Check is one judgement.
type Check struct {
	// Code is stable: cache-match, queue, stale, scoring-latency, composite-score,
	// health, candidates, prefix-tree, adapter-loads or replicas.
	Code   string `json:"code"`
	Status Status `json:"status"`
	// Saw is what it rests on, in words.
	Saw   string   `json:"saw"`
	Value *float64 `json:"value"`
	// Threshold is where the alert is; null when it has none.
	Threshold *float64 `json:"threshold"`
	// ForSeconds is how long the alert asks the value to be beyond, SeenSeconds how
	// long it was seen to be. As long as that is less, it is a WARN.
	ForSeconds  float64 `json:"forSeconds"`
	SeenSeconds float64 `json:"seenSeconds"`
	// Alert is the alert in words, "" when there is none.
	Alert string `json:"alert"`
}

// Routing is the rate of decisions.
type Routing struct {
	Total     float64  `json:"total"` // since the start
	Decisions float64  `json:"decisions"`
	PerSecond *float64 `json:"perSecond"`
	Models    []Model  `json:"models"` // the busiest first
}

// Model is one of the models.
type Model struct {
	Model     string   `json:"model"`
	Total     float64  `json:"total"`
	Decisions float64  `json:"decisions"` // in the window
	PerSecond *float64 `json:"perSecond"`
	Share     *float64 `json:"share"`
}

// Distribution is what a histogram counted in the window.
type Distribution struct {
	Count float64  `json:"count"`
	Mean  *float64 `json:"mean"`
	P10   *float64 `json:"p10"`
	P50   *float64 `json:"p50"`
	P90   *float64 `json:"p90"`
	P99   *float64 `json:"p99"`
	// Beyond names the quantiles that lie above the last finite bound, which stands
	// in their place.
	Beyond  []string `json:"beyond"`
	Buckets []Bin    `json:"buckets"`
	// Shape is that of scores: bimodal, low, single, or few when there are too few.
	Shape string `json:"shape,omitempty"`
	// Modes are the middles of the buckets where scores cluster.
	Modes []float64 `json:"modes,omitempty"`
}

// Bin is a bucket with the observations that lie in it alone.
type Bin struct {
	Above *float64 `json:"above"` // null = no lower bound
	UpTo  *float64 `json:"upTo"`  // null = no upper bound
	Count float64  `json:"count"`
}

// Pod is a pod as the pickers see it.
type Pod struct {
	Pod string `json:"pod"`
	// State is OK (health from .95), DEGRADED, OUT (below .3) or UNKNOWN.
	State       string   `json:"state"`
	Health      *float64 `json:"health"`
	Queue       *float64 `json:"queue"`
	QueueShare  *float64 `json:"queueShare"` // of maxQueue
	Utilization *float64 `json:"utilization"`
	InFlight    *float64 `json:"inFlight"`
	Picks       *float64 `json:"picks"` // in the window
	PicksShare  *float64 `json:"picksShare"`
}

// The states of a pod's health.
const (
	StateOK       = "OK"
	StateDegraded = "DEGRADED"
	StateOut      = "OUT"
	StateUnknown  = "UNKNOWN"
)

// Tree is the size of the prefix tree.
type Tree struct {
	Nodes *float64 `json:"nodes"`
	Bytes *float64 `json:"bytes"`
}

// Stale are picks for a cache that was not there.
type Stale struct {
	Picks float64  `json:"picks"` // in the window
	Ratio *float64 `json:"ratio"` // of the decisions
}

// Adapter is how often a pod had to load an adapter.
type Adapter struct {
	Adapter   string   `json:"adapter"`
	Total     float64  `json:"total"`
	Loads     float64  `json:"loads"` // in the window
	PerMinute *float64 `json:"perMinute"`
}

// EngineState is what an engine's page says.
type EngineState struct {
	Source string `json:"source"`
	Engine string `json:"engine"` // vllm, sglang or trtllm
	// Ranks are the engine's data parallel ranks, the sum of them last when there
	// are several; its Rank is "all".
	Ranks       []Rank   `json:"ranks"`
	Adapters    []string `json:"adapters"` // running or waiting; null = not known
	MaxAdapters *int     `json:"maxAdapters"`
	BlockSize   *int     `json:"blockSize"`
	Blocks      *int     `json:"blocks"`
	// Unknown says why values are null.
	Unknown []string `json:"unknown"`
}

// Rank is one rank's state.
type Rank struct {
	Rank    string   `json:"rank"`
	Waiting *float64 `json:"waiting"`
	Running *float64 `json:"running"`
	KVUsage *float64 `json:"kvUsage"`
	// PrefixHitRatio is of tokens that were looked up, or as the engine says.
	PrefixHitRatio *float64 `json:"prefixHitRatio"`
}

// Missing is a question that no page answers.
type Missing struct {
	Question string   `json:"question"`
	Families []string `json:"families"` // any of which would have
	Reason   string   `json:"reason"`
}

func newDocument(o *Observation, maker Maker) *Document {
	return &Document{
		APIVersion: explain.APIVersion, Kind: KindMetrics, Time: o.Now.UTC(), Maker: maker,
		Pages: []PageInfo{}, Failed: append([]Failure{}, o.Failed...), Checks: []Check{}, Pods: []Pod{}, Adapters: []Adapter{},
		Engines: []EngineState{}, Missing: []Missing{}, Notes: []string{}, Families: map[string]string{}, Status: Unknown,
	}
}
