package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// page is what a scrape gets, by series, without what the Go runtime says.
func page(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("scrape = %d: %s", rec.Code, rec.Body)
	}
	series := map[string]string{}
	for line := range strings.Lines(rec.Body.String()) {
		line = strings.TrimSpace(line)
		if name, value, ok := cutLast(line); ok && strings.HasPrefix(line, "epp_") {
			series[name] = value
		}
	}
	return series
}

func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// expect compares some of the page's series; "" means absent.
func expect(t *testing.T, page, want map[string]string) {
	t.Helper()
	for series, value := range want {
		if got := page[series]; got != value {
			t.Errorf("%s = %q, want %q", series, got, value)
		}
	}
}

// allSources are sources that are all there.
func allSources(pods ...score.PodState) Sources {
	weights := score.Default()
	return Sources{
		Pods: func() []score.PodState { return pods },
		Tree: func() prefix.Stats {
			return prefix.Stats{Blocks: 1234, BytesEstimate: 5, StaleMessages: 6, DroppedBlocks: 7}
		},
		Recorder: func() record.Stats {
			now := time.Unix(1000, 0)
			return record.Stats{Records: 3, Bytes: 4, Evicted: 5, Skipped: 6, Oldest: now, Newest: now.Add(90 * time.Second)}
		},
		Weights:     func() *score.Weights { return &weights },
		Open:        func() int { return 2 },
		FilesFailed: func() uint64 { return 8 },
	}
}

func TestTheTenNames(t *testing.T) {
	m := NewMetrics(allSources(pod("pod-1", 0, 3)))
	entry := newEntry(pod("pod-1", 3, 1), pod("pod-2", 0, 0))
	entry.Inputs.Request.Adapter = "fr"
	entry.Inputs.Decide(entry.Decision)
	m.Picked(entry)
	m.Completed(&record.Outcome{Status: 200, TTFT: -1, Duration: -1, CachedTokens: 16}, 48, true)

	rec := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for name, kind := range map[string]string{
		"epp_routing_decisions_total":       "counter",
		"epp_cache_match_ratio":             "histogram",
		"epp_composite_score":               "histogram",
		"epp_scoring_latency_us":            "histogram",
		"epp_queue_depth":                   "gauge",
		"epp_pod_health_score":              "gauge",
		"epp_candidate_pods":                "gauge",
		"epp_prefix_tree_nodes":             "gauge",
		"epp_stale_cache_routing_total":     "counter",
		"epp_adapter_loads_triggered_total": "counter",
		"epp_refused_total":                 "counter",
		"go_goroutines":                     "gauge",
	} {
		if !strings.Contains(rec.Body.String(), "# TYPE "+name+" "+kind+"\n") {
			t.Errorf("no %s of type %s on the page", name, kind)
		}
	}
	expect(t, page(t, m), map[string]string{
		`epp_routing_decisions_total{model="llama"}`:      "1",
		`epp_cache_match_ratio_bucket{le="0.7"}`:          "0",
		`epp_cache_match_ratio_bucket{le="0.8"}`:          "1",
		`epp_composite_score_count`:                       "1",
		`epp_scoring_latency_us_sum`:                      "5",
		`epp_queue_depth{pod="pod-1"}`:                    "3",
		`epp_pod_health_score{pod="pod-1"}`:               "1",
		`epp_candidate_pods`:                              "1",
		`epp_prefix_tree_nodes`:                           "1234",
		`epp_stale_cache_routing_total`:                   "1",
		`epp_adapter_loads_triggered_total{adapter="fr"}`: "1",
		`epp_pod_picks_total{pod="pod-1"}`:                "1",
		`epp_record_span_seconds`:                         "90",
		`epp_record_evicted_total`:                        "5",
		`epp_record_file_failures_total`:                  "8",
		`epp_open_requests`:                               "2",
		`epp_weight{factor="cacheMatch"}`:                 "0.6",
		`epp_max_queue`:                                   "20",
		`epp_requests_total{code="2xx"}`:                  "1",
		`epp_predicted_cached_tokens_total`:               "48",
		`epp_cached_tokens_total`:                         "16",
		`epp_time_to_first_token_seconds_count`:           "0",
	})
}

