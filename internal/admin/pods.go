package admin

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/fleet"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/score"
)

// PodList is the answer of GET /v1/pods.
type PodList struct {
	Document
	Items []Pod `json:"items"` // by name and endpoint
}

// Pod is what is known of one endpoint. Readings have their state, source and
// age beside them; a value that is not known is null.
type Pod struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	// State is "ready" when the pod can be picked, else "excluded", with the Reason.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Departed: it left the pool and has requests running.
	Departed bool `json:"departed,omitempty"`

	Cache   PodCache      `json:"cache"`
	Load    explain.Input `json:"load"`    // utilization
	Waiting explain.Input `json:"waiting"` // requests that the engine last reported as waiting
	Running explain.Input `json:"running"`
	Pending int           `json:"pending"` // picks that report can't have seen
	// PeerPending are those of other replicas, as they told.
	PeerPending int           `json:"peerPending,omitempty"`
	InFlight    int           `json:"inFlight"` // of this replica alone
	Health      explain.Input `json:"health"`
	Signals     *PodSignals   `json:"healthSignals,omitempty"` // null when health is not known
	Adapters    PodAdapters   `json:"adapters"`

	Engine  PodEngine         `json:"engine"`
	Scrapes PodScrapes        `json:"scrapes"`
	Reports PodReports        `json:"reports"`
	Streams []PodStream       `json:"streams,omitempty"` // of KV events, one for each rank
	Labels  map[string]string `json:"labels,omitempty"`
}

// The values of [Pod.State].
const (
	StateReady    = "ready"
	StateExcluded = "excluded"
)

// PodCache is what is known of a pod's KV cache.
type PodCache struct {
	Blocks     *int    `json:"blocks"` // that the prefix tree holds for the pod; null when not known
	State      string  `json:"state"`  // of that knowledge
	Source     string  `json:"source,omitempty"`
	AgeSeconds float64 `json:"ageSeconds"`
	Detail     string  `json:"detail,omitempty"`
}

// PodAdapters are a pod's LoRA adapters.
type PodAdapters struct {
	State  string   `json:"state"`
	Loaded []string `json:"loaded"` // null when not known
	Max    *int     `json:"max"`    // slots; null when not known
	Detail string   `json:"detail,omitempty"`
}

// PodEngine is what the model server tells of itself.
type PodEngine struct {
	Kind            string `json:"kind"`            // vllm, sglang, trtllm; "" when not known
	BlockSizeTokens *int   `json:"blockSizeTokens"` // null when not known
	CapacityBlocks  *int   `json:"capacityBlocks"`  // null when not known
	// Ranks are those of a data parallel engine, each with a queue of its own; the
	// pod's numbers are their sums, and the KV cache's share that of the fullest.
	Ranks []PodRank `json:"ranks,omitempty"`
}

// PodRank is one data parallel rank. What its page did not say is null.
type PodRank struct {
	Rank    string   `json:"rank"`
	Waiting *float64 `json:"waiting"`
	Running *float64 `json:"running"`
	KVUsage *float64 `json:"kvUsage"` // 0..1
}

// PodScrapes count the reads of a pod's metrics page.
type PodScrapes struct {
	Total     uint64     `json:"total"`
	Failed    uint64     `json:"failed"`
	Last      *time.Time `json:"last"` // null when there was none
	Age       *float64   `json:"ageSeconds"`
	LastError string     `json:"lastError,omitempty"`
}

// PodReports count a pod's status reports.
type PodReports struct {
	Total   uint64     `json:"total"`
	Epoch   uint64     `json:"epoch"`
	Seq     uint64     `json:"seq"`
	Last    *time.Time `json:"last"` // null when there was none
	Gaps    uint64     `json:"gaps"`
	Resyncs uint64     `json:"resyncs"`
}

