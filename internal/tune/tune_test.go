package tune_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/tune"
)

// decisions records the first half of a planted problem, the newest first.
func decisions(t *testing.T, kind string) (*plot, []*explain.Record) {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k problem) bool { return k.name == kind })
	f := kinds[i].draw(rand.New(rand.NewPCG(1, 1)))
	p := f.work(t, 1)
	p.first = part(p.first, 0, 600)
	ring := record.NewRing(record.RingConfig{Key: []byte("planted")})
	p.run(t, p.first, p.weights, p.profile, ring)
	var out []*explain.Record
	ring.Walk(record.Query{}, func(rec *explain.Record) bool {
		out = append(out, rec)
		return true
	})
	return p, out
}

func seen(t *testing.T, list []*explain.Record) *tune.Traffic {
	t.Helper()
	traffic := tune.NewTraffic()
	for _, rec := range list {
		if err := traffic.See(rec); err != nil {
			t.Fatal(err)
		}
	}
	return traffic
}

// A decision that comes out otherwise stops the advice, and is named.
func TestNoAdviceOnDecisionsThatDoNotReplay(t *testing.T) {
	_, list := decisions(t, "adapters thrash")
	bad := *list[7]
	bad.Result.Index, bad.Result.Pod = (bad.Result.Index+1)%len(bad.Candidates), "another"
	list[7] = &bad
	_, err := seen(t, list).Advise(context.Background(), tune.Options{})
	e, ok := errors.AsType[*tune.ReplayError](err)
	if !ok || e.Differ != 1 || e.Decisions != len(list) || e.First[0].DecisionID != bad.DecisionID {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), bad.DecisionID) || !strings.Contains(err.Error(), "pick") {
		t.Errorf("it does not say which and what: %v", err)
	}
}

func TestNoAdviceOnDecisionsOfOthers(t *testing.T) {
	_, list := decisions(t, "adapters thrash")
	foreign := *list[0]
	foreign.Origin = new(explain.Origin)
	if err := tune.NewTraffic().See(&foreign); !errors.Is(err, tune.ErrOrigin) {
		t.Errorf("another picker's decision: %v", err)
	}
	random := *list[0]
	random.Policy = "random"
	random.Seal()
	if _, err := seen(t, []*explain.Record{&random}).Advise(context.Background(), tune.Options{}); err == nil || !strings.Contains(err.Error(), "policy random") {
		t.Errorf("a policy's decision: %v", err)
	}
	if _, err := tune.NewTraffic().Advise(context.Background(), tune.Options{}); err == nil {
		t.Error("no decision: want an error")
	}
}

