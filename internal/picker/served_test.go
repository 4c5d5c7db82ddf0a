package picker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
)

// warm is a fleet of which pod-00 holds the prompt, so that it is picked.
func warm(tb testing.TB, pods int, change func(*Config)) (*fleet, *Call) {
	tb.Helper()
	f := newFleet(tb, pods, change)
	f.scrape(0)
	tokens := prompt(64, 1)
	f.report(tb, podName(0), holds(tokens))
	c := call(tokens)
	c.Gateway = &record.Gateway{Kind: "envoy", RequestBody: "FULL_DUPLEX_STREAMED"}
	return f, c
}

func address(i int) string { return fmt.Sprintf("127.0.0.1:%d", 8000+i) }

// ledger is in flight and pending by pod, of pods that have any.
func (f *fleet) ledger() map[string][2]int {
	out := map[string][2]int{}
	for _, v := range f.pool.Views() {
		if v.State.InFlight != 0 || v.State.Pending != 0 {
			out[v.State.Pod] = [2]int{v.State.InFlight, v.State.Pending}
		}
	}
	return out
}

func TestSubset(t *testing.T) {
	members := []pool.Member{{Name: "a", Address: "10.0.0.1:8000"}, {Name: "a", Address: "10.0.0.1:8001"}, {Name: "b", Address: "[2001:db8::1]:8000"}, {Name: "c", Address: "engine.local:8000"}}
	for _, tc := range []struct {
		name    string
		subset  []string
		allowed []string
		unknown int
	}{
		{"none given", nil, []string{"10.0.0.1:8000", "10.0.0.1:8001", "[2001:db8::1]:8000", "engine.local:8000"}, 0},
		{"empty", []string{}, nil, 0},
		{"goes by the port too", []string{"10.0.0.1:8001"}, []string{"10.0.0.1:8001"}, 0},
		{"an address without a port is nobody's", []string{"10.0.0.1"}, nil, 1},
		{"IPv6 spelled out", []string{"[2001:DB8:0:0::0001]:8000"}, []string{"[2001:db8::1]:8000"}, 0},
		{"IPv4 in IPv6", []string{"[::ffff:10.0.0.1]:8000"}, []string{"10.0.0.1:8000"}, 0},
		{"a name", []string{"engine.local:8000"}, []string{"engine.local:8000"}, 0},
		{"strangers are counted, twice the same once", []string{"10.0.0.1:8000", "10.9.9.9:1", "10.9.9.9:1", "10.9.9.9:2"}, []string{"10.0.0.1:8000"}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet(t, 0, nil)
			if err := f.pool.Set(members); err != nil {
				t.Fatal(err)
			}
			f.scrape(0)
			c := call(prompt(64, 1))
			c.Subset = tc.subset
			k, err := f.Pick(context.Background(), c)
			if refusal, ok := errors.AsType[*Refusal](err); ok != (len(tc.allowed) == 0) || (ok && refusal.Status != 503) {
				t.Fatalf("pick: %v", err)
			}
			if k != nil {
				k.Done(end())
			}
			rec, _ := f.newest()
			var allowed []string
			for _, cand := range rec.Candidates {
				switch cand.Reason {
				case "":
					allowed = append(allowed, cand.Endpoint)
				case "not-in-subset":
				default:
					t.Errorf("%s is excluded as %s", cand.Endpoint, cand.Reason)
				}
			}
			if diff := cmp.Diff(tc.allowed, allowed); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
			if tc.subset != nil && (rec.Gateway.Subset.Count != len(tc.subset) || rec.Gateway.Subset.Unknown != tc.unknown) {
				t.Errorf("subset %+v, want %d unknown", rec.Gateway.Subset, tc.unknown)
			}
		})
	}
	t.Run("that of one request is not the next one's", func(t *testing.T) {
		f, c := warm(t, 2, nil)
		c.Subset = []string{address(1)}
		f.mustPick(t, c).Done(end())
		c.Subset = []string{address(0)}
		if k := f.mustPick(t, c); k.Endpoint() != address(0) {
			t.Errorf("picked %s", k.Endpoint())
		}
	})
}

