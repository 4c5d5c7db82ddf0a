package tune_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/internal/tune"
	"github.com/eppctl/eppctl/score"
)

var draws = flag.Int("draws", 2, "how often each kind of problem is planted; .ci/tune-planted has 20")

// field is traffic with a problem, or without.
type field struct {
	trace    string // of a generator
	weights  string
	pods     int
	interval time.Duration // of status reports; 0: pods tell of their caches by events
	blocks   int           // of a pod; 0: the profile's
}

// A problem has a lever that is known to be right. None: the weights are.
type problem struct {
	name   string
	levers []string
	draw   func(*rand.Rand) field
	least  int // of 20 draws that have to come out right
}

// between is a number of a range, in steps of a hundredth of it.
func between(r *rand.Rand, low, high float64) float64 {
	return low + (high-low)*float64(r.IntN(101))/100
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

var kinds = []problem{
	{"adapters thrash", []string{"adapter"}, func(r *rand.Rand) field {
		return field{
			trace: fmt.Sprintf("gen:multi-lora:requests=2400:adapters=%d:rank=%d:rate=%.2f:zipf=%.2f:turns=%d:system=0:question=%.0f",
				10+r.IntN(6), pick(r, 32, 64), between(r, 6, 9), between(r, 0.3, 0.8), 1+r.IntN(2), between(r, 100, 400)),
			weights: "default", pods: 4,
		}
	}, 16},
	{"answers must not wait", []string{"queue", tune.KeyMaxQueue}, func(r *rand.Rand) field {
		return field{
			trace: fmt.Sprintf("gen:herd:requests=4000:size=%d:prefix=%.0f:question=%.0f:answer=%.0f:again=%d:rate=%.1f",
				18+r.IntN(15), between(r, 1500, 2500), between(r, 100, 200), between(r, 40, 60), 6+r.IntN(6), between(r, 8, 11)),
			weights: pick(r, "cache=.75,load=.10,queue=.05,maxQueue=40", "cache=.75,load=.10,queue=.05,maxQueue=36", "cache=.73,load=.12,queue=.05,maxQueue=40"), pods: 4,
		}
	}, 16},
	{"long documents", []string{"cache"}, func(r *rand.Rand) field {
		return field{
			trace: fmt.Sprintf("gen:rag:requests=2000:documents=%d:document=%.0f:zipf=%.2f:rate=%.2f",
				40+r.IntN(40), between(r, 5000, 8000), between(r, 0.4, 0.8), between(r, 2.5, 4)),
			weights: pick(r, "cache=.30,load=.50", "cache=.35,load=.45", "cache=.28,load=.52"), pods: 6,
		}
	}, 16},
	{"stale reports", []string{tune.KeyReportInterval}, func(r *rand.Rand) field {
		return field{
			trace: fmt.Sprintf("gen:rag:requests=2400:documents=%d:document=%.0f:zipf=%.2f:rate=%.2f",
				50+r.IntN(20), between(r, 3500, 4500), between(r, 0.8, 1.1), between(r, 3.5, 4.5)),
			weights: "default", pods: 6, interval: time.Duration(10+r.IntN(11)) * time.Second, blocks: 2000 + 100*r.IntN(4),
		}
	}, 16},
	{"nothing is wrong", nil, func(r *rand.Rand) field {
		return field{
			trace: fmt.Sprintf("gen:chat:requests=2000:rate=%.2f:systems=%d:system=%.0f:turns=%d:answer=%.0f",
				between(r, 2, 8), 2+r.IntN(5), between(r, 300, 900), 3+r.IntN(6), between(r, 100, 250)),
			weights: "default", pods: 4 + r.IntN(5),
		}
	}, 18},
	{"no reuse", nil, func(r *rand.Rand) field {
		return field{
			trace: fmt.Sprintf("gen:chat:requests=2000:rate=%.2f:system=0:turns=1:question=%.0f:answer=%.0f",
				between(r, 4, 10), between(r, 300, 900), between(r, 60, 200)),
			weights: pick(r, "default", "api-gateway"), pods: 4 + r.IntN(3),
		}
	}, 20},
}

// plot is a field that was worked: a fleet, and the two halves of its traffic.
type plot struct {
	profile     *simulate.Profile
	pods        []simulate.Pod
	weights     *score.Weights
	first, rest *simulate.Trace
}

func (f *field) work(t *testing.T, seed uint64) *plot {
	t.Helper()
	p := new(plot)
	var err error
	if p.profile, err = simulate.ProfileNamed("llama-8b"); err != nil {
		t.Fatal(err)
	}
	if f.interval > 0 {
		p.profile.Cache, p.profile.Intervals.Report = "reports", simulate.Duration(f.interval)
	}
	if f.blocks > 0 {
		p.profile.Blocks = f.blocks
	}
	if p.pods, err = p.profile.Fleet(strconv.Itoa(f.pods)); err != nil {
		t.Fatal(err)
	}
	if p.weights, err = tune.ParseWeights(f.weights); err != nil {
		t.Fatal(err)
	}
	whole, err := simulate.Generate(f.trace, seed, 0)
	if err != nil {
		t.Fatal(err)
	}
	half := len(whole.Requests) / 2
	p.first, p.rest = part(whole, 0, half), part(whole, half, len(whole.Requests))
	return p
}

func part(t *simulate.Trace, from, to int) *simulate.Trace {
	out := &simulate.Trace{Name: t.Name, Adapters: t.Adapters, Requests: slices.Clone(t.Requests[from:to])}
	begin := out.Requests[0].At
	for i := range out.Requests {
		out.Requests[i].At -= begin
	}
	return out
}

// run lets a half come, and records what was decided when a ring is given.
func (p *plot) run(t *testing.T, trace *simulate.Trace, w *score.Weights, profile *simulate.Profile, ring *record.Ring) *simulate.PolicyRun {
	t.Helper()
	policy, err := simulate.ParsePolicy("eppctl", *w)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &simulate.Config{Trace: trace, Profile: profile, Pods: p.pods, Policies: []*simulate.Policy{policy}, Seed: 7}
	if ring != nil {
		cfg.Recorder = ring
	}
	runs, err := simulate.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &runs.Runs[0]
}

// advise records the first half and asks for advice.
func (p *plot) advise(t *testing.T) *tune.Advice {
	t.Helper()
	ring := record.NewRing(record.RingConfig{Key: []byte("planted")})
	p.run(t, p.first, p.weights, p.profile, ring)
	traffic := tune.NewTraffic()
	var err error
	ring.Walk(record.Query{}, func(rec *explain.Record) bool {
		err = traffic.See(rec)
		return err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	profile := *p.profile
	a, err := traffic.Advise(context.Background(), tune.Options{Seed: 11, Profile: &profile})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// gain is what a suggestion does to the mean time to first token of the other half,
// relative.
func (p *plot) gain(t *testing.T, s *tune.Suggestion) float64 {
	t.Helper()
	profile := *p.profile
	if ms := s.PodReportIntervalMs; ms != nil {
		profile.Intervals.Report = simulate.Duration(*ms * float64(time.Millisecond))
	}
	before := p.run(t, p.rest, p.weights, p.profile, nil)
	after := p.run(t, p.rest, s.Move.Apply(p.weights), &profile, nil)
	return meanTTFT(after)/meanTTFT(before) - 1
}

func meanTTFT(r *simulate.PolicyRun) float64 {
	sum, n := 0.0, 0
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Ending == simulate.Completed {
			sum, n = sum+o.TTFT.Seconds(), n+1
		}
	}
	return sum / float64(max(1, n))
}

// Where a problem was planted its lever is found and helps the half of the traffic that
// was not looked at; where none was, the weights are kept.
func TestPlantedProblems(t *testing.T) {
	for k, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			right := 0
			for i := range *draws {
				seed := uint64(1000*k + i)
				f := kind.draw(rand.New(rand.NewPCG(seed, 1)))
				p := f.work(t, seed)
				a := p.advise(t)
				ok, what := kind.judge(t, p, a)
				if ok {
					right++
				}
				t.Logf("%v: %s\n  %s, %s", ok, what, f.trace, f.weights)
			}
			if least := kind.least * *draws / 20; right < least {
				t.Errorf("%d of %d draws are right, want %d", right, *draws, least)
			}
			t.Logf("%d of %d draws are right", right, *draws)
		})
	}
}

func (k *problem) judge(t *testing.T, p *plot, a *tune.Advice) (ok bool, what string) {
	t.Helper()
	var codes []string
	for _, f := range a.Findings {
		codes = append(codes, f.Code)
	}
	what = fmt.Sprintf("%s (%s)", a.Verdict, strings.Join(codes, " "))
	s := a.Suggestion
	if k.levers == nil {
		if k.name == "no reuse" && !slices.Contains(codes, tune.CodeNoReuse) {
			t.Errorf("it is not said that nothing is reused: %s", what)
		}
		if k.name == "no reuse" && s != nil && s.Move.Key == "cache" {
			t.Errorf("the weight of cache is raised without reuse: %s", what)
		}
		return s == nil || k.name == "no reuse", what
	}
	if s == nil {
		return false, what
	}
	gain := p.gain(t, s)
	return slices.Contains(k.levers, s.Move.Key) && gain < 0, fmt.Sprintf("%s: %+.1f%% held out", what, 100*gain)
}
