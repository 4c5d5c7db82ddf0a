package metricview

import (
	"slices"
	"strings"
)

// Maker is whose page it is.
type Maker string

// The makers of pages.
const (
	Eppctl   Maker = "eppctl" // and pickers that have the same names
	LLMD     Maker = "llm-d"
	Engine   Maker = "engine" // vLLM, SGLang or trtllm-serve
	Stranger Maker = ""       // somebody else's
)

// maker tells whose page it is by the names on it.
func (p *Page) maker() Maker {
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(p.Families, func(f Family) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(f.Name, prefix) })
		})
	}
	switch {
	case has("epp_"):
		return Eppctl
	case has("llm_d_epp_", "inference_extension_", "inference_pool_", "inference_objective_"):
		return LLMD
	case p.Engine.Engine != "":
		return Engine
	}
	return Stranger
}

// source is a family that answers a question, and how.
type source struct {
	name  string
	label string  // that the answer is split by; "" = none
	scale float64 // to the unit of the answer; 0 = 1
	only  [2]string
}

// question is one thing that is asked of a picker's page. Of its sources the first
// that a page has is read, and no other: new and old names of llm-d's picker stand
// side by side on its pages and count the same.
type question struct {
	name    string // in the list of what is missing
	sources []source
	why     reasons
}

// reasons say why a page lacks a family: one of ours, and one of llm-d's picker.
type reasons struct{ ours, theirs string }

func (r reasons) of(m Maker) string {
	if m == LLMD {
		return r.theirs
	}
	return r.ours
}

// older is why a page of ours lacks what is on it from the start.
const older = "the picker is of another version, or the page was filtered on its way"

var succeeded = [2]string{"status", "success"}

var (
	decisions = question{
		"routing decisions",
		[]source{
			{name: "epp_routing_decisions_total", label: "model"},
			{name: "llm_d_epp_scheduler_attempts_total", label: "target_model_name", only: succeeded},
			{name: "inference_extension_scheduler_attempts_total", label: "target_model_name", only: succeeded},
		},
		reasons{older, "it has picked no pod since its start, or it is older than this count"},
	}
	picks = question{
		"picks by pod",
		[]source{
			{name: "epp_pod_picks_total", label: "pod"},
			{name: "llm_d_epp_scheduler_attempts_total", label: "endpoint_name", only: succeeded},
			{name: "inference_extension_scheduler_attempts_total", label: "pod_name", only: succeeded},
		},
		reasons{"it has no pods, or counts no picks by pod", "it has picked no pod since its start, or it is older than this count"},
	}
	cacheMatch = question{
		"cache match",
		[]source{
			{name: "epp_cache_match_ratio"},
			{name: "llm_d_epp_prefix_indexer_hit_ratio"},
			{name: "inference_extension_prefix_indexer_hit_ratio"},
		},
		reasons{older, "its configuration has no prefix cache scorer, or no request has come yet"},
	}
	compositeScore = question{
		"composite score",
		[]source{{name: "epp_composite_score"}},
		reasons{older, "it has no metric for it; its log has the scores at -v=4: 'eppctl decisions -f LOG'"},
	}
	scoringLatency = question{
		"scoring latency",
		[]source{
			{name: "epp_scoring_latency_us"},
			{name: "llm_d_epp_scheduler_e2e_duration_seconds", scale: 1e6},
			{name: "inference_extension_scheduler_e2e_duration_seconds", scale: 1e6},
		},
		reasons{older, "no request has come yet"},
	}
	queueDepth = question{
		"queue by pod",
		[]source{
			{name: "epp_queue_depth", label: "pod"},
			{name: "llm_d_epp_per_endpoint_queue_size", label: "model_server_endpoint"},
			{name: "inference_pool_per_pod_queue_size", label: "model_server_pod"},
		},
		reasons{"no pod has told its queue: are there pods, and can their metrics be read?", "it has no endpoints, or can't read their metrics"},
	}
	maxQueue = question{
		"maxQueue",
		[]source{{name: "epp_max_queue"}},
		reasons{older, "it has no such limit on its page"},
	}
	health = question{
		"health by pod",
		[]source{{name: "epp_pod_health_score", label: "pod"}},
		reasons{"no pod's health is known yet", "it has no health score"},
	}
	candidates = question{
		"candidate pods",
		[]source{{name: "epp_candidate_pods"}, {name: "llm_d_epp_ready_endpoints"}, {name: "inference_pool_ready_pods"}},
		reasons{older, "its pool has not been read yet"},
	}
	poolPods = question{
		"pods of the pool",
		[]source{{name: "epp_pool_pods"}},
		reasons{older, "it tells the ready ones alone"},
	}
	treeNodes = question{
		"prefix tree",
		[]source{
			{name: "epp_prefix_tree_nodes"},
			{name: "llm_d_epp_prefix_indexer_size"},
			{name: "inference_extension_prefix_indexer_size"},
		},
		reasons{older, "its configuration has no prefix cache scorer, or no request has come yet"},
	}
	treeBytes = question{"prefix tree's memory", []source{{name: "epp_prefix_tree_bytes"}}, reasons{older, "it does not tell it"}}
	stale     = question{
		"stale routing",
		[]source{{name: "epp_stale_cache_routing_total"}},
		reasons{older, "it does not compare what it expected with what the engine found"},
	}
	adapterLoads = question{
		"adapter loads",
		[]source{{name: "epp_adapter_loads_triggered_total", label: "adapter"}},
		reasons{older, "it does not count them"},
	}
	utilization = question{name: "utilization", sources: []source{{name: "epp_pod_utilization_ratio", label: "pod"}}}
	inFlight    = question{name: "in flight", sources: []source{{name: "epp_pod_in_flight_requests", label: "pod"}}}
)

// find is the source that a page has, and its family.
func (q *question) find(p *Page) (source, *Family) {
	for _, s := range q.sources {
		if f := p.Family(s.name); f != nil && len(f.Series) > 0 {
			return s, f
		}
	}
	return source{}, nil
}

// takes reports whether a series counts for the answer.
func (s source) takes(series *Series) bool {
	return s.only[0] == "" || series.Label(s.only[0]) == s.only[1]
}

func (s source) factor() float64 {
	if s.scale == 0 {
		return 1
	}
	return s.scale
}