func TestEndpointsAreInTheDecisionsOrder(t *testing.T) {
	for _, policy := range []Policy{PolicyScores, PolicyRandom, PolicyRoundRobin, PolicyLeastConnections} {
		for _, wanted := range []int{-1, 0, 1, 3, 99} {
			t.Run(fmt.Sprintf("%v/%d", policy, wanted), func(t *testing.T) {
				f, c := warm(t, 20, func(c *Config) { c.Policy = policy })
				c.Fallbacks = wanted
				k := f.mustPick(t, c)
				k.Done(end())
				rec, _ := f.newest()
				var scores []float64
				want := append([]string{k.Endpoint()}, rec.Gateway.Fallbacks...)
				for _, endpoint := range want {
					i := slices.IndexFunc(rec.Candidates, func(c explain.Candidate) bool { return c.Endpoint == endpoint })
					scores = append(scores, rec.Candidates[i].Score)
				}
				if !slices.Equal(k.Endpoints(), want) || !slices.Equal(k.Scores(), scores) {
					t.Errorf("%v with %v, want %v with %v", k.Endpoints(), k.Scores(), want, scores)
				}
				n := min(max(wanted, 0), MaxFallbacks)
				if policy == PolicyScores && len(want) != 1+n || len(want) > 1+n || len(want) < n {
					t.Errorf("%d endpoints, %d fallbacks were wanted", len(want), wanted)
				}
				if slices.Contains(rec.Gateway.Fallbacks, k.Endpoint()) || !slices.IsSortedFunc(scores[1:], func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
					t.Errorf("fallbacks %v with %v", rec.Gateway.Fallbacks, scores[1:])
				}
			})
		}
	}
	t.Run("only eligible pods", func(t *testing.T) {
		f, c := warm(t, 4, nil)
		c.Fallbacks, c.Subset = 3, []string{address(0), address(2)}
		if got := f.mustPick(t, c).Endpoints(); !slices.Equal(got, []string{address(0), address(2)}) {
			t.Errorf("endpoints %v", got)
		}
	})
}

func TestDecisionIDIsTheRecords(t *testing.T) {
	f, c := warm(t, 1, nil)
	k := f.mustPick(t, c)
	rec, _ := f.newest()
	if _, err := uuid.Parse(k.DecisionID()); err != nil || k.DecisionID() != rec.DecisionID {
		t.Errorf("decision %q, record %q (%v)", k.DecisionID(), rec.DecisionID, err)
	}
}

func TestServedBy(t *testing.T) {
	moved := []explain.Attempt{{Pod: podName(0), Endpoint: address(0), Error: explain.MovedByGateway}, {Pod: podName(1), Endpoint: address(1)}}
	none := map[string][2]int{}
	at := func(pod, inFlight, pending int) map[string][2]int {
		return map[string][2]int{podName(pod): {inFlight, pending}}
	}
	for _, tc := range []struct {
		name     string
		steps    func(*fleet, *Pick)
		ledger   map[string][2]int // before the end
		served   string
		attempts []explain.Attempt
	}{
		{"the picked one", func(_ *fleet, k *Pick) { k.ServedBy(address(0)) }, at(0, 1, 1), address(0), nil},
		{"the picked one in another spelling", func(_ *fleet, k *Pick) { k.ServedBy("[::ffff:127.0.0.1]:8000") }, at(0, 1, 1), address(0), nil},
		{"another pod", func(_ *fleet, k *Pick) { k.ServedBy(address(1)) }, at(1, 1, 1), address(1), moved},
		{"another pod, which answered", func(_ *fleet, k *Pick) { k.ServedBy(address(1)); k.Answered(200) }, at(1, 1, 0), address(1), moved},
		{"another pod, after the answer", func(_ *fleet, k *Pick) { k.Answered(200); k.ServedBy(address(1)) }, at(1, 1, 0), address(1), moved},
		{"the first word counts", func(_ *fleet, k *Pick) { k.ServedBy(address(1)); k.ServedBy(address(0)); k.ServedBy(address(1)) }, at(1, 1, 1), address(1), moved},
		{"a full pod all the same", func(f *fleet, k *Pick) { f.scrape(50); k.ServedBy(address(1)) }, at(1, 1, 1), address(1), moved},
		{"a pod that is not there", func(_ *fleet, k *Pick) { k.ServedBy("10.9.9.9:1") }, at(0, 1, 1), "10.9.9.9:1", nil},
		{"what is no address", func(_ *fleet, k *Pick) { k.ServedBy("a\x1b[2J\n\u202e") }, at(0, 1, 1), "a?[2J??", nil},
		{"nothing", func(_ *fleet, k *Pick) { k.ServedBy("") }, at(0, 1, 1), "", nil},
		{"a pod that leaves meanwhile", func(f *fleet, k *Pick) {
			k.ServedBy(address(1))
			_ = f.pool.Set([]pool.Member{{Name: podName(0), Address: address(0)}})
		}, at(1, 1, 1), address(1), moved},
		{"after the end", func(_ *fleet, k *Pick) { k.Done(end()); k.ServedBy(address(1)) }, none, "", nil},
		{"told with the end", func(_ *fleet, k *Pick) { e := end(); e.ServedEndpoint = address(1); k.Done(e) }, none, address(1), moved},
		{"told with the end as before", func(_ *fleet, k *Pick) {
			k.ServedBy(address(1))
			e := end()
			e.ServedEndpoint = address(1)
			k.Done(e)
		}, none, address(1), moved},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a scrape settles what was picked a while before
				seen := observer{}
				f, c := warm(t, 2, func(c *Config) { c.Observer = &seen })
				k := f.mustPick(t, c)
				if k.Endpoint() != address(0) || k.Predicted() != 48 {
					t.Fatalf("picked %s, predicted %d", k.Endpoint(), k.Predicted())
				}
				tc.steps(f, k)
				if diff := cmp.Diff(tc.ledger, f.ledger()); diff != "" {
					t.Errorf("ledger (-want +got):\n%s", diff)
				}
				k.Done(End{Status: 200, CachedTokens: 0, PromptTokens: -1, OutputTokens: -1})
				if n := f.pool.InFlight(); n != 0 || len(f.ledger()) != 0 || f.Open() != 0 {
					t.Errorf("ledger %d, open %d at the end", n, f.Open())
				}
				rec, _ := f.newest()
				if rec.Outcome.ServedEndpoint != tc.served || !cmp.Equal(rec.Attempts, tc.attempts) {
					t.Errorf("served by %q, attempts %+v", rec.Outcome.ServedEndpoint, rec.Attempts)
				}
				elsewhere := tc.served != "" && tc.served != address(0)
				if (k.Predicted() == -1) != elsewhere {
					t.Errorf("predicted %d", k.Predicted())
				}
				if ended := len(tc.ledger) == 0; !ended && seen.stale == elsewhere {
					t.Errorf("stale: %v, want it of the picked pod only", seen.stale)
				}
				if k.Pod() != podName(0) || k.Endpoint() != address(0) {
					t.Errorf("the pick itself moved to %s", k.Endpoint())
				}
			})
		})
	}
}

