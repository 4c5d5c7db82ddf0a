package telemetry

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// Sources are asked when somebody scrapes. A nil source leaves its metrics out.
type Sources struct {
	Pods     func() []score.PodState   // all of the pool, as a decision would see them now
	Engines  func() map[string]float64 // requests that the engines last said they have, by pod; absent = not known
	Tree     func() prefix.Stats
	Recorder func() record.Stats
	Weights  func() *score.Weights // in force
	Open     func() int            // picks that have not ended
	Streams  func() []PodStreams   // of KV events
	Inbound  func() kvfeed.Inbound // connections that engines made for them
	// FilesFailed counts decisions that could not be written to a file.
	FilesFailed func() uint64
	// Peers: other replicas tell what they have pending.
	Peers bool
}

// Metrics are the picker's metrics, on a registry of their own. All methods are
// safe for concurrent use and, after the first use of a label value, free of
// allocation.
//
// Labels: a pod's name is the pool's, and its metrics go with it. Models and
// adapters of a catalogue are kept up to 1000, names that nobody vouches for up
// to 200; what is beyond counts as "other".
type Metrics struct {
	registry *prometheus.Registry

	decisions, adapterLoads   *capped
	picks                     *perPod
	matchRatio, score         prometheus.Histogram
	latency                   prometheus.Histogram
	stale, relaxed, replacing prometheus.Counter
	refused, ties, requests   *prometheus.CounterVec
	scorers, reports          *prometheus.CounterVec
	refusals                  [score.NoEndpoint + 1]prometheus.Counter
	tiesBy                    [3]prometheus.Counter // by load, queue, seed
	codes                     [6]prometheus.Counter // by hundreds; 0 = no status
	unknown                   prometheus.Counter    // beside them: nobody knows how it ended

	ttft, duration            prometheus.Histogram
	prompt, predicted, cached prometheus.Counter
	output                    prometheus.Counter
}

// codeClasses are the values of the label code, by the status's hundreds.
var codeClasses = [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// codeUnknown is one more: nobody told the picker how the request ended.
const codeUnknown = "unknown"

// NewMetrics makes the metrics and registers what is scraped from sources.
func NewMetrics(sources Sources) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), picks: newPerPod()}
	m.decide()
	m.outcomes()
	m.resolve()
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.build(buildinfo.Read())
	m.scrape(sources)
	return m
}

// Handler serves the metrics. Problems while they are gathered go to log.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog{log},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

const (
	maxScrapes    = 8                // at once; more are answered 503
	scrapeTimeout = 10 * time.Second // Prometheus' own default
)

// errorLog is a slog.Logger where promhttp wants a Println.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	for _, part := range v {
		if err, ok := part.(error); ok {
			l.log.Error("gathering metrics", slog.Any(logkey.Error, err))
		}
	}
}

// Registry is where further metrics of the process may be registered.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

// Picked counts a decision, also a refused one.
func (m *Metrics) Picked(e *record.Entry) {
	d := e.Decision
	if e.RequestIDReplaced {
		m.replacing.Inc()
	}
	m.latency.Observe(micros(e.Timings.Lookup + e.Timings.Scorers + e.Timings.Decide))
	if e.Picked < 0 {
		m.refusals[d.Refused].Inc()
		return
	}
	m.decisions.of(e.Inputs.Request.Model, !e.ModelUnchecked).Inc()
	result := &d.Results[e.Picked]
	m.picks.inc(e.Inputs.Pods[e.Picked].Pod)
	m.score.Observe(result.Score)
	if result.States[score.CacheMatch].Usable() {
		m.matchRatio.Observe(result.Values[score.CacheMatch])
	}
	if d.Relaxed {
		m.relaxed.Inc()
	}
	if d.DecidedBy.Tie() {
		m.tiesBy[score.ByTieLoad-d.DecidedBy].Inc()
	}
	if adapter := e.Inputs.Request.Adapter; adapter != "" && result.States[score.AdapterMatch].Usable() && result.Values[score.AdapterMatch] == 0 {
		m.adapterLoads.of(adapter, !e.ModelUnchecked).Inc()
	}
}

// Completed counts the end of a request. predicted is how many cached tokens
// the engine was expected to count, −1 when nothing could be said; stale says
// that the pod turned out not to have the cache that it was picked for.
func (m *Metrics) Completed(o *record.Outcome, predicted int, stale bool) {
	m.code(o).Inc()
	if stale {
		m.stale.Inc()
	}
	if o.TTFT >= 0 {
		m.ttft.Observe(o.TTFT.Seconds())
	}
	if o.Duration >= 0 {
		m.duration.Observe(o.Duration.Seconds())
	}
	add(m.prompt, o.PromptTokens)
	add(m.output, o.OutputTokens)
	if predicted >= 0 && o.CachedTokens >= 0 { // the two are there to be compared
		add(m.predicted, predicted)
		add(m.cached, o.CachedTokens)
	}
}

// code is the counter of an outcome: by status, unless headers that promised well
// are all that is known.
func (m *Metrics) code(o *record.Outcome) prometheus.Counter {
	class := o.Status / 100
	if class < 0 || class >= len(m.codes) {
		class = 0
	}
	if o.Unknown != "" && o.Status < http.StatusBadRequest {
		return m.unknown
	}
	return m.codes[class]
}

// ScorerFailed counts a custom scorer that cost its factor. Both names are ours
// or the program's, never a client's.
func (m *Metrics) ScorerFailed(scorer, how string) { m.scorers.WithLabelValues(scorer, how).Inc() }

// Refused counts a request that got no decision. The reason is one of a few of
// our own: model-not-found, bad-request, too-large, …
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// Report counts a status report. The result is one of a few of our own:
// applied, resync, malformed, unauthorized, …
func (m *Metrics) Report(result string) { m.reports.WithLabelValues(result).Inc() }

func add(c prometheus.Counter, n int) {
	if n > 0 {
		c.Add(float64(n))
	}
}

func micros(d time.Duration) float64 { return float64(max(0, d)) / float64(time.Microsecond) }
