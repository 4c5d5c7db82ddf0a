package simulate

import (
	"slices"
	"time"
)

// APIVersion of the report.
const APIVersion = "eppctl/v1"

// A Report is what came of a simulation, as it stands in JSON.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // Simulation
	Trace      string `json:"trace"`
	Requests   int    `json:"requests"`
	// RequestsPerSecond is the mean rate of arrivals; 0 when all came at once.
	RequestsPerSecond float64        `json:"requestsPerSecond"`
	Profile           string         `json:"profile"`
	Pods              int            `json:"pods"`
	PodsByGPU         map[string]int `json:"podsByGPU"`
	Seed              uint64         `json:"seed"`
	SLO               string         `json:"slo,omitempty"`
	Baseline          string         `json:"baseline,omitempty"`
	Policies          []PolicyReport `json:"policies"`
}

// A PolicyReport is what came of one policy. Times of requests are of those that were
// completed; nil: there are none.
type PolicyReport struct {
	Policy    string `json:"policy"`
	Requests  int    `json:"requests"`
	Completed int    `json:"completed"`
	Rejected  int    `json:"rejected"` // given to no pod
	Refused   int    `json:"refused"`  // longer than the pod can serve
	Failed    int    `json:"failed"`   // on a pod that died

	PromptTokens int `json:"promptTokens"` // of completed requests
	CachedTokens int `json:"cachedTokens"`
	OutputTokens int `json:"outputTokens"`
	// CacheHitRatio is by tokens; null when no prompt was computed.
	CacheHitRatio *float64 `json:"cacheHitRatio"`

	TTFT *Quantiles `json:"ttftSeconds,omitempty"`
	E2E  *Quantiles `json:"e2eSeconds,omitempty"`
	TPOT *Quantiles `json:"tpotSeconds,omitempty"` // of answers of two tokens and more

	// DurationSeconds is from the first arrival to the last end.
	DurationSeconds       float64            `json:"durationSeconds"`
	ThroughputRequests    float64            `json:"throughputRequestsPerSecond"`
	ThroughputTokens      float64            `json:"throughputOutputTokensPerSecond"`
	GoodRatio             *float64           `json:"goodRatio,omitempty"` // of all requests, under the SLO
	GoodputRequests       *float64           `json:"goodputRequestsPerSecond,omitempty"`
	LoadMaxOverMean       float64            `json:"loadMaxOverMean"` // of the pods' busy time
	LoadGini              float64            `json:"loadGini"`
	QueueMax              int                `json:"queueMax"` // requests that waited on one pod
	Preemptions           int                `json:"preemptions"`
	AdapterLoads          int                `json:"adapterLoads"`
	PrefillSavedGPUSecond float64            `json:"prefillSavedGPUSeconds"`
	CostDollars           float64            `json:"costDollars"`
	CostByGPU             map[string]float64 `json:"costDollarsByGPU"`

	PerPod []PodReport `json:"perPod"`
	// Difference is this policy's values less the baseline's; nil for the baseline.
	Difference []Difference `json:"difference,omitempty"`
}

// A PodReport is what one pod did.
type PodReport struct {
	Pod           string   `json:"pod"`
	GPU           string   `json:"gpu"`
	Requests      int      `json:"requests"`
	BusySeconds   float64  `json:"busySeconds"`
	CacheHitRatio *float64 `json:"cacheHitRatio"` // null without prompts
	QueueMax      int      `json:"queueMax"`
}

// Quantiles of a time in seconds, by nearest rank.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
}

// ReportOptions say what a report has beyond the runs.
type ReportOptions struct {
	SLO      *SLO   // nil: no goodput
	Baseline string // the policy that others are compared with; "": none
	Windows  int    // of requests, for intervals; 0: a default
}

// Report sums the runs up.
func (r *Runs) Report(o ReportOptions) *Report {
	cfg := r.Config
	out := &Report{
		APIVersion: APIVersion, Kind: "Simulation", Trace: cfg.Trace.Name, Requests: len(cfg.Trace.Requests),
		RequestsPerSecond: cfg.Trace.Rate(), Profile: cfg.Profile.Name, Pods: len(cfg.Pods), PodsByGPU: map[string]int{},
		Seed: cfg.Seed, Baseline: o.Baseline,
	}
	for _, p := range cfg.Pods {
		out.PodsByGPU[p.GPU.Name]++
	}
	if o.SLO != nil {
		out.SLO = o.SLO.Text
	}
	for i := range r.Runs {
		out.Policies = append(out.Policies, r.policy(&r.Runs[i], o.SLO))
	}
	r.compare(out, o)
	return out
}