// Streams end at any time: the end and the word of who served may cross.
func TestServedByAgainstDone(t *testing.T) {
	f, c := warm(t, 3, nil)
	for i := range 200 {
		k := f.mustPick(t, c)
		var wg sync.WaitGroup
		wg.Go(func() { k.ServedBy(address(1)) })
		wg.Go(func() { k.ServedBy(address(2)) })
		wg.Go(func() { k.Answered(200) })
		wg.Go(func() { k.Done(end()) })
		wg.Wait()
		if n := f.ledger(); len(n) != 0 || f.Open() != 0 {
			t.Fatalf("round %d: ledger %v, open %d", i, n, f.Open())
		}
	}
}

func TestEndAsTheGatewayTellsIt(t *testing.T) {
	f, c := warm(t, 1, nil)
	c.BodyWait = 1500
	k := f.mustPick(t, c)
	k.Done(End{
		Status: 200, Unknown: "response body not sent to the picker", Attempts: 2, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
		Flags: "UF\x00", Details: "a{é\n}",
	})
	rec, _ := f.newest()
	want := explain.Outcome{
		State: explain.OutcomeUnknown, Detail: "response body not sent to the picker", Status: 200, Attempts: new(2),
		Flags: "UF?", CodeDetails: "a{??}", PredictedCached: new(48), Prediction: explain.PredictionUnknown,
	}
	if diff := cmp.Diff(want, rec.Outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if rec.Timings.Body == nil || *rec.Timings.Body != 2e-6 || rec.Timings.Total >= 1 {
		t.Errorf("timings %+v", rec.Timings)
	}
}

// What the gateway in front says costs an allocation only when it says it.
func TestPickAllocations(t *testing.T) {
	f, c := warm(t, 10, nil)
	subset := []string{address(0), address(3), "10.9.9.9:1"}
	for _, tc := range []struct {
		name   string
		change func(*Call)
		most   float64
	}{
		{"embedded", func(c *Call) { c.Gateway = nil }, 2},
		{"a gateway", func(c *Call) { c.BodyWait = 1 }, 2},
		{"a subset", func(c *Call) { c.Subset = subset }, 2},
		{"fallbacks", func(c *Call) { c.Fallbacks = 3 }, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := *c
			tc.change(&c)
			n := testing.AllocsPerRun(200, func() {
				k, err := f.Pick(context.Background(), &c)
				if err != nil {
					t.Fatal(err)
				}
				k.ServedBy(k.Endpoint())
				k.Done(end())
			})
			if n > tc.most && !raceEnabled {
				t.Errorf("%v allocations, want at most %v", n, tc.most)
			}
		})
	}
}