// podOf makes the document of an endpoint, under the weights in force.
func podOf(v *pool.View, w *score.Weights) Pod {
	s := &v.State
	p := Pod{
		Pod: s.Pod, Endpoint: s.Endpoint, State: StateReady, Departed: v.Departed,
		Cache: PodCache{
			State: s.Cache.State.String(), AgeSeconds: s.Cache.Age.Seconds(), Detail: note(s, score.CacheMatch),
		},
		Load:    explain.RecordInput(s.Utilization, note(s, score.Load)),
		Waiting: explain.RecordInput(s.Waiting, note(s, score.QueueDepth)),
		Running: explain.RecordInput(v.Running, ""),
		Pending: s.Pending, PeerPending: s.PeerPending, InFlight: s.InFlight,
		Health: explain.RecordInput(s.Health, note(s, score.Health)), Signals: signalsOf(v.Health),
		Adapters: PodAdapters{
			State: s.AdapterState.String(), Loaded: slices.Clone(s.Adapters), Max: countOrNull(s.MaxAdapters),
			Detail: note(s, score.AdapterMatch),
		},
		Engine: PodEngine{
			Kind: v.Engine, BlockSizeTokens: countOrNull(v.BlockSize), CapacityBlocks: countOrNull(v.Blocks), Ranks: ranksOf(v.Ranks),
		},
		Scrapes: PodScrapes{Total: v.Scrapes, Failed: v.Failures, Last: timeOrNull(v.LastScrape), LastError: v.LastError},
		Reports: PodReports{
			Total: v.Reports, Epoch: v.ReportEpoch, Seq: v.ReportSeq, Last: timeOrNull(v.LastReport), Gaps: v.ReportGaps, Resyncs: v.Resyncs,
		},
		Streams: streamsOf(v),
		Labels:  maps.Clone(s.Labels),
	}
	if !v.LastScrape.IsZero() {
		p.Scrapes.Age = new(v.ScrapeAge.Seconds())
	}
	if s.Cache.State != score.Unknown {
		p.Cache.Blocks = new(v.TreeBlocks)
	}
	if s.AdapterState.Usable() && p.Adapters.Loaded == nil {
		p.Adapters.Loaded = []string{} // known to be none
	}
	if s.Cache.Source != score.SourceNone {
		p.Cache.Source = s.Cache.Source.String()
	}
	if reason := fleet.Excluded(s, w); reason != score.Eligible {
		p.State, p.Reason = StateExcluded, reason.String()
	}
	return p
}

func ranksOf(ranks []engine.Rank) []PodRank {
	out := make([]PodRank, len(ranks))
	for i, r := range ranks {
		out[i] = PodRank{Rank: r.Name, Waiting: knownOrNull(r.Waiting), Running: knownOrNull(r.Running), KVUsage: knownOrNull(r.KVUsage)}
	}
	return out
}

func knownOrNull(v engine.Value) *float64 {
	if !v.Known {
		return nil
	}
	return &v.V
}

func note(s *score.PodState, factor int) string {
	if s.Notes == nil {
		return ""
	}
	return s.Notes[factor]
}

func countOrNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// views are all endpoints in their order.
func (s *server) views() []pool.View {
	views := s.Deps.Pods()
	slices.SortStableFunc(views, func(a, b pool.View) int {
		return cmp.Or(cmp.Compare(a.State.Pod, b.State.Pod), cmp.Compare(a.State.Endpoint, b.State.Endpoint))
	})
	return views
}

func (s *server) pods(w http.ResponseWriter, r *http.Request) error {
	return answer(w, r, s.podList(func(string) bool { return true }))
}

// podList lists the endpoints of the pods that are wanted.
func (s *server) podList(wanted func(pod string) bool) PodList {
	views, weights := s.views(), s.Picker.Weights()
	list := PodList{Document: document("PodList"), Items: make([]Pod, 0, len(views))}
	for i := range views {
		if wanted(views[i].State.Pod) {
			list.Items = append(list.Items, podOf(&views[i], weights))
		}
	}
	return list
}

func (s *server) tree(w http.ResponseWriter, r *http.Request) error {
	t := treeOf(s.Tree())
	for _, v := range s.views() {
		if !v.Departed {
			t.PerPod = append(t.PerPod, PodTree{v.State.Pod, v.State.Endpoint, v.TreeBlocks})
		}
	}
	return answer(w, r, t)
}

func (s *server) ledger(w http.ResponseWriter, r *http.Request) error {
	l := Ledger{Document: document("Ledger"), Open: s.Picker.Open(), Pods: []PodLedger{}}
	for _, v := range s.views() {
		l.InFlight += v.State.InFlight
		l.Pending += v.State.Pending
		p := PodLedger{Pod: v.State.Pod, Endpoint: v.State.Endpoint, InFlight: v.State.InFlight, Pending: v.State.Pending, Departed: v.Departed}
		if n, known := v.EngineRequests(); known {
			p.Engine = &n
		}
		l.Pods = append(l.Pods, p)
	}
	return answer(w, r, l)
}
