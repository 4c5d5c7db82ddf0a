package engine

import (
	"math"
	"slices"
	"strconv"
)

// dialect is how one engine spells what is read from its page.
type dialect struct {
	engine string
	// waiting, running and usage are names in order of preference: the present
	// one first, then what older versions called it.
	waiting, running, usage []string
	// prompts is the counter of prompt tokens; empty when the engine has none.
	prompts string
	// rank is the label that tells the ranks of a data parallel engine apart.
	rank string
	// copies: series of one rank repeat the same queue (tensor and pipeline
	// parallel workers each report it) instead of adding to it.
	copies bool
	blocks blockNames
	// lora is the family of adapters; empty when the engine has none.
	lora string
}

// blockNames are where block size and count stand: labels of one info family,
// or gauges of their own.
type blockNames struct {
	info        string
	size, count string
}

// dialects is the table of names, from the servers' own sources and pages:
// vLLM 0.32, SGLang 0.5, TensorRT-LLM 1.1.
var dialects = []dialect{
	{
		engine:  "vllm",
		waiting: []string{"vllm:num_requests_waiting"},
		running: []string{"vllm:num_requests_running"},
		usage:   []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
		prompts: "vllm:prompt_tokens_total",
		rank:    "engine",
		blocks:  blockNames{info: "vllm:cache_config_info", size: "block_size", count: "num_gpu_blocks"},
		lora:    "vllm:lora_requests_info",
	},
	{
		engine:  "sglang",
		waiting: []string{"sglang:num_queue_reqs"},
		running: []string{"sglang:num_running_reqs"},
		usage:   []string{"sglang:token_usage"},
		prompts: "sglang:prompt_tokens_total",
		rank:    "dp_rank",
		copies:  true,
		blocks:  blockNames{info: "sglang:cache_config_info", size: "page_size", count: "num_pages"},
	},
	{
		engine:  "trtllm",
		waiting: []string{"trtllm_num_requests_waiting"},
		running: []string{"trtllm_num_requests_running"},
		usage:   []string{"trtllm_kv_cache_utilization"},
		rank:    "engine",
		blocks:  blockNames{size: "trtllm_kv_cache_tokens_per_block", count: "trtllm_kv_cache_max_blocks"},
	},
}

// processStart is what client libraries of Prometheus tell of any process.
const processStart = "process_start_time_seconds"

// wanted are the families that are read from a page.
var wanted = newNameTable(wantedNames())

func wantedNames() (names []string) {
	for _, d := range dialects {
		names = append(names, d.families()...)
	}
	return append(append(names, processStart), gpuNames...)
}

func (d dialect) families() []string {
	names := slices.Concat(d.waiting, d.running, d.usage)
	if d.blocks.info != "" {
		names = append(names, d.blocks.info)
	} else {
		names = append(names, d.blocks.size, d.blocks.count)
	}
	for _, name := range []string{d.prompts, d.lora} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Known reports whether an engine of this name ("vllm", "sglang", "trtllm") can
// be read.
func Known(engine string) bool {
	return slices.ContainsFunc(dialects, func(d dialect) bool { return d.engine == engine })
}

// dialectOf is the first dialect that the page has a series of, or the one of
// the given engine.
func dialectOf(f families, engine string) (dialect, bool) {
	for _, d := range dialects {
		if engine != "" && engine != d.engine {
			continue
		}
		for _, name := range d.families() {
			if len(f.of(name)) > 0 {
				return d, true
			}
		}
	}
	return dialect{}, false
}

// read returns tokens a block and blocks of the pod, 0 where not said. Of
// several ranks the largest counts and not the sum: under data parallelism
// vLLM 0.32 puts the blocks of all ranks on the line of each.
func (b blockNames) read(f families) (size, count int) {
	if b.info == "" {
		return largest(f.of(b.size), scalar), largest(f.of(b.count), scalar)
	}
	info := f.of(b.info)
	return largest(info, labelNumber(b.size)), largest(info, labelNumber(b.count))
}

func largest(samples []sample, number func(*sample) float64) int {
	n := 0
	for i := range samples {
		if v := number(&samples[i]); v >= 1 && v <= math.MaxInt32 {
			n = max(n, int(v))
		}
	}
	return n
}

// labelNumber is the number in a label; 0 for none.
func labelNumber(name string) func(*sample) float64 {
	return func(s *sample) float64 {
		n, _ := strconv.Atoi(string(s.label(name)))
		return float64(n)
	}
}

func scalar(s *sample) float64 { return s.value }
