package picker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a picker over pods that exist only as members of its pool.
type fleet struct {
	*Picker
	pool *pool.Pool
	tree *prefix.Tree
	ring *record.Ring
	seq  map[string]uint64
}

const blockSize = 16

func newFleet(tb testing.TB, pods int, change func(*Config)) *fleet {
	tb.Helper()
	tree := prefix.New()
	limits := pool.Limits{Metrics: time.Hour, Reports: time.Hour} // no test here is about staleness
	p := pool.New(pool.Config{Clock: clock.Wall{}, Tree: tree, BlockSize: blockSize, Limits: limits})
	members := make([]pool.Member, pods)
	for i := range members {
		members[i] = pool.Member{Name: podName(i), Address: fmt.Sprintf("127.0.0.1:%d", 8000+i)}
	}
	if err := p.Set(members); err != nil {
		tb.Fatal(err)
	}
	ring := record.NewRing(record.RingConfig{Bytes: 32 << 20})
	cfg := Config{Pool: p, Tree: tree, Recorder: ring, Clock: clock.Wall{}, Weights: score.Default(), BlockSize: blockSize}
	if change != nil {
		change(&cfg)
	}
	picker, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := picker.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return &fleet{Picker: picker, pool: p, tree: tree, ring: ring, seq: map[string]uint64{}}
}

// newest is the record of the last decision.
func (f *fleet) newest() (*explain.Record, bool) {
	found, err := record.NewStore(f.ring, nil).Find(context.Background(), record.Query{Limit: 1})
	if err != nil || len(found.Records) != 1 {
		return nil, false
	}
	return found.Records[0], true
}

func podName(i int) string { return fmt.Sprintf("pod-%02d", i) }

// scrape gives every pod a first good scrape with an empty queue and a probe.
func (f *fleet) scrape(waiting float64) {
	now := time.Now()
	for _, t := range f.pool.Targets() {
		value := engine.Value{Known: true}
		page := engine.Page{Waiting: value, Running: value, KVUsage: value, AdaptersState: value}
		page.Waiting.V = waiting
		f.pool.Scraped(t, engine.Scrape{Page: page, Start: now, End: now})
		f.pool.Probed(t, engine.Probe{Healthy: true, At: now})
	}
}

// report makes a pod report that it holds these blocks, and nothing else changed.
func (f *fleet) report(tb testing.TB, pod string, change func(*report.Report)) {
	tb.Helper()
	f.seq[pod]++
	r := &report.Report{Pod: pod, Epoch: 1, Seq: f.seq[pod], Full: f.seq[pod] == 1, Model: "m", BlockSize: blockSize, TakenAt: time.Now()}
	change(r)
	resync, err := f.pool.Report(r, "127.0.0.1")
	if err != nil || resync {
		tb.Fatalf("report of %s: resync %v, %v", pod, resync, err)
	}
}

func holds(tokens []uint32) func(*report.Report) {
	return func(r *report.Report) {
		fps := prefix.Fingerprints(nil, prefix.Root("m", "", ""), tokens, blockSize)
		r.Chains = []report.Chain{{Root: true, Blocks: fps}}
	}
}

func prompt(n int, first uint32) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = first + uint32(i)
	}
	return ids
}

func call(tokens []uint32) *Call {
	return &Call{ID: "r", Path: "/v1/completions", Arrival: time.Now(), Request: &request.Request{
		Kind: request.Completions, Model: "m", Tokens: tokens, TotalTokens: len(tokens),
		PromptTokens: [][]uint32{tokens}, TokensFrom: request.FromIDs,
	}}
}

