package simulate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// bare is what came of a run, without what it was asked.
func bare(r *Runs) (all []PolicyRun) {
	for _, run := range r.Runs {
		run.Policy = nil
		all = append(all, run)
	}
	return all
}

// The same seed gives the same outcomes, however many policies run at once; another
// one does not.
func TestRunsAreTheSameEachTime(t *testing.T) {
	tr := generated(t, "gen:multi-lora:requests=300:rate=20:adapters=6", 1)
	cfg := fleetOf(t, tr, "a100=3,a10g=2", everyKind()...)
	cfg.Profile.Faults = []Fault{{Pod: "sim-1", At: Duration(4 * time.Second), For: Duration(5 * time.Second)}}
	cfg.Parallel = 1
	first := bare(mustRun(t, cfg))
	cfg.Parallel = 4
	if diff := cmp.Diff(first, bare(mustRun(t, cfg))); diff != "" {
		t.Errorf("a second run differs (-first +second):\n%s", diff)
	}
	cfg.Seed = 2
	if cmp.Equal(first, bare(mustRun(t, cfg))) {
		t.Error("another seed gives the same")
	}
}

// Whatever happens, each request ends once, tokens in are tokens out, and what an
// engine found in its cache had been computed there before.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, err := Generate(rapid.SampledFrom([]string{
			"gen:chat:requests=60:rate=20:think=2", "gen:rag:requests=40:rate=10:documents=5:document=2000",
			"gen:multi-lora:requests=60:rate=30:adapters=5", "gen:herd:requests=60:rate=20:size=20:prefix=1500",
		}).Draw(t, "trace"), rapid.Uint64Range(1, 99).Draw(t, "seed"), 0)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := ProfileNamed("")
		p.Blocks = rapid.SampledFrom([]int{600, 4000}).Draw(t, "blocks")
		p.Cache = rapid.SampledFrom([]string{byEvents, byReports}).Draw(t, "cache")
		p.Faults = drawFaults(t)
		pods, err := p.Fleet("4")
		if err != nil {
			t.Fatal(err)
		}
		policy, err := ParsePolicy(rapid.SampledFrom(everyKind()).Draw(t, "policy"), policies(t, "eppctl")[0].weights)
		if err != nil {
			t.Fatal(err)
		}
		cfg := &Config{Trace: tr, Profile: p, Pods: pods, Policies: []*Policy{policy}, Seed: 1}
		runs, err := Run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		checkBooks(t, tr, &runs.Runs[0], len(p.Faults) > 0)
	})
}

func drawFaults(t *rapid.T) (faults []Fault) {
	for range rapid.IntRange(0, 3).Draw(t, "faults") {
		faults = append(faults, Fault{
			Pod:  rapid.SampledFrom([]string{"sim-0", "sim-1", "sim-3"}).Draw(t, "pod"),
			At:   Duration(rapid.IntRange(0, 4000).Draw(t, "at")) * Duration(time.Millisecond),
			For:  Duration(rapid.IntRange(0, 3000).Draw(t, "for")) * Duration(time.Millisecond),
			Slow: rapid.SampledFrom([]float64{0, 0, 2}).Draw(t, "slow"),
		})
	}
	return faults
}

// checkBooks compares what requests and pods say.
func checkBooks(t *rapid.T, tr *Trace, run *PolicyRun, faults bool) {
	var input, cached, output, completed int
	for i, o := range run.Outcomes {
		q := &tr.Requests[i]
		if o.Ended == 0 && q.At > 0 || o.Ended < q.At {
			t.Fatalf("request %d arrived at %v and ended at %v", i, q.At, o.Ended)
		}
		switch {
		case o.Ending == Failed && !faults, o.Ending == Refused:
			t.Fatalf("request %d ended as %d", i, o.Ending)
		case o.Ending != Completed:
			continue
		}
		if o.TTFT <= 0 || o.E2E < o.TTFT || q.At+o.E2E != o.Ended {
			t.Fatalf("request %d: first token after %v, last after %v", i, o.TTFT, o.E2E)
		}
		if int(o.Cached) >= q.Input() {
			t.Fatalf("request %d: %d of %d tokens cached, and the last is always computed", i, o.Cached, q.Input())
		}
		completed++
		input += q.Input()
		cached += int(o.Cached)
		output += q.Output
	}
	var sum PodRun
	for _, p := range run.Pods {
		sum.Requests += p.Requests
		sum.Input += p.Input
		sum.Cached += p.Cached
		sum.Generated += p.Generated
		if p.Busy > run.End {
			t.Fatalf("%s worked for %v of %v", p.Name, p.Busy, run.End)
		}
	}
	if sum.Requests != completed || sum.Input != input || sum.Cached != cached {
		t.Fatalf("pods served %d requests with %d tokens, %d cached; completed were %d with %d, %d cached",
			sum.Requests, sum.Input, sum.Cached, completed, input, cached)
	}
	if sum.Generated < output || !faults && sum.Generated != output {
		t.Fatalf("pods made %d tokens, answers have %d", sum.Generated, output)
	}
}