// policy sums up one run.
func (r *Runs) policy(run *PolicyRun, slo *SLO) PolicyReport {
	p := PolicyReport{
		Policy: run.Policy.Name, Requests: len(run.Outcomes), DurationSeconds: run.End.Seconds(), CostByGPU: map[string]float64{},
	}
	good := r.count(&p, run, slo)
	for i := range run.Pods {
		p.addPod(&run.Pods[i], run.End)
	}
	p.LoadMaxOverMean, p.LoadGini = spread(run.Pods)
	p.CacheHitRatio = cachedShare(p.CachedTokens, p.PromptTokens)
	p.ThroughputRequests = ratio(float64(p.Completed), p.DurationSeconds)
	p.ThroughputTokens = ratio(float64(p.OutputTokens), p.DurationSeconds)
	if slo != nil {
		p.GoodRatio = new(ratio(float64(good), float64(p.Requests)))
		p.GoodputRequests = new(ratio(float64(good), p.DurationSeconds))
	}
	return p
}

// count goes through the requests.
func (r *Runs) count(p *PolicyReport, run *PolicyRun, slo *SLO) (good int) {
	var ttft, e2e, tpot []time.Duration
	for i := range run.Outcomes {
		o, q := &run.Outcomes[i], &r.Config.Trace.Requests[i]
		switch o.Ending {
		case Rejected:
			p.Rejected++
		case Refused:
			p.Refused++
		case Failed:
			p.Failed++
		case Completed:
			p.Completed++
			p.PromptTokens += q.Input()
			p.CachedTokens += int(o.Cached)
			p.OutputTokens += q.Output
			ttft, e2e = append(ttft, o.TTFT), append(e2e, o.E2E)
			if q.Output > 1 {
				tpot = append(tpot, o.tpot(q))
			}
		}
		if slo != nil && slo.good(r.Config.Profile, q, o) {
			good++
		}
	}
	p.TTFT, p.E2E, p.TPOT = quantiles(ttft), quantiles(e2e), quantiles(tpot)
	return good
}

func (p *PolicyReport) addPod(d *PodRun, end time.Duration) {
	p.PerPod = append(p.PerPod, PodReport{
		Pod: d.Name, GPU: d.GPU.Name, Requests: d.Requests, BusySeconds: d.Busy.Seconds(),
		CacheHitRatio: cachedShare(d.Cached, d.Input), QueueMax: d.QueueMax,
	})
	p.QueueMax = max(p.QueueMax, d.QueueMax)
	p.Preemptions += d.Preemptions
	p.AdapterLoads += d.AdapterLoads
	p.PrefillSavedGPUSecond += float64(d.Cached) * (d.UncachedToken - d.CachedToken).Seconds()
	dollars := d.GPU.Price * end.Hours()
	p.CostDollars += dollars
	p.CostByGPU[d.GPU.Name] += dollars
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// cachedShare is the share of prompt tokens that were cached; nil without a prompt.
func cachedShare(cached, prompt int) *float64 {
	if prompt == 0 {
		return nil
	}
	return new(float64(cached) / float64(prompt))
}

// quantiles sorts the times; nil for none.
func quantiles(times []time.Duration) *Quantiles {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	sum := 0.0
	for _, d := range times {
		sum += d.Seconds()
	}
	at := func(q float64) float64 { return times[rank(q, len(times))].Seconds() }
	return &Quantiles{P50: at(0.5), P90: at(0.9), P99: at(0.99), Mean: sum / float64(len(times))}
}

// rank is the index of the nearest rank of a quantile among n sorted values.
func rank(q float64, n int) int {
	i := int(q * float64(n))
	if float64(i) == q*float64(n) {
		i--
	}
	return min(max(i, 0), n-1)
}

// spread is how evenly the pods were busy: the longest busy time over the mean, and
// the Gini coefficient, 0 for all alike.
func spread(pods []PodRun) (maxOverMean, gini float64) {
	busy := make([]float64, len(pods))
	sum := 0.0
	for i := range pods {
		busy[i] = pods[i].Busy.Seconds()
		sum += busy[i]
	}
	if sum == 0 {
		return 1, 0
	}
	slices.Sort(busy)
	n, weighted := float64(len(busy)), 0.0
	for i, b := range busy {
		weighted += float64(i+1) * b
	}
	return busy[len(busy)-1] * n / sum, 2*weighted/(n*sum) - (n+1)/n
}
