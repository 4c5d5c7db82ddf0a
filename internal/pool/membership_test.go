package pool

import (
	"testing"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

func TestMembership(t *testing.T) {
	t.Run("terminating and not ready pods get nothing new", func(t *testing.T) { // case P4
		p, _ := newPool(t, "a", "b")
		r := new(Reservation)
		_, chosen, _ := p.Choose(nil, &Query{}, decider{t}, r)
		if chosen < 0 {
			t.Fatal("nothing chosen")
		}
		m := members("a", "b")
		m[0].Terminating, m[1].NotReady = true, true
		if err := p.Set(m); err != nil {
			t.Fatal(err)
		}
		if _, chosen, _ := p.Choose(nil, &Query{}, decider{t}, new(Reservation)); chosen >= 0 {
			t.Error("a pod that goes was chosen")
		}
		if p.InFlight() != 1 {
			t.Errorf("%d in flight, the running one must go on", p.InFlight())
		}
		r.Release()
		if p.InFlight() != 0 {
			t.Errorf("%d in flight at the end", p.InFlight())
		}
	})
	t.Run("another instance is forgotten but for its requests", func(t *testing.T) {
		p, tree := newPool(t, "a")
		prompt := blocks(3)
		p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Chains: chain(prompt)})
		p.scrape("a", page())
		r := new(Reservation)
		if _, chosen, _ := p.Choose(nil, &Query{}, decider{t}, r); chosen != 0 {
			t.Fatal("not chosen")
		}
		before := p.target("a").ID
		m := members("a")
		m[0].Instance = "b1c2/1"
		if err := p.Set(m); err != nil {
			t.Fatal(err)
		}
		s := p.state(t, "a")
		if got := matched(p, tree, prompt, "a"); got != 0 || s.Cache.State != score.Unknown || s.Waiting.State != score.Unknown {
			t.Errorf("%v blocks, cache %v, waiting %v are left of the former instance", got, s.Cache.State, s.Waiting.State)
		}
		if s.InFlight != 1 || p.InFlight() != 1 {
			t.Errorf("%d of %d requests in flight there, want 1 of 1", s.InFlight, p.InFlight())
		}
		if id := p.target("a").ID; id == before {
			t.Error("answers of the former instance would be taken for the new one's")
		}
		r.Release()
		if p.InFlight() != 0 {
			t.Errorf("%d in flight at the end", p.InFlight())
		}
	})
	t.Run("a member is drained as long as it is said to be", func(t *testing.T) {
		p, _ := newPool(t, "a")
		m := members("a")
		for _, drained := range []bool{true, false} {
			m[0].Drained = drained
			if err := p.Set(m); err != nil {
				t.Fatal(err)
			}
			if s := p.state(t, "a"); (s.Health.Source == score.SourceManual && s.Health.Value == 0) != drained {
				t.Errorf("drained %t: health %v", drained, s.Health)
			}
		}
		p.Drain("a", true)
		if err := p.Set(m); err != nil { // says nothing new
			t.Fatal(err)
		}
		if s := p.state(t, "a"); s.Health.Source != score.SourceManual {
			t.Errorf("an operator's drain was undone: health %v", s.Health)
		}
	})
	t.Run("a subset restricts, by port as well", func(t *testing.T) {
		p, _ := newPool(t, "a", "b")
		states, _ := p.States(nil, &Query{Subset: map[string]bool{"127.0.0.1:8001": false}})
		if states[0].Excluded != score.NotInSubset || states[1].Excluded != score.Eligible {
			t.Errorf("excluded: %v, %v", states[0].Excluded, states[1].Excluded)
		}
	})
	t.Run("bad lists are refused whole", func(t *testing.T) {
		p, _ := newPool(t, "a")
		for _, m := range [][]Member{{{Name: "x"}}, {{Address: "y:1"}}, append(members("a"), members("a")...), make([]Member, MaxEndpoints+1)} {
			if err := p.Set(m); err == nil {
				t.Errorf("%d members were taken", len(m))
			}
		}
		if len(p.Targets()) != 1 {
			t.Error("a refused list changed the pool")
		}
	})
}