func TestDecisionCounters(t *testing.T) {
	full := score.Default()
	full.Saturation = score.Reject
	for _, test := range []struct {
		name  string
		entry func() *record.Entry
		want  map[string]string
	}{
		{"refused", func() *record.Entry { return newEntry() }, map[string]string{
			`epp_refused_total{reason="no-endpoint"}`: "1", `epp_composite_score_count`: "0", `epp_scoring_latency_us_count`: "1",
		}},
		{"saturated", func() *record.Entry {
			e := newEntry(pod("pod-1", 0, 99))
			e.Inputs.Weights = &full
			return decided(e.Inputs)
		}, map[string]string{`epp_refused_total{reason="saturated"}`: "1"}},
		{"relaxed", func() *record.Entry { return newEntry(pod("pod-1", 0, 99)) }, map[string]string{
			`epp_relaxed_decisions_total`: "1", `epp_refused_total{reason="saturated"}`: "0",
		}},
		{"tie", func() *record.Entry { return newEntry(pod("pod-1", 0, 0), pod("pod-2", 0, 0)) }, map[string]string{
			`epp_ties_total{by="tieSeed"}`: "1", `epp_ties_total{by="tieLoad"}`: "0",
		}},
		{"an unknown cache match is not observed", func() *record.Entry {
			p := pod("pod-1", 0, 0)
			p.Cache = score.Reading{}
			return newEntry(p)
		}, map[string]string{`epp_cache_match_ratio_count`: "0", `epp_composite_score_count`: "1"}},
		{"a cold pick counts as zero", func() *record.Entry { return newEntry(pod("pod-1", 0, 0)) }, map[string]string{
			`epp_cache_match_ratio_bucket{le="0"}`: "1",
		}},
		{"adapters that are not known trigger no load", func() *record.Entry {
			p := pod("pod-1", 0, 0)
			p.AdapterState = score.Unknown
			e := newEntry(p)
			e.Inputs.Request.Adapter = "fr"
			return decided(e.Inputs)
		}, map[string]string{`epp_adapter_loads_triggered_total{adapter="fr"}`: ""}},
		{"a loaded adapter triggers no load", func() *record.Entry {
			p := pod("pod-1", 0, 0)
			p.Adapters = []string{"fr"}
			e := newEntry(p)
			e.Inputs.Request.Adapter = "fr"
			return decided(e.Inputs)
		}, map[string]string{`epp_adapter_loads_triggered_total{adapter="fr"}`: ""}},
		{"replaced request ID", func() *record.Entry {
			e := newEntry(pod("pod-1", 0, 0))
			e.RequestIDReplaced = true
			return e
		}, map[string]string{`epp_request_ids_replaced_total`: "1"}},
		{"no model", func() *record.Entry {
			e := newEntry(pod("pod-1", 0, 0))
			e.Inputs.Request.Model = ""
			return e
		}, map[string]string{`epp_routing_decisions_total{model="none"}`: "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewMetrics(Sources{})
			m.Picked(test.entry())
			expect(t, page(t, m), test.want)
		})
	}
}

func TestOutcomeCounters(t *testing.T) {
	m := NewMetrics(Sources{})
	for _, status := range []int{0, 200, 404, 503, 999, -100} {
		m.Completed(&record.Outcome{Status: status, TTFT: 150 * time.Millisecond, Duration: time.Second, PromptTokens: 10, OutputTokens: -1, CachedTokens: -1}, 5, false)
	}
	for _, status := range []int{0, 200, 503} { // nobody knows how these ended
		m.Completed(&record.Outcome{Status: status, Unknown: "response not sent to the picker", TTFT: -1, Duration: -1}, -1, false)
	}
	m.ScorerFailed("cost", "deadline")
	m.Refused("model-not-found")
	m.Report("applied")
	expect(t, page(t, m), map[string]string{
		`epp_requests_total{code="none"}`: "3", `epp_requests_total{code="2xx"}`: "1", `epp_requests_total{code="4xx"}`: "1",
		`epp_requests_total{code="5xx"}`:                          "2",
		`epp_requests_total{code="unknown"}`:                      "2",
		`epp_time_to_first_token_seconds_count`:                   "6",
		`epp_time_to_first_token_seconds_bucket{le="0.1"}`:        "0",
		`epp_time_to_first_token_seconds_bucket{le="0.2"}`:        "6",
		`epp_request_duration_seconds_sum`:                        "6",
		`epp_prompt_tokens_total`:                                 "60",
		`epp_output_tokens_total`:                                 "0",
		`epp_predicted_cached_tokens_total`:                       "0", // nothing to compare with
		`epp_scorer_failures_total{how="deadline",scorer="cost"}`: "1",
		`epp_refused_total{reason="model-not-found"}`:             "1",
		`epp_reports_total{result="applied"}`:                     "1",
		`epp_stale_cache_routing_total`:                           "0",
	})
}

