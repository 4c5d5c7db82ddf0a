package metricview

import (
	"math"
	"slices"

	"github.com/eppctl/eppctl/internal/engine"
)

// hits are where an engine tells how much of the prompts it found in its cache:
// two counters of tokens, or a ratio of its own.
type hits struct {
	found, asked []string // counters, in order of preference
	ratio        string
	rank         string // the label that tells ranks apart
}

// hitNames are the names by engine: vLLM 0.32 and before, SGLang 0.5, TensorRT-LLM 1.1.
var hitNames = map[string]hits{
	"vllm": {
		found: []string{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"},
		asked: []string{"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"},
		rank:  "engine",
	},
	"sglang": {ratio: "sglang:cache_hit_rate", rank: "dp_rank"},
	"trtllm": {ratio: "trtllm_kv_cache_hit_rate", rank: "engine"},
}

// engineOf is the state of an engine by its page, and by the one before for what
// is counted.
func engineOf(r *Replica) EngineState {
	p := &r.After.Engine
	names := hitNames[p.Engine]
	out := EngineState{
		Source: r.After.Source, Engine: p.Engine, Ranks: []Rank{}, Unknown: []string{},
		MaxAdapters: positive(p.MaxAdapters), BlockSize: positive(p.BlockSize), Blocks: positive(p.NumBlocks),
	}
	if p.AdaptersState.Known {
		out.Adapters = append([]string{}, p.Adapters...)
	} else {
		out.doubt(p.AdaptersState.Reason)
	}
	for _, rank := range p.Ranks {
		out.rank(rank, names.of(r, rank.Name))
	}
	if len(p.Ranks) != 1 {
		out.rank(engine.Rank{Name: "all", Waiting: p.Waiting, Running: p.Running, KVUsage: p.KVUsage}, names.of(r, ""))
	}
	return out
}

func (e *EngineState) rank(from engine.Rank, hitRatio float64) {
	row := Rank{Rank: from.Name, PrefixHitRatio: known(hitRatio)}
	for _, v := range []struct {
		from engine.Value
		into **float64
	}{{from.Waiting, &row.Waiting}, {from.Running, &row.Running}, {from.KVUsage, &row.KVUsage}} {
		if v.from.Known {
			*v.into = &v.from.V
		} else {
			e.doubt(v.from.Reason)
		}
	}
	if row.PrefixHitRatio == nil {
		e.doubt("prefix hits: no prompt was looked up in the time that was watched, or the page does not tell")
	}
	e.Ranks = append(e.Ranks, row)
}

func (e *EngineState) doubt(reason string) {
	if reason != "" && !slices.Contains(e.Unknown, reason) {
		e.Unknown = append(e.Unknown, reason)
	}
}

// of is the ratio of a rank, of all ranks for ""; NaN when not known.
func (h hits) of(r *Replica, rank string) float64 {
	if h.ratio != "" {
		return h.average(r.After, rank)
	}
	found, known := h.grown(r, h.found, rank)
	asked, knownToo := h.grown(r, h.asked, rank)
	if !known || !knownToo {
		return math.NaN()
	}
	return found / asked
}

// grown adds up the first of the counters that the page has.
func (h hits) grown(r *Replica, names []string, rank string) (total float64, known bool) {
	for _, name := range names {
		f := r.After.Family(name)
		if f == nil {
			continue
		}
		for i := range f.Series {
			s := &f.Series[i]
			if rank != "" && s.Label(h.rank) != rank {
				continue
			}
			total, known = total+grown(s, r.Before, name), true
		}
		return total, known
	}
	return 0, false
}

// average is a ratio that the engine tells itself, over its ranks.
func (h hits) average(p *Page, rank string) float64 {
	f := p.Family(h.ratio)
	if f == nil {
		return math.NaN()
	}
	total, n := 0.0, 0.0
	for i := range f.Series {
		if s := &f.Series[i]; rank == "" || s.Label(h.rank) == rank {
			total, n = total+s.Value, n+1
		}
	}
	return total / n
}

func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