// A request that is alone is never slower on a faster pod.
func TestFasterPodIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Request{Prompt: then(nil, 7, rapid.IntRange(1, 9000).Draw(t, "input")), Output: rapid.IntRange(1, 60).Draw(t, "output")}
		end := func(step, prefill float64) Outcome {
			p, _ := ProfileNamed("")
			p.GPUs = []GPU{{Name: "x", Step: step, Prefill: prefill}}
			pods, err := p.Fleet("1")
			if err != nil {
				t.Fatal(err)
			}
			runs, err := Run(context.Background(), &Config{
				Trace: &Trace{Requests: []Request{q}}, Profile: p, Pods: pods, Policies: policies(t, "random"),
			})
			if err != nil {
				t.Fatal(err)
			}
			return runs.Runs[0].Outcomes[0]
		}
		a := [2]float64{rapid.Float64Range(0.1, 10).Draw(t, "step"), rapid.Float64Range(0.1, 10).Draw(t, "prefill")}
		slower := rapid.Float64Range(1, 5).Draw(t, "slower")
		fast, slow := end(a[0], a[1]), end(a[0]*slower, a[1]*slower)
		if fast.TTFT > slow.TTFT || fast.E2E > slow.E2E {
			t.Fatalf("the faster pod took %v and %v, the slower %v and %v", fast.TTFT, fast.E2E, slow.TTFT, slow.E2E)
		}
	})
}

// With all costs, arrivals, intervals and load times twice as long, everything takes
// twice as long and nothing else changes.
func TestTimeScales(t *testing.T) {
	for _, cache := range []string{byEvents, byReports} {
		tr := generated(t, "gen:multi-lora:requests=400:rate=30:adapters=6:think=3", 3)
		cfg := fleetOf(t, tr, "4", everyKind()...)
		cfg.Profile.Cache = cache
		cfg.Profile.Faults = []Fault{{Pod: "sim-2", At: Duration(3 * time.Second), For: Duration(4 * time.Second), Slow: 3}}
		once := bare(mustRun(t, cfg))
		p := cfg.Profile
		in := &p.Intervals
		for _, d := range []*Duration{
			&p.Step, &p.UncachedToken, &p.CachedToken, &p.LoRAPerRank, &p.Faults[0].At, &p.Faults[0].For,
			&in.Metrics, &in.Probe, &in.GPU, &in.Report, &in.Events, &in.Stale, &in.Allowance,
		} {
			*d *= 2
		}
		for i := range tr.Requests {
			tr.Requests[i].At *= 2
		}
		for k, twice := range bare(mustRun(t, cfg)) {
			for i := range once[k].Outcomes {
				o := &once[k].Outcomes[i]
				o.TTFT, o.E2E, o.Ended = 2*o.TTFT, 2*o.E2E, 2*o.Ended
			}
			if diff := cmp.Diff(once[k].Outcomes, twice.Outcomes); diff != "" {
				t.Errorf("%s, caches told by %s: (-twice what it was +got):\n%.2000s", cfg.Policies[k].Name, cache, diff)
			}
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	cfg := fleetOf(t, generated(t, "gen:chat:requests=2000", 1), "2", "eppctl")
	if _, err := Run(ctx, cfg); !errors.Is(err, why) {
		t.Errorf("Run = %v, want %v", err, why)
	}
}

func TestConfigIsChecked(t *testing.T) {
	cfg := fleetOf(t, generated(t, "gen:chat:requests=2", 1), "2", "eppctl")
	cfg.Profile.Faults = []Fault{{Pod: "sim-2"}}
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `no pod "sim-2" among the 2 of the fleet`) {
		t.Errorf("a fault of a pod that is not there: %v", err)
	}
	cfg.Trace = &Trace{}
	if _, err := Run(t.Context(), cfg); err == nil || err.Error() != "there is no request to simulate" {
		t.Errorf("without a request: %v", err)
	}
}