// case M5: what is not known is absent, and no zero; case M3: ranks of one pod add up.
func TestPodGauges(t *testing.T) {
	unknown := pod("pod-2", 0, 0)
	unknown.Waiting, unknown.Health, unknown.Utilization = score.Reading{}, score.Reading{}, score.Reading{}
	unknown.Pending = 2
	stale := pod("pod-3", 0, 5)
	stale.Waiting.State, stale.Health.State = score.Stale, score.Stale
	odd := pod("pod-4", 0, 0)
	odd.Waiting.Value, odd.Health.Value = math.NaN(), math.Inf(1)
	rank := pod("ranks-5", 0, 40)
	rank.Endpoint, rank.Pending, rank.Health.Value = "10.0.0.5:8001", 1, .2
	lame := pod("rank-6", 0, 0)
	lame.Endpoint, lame.Waiting = "10.0.0.6:8001", score.Reading{}
	leaving := pod("pod-7", 0, 0)
	leaving.Excluded = score.Terminating

	states := []score.PodState{
		pod("pod-1", 0, 3), unknown, stale, odd, pod("ranks-5", 0, 0), rank, pod("rank-6", 0, 1), lame, leaving,
	}
	sources := allSources()
	sources.Pods = func() []score.PodState { return states }
	sources.Engines = func() map[string]float64 { return map[string]float64{"pod-1": 4, "gone": 1} }
	m := NewMetrics(sources)
	m.Picked(newEntry(pod("pod-1", 4, 0)))
	m.Picked(newEntry(pod("gone", 4, 0)))
	expect(t, page(t, m), map[string]string{
		`epp_queue_depth{pod="pod-1"}`: "3", `epp_pod_health_score{pod="pod-1"}`: "1", `epp_pod_picks_total{pod="pod-1"}`: "1",
		`epp_queue_depth{pod="pod-2"}`: "", `epp_pod_health_score{pod="pod-2"}`: "", `epp_pod_utilization_ratio{pod="pod-2"}`: "",
		`epp_pod_pending_requests{pod="pod-2"}`: "2", `epp_pod_picks_total{pod="pod-2"}`: "0",
		`epp_queue_depth{pod="pod-3"}`: "", `epp_pod_health_score{pod="pod-3"}`: "",
		`epp_queue_depth{pod="pod-4"}`: "", `epp_pod_health_score{pod="pod-4"}`: "",
		`epp_queue_depth{pod="ranks-5"}`: "41", `epp_pod_health_score{pod="ranks-5"}`: "0.2",
		`epp_queue_depth{pod="rank-6"}`: "",
		`epp_candidate_pods`:            "7", `epp_pool_pods`: "9",
		`epp_pod_picks_total{pod="gone"}`:      "",
		`epp_pod_engine_requests{pod="pod-1"}`: "4", `epp_pod_engine_requests{pod="pod-2"}`: "", `epp_pod_engine_requests{pod="gone"}`: "",
	})

	states = states[1:2]
	expect(t, page(t, m), map[string]string{
		`epp_queue_depth{pod="pod-1"}`: "", `epp_pod_picks_total{pod="pod-1"}`: "", `epp_pool_pods`: "1",
	})
	if n := len(*m.picks.known.Load()); n != 0 {
		t.Errorf("%d pods are remembered that are gone, want none", n)
	}
}

func TestNamesOfClientsAreCapped(t *testing.T) {
	m := NewMetrics(Sources{})
	entry := newEntry(pod("pod-1", 4, 0))
	pick := func(model string, unchecked bool) {
		entry.Inputs.Request.Model, entry.ModelUnchecked = model, unchecked
		m.Picked(entry)
	}
	for i := range 1000 {
		pick(fmt.Sprintf("made-up-%d", i), true)
	}
	pick(strings.Repeat("x", 10_000), false)
	pick("not\xffUTF-8", false)
	pick("from-the-catalogue", false)
	pick("from-the-catalogue", true)
	for i := range 2000 {
		pick(fmt.Sprintf("listed-%d", i), false)
	}
	p := page(t, m)
	series := 0
	for name := range p {
		if strings.HasPrefix(name, "epp_routing_decisions_total") {
			series++
		}
	}
	if series != maxValues+1 {
		t.Errorf("%d series, want %d and other", series, maxValues)
	}
	expect(t, p, map[string]string{
		`epp_routing_decisions_total{model="made-up-199"}`:        "1",
		`epp_routing_decisions_total{model="made-up-200"}`:        "",
		`epp_routing_decisions_total{model="from-the-catalogue"}`: "2",
		`epp_routing_decisions_total{model="other"}`:              fmt.Sprint(800 + 2 + 2000 - (maxValues - maxUnchecked - 1)),
	})
}

func TestCountingInParallelLosesNothing(t *testing.T) {
	m := NewMetrics(Sources{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			entry := newEntry(pod("pod-1", 4, 0))
			for i := range 300 {
				entry.Inputs.Request.Model = fmt.Sprintf("m%d", (i+g)%30)
				m.Picked(entry)
			}
		})
	}
	wg.Wait()
	want := map[string]string{}
	for i := range 30 {
		want[fmt.Sprintf(`epp_routing_decisions_total{model="m%d"}`, i)] = "80"
	}
	expect(t, page(t, m), want)
}

func TestPageHoldsNoSecret(t *testing.T) { // case P5
	m := NewMetrics(allSources(pod("pod-1", 0, 3)))
	m.Picked(newEntry(pod("pod-1", 4, 0)))
	server := httptest.NewServer(m.Handler(slog.New(slog.DiscardHandler)))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(body), secret) {
			t.Errorf("the page holds %q", secret)
		}
	}
	if !cmp.Equal(resp.StatusCode, 200) {
		t.Errorf("status = %d", resp.StatusCode)
	}
}