func (f *fleet) mustPick(tb testing.TB, c *Call) *Pick {
	tb.Helper()
	k, err := f.Pick(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func end() End { return End{Status: 200, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1} }

// Worked example 5: 50 requests at once for one prefix that only one pod has.
func TestHerdOfFifty(t *testing.T) {
	f := newFleet(t, 4, nil)
	f.scrape(0)
	shared := prompt(64, 1)
	for i := range 4 {
		f.report(t, podName(i), func(r *report.Report) {
			if i == 0 {
				holds(shared)(r)
			}
		})
	}
	picks := map[string]int{}
	var all []*Pick
	for range 50 {
		k := f.mustPick(t, call(shared))
		picks[k.Pod()]++
		all = append(all, k)
	}
	want := map[string]int{podName(0): 20, podName(1): 10, podName(2): 10, podName(3): 10}
	if fmt.Sprint(picks) != fmt.Sprint(want) {
		t.Errorf("50 picks went to %v, want %v", picks, want)
	}
	for _, k := range all {
		k.Done(end())
	}
	if n := f.pool.InFlight(); n != 0 || f.Open() != 0 {
		t.Errorf("ledger %d, open %d after the last request", n, f.Open())
	}
}

func TestHerdWithoutAnyMetrics(t *testing.T) { // case P1
	f := newFleet(t, 4, nil)
	picks := map[string]int{}
	first := map[string]bool{}
	for round := range 40 {
		for i := range 50 {
			k := f.mustPick(t, call(prompt(8, 1)))
			if round == 0 {
				picks[k.Pod()]++
			}
			if i == 0 {
				first[k.Pod()] = true
			}
			defer k.Done(end())
		}
		for _, e := range f.pool.Views() {
			if e.State.InFlight != e.State.Pending {
				t.Fatalf("%s: %d in flight, %d pending", e.State.Pod, e.State.InFlight, e.State.Pending)
			}
		}
		if round == 0 {
			for pod, n := range picks {
				if n > 20 {
					t.Errorf("%s got %d of 50, more than 40%%", pod, n)
				}
			}
			f = newFleet(t, 4, nil)
			continue
		}
		f = newFleet(t, 4, nil)
	}
	if len(first) < 2 {
		t.Errorf("40 times the first pick went to %v", first)
	}
}

// Under concurrency no pod is ever given a request at queueDepth ≥ maxQueue.
func TestConcurrentPicksNeverOverbook(t *testing.T) {
	f := newFleet(t, 4, func(c *Config) { c.Weights.Saturation = score.Reject })
	f.scrape(0)
	f.report(t, podName(0), holds(prompt(64, 1)))
	var mu sync.Mutex
	picks, refused := map[string]int{}, 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				k, err := f.Pick(context.Background(), call(prompt(64, 1)))
				mu.Lock()
				if err != nil {
					refused++
				} else {
					picks[k.Pod()]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for pod, n := range picks {
		if n != 20 {
			t.Errorf("%s was given %d requests, want maxQueue = 20", pod, n)
		}
	}
	if refused != 200-80 {
		t.Errorf("%d refused, want 120", refused)
	}
}

func TestRefusals(t *testing.T) {
	status := func(f *fleet) (int, string) {
		_, err := f.Pick(context.Background(), call(prompt(64, 1)))
		r, ok := errors.AsType[*Refusal](err)
		if !ok {
			t.Fatalf("error %v is no refusal", err)
		}
		return r.Status, r.Detail
	}
	t.Run("no pods", func(t *testing.T) { // case P3
		if s, text := status(newFleet(t, 0, nil)); s != 503 || !strings.Contains(text, "no endpoints") {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("all excluded names each reason", func(t *testing.T) {
		f := newFleet(t, 2, nil)
		for _, target := range f.pool.Targets() {
			f.pool.Probed(target, engine.Probe{Refused: true, Reason: "connection refused", At: time.Now()})
		}
		if s, text := status(f); s != 503 || !strings.Contains(text, "pod-00 unhealthy, pod-01 unhealthy") {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("all full and reject", func(t *testing.T) {
		f := newFleet(t, 2, func(c *Config) { c.Weights.Saturation = score.Reject })
		f.scrape(20)
		if s, text := status(f); s != 429 || !strings.Contains(text, "queue-full") {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("an unknown model", func(t *testing.T) {
		f := newFleet(t, 1, nil)
		for _, target := range f.pool.Targets() {
			f.pool.Listed(target, []engine.Model{{ID: "other"}}, nil)
		}
		if s, text := status(f); s != 404 || !strings.Contains(text, `"m" does not exist`) {
			t.Errorf("%d %s", s, text)
		}
	})
	t.Run("a refused decision stands in the record with its outcome", func(t *testing.T) {
		f := newFleet(t, 0, nil)
		status(f)
		rec, ok := f.newest()
		if !ok || rec.Result.Refused != "no-endpoint" || rec.Outcome.Status != 503 {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestLedger(t *testing.T) { // case P2
	f := newFleet(t, 2, nil)
	f.scrape(0)
	k := f.mustPick(t, call(prompt(64, 1)))
	t.Run("released exactly once", func(t *testing.T) {
		k.Answered(200)
		k.Answered(200)
		k.Done(end())
		k.Done(end())
		if n := f.pool.InFlight(); n != 0 {
			t.Errorf("ledger %d, want 0", n)
		}
	})
	t.Run("survives a pod that leaves and comes back", func(t *testing.T) {
		k := f.mustPick(t, call(prompt(64, 1)))
		back := []pool.Member{{Name: "pod-00", Address: "127.0.0.1:8000"}, {Name: "pod-01", Address: "127.0.0.1:8001"}}
		if err := f.pool.Set(nil); err != nil {
			t.Fatal(err)
		}
		if n := f.pool.InFlight(); n != 1 {
			t.Errorf("ledger %d while the pod is gone, want 1", n)
		}
		if err := f.pool.Set(back); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, v := range f.pool.Views() {
			sum += v.State.InFlight
		}
		if sum != 1 {
			t.Errorf("in flight %d after it came back, want 1", sum)
		}
		k.Done(end())
		if n := f.pool.InFlight(); n != 0 {
			t.Errorf("ledger %d at the end, want 0", n)
		}
	})
	t.Run("probes and scrapes do not touch it", func(t *testing.T) {
		k := f.mustPick(t, call(prompt(64, 1)))
		defer k.Done(end())
		f.scrape(0)
		if n := f.pool.InFlight(); n != 1 {
			t.Errorf("ledger %d, want 1", n)
		}
	})
}

func TestPendingEndsWithAScrapeOrAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, nil)
		pending := func() int { return f.pool.Views()[0].State.Pending }
		f.scrape(0)
		time.Sleep(100 * time.Millisecond)
		old := f.mustPick(t, call(prompt(8, 1)))
		time.Sleep(60 * time.Millisecond)
		late := f.mustPick(t, call(prompt(8, 1)))
		time.Sleep(pool.Allowance / 2)
		f.scrape(1)
		if pending() != 1 {
			t.Errorf("%d pending after the scrape: it must have seen the older pick only", pending())
		}
		late.Answered(200)
		if v := f.pool.Views()[0]; v.State.Pending != 0 || v.State.InFlight != 2 {
			t.Errorf("pending %d, in flight %d; want 0, 2", v.State.Pending, v.State.InFlight)
		}
		old.Done(end())
		late.Done(end())
	})
}

func TestStaleRoutingIsNoticed(t *testing.T) {
	seen := observer{}
	f := newFleet(t, 1, func(c *Config) { c.Observer = &seen })
	f.scrape(0)
	tokens := prompt(64, 1)
	f.report(t, "pod-00", holds(tokens))
	t.Run("fewer cached tokens than predicted", func(t *testing.T) {
		k := f.mustPick(t, call(tokens))
		if k.Predicted() != 48 {
			t.Errorf("predicted %d cached tokens of 64, want (64-1)/16*16 = 48", k.Predicted())
		}
		k.Done(End{Status: 200, PromptTokens: 64, CachedTokens: 32, OutputTokens: 1})
		if !seen.stale {
			t.Error("not counted as stale")
		}
	})
	t.Run("as many as predicted", func(t *testing.T) {
		k := f.mustPick(t, call(tokens))
		k.Done(End{Status: 200, PromptTokens: 64, CachedTokens: 48, OutputTokens: 1})
		if seen.stale {
			t.Error("counted as stale")
		}
	})
	t.Run("a removal from before the pick that arrives after it", func(t *testing.T) {
		taken := time.Now()
		k := f.mustPick(t, call(tokens))
		fps := prefix.Fingerprints(nil, prefix.Root("m", "", ""), tokens, blockSize)
		f.report(t, "pod-00", func(r *report.Report) { r.Removed, r.TakenAt = fps[3:], taken })
		k.Done(end())
		if !seen.stale {
			t.Error("not counted as stale")
		}
	})
}

type observer struct {
	stale    bool
	failures map[string]Failure
}

func (o *observer) Picked(*record.Entry)                             {}
func (o *observer) Completed(_ *Pick, _ *record.Outcome, stale bool) { o.stale = stale }
func (o *observer) ScorerFailed(name string, how Failure) {
	if o.failures == nil {
		o.failures = map[string]Failure{}
	}
	o.failures[name] = how
}

// scorerFunc is a scorer made of a function.
type scorerFunc func(context.Context, *score.PodState) score.Result

func (f scorerFunc) Score(ctx context.Context, _ *score.InferenceRequest, p *score.PodState, _ *score.Summary) score.Result {
	return f(ctx, p)
}

// A custom scorer that fails costs its factor, never the request.
func TestFailingScorers(t *testing.T) {
	hang := make(chan struct{})
	for _, tc := range []struct {
		name    string
		scorer  scorerFunc
		failure Failure
		state   score.State
	}{
		{"works", func(context.Context, *score.PodState) score.Result { return score.Scored(.5, "half") }, "", score.Known},
		{"panics", func(context.Context, *score.PodState) score.Result { panic("secret prompt") }, FailurePanic, score.Unknown},
		{"returns NaN", func(context.Context, *score.PodState) score.Result { return score.Scored(math.NaN(), "") }, FailureValue, score.Unknown},
		{"overruns", func(context.Context, *score.PodState) score.Result { <-hang; return score.Scored(1, "") }, FailureDeadline, score.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen := observer{}
			f := newFleet(t, 2, func(c *Config) {
				c.Observer = &seen
				c.Scorers = []Custom{{Name: "x", Scorer: tc.scorer}}
				c.Weights.Cache, c.Weights.Custom = .5, []score.CustomWeight{{Name: "x", Weight: .1}}
				c.ScorerDeadline = 20 * time.Millisecond
			})
			k := f.mustPick(t, call(prompt(64, 1)))
			k.Done(end())
			rec, ok := f.newest()
			if !ok {
				t.Fatal("no record")
			}
			if got := rec.Candidates[0].Custom[0].State; got != tc.state.String() {
				t.Errorf("state %s, want %v", got, tc.state)
			}
			if strings.Contains(fmt.Sprintf("%+v", rec), "secret") {
				t.Error("what the scorer panicked with stands in the record")
			}
			if seen.failures["x"] != tc.failure {
				t.Errorf("failure %q, want %q", seen.failures["x"], tc.failure)
			}
			if v, _, _ := explain.Replay(rec); !v.Identical {
				t.Errorf("replay: %s", v.Difference)
			}
			if tc.failure == FailureDeadline {
				close(hang)
			}
		})
	}
}

func TestSecondBest(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.scrape(0)
	f.report(t, "pod-00", holds(prompt(64, 1)))
	k := f.mustPick(t, call(prompt(64, 1)))
	if k.Pod() != "pod-00" || !k.Second("connection refused") || k.Pod() != "pod-01" {
		t.Fatalf("the retry goes to %s, want pod-01", k.Pod())
	}
	for _, v := range f.pool.Views() {
		if want := map[string]int{"pod-00": 0, "pod-01": 1}[v.State.Pod]; v.State.InFlight != want {
			t.Errorf("%s has %d in flight, want %d", v.State.Pod, v.State.InFlight, want)
		}
	}
	k.Done(end())
	rec, _ := f.newest()
	if len(rec.Attempts) != 2 || rec.Attempts[0].Error != "connection refused" || rec.Attempts[1].Pod != "pod-01" {
		t.Errorf("attempts %+v", rec.Attempts)
	}
	next := f.mustPick(t, call(prompt(64, 1)))
	defer next.Done(end())
	if next.Pod() != "pod-01" {
		t.Error("a pod that refused a connection must not be picked next")
	}
	if k.Second("connection refused") || next.Second("connection refused") {
		t.Error("neither an ended pick nor one without another healthy pod can move")
	}
}

func TestWeightsSwap(t *testing.T) {
	f := newFleet(t, 1, nil)
	w := score.Default()
	w.Cache, w.Load = .55, .25
	if _, err := f.SetWeights(w, 7); !errors.Is(err, ErrGeneration) {
		t.Errorf("a wrong generation gave %v", err)
	}
	g, err := f.SetWeights(w, 0)
	if err != nil || g != 1 || f.Weights().Cache != .55 {
		t.Errorf("generation %d, %v, cache %v", g, err, f.Weights().Cache)
	}
	w.Load = .5
	if _, err := f.SetWeights(w, 1); err == nil {
		t.Error("weights that do not sum to 1 were taken")
	}
}

// Whatever happens in whatever order, the ledger ends at 0 and is never negative.
func TestLedgerOverRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet(t, 3, nil)
		var open []*Pick
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"pick", "pick", "answer", "done", "scrape", "second", "served", "shrink", "grow"}).Draw(rt, "step") {
			case "pick":
				if k, err := f.Pick(context.Background(), call(prompt(32, 1))); err == nil {
					open = append(open, k)
				}
			case "answer":
				if len(open) > 0 {
					open[rapid.IntRange(0, len(open)-1).Draw(rt, "k")].Answered(200)
				}
			case "done":
				if len(open) > 0 {
					open[rapid.IntRange(0, len(open)-1).Draw(rt, "k")].Done(end())
				}
			case "second":
				if len(open) > 0 {
					open[rapid.IntRange(0, len(open)-1).Draw(rt, "k")].Second("refused")
				}
			case "served":
				if len(open) > 0 {
					open[rapid.IntRange(0, len(open)-1).Draw(rt, "k")].ServedBy(fmt.Sprintf("127.0.0.1:%d", rapid.IntRange(8000, 8004).Draw(rt, "port")))
				}
			case "scrape":
				f.scrape(2)
			case "shrink":
				_ = f.pool.Set([]pool.Member{{Name: "pod-01", Address: "127.0.0.1:8001"}})
			case "grow":
				_ = f.pool.Set([]pool.Member{{Name: "pod-00", Address: "127.0.0.1:8000"}, {Name: "pod-01", Address: "127.0.0.1:8001"}})
			}
			for _, v := range f.pool.Views() {
				if v.State.Pending < 0 || v.State.InFlight < v.State.Pending {
					rt.Fatalf("%s: in flight %d, pending %d", v.State.Pod, v.State.InFlight, v.State.Pending)
				}
			}
		}
		for _, k := range open {
			k.Done(end())
		}
		if n := f.pool.InFlight(); n != 0 || f.Open() != 0 {
			rt.Fatalf("ledger %d, open %d at the end", n, f.Open())
		}
	})
}
