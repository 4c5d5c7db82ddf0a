package engine

import (
	"math"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// familySet is the families of a page by name, only those with samples.
type familySet map[string]*dto.MetricFamily

// dialect is how one engine spells what is read from its page.
type dialect struct {
	engine string
	// waiting, running and usage are names in order of preference: the present
	// one first, then what older versions called it.
	waiting, running, usage []string
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
		rank:    "engine",
		blocks:  blockNames{info: "vllm:cache_config_info", size: "block_size", count: "num_gpu_blocks"},
		lora:    "vllm:lora_requests_info",
	},
	{
		engine:  "sglang",
		waiting: []string{"sglang:num_queue_reqs"},
		running: []string{"sglang:num_running_reqs"},
		usage:   []string{"sglang:token_usage"},
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

// wanted is every family that is read from a page.
var wanted = wantedNames()

func wantedNames() map[string]bool {
	names := make(map[string]bool)
	for _, d := range dialects {
		for _, n := range d.families() {
			names[n] = true
		}
	}
	return names
}

func (d dialect) families() []string {
	names := append(append(append([]string{}, d.waiting...), d.running...), d.usage...)
	if d.blocks.info != "" {
		names = append(names, d.blocks.info)
	} else {
		names = append(names, d.blocks.size, d.blocks.count)
	}
	if d.lora != "" {
		names = append(names, d.lora)
	}
	return names
}

// dialectOf is the first dialect that the page has a series of.
func dialectOf(families familySet) (dialect, bool) {
	for _, d := range dialects {
		for _, name := range d.families() {
			if families[name] != nil {
				return d, true
			}
		}
	}
	return dialect{}, false
}

// read returns tokens a block and blocks of the pod, 0 where not said. Of
// several ranks the largest counts and not the sum: under data parallelism
// vLLM 0.32 puts the blocks of all ranks on the line of each.
func (b blockNames) read(families familySet) (size, count int) {
	if b.info == "" {
		return largest(families[b.size], scalar), largest(families[b.count], scalar)
	}
	info := families[b.info]
	return largest(info, labelNumber(b.size)), largest(info, labelNumber(b.count))
}

func largest(f *dto.MetricFamily, number func(*dto.Metric) (float64, bool)) int {
	n := 0
	for _, m := range f.GetMetric() {
		v, ok := number(m)
		if ok && v >= 1 && v <= math.MaxInt32 {
			n = max(n, int(v))
		}
	}
	return n
}

func labelNumber(name string) func(*dto.Metric) (float64, bool) {
	return func(m *dto.Metric) (float64, bool) {
		text, _ := label(m, name)
		n, err := strconv.Atoi(text)
		return float64(n), err == nil
	}
}

// scalar is the value of a metric with one.
func scalar(m *dto.Metric) (float64, bool) {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue(), true
	case m.GetUntyped() != nil:
		return m.GetUntyped().GetValue(), true
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue(), true
	}
	return 0, false
}

func label(m *dto.Metric, name string) (value string, ok bool) {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue(), true
		}
	}
	return "", false
}
