package picker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/report"
)

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

func (o *observer) Picked(*record.Entry) {}

func (o *observer) Completed(_ *Pick, _ *record.Outcome, stale bool) { o.stale = stale }

func (o *observer) ScorerFailed(name string, how Failure) {
	if o.failures == nil {
		o.failures = map[string]Failure{}
	}
	o.failures[name] = how
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
