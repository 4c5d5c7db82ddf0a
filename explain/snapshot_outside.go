package explain

import "encoding/json"

// FromOutside reports whether a snapshot was made of metrics alone: what only the
// picker itself knows is then unknown, and its numbers mean nothing.
func (s *Snapshot) FromOutside() bool { return s.Source == SourceMetrics }

// PicksKnown reports whether picks were counted.
func (s *Snapshot) PicksKnown() bool {
	return !s.FromOutside() || s.Router.Server != "" && len(s.Windows) > 0
}

// unknown is null, in the place of a number that is not known.
type unknown *int

// MarshalJSON writes null for what metrics alone do not tell, or nobody does.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	type plain Snapshot
	nobody := s.Verdict.Code == VerdictUnreachable && len(s.Windows) == 0
	if !s.FromOutside() && !nobody {
		return json.Marshal(plain(s))
	}
	out := struct {
		plain
		Router  routerFromOutside   `json:"router"`
		Windows []windowFromOutside `json:"windows"`
		Index   indexFromOutside    `json:"index"`
		Pods    []podFromOutside    `json:"pods"`
	}{
		plain: plain(s), Router: routerFromOutside{RouterState: s.Router, MaxQueue: notZero(s.Router.MaxQueue)},
		Windows: []windowFromOutside{}, Index: indexFromOutside{IndexState: s.Index}, Pods: []podFromOutside{},
	}
	for _, w := range s.Windows {
		window := windowFromOutside{WindowRates: w}
		if s.PicksKnown() {
			window.Decisions = &w.Decisions
		}
		out.Windows = append(out.Windows, window)
	}
	for _, p := range s.Pods {
		out.Pods = append(out.Pods, podFromOutside{
			PodSnapshot: p, Queue: queueFromOutside{QueueSnapshot: p.Queue, Max: notZero(p.Queue.Max)}, Adapters: adaptersFromOutside{AdapterState: p.Adapters},
		})
	}
	return json.Marshal(out)
}

func notZero(v int) *int {
	if v == 0 {
		return nil
	}
	return &v
}

type routerFromOutside struct {
	RouterState
	Uptime   unknown `json:"uptimeSeconds"` // it was seen for so long, which is less
	MaxQueue *int    `json:"maxQueue"`
	Weights  unknown `json:"weights"`
	InFlight unknown `json:"inFlight"`
	Streams  unknown `json:"streams"`
	Dropped  unknown `json:"dropped"`
}

type windowFromOutside struct {
	WindowRates
	Decisions       *int    `json:"decisions"`
	Refused         unknown `json:"refused"`
	Shed            unknown `json:"shed"`
	Relaxed         unknown `json:"relaxed"`
	Ties            unknown `json:"ties"`
	Completed       unknown `json:"completed"`
	Failed          unknown `json:"failed"`
	Stale           unknown `json:"stale"`
	AdapterLoads    unknown `json:"adapterLoads"`
	PredictedTokens unknown `json:"predictedCachedTokens"`
	CachedTokens    unknown `json:"cachedTokens"`
}

type indexFromOutside struct {
	IndexState
	Gaps      unknown `json:"gaps"`
	Orphans   unknown `json:"orphans"`
	Streams   unknown `json:"streams"`
	Connected unknown `json:"connected"`
}

type podFromOutside struct {
	PodSnapshot
	DecidedBy unknown             `json:"decidedBy"`
	Served    unknown             `json:"served"`
	Queue     queueFromOutside    `json:"queue"`
	Adapters  adaptersFromOutside `json:"adapters"`
}

type queueFromOutside struct {
	QueueSnapshot
	Pending  unknown `json:"pending"`
	InFlight unknown `json:"inFlight"`
	Max      *int    `json:"max"`
}

type adaptersFromOutside struct {
	AdapterState
	Loads   unknown `json:"loads"`
	Reloads unknown `json:"reloads"`
}
