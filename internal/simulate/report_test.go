package simulate

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantilesAreNearestRanks(t *testing.T) {
	var times []time.Duration
	for i := range 10 {
		times = append(times, time.Duration(10-i)*time.Second)
	}
	if diff := cmp.Diff(&Quantiles{P50: 5, P90: 9, P99: 10, Mean: 5.5}, quantiles(times)); diff != "" {
		t.Errorf("of 1 to 10 s (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Quantiles{P50: 2, P90: 2, P99: 2, Mean: 2}, quantiles([]time.Duration{2 * time.Second})); diff != "" {
		t.Errorf("of one (-want +got):\n%s", diff)
	}
	if quantiles(nil) != nil {
		t.Error("there are quantiles of nothing")
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		busy       []int // seconds
		most, gini float64
	}{
		{[]int{3, 3, 3}, 1, 0},
		{[]int{0, 0, 0, 8}, 4, 0.75},
		{[]int{1, 3}, 1.5, 0.25},
		{[]int{0, 0}, 1, 0},
	} {
		var pods []PodRun
		for _, b := range tt.busy {
			pods = append(pods, PodRun{Busy: time.Duration(b) * time.Second})
		}
		if most, gini := spread(pods); math.Abs(most-tt.most) > 1e-9 || math.Abs(gini-tt.gini) > 1e-9 {
			t.Errorf("busy for %v: %v times the mean, Gini %v; want %v and %v", tt.busy, most, gini, tt.most, tt.gini)
		}
	}
}

func TestSLO(t *testing.T) {
	p, err := ProfileNamed("")
	if err != nil {
		t.Fatal(err)
	}
	// Its own cold prefill takes 2 steps and 4,000 tokens: 896 ms.
	q := &Request{Prompt: then(nil, 1, 4000), Output: 11}
	for _, tt := range []struct {
		slo       string
		ttft, e2e time.Duration
		good      bool
	}{
		{"ttft=2s", 2 * time.Second, 9 * time.Second, true},
		{"ttft=2s", 2*time.Second + 1, 9 * time.Second, false},
		{"ttft=1s+2x", 2792 * time.Millisecond, 9 * time.Second, true},
		{"ttft=1s+2x", 2793 * time.Millisecond, 9 * time.Second, false},
		{"ttft=2x", 1800 * time.Millisecond, 9 * time.Second, false},
		{"tpot=50ms", time.Hour, time.Hour + 500*time.Millisecond, true},
		{"tpot=50ms,ttft=9s", time.Second, 1600 * time.Millisecond, false},
	} {
		s, err := ParseSLO(tt.slo)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.good(p, q, &Outcome{TTFT: tt.ttft, E2E: tt.e2e}); got != tt.good {
			t.Errorf("%s: a first token after %v and the last after %v is good: %v, want %v", tt.slo, tt.ttft, tt.e2e, got, tt.good)
		}
		if s.good(p, q, &Outcome{Ending: Failed}) {
			t.Errorf("%s: what failed is good", tt.slo)
		}
	}
	for text, want := range map[string]string{
		"ttft=2s,ttft=3s": `SLO "ttft=2s,ttft=3s": ttft is given twice`,
		"ttft=fast":       `SLO "ttft=fast": ttft: want a time as 2s or 50ms, got "fast"`,
		"ttft=1s+x":       `SLO "ttft=1s+x": ttft: want a number above 0 before x, got "x"`,
		"e2e=1s":          `SLO "e2e=1s": no limit "e2e"; there are ttft and tpot, as in ttft=2s,tpot=50ms`,
		"tpot=-1s":        `SLO "tpot=-1s": tpot: want a time as 2s or 50ms, got "-1s"`,
	} {
		if _, err := ParseSLO(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// fabricated are runs of two policies over so many requests: in the second each first
// token comes later by what later says.
func fabricated(n int, later func(i int) time.Duration) *Runs {
	tr := &Trace{Requests: make([]Request, n)}
	r := &Runs{Config: &Config{Trace: tr, Profile: &Profile{GPUs: []GPU{{}}, Budget: 1}}}
	for _, name := range []string{"a", "b"} {
		run := PolicyRun{Policy: &Policy{Name: name}, Outcomes: make([]Outcome, n), End: time.Minute}
		for i := range n {
			tr.Requests[i] = Request{Prompt: then(nil, 1, 100), Output: 2}
			ttft := time.Second + time.Duration(i%7)*time.Millisecond
			if name == "b" {
				ttft += later(i)
			}
			run.Outcomes[i] = Outcome{TTFT: ttft, E2E: ttft + time.Second, Cached: 50}
		}
		r.Runs = append(r.Runs, run)
	}
	return r
}

func TestDifferencesAreThoseThatThereAre(t *testing.T) {
	slo := &SLO{TTFT: time.Second + 500*time.Millisecond}
	report := fabricated(1000, func(i int) time.Duration { return time.Duration(i%2) * time.Second }).Report(ReportOptions{SLO: slo, Baseline: "a"})
	if report.Policies[0].Difference != nil {
		t.Error("the baseline differs from itself")
	}
	for _, d := range report.Policies[1].Difference {
		switch d.Metric {
		case "cacheHitRatio":
			if d.Value != 0 || d.Low != 0 || d.High != 0 {
				t.Errorf("equal caches differ: %+v", d)
			}
		case "goodRatio":
			if math.Abs(d.Value+0.5) > 1e-9 || d.Low > -0.49 || d.High < -0.51 || d.Low > d.High {
				t.Errorf("half of the requests are late: %+v", d)
			}
		case "ttftSeconds.p90", "ttftSeconds.p99":
			if math.Abs(d.Value-1) > 0.01 || d.Low < 0.99 || d.High > 1.01 {
				t.Errorf("the slow half is a second later: %+v", d)
			}
		}
	}
	// What only one window of a hundred has is within the interval of no difference.
	rare := fabricated(1000, func(i int) time.Duration { return time.Duration(i/990) * time.Second }).Report(ReportOptions{SLO: slo, Baseline: "a"})
	for _, d := range rare.Policies[1].Difference {
		if d.Metric == "goodRatio" && (d.High != 0 || d.Low > -0.015) {
			t.Errorf("one burst is taken for a difference: %+v", d)
		}
	}
	if none := fabricated(10, func(int) time.Duration { return 0 }).Report(ReportOptions{}); none.Policies[1].Difference != nil {
		t.Error("there are differences from no baseline")
	}
}

// A policy that completed nothing is not sooner than the others.
func TestNothingDoesNotDiffer(t *testing.T) {
	slo := &SLO{TTFT: 2 * time.Second}
	r := fabricated(100, func(int) time.Duration { return 0 })
	for i := range r.Runs[1].Outcomes {
		r.Runs[1].Outcomes[i].Ending = Failed
	}
	want := []Difference{{Metric: "goodRatio", Value: -1, Low: -1, High: -1}}
	if diff := cmp.Diff(want, r.Report(ReportOptions{SLO: slo, Baseline: "a"}).Policies[1].Difference); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if hit := r.Report(ReportOptions{}).Policies[1].CacheHitRatio; hit != nil {
		t.Errorf("of no prompt %v was cached", *hit)
	}
	few := fabricated(9, func(int) time.Duration { return 0 }).Report(ReportOptions{SLO: slo, Baseline: "a"})
	if d := few.Policies[1].Difference; d != nil {
		t.Errorf("nine requests have an interval: %v", d)
	}
}

func TestReportOfARun(t *testing.T) {
	tr := generated(t, "gen:multi-lora:requests=300:rate=10:adapters=3", 1)
	cfg := fleetOf(t, tr, "a100=2,a10g=1", "eppctl", "random")
	runs := mustRun(t, cfg)
	slo, err := ParseSLO("ttft=2s")
	if err != nil {
		t.Fatal(err)
	}
	r := runs.Report(ReportOptions{SLO: slo, Baseline: "random"})
	p := r.Policies[0]
	if r.Kind != "Simulation" || r.Pods != 3 || r.PodsByGPU["a100"] != 2 || p.Requests != 300 || p.Completed != 300 || len(p.PerPod) != 3 {
		t.Errorf("%+v", r)
	}
	hours := p.DurationSeconds / 3600
	if want := hours * (2*3.67 + 0.38); math.Abs(p.CostDollars-want) > 1e-9 || math.Abs(p.CostByGPU["a10g"]-hours*0.38) > 1e-9 {
		t.Errorf("cost %.4f %v, want %.4f", p.CostDollars, p.CostByGPU, want)
	}
	if p.AdapterLoads < 3 || p.PrefillSavedGPUSecond <= 0 || p.GoodRatio == nil || *p.GoodputRequests > p.ThroughputRequests {
		t.Errorf("%+v", p)
	}
	if least := float64(p.CachedTokens) * 0.000209; p.PrefillSavedGPUSecond < least*0.999 {
		t.Errorf("%.3f GPU seconds saved by %d tokens, want %.3f at least", p.PrefillSavedGPUSecond, p.CachedTokens, least)
	}
	var page bytes.Buffer
	if err := r.HTML(&page, runs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gen:multi-lora", "<polyline", "sim-2 a10g", "Less random", "points ("} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"ZgotmplZ", "src=", "href=", "NaN", "%!"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
