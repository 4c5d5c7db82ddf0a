package engine

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const protoType = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

var captures = []string{
	"vllm-idle.txt", "vllm-busy.txt", "vllm-dp2-busy.txt", "vllm-lora-busy.txt", "vllm-lora-after.txt", "llmd-simulator.txt",
}

func TestCapturedPages(t *testing.T) {
	const waiting, running, usage, lora = "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:lora_requests_info"
	const prompts = "vllm:prompt_tokens_total"
	rank := func(name string, w, r, kv float64) Rank {
		return Rank{Name: name, Waiting: val(waiting, w), Running: val(running, r), KVUsage: val(usage, kv)}
	}
	noLoRA := Value{Known: true, Reason: "no LoRA"}
	tests := map[string]Page{
		"vllm-idle.txt": {
			Waiting: val(waiting, 0), Running: val(running, 0), KVUsage: val(usage, 0),
			BlockSize: 16, NumBlocks: 200, AdaptersState: noLoRA, Ranks: []Rank{rank("0", 0, 0, 0)},
			Started: val(processStart, 1.79599964329e+09), Prompts: val(prompts, 0),
		},
		"vllm-busy.txt": {
			Waiting: val(waiting, 12), Running: val(running, 8), KVUsage: val(usage, 0.4623115577889447),
			BlockSize: 16, NumBlocks: 200, AdaptersState: noLoRA, Ranks: []Rank{rank("0", 12, 8, 0.4623115577889447)},
			Started: val(processStart, 1.79599964329e+09), Prompts: val(prompts, 1788),
		},
		"vllm-dp2-busy.txt": { // 2 × 200 blocks, and each rank's line says 400
			Waiting: val(waiting, 12), Running: val(running, 16), KVUsage: val(usage, 0.4824120603015075),
			BlockSize: 16, NumBlocks: 400, AdaptersState: noLoRA,
			Ranks:   []Rank{rank("0", 6, 8, 0.4824120603015075), rank("1", 6, 8, 0.4824120603015075)},
			Started: val(processStart, 1.79600025638e+09), Prompts: val(prompts, 1410),
		},
		"vllm-lora-busy.txt": {
			Waiting: val(waiting, 0), Running: val(running, 1), KVUsage: val(usage, 0.015075376884422065),
			BlockSize: 16, NumBlocks: 200, Adapters: []string{"tiny-lora"}, AdaptersState: val(lora, 1), MaxAdapters: 1,
			Ranks:   []Rank{rank("0", 0, 1, 0.015075376884422065)},
			Started: val(processStart, 1.79600000986e+09), Prompts: val(prompts, 290),
		},
		"vllm-lora-after.txt": {
			Waiting: val(waiting, 0), Running: val(running, 0), KVUsage: val(usage, 0),
			BlockSize: 16, NumBlocks: 200, AdaptersState: val(lora, 0), MaxAdapters: 1, Ranks: []Rank{rank("0", 0, 0, 0)},
			Started: val(processStart, 1.79600000986e+09), Prompts: val(prompts, 450),
		},
		"llmd-simulator.txt": {
			Waiting: val(waiting, 0), Running: val(running, 0), KVUsage: val(usage, 0),
			BlockSize: 16, NumBlocks: 24, Adapters: []string{"lora1"}, AdaptersState: val(lora, 1), MaxAdapters: 2,
			Prompts: val(prompts, 604),
		},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			want.Engine = "vllm"
			if diff := cmp.Diff(want, parse(t, fixture(t, name))); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPageInOtherFormats(t *testing.T) {
	page := fixture(t, "vllm-dp2-busy.txt")
	want := parse(t, page)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	encode := func(format expfmt.Format) []byte {
		var b bytes.Buffer
		enc := expfmt.NewEncoder(&b, format)
		for _, f := range families {
			if err := enc.Encode(f); err != nil {
				t.Fatal(err)
			}
		}
		if c, ok := enc.(expfmt.Closer); ok {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	for _, format := range []expfmt.Format{
		expfmt.NewFormat(expfmt.TypeTextPlain), expfmt.NewFormat(expfmt.TypeProtoDelim), expfmt.NewFormat(expfmt.TypeOpenMetrics),
	} {
		t.Run(string(format), func(t *testing.T) {
			got, err := ParsePage(bytes.NewReader(encode(format)), string(format), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("page (-text +%s):\n%s", format, diff)
			}
		})
	}
}

// The names of wire.md for the other engines.
func TestOtherEngines(t *testing.T) {
	tests := []struct {
		name, page string
		want       Page
	}{
		{
			"sglang", `sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2826.0
sglang:num_running_reqs{model_name="m",tp_rank="0"} 7
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:prompt_tokens_total{model_name="m"} 4096
sglang:cache_config_info{page_size="64",num_pages="1000"} 1
`, Page{
				Engine: "sglang", Waiting: val("sglang:num_queue_reqs", 2826), Running: val("sglang:num_running_reqs", 7),
				KVUsage: val("sglang:token_usage", 0.28), BlockSize: 64, NumBlocks: 1000,
				Prompts:       val("sglang:prompt_tokens_total", 4096),
				AdaptersState: unknown("", "sglang does not say on its page which adapters are loaded"),
			},
		},
		{
			"trtllm", `trtllm_num_requests_waiting 1
trtllm_num_requests_running 2
trtllm_kv_cache_utilization 0.5
trtllm_kv_cache_tokens_per_block 32
trtllm_kv_cache_max_blocks 4096
`, Page{
				Engine: "trtllm", Waiting: val("trtllm_num_requests_waiting", 1), Running: val("trtllm_num_requests_running", 2),
				KVUsage: val("trtllm_kv_cache_utilization", 0.5), BlockSize: 32, NumBlocks: 4096,
				AdaptersState: unknown("", "trtllm does not say on its page which adapters are loaded"),
			},
		},
		{
			"block size not said", `vllm:num_requests_waiting 0
vllm:num_requests_running 0
vllm:kv_cache_usage_perc 0
vllm:cache_config_info{block_size="None",num_gpu_blocks="-1"} 1
`, Page{
				Engine: "vllm", Waiting: val("vllm:num_requests_waiting", 0), Running: val("vllm:num_requests_running", 0),
				KVUsage: val("vllm:kv_cache_usage_perc", 0), AdaptersState: Value{Known: true, Reason: "no LoRA"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parse(t, tt.page)); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}