func TestCanonicalAddress(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1:8000":              "10.0.0.1:8000",
		"[::ffff:10.0.0.1]:8000":     "10.0.0.1:8000",
		"[2001:DB8:0:0:0:0:0:1]:080": "[2001:db8::1]:80",
		"[fe80::1%eth0]:80":          "[fe80::1%eth0]:80",
		"engine.local:8000":          "engine.local:8000",
		"10.0.0.1":                   "10.0.0.1",
		"10.0.0.1:99999":             "10.0.0.1:99999",
		"":                           "",
	} {
		if got := CanonicalAddress(given); got != want || CanonicalAddress(got) != want {
			t.Errorf("CanonicalAddress(%q) = %q, want %q", given, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { CanonicalAddress("10.0.0.1:8000") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReassign(t *testing.T) {
	for _, tc := range []struct {
		name, to string
		before   func(*Pool, *Reservation)
		pod      string // that has the request; "" = none
		pending  int
		moved    bool
	}{
		{"to another", "127.0.0.1:8001", nil, "b", 1, true},
		{"to where it is", "127.0.0.1:8000", nil, "a", 1, false},
		{"to nobody", "127.0.0.1:9999", nil, "a", 1, false},
		{"what was answered stays so", "127.0.0.1:8001", func(_ *Pool, r *Reservation) { r.Answered() }, "b", 0, true},
		{"what has ended stays so", "127.0.0.1:8001", func(_ *Pool, r *Reservation) { r.Release() }, "", 0, false},
		{"to one that failed", "127.0.0.1:8001", func(p *Pool, _ *Reservation) { p.Refused("b", "127.0.0.1:8001", "reset") }, "b", 1, true},
		{"from one that left", "127.0.0.1:8001", func(p *Pool, _ *Reservation) { _ = p.Set(members("a", "b")[1:]) }, "b", 1, true},
		{"to one that left", "127.0.0.1:8001", func(p *Pool, _ *Reservation) { _ = p.Set(members("a")) }, "a", 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := newPool(t, "a", "b")
			r := new(Reservation)
			if _, chosen, _ := p.Choose(nil, &Query{}, decider{t}, r); chosen != 0 {
				p.Reassign(r, "127.0.0.1:8000") // nothing is known of the two: the seed chose
			}
			if tc.before != nil {
				tc.before(p, r)
			}
			name, address, moved := p.Reassign(r, tc.to)
			if moved != tc.moved || (moved && (name != "b" || address != tc.to)) {
				t.Errorf("moved to %q at %q: %v", name, address, moved)
			}
			for _, v := range p.Views() {
				inFlight, pending := 0, 0
				if v.State.Pod == tc.pod {
					inFlight, pending = 1, tc.pending
				}
				if v.State.InFlight != inFlight || v.State.Pending != pending || v.Departed {
					t.Errorf("%s: %d in flight, %d pending, departed %v", v.State.Pod, v.State.InFlight, v.State.Pending, v.Departed)
				}
			}
			r.Release()
			if p.InFlight() != 0 {
				t.Errorf("%d in flight at the end", p.InFlight())
			}
		})
	}
}

func TestMove(t *testing.T) {
	book := func(t *testing.T) (*Pool, *Reservation) {
		p, _ := newPool(t, "a", "b")
		r := new(Reservation)
		p.scrape("b", func() engine.Page { x := page(); x.Waiting.V = 5; return x }())
		p.scrape("a", page())
		if _, chosen, _ := p.Choose(nil, &Query{}, decider{t}, r); chosen != 0 {
			t.Fatalf("chosen %d, want a", chosen)
		}
		return p, r
	}
	for _, tc := range []struct {
		name     string
		change   func(*Pool)
		maxQueue int
		want     bool
	}{
		{"to a pod with room", func(*Pool) {}, 20, true},
		{"not to a full one", func(*Pool) {}, 5, false},
		{"to a full one when the cutoff was relaxed", func(*Pool) {}, 0, true},
		{"not to a failed one", func(p *Pool) { p.Refused("b", "127.0.0.1:8001", "connection refused") }, 20, false},
		{"not to one that left", func(p *Pool) { _ = p.Set(members("a")) }, 20, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, r := book(t)
			tc.change(p)
			if got := p.Move(r, "b", "127.0.0.1:8001", tc.maxQueue); got != tc.want {
				t.Errorf("moved: %v, want %v", got, tc.want)
			}
			if p.InFlight() != 1 {
				t.Errorf("%d in flight, want 1", p.InFlight())
			}
			r.Release()
			if p.InFlight() != 0 {
				t.Errorf("%d in flight at the end", p.InFlight())
			}
		})
	}
}
