package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A page is exposition text under construction.
type page struct {
	buf    []byte
	labels string // of every sample of the engine
}

func (p *page) family(name, kind, help string) {
	p.buf = fmt.Appendf(p.buf, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, kind)
}

func (p *page) sample(name, more string, value float64) {
	p.buf = fmt.Appendf(p.buf, "vllm:%s{%s%s} ", name, p.labels, more)
	p.buf = append(strconv.AppendFloat(p.buf, value, 'g', -1, 64), '\n')
}

func (p *page) one(kind, name, help string, value float64) {
	p.family(name, kind, help)
	p.sample(name, "", value)
}

// metrics serves the page, or what is wrong with it.
func (s *server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.pod.metrics.pass(r.Context()) != nil {
		cut()
	}
	var body []byte
	switch s.pod.currentFaults().page {
	case PageMissing:
		writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
		return
	case PageFrozen:
		body = s.pod.freeze(s.page)
	default:
		body = s.page()
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(body) // a scraper that is gone asks again
}

// freeze keeps the first page.
func (p *pod) freeze(page func() []byte) []byte {
	fresh := page()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = fresh
	}
	return p.frozen
}

// page has what there is under vLLM's names. All times are the fleet's.
func (s *server) page() []byte {
	stats := s.stats()
	p := &page{labels: fmt.Sprintf("engine=%q,model_name=%s", "0", label(s.pod.fleet.cfg.Model))}
	p.one("gauge", "num_requests_running", "Number of requests in model execution batches.", float64(stats.Running))
	p.one("gauge", "num_requests_waiting", "Number of requests waiting to be processed.", float64(stats.Waiting))
	p.one("gauge", "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", float64(stats.Held)/float64(stats.Blocks))
	p.one("counter", "prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", float64(stats.Queried))
	p.one("counter", "prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", float64(stats.Hit))
	p.one("counter", "num_preemptions_total", "Cumulative number of preemption from the engine.", float64(stats.Preemptions))
	p.one("counter", "prompt_tokens_total", "Number of prefill tokens processed.", float64(stats.Prompt))
	p.one("counter", "generation_tokens_total", "Number of generation tokens processed.", float64(stats.Generated))
	p.family("request_success_total", "counter", "Count of successfully processed requests.")
	p.sample("request_success_total", `,finished_reason="stop"`, float64(stats.Stopped))
	p.sample("request_success_total", `,finished_reason="length"`, float64(stats.ReachedLength))
	p.sample("request_success_total", `,finished_reason="abort"`, float64(stats.Aborted))
	p.family("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	p.buf = fmt.Appendf(p.buf, "vllm:cache_config_info{block_size=\"%d\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"%d\"} 1\n",
		vllm.TokensPerBlock, stats.Blocks)
	p.buf = fmt.Appendf(p.buf, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.3f\n", float64(s.origin.UnixMilli())/1e3)
	s.timings.write(p)
	if len(s.pod.fleet.cfg.Adapters) > 0 {
		now := float64(s.pod.fleet.cfg.Clock.Now().UnixNano()) / 1e9
		s.lora.write(p, now, s.pod.fleet.engine.MaxAdapters, stats)
	}
	return p.buf
}

// label quotes a label's value by the rules of the exposition format.
func label(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

// loraSeries are the samples of vllm:lora_requests_info: every combination of
// names that there ever was is a series of its own, whose value is when it was
// last so. vLLM keeps all of them; we keep the newest.
type loraSeries struct {
	mu     sync.Mutex
	series []loraSample // oldest first
}

type loraSample struct {
	labels string
	at     float64 // Unix time
}

const maxLoraSeries = 16

func (l *loraSeries) write(p *page, now float64, slots int, stats vllm.Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.family("lora_requests_info", "gauge", "Running stats on lora requests.")
	active := len(stats.RunningAdapters)+len(stats.WaitingAdapters) > 0
	if active || len(l.series) > 0 { // no sample until the first adapter is used
		labels := fmt.Sprintf("max_lora=%q,running_lora_adapters=%s,waiting_lora_adapters=%s", strconv.Itoa(slots),
			label(strings.Join(stats.RunningAdapters, ", ")), label(strings.Join(stats.WaitingAdapters, ", ")))
		l.series = slices.DeleteFunc(l.series, func(s loraSample) bool { return s.labels == labels })
		l.series = append(l.series, loraSample{labels, now})
		l.series = l.series[max(0, len(l.series)-maxLoraSeries):]
	}
	for _, s := range l.series {
		p.buf = fmt.Appendf(p.buf, "vllm:lora_requests_info{%s} ", s.labels)
		p.buf = append(strconv.AppendFloat(p.buf, s.at, 'f', 6, 64), '\n')
	}
}

// timings are the histograms, with vLLM's bounds in seconds.
type timings struct {
	mu        *sync.Mutex
	ttft, e2e histogram
}

type histogram struct {
	bounds []float64
	counts []uint64 // not cumulative; one more than bounds
	sum    float64
	count  uint64
}

func newTimings() timings {
	ttft := []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	e2e := []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	return timings{mu: new(sync.Mutex), ttft: newHistogram(ttft), e2e: newHistogram(e2e)}
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v) // the first bound that is not below v
	h.counts[i]++
	h.sum += v
	h.count++
}

func (h *histogram) write(p *page, name, help string) {
	p.family(name, "histogram", help)
	var cumulative uint64
	for i, bound := range h.bounds {
		cumulative += h.counts[i]
		p.sample(name+"_bucket", `,le="`+strconv.FormatFloat(bound, 'f', -1, 64)+`"`, float64(cumulative))
	}
	p.sample(name+"_bucket", `,le="+Inf"`, float64(h.count))
	p.sample(name+"_sum", "", h.sum)
	p.sample(name+"_count", "", float64(h.count))
}

// observe notes a finished sequence.
func (t *timings) observe(q *vllm.Sequence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ttft.observe((q.FirstToken - q.Arrived).Seconds())
	t.e2e.observe((q.Ended - q.Arrived).Seconds())
}

func (t *timings) write(p *page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ttft.write(p, "time_to_first_token_seconds", "Histogram of time to first token in seconds.")
	t.e2e.write(p, "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.")
}