// What a move would have done is what explain says of each decision.
func TestCounterfactualIsWhatExplainSays(t *testing.T) {
	p, list := decisions(t, "adapters thrash")
	a, err := seen(t, list).Advise(context.Background(), tune.Options{Seed: 1, Profile: p.profile})
	if err != nil {
		t.Fatal(err)
	}
	if a.Suggestion == nil {
		t.Fatal("no suggestion to compare")
	}
	w := a.Suggestion.Weights
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	changed := 0
	for _, rec := range list {
		c, err := explain.WhatIf(rec, []explain.Edit{
			{Key: "weights.cache", Value: number(w.Cache)},
			{Key: "weights.load", Value: number(w.Load)},
			{Key: "weights.queue", Value: number(w.Queue)},
			{Key: "weights.adapter", Value: number(w.Adapter)},
			{Key: "maxQueue", Value: strconv.Itoa(w.MaxQueue)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.PickChanges {
			changed++
		}
	}
	if got := a.Suggestion.WhatIf; got.Changed != changed || got.Decisions != len(list) || changed == 0 {
		t.Errorf("%d of %d picks change, explain says %d of %d", got.Changed, got.Decisions, changed, len(list))
	}
}

// Every move that is tried takes at most a tenth, from a named weight, and the weights
// sum to exactly 1 in decimals.
func TestMoves(t *testing.T) {
	for _, kind := range []string{"adapters thrash", "answers must not wait", "long documents", "stale reports"} {
		t.Run(kind, func(t *testing.T) {
			p, list := decisions(t, kind)
			a, err := seen(t, list).Advise(context.Background(), tune.Options{Seed: 1, Profile: p.profile})
			if err != nil {
				t.Fatal(err)
			}
			if a.ClosedLoop == nil || len(a.ClosedLoop.Trials) == 0 {
				t.Fatalf("nothing was tried: %s", a.Verdict)
			}
			for _, trial := range a.ClosedLoop.Trials {
				m := trial.Move
				if m.TakenFrom == nil {
					continue
				}
				w := m.Apply(p.weights)
				sum, step := new(big.Rat), m.To-m.From
				for _, v := range []float64{w.Cache, w.Load, w.Queue, w.Health, w.Adapter} {
					r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'f', -1, 64))
					sum.Add(sum, r)
				}
				if sum.Cmp(big.NewRat(1, 1)) != 0 || step <= 0 || step > tune.MaxStep+1e-12 || w.Validate() != nil {
					t.Errorf("%s: sum %s, step %v, %v", m.Text(), sum, step, w.Validate())
				}
			}
		})
	}
}

// Little traffic is told as a doubt, and the same advice comes out each time.
func TestAdviceIsDoubtfulAndTheSame(t *testing.T) {
	p, list := decisions(t, "adapters thrash")
	advise := func() string {
		a, err := seen(t, list).Advise(context.Background(), tune.Options{Seed: 1, Profile: p.profile})
		if err != nil {
			t.Fatal(err)
		}
		if a.Confident || !strings.Contains(strings.Join(a.Doubts, "\n"), "of traffic: a day has") || !strings.Contains(a.Verdict, "not confident") {
			t.Errorf("%s: doubts %q", a.Verdict, a.Doubts)
		}
		b, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	slices.Reverse(list) // their order does not matter
	first := advise()
	slices.Reverse(list)
	if second := advise(); first != second {
		t.Errorf("two pieces of advice on the same decisions:\n%s\n%s", first, second)
	}
}

// The fragment is a configuration with the suggested weights.
func TestConfigFragmentLoads(t *testing.T) {
	for _, kind := range []string{"stale reports", "answers must not wait", "nothing is wrong"} {
		t.Run(kind, func(t *testing.T) {
			p, list := decisions(t, kind)
			a, err := seen(t, list).Advise(context.Background(), tune.Options{Seed: 1, Profile: p.profile})
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Read("", []byte(a.Config()), config.Default())
			if err == nil {
				err = c.Validate(nil)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, a.Config())
			}
			got, err := c.EngineWeights(nil)
			if err != nil {
				t.Fatal(err)
			}
			want := a.Weights
			if s := a.Suggestion; s != nil {
				want = s.Weights
				if ms := s.PodReportIntervalMs; ms != nil && c.Intervals.PodReportMs != *ms {
					t.Errorf("interval %v, want %v", c.Intervals.PodReportMs, *ms)
				}
			}
			want.Generation = 0
			if have := explain.RecordWeights(&got); have.Cache != want.Cache || have.Queue != want.Queue || have.MaxQueue != want.MaxQueue {
				t.Errorf("weights %+v, want %+v", have, want)
			}
		})
	}
}

func TestParseWeights(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "0.6 0.2 0.1 20",
		"rag":                           "0.7 0.15 0.05 20",
		"cache=.5,queue=.2":             "0.5 0.2 0.2 20",
		"preset=batch,maxQueue=30":      "0.4 0.35 0.15 30",
		"cache=.5":                      "sum is 0.9",
		"ragg":                          "did you mean rag?",
		"cache=x":                       `cache: want a number, got "x"`,
		"cash=.5":                       `unknown weight "cash"`,
		"cache=.5,cache=.6":             "cache is given twice",
		"cache=.5,preset=rag":           "preset has to come first",
		"maxQueue=0":                    "maxQueue: want a whole number above 0",
		"cache=1.2,load=-.1,queue=-.1,": "is not KEY=NUMBER",
	} {
		w, err := tune.ParseWeights(text)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for _, v := range []float64{w.Cache, w.Load, w.Queue, float64(w.MaxQueue)} {
				got += strconv.FormatFloat(v, 'f', -1, 64) + " "
			}
		}
		if !strings.Contains(strings.TrimSpace(got)+"\n", want) {
			t.Errorf("ParseWeights(%q) = %s, want %s", text, got, want)
		}
	}
}

// What the default weights mean is what the seed's own figures say.
func TestSensitivityOfTheDefaults(t *testing.T) {
	w, err := tune.ParseWeights("default")
	if err != nil {
		t.Fatal(err)
	}
	d := tune.SensitivityOf(w)
	if got := *d.Dominance.Bound; got < 0.6416 || got > 0.6417 {
		t.Errorf("dominance %v, want 0.385/0.60", got)
	}
	for _, e := range d.Equivalents {
		want := map[string]float64{"load": -0.3, "queueDepth": -12, "health": 1.2, "adapterMatch": 1.2}[e.Factor]
		if got := *e.Change; got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("10 points of cache are worth %v of %s, want %v", got, e.Factor, want)
		}
	}
}
