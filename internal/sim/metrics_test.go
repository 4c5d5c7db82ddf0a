package sim

import (
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

func scrape(t *testing.T, pod PodInfo) map[string]*dto.MetricFamily {
	t.Helper()
	r := mustCall(t, http.MethodGet, pod.URL+"/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, r.body)
	}
	return families
}

func TestMetricsPage(t *testing.T) {
	pod := start(t, Config{Blocks: 500, Adapters: adapters("fr", "de")}).Pods()[0]
	if lora := scrape(t, pod)["vllm:lora_requests_info"]; len(lora.GetMetric()) != 0 {
		t.Errorf("before the first adapter is used: %v", lora)
	}
	complete(t, pod, completionsPath, idsPrompt(1, 100, `,"max_tokens":12`))
	complete(t, pod, completionsPath, idsPrompt(1, 100, `,"max_tokens":12`))
	complete(t, pod, completionsPath, `{"model":"fr","prompt":"x"}`)
	families := scrape(t, pod)
	for name, want := range map[string]float64{
		"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0, "vllm:kv_cache_usage_perc": 0,
		"vllm:num_preemptions_total": 0, "vllm:prefix_cache_queries_total": 201, "vllm:prefix_cache_hits_total": 96,
		"vllm:prompt_tokens_total": 201, "vllm:cache_config_info": 1,
	} {
		f := families[name]
		if f == nil {
			t.Errorf("%s is not on the page", name)
			continue
		}
		m := f.GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
		if (f.GetType() == dto.MetricType_COUNTER) != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %v", name, f.GetType())
		}
	}
	ttft := families["vllm:time_to_first_token_seconds"].GetMetric()[0].GetHistogram()
	if ttft.GetSampleCount() != 3 || ttft.GetSampleSum() <= 0.03 || ttft.GetSampleSum() > 0.3 {
		t.Errorf("3 requests: %d times of %v s in all", ttft.GetSampleCount(), ttft.GetSampleSum())
	}
	page := mustCall(t, http.MethodGet, pod.URL+"/metrics", "").body
	for _, want := range []string{
		`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",num_gpu_blocks="500"} 1`,
		`vllm:request_success_total{engine="0",model_name="` + DefaultModel + `",finished_reason="length"} 2`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("%s is not on the page", want)
		}
	}
}

// A series for every combination of names; the newest has the largest value.
func TestLoRASeries(t *testing.T) {
	var l loraSeries
	p := &page{}
	write := func(now float64, running, waiting []string) {
		p.buf = nil
		l.write(p, now, 4, vllm.Stats{RunningAdapters: running, WaitingAdapters: waiting})
	}
	write(100, nil, nil)
	if strings.Contains(string(p.buf), "vllm:lora_requests_info{") {
		t.Errorf("a sample before the first adapter:\n%s", p.buf)
	}
	write(200, []string{"de", "fr"}, []string{"fr"})
	write(300, nil, nil)
	write(400.5, []string{"de", "fr"}, []string{"fr"})
	want := `vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 300.000000
vllm:lora_requests_info{max_lora="4",running_lora_adapters="de, fr",waiting_lora_adapters="fr"} 400.500000
`
	if !strings.HasSuffix(string(p.buf), want) {
		t.Errorf("page:\n%s\nwant the end\n%s", p.buf, want)
	}
	for i := range 100 {
		write(500+float64(i), []string{strings.Repeat("x", i+1)}, nil)
	}
	if n := strings.Count(string(p.buf), "vllm:lora_requests_info{"); n != maxLoraSeries {
		t.Errorf("%d series are kept, want %d", n, maxLoraSeries)
	}
}

func TestLabelsAreQuoted(t *testing.T) {
	if got, want := label("a\"b\\c\nd"), `"a\"b\\c\nd"`; got != want {
		t.Errorf("label = %s, want %s", got, want)
	}
}
