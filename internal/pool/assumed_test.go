package pool

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

// newAssuming is a pool that assumes caches of 64 blocks where engines do not say.
func newAssuming(t testing.TB, names ...string) (*Pool, *prefix.Tree) {
	t.Helper()
	tree := prefix.New()
	p := New(Config{Clock: clock.Wall{}, Tree: tree, BlockSize: blockSize, Assume: 64 * blockSize})
	if err := p.Set(members(names...)); err != nil {
		t.Fatal(err)
	}
	return p, tree
}

// nth chooses a pod by its place.
type nth int

func (f nth) Choose([]score.PodState, uint64) int { return int(f) }

// sends gives a request for a prompt to a pod by its place.
func (p *Pool) sends(prompt []uint64, pod int) *Reservation {
	r := new(Reservation)
	q := &Query{}
	for _, size := range p.BlockSizes() {
		m := Match{BlockSize: size, Blocks: prompt, Counts: make([]uint32, p.cfg.Tree.Slots())}
		if size == blockSize || len(p.BlockSizes()) == 1 {
			p.cfg.Tree.Lookup(prompt, m.Counts)
		}
		q.Matches = append(q.Matches, m)
	}
	p.Choose(nil, q, nth(pod), r)
	return r
}

// serves is a request of that prompt which goes well, from its pick to its end.
func (p *Pool) serves(prompt []uint64, pod, answer int) {
	r := p.sends(prompt, pod)
	r.Answered()
	r.Stored()
	r.Ended(len(prompt)*blockSize, answer)
	r.Release()
}

// prompt is n blocks of a prompt that shares nothing with others.
func prompt(name, n int) []uint64 {
	tokens := make([]uint32, n*blockSize)
	for i := range tokens {
		tokens[i] = uint32(name<<16 | i)
	}
	return prefix.Fingerprints(nil, prefix.Root("m", "", ""), tokens, blockSize)
}

// assumed fails unless so much of the prompt is assumed to be in the pod's cache.
func (p *Pool) assumed(t *testing.T, prompt []uint64, pod string, want int) {
	t.Helper()
	if c := p.state(t, pod).Cache; c.State != score.Known || c.Source != score.SourceAssumed || c.Age != 0 {
		t.Errorf("the cache of %s is %+v, want it known, assumed and of now", pod, c)
	}
	if got := matched(p, p.cfg.Tree, prompt, pod); int(got) != want {
		t.Errorf("%s is assumed to hold %v blocks, want %d", pod, got, want)
	}
}

func TestOnlyWhatWasAnsweredIsAssumed(t *testing.T) {
	p, _ := newAssuming(t, "a", "b")
	a := prompt(1, 8)
	r := p.sends(a, 0)
	p.assumed(t, a, "a", 0) // not when it is picked
	r.Answered()
	p.assumed(t, a, "a", 0) // nor when it was answered with an error
	r.Ended(128, 16)
	p.assumed(t, a, "a", 0)
	r.Stored()
	p.assumed(t, a, "a", 8)
	p.assumed(t, a, "b", 0)
	r.Release()
	p.assumed(t, a, "a", 8)
	if v := p.Views()[0]; v.TreeBlocks != 8 {
		t.Errorf("the view has %d blocks, want 8", v.TreeBlocks)
	}
	if note := p.state(t, "a").Notes[score.CacheMatch]; note != "assumed: what was sent to it" {
		t.Errorf("the note is %q", note)
	}
}

func TestNothingIsAssumedUnlessWanted(t *testing.T) {
	p, _ := newPool(t, "a")
	a := prompt(1, 8)
	p.serves(a, 0, 0)
	if c := p.state(t, "a").Cache; c.State != score.Unknown || c.Source != score.SourceNone || p.cfg.Tree.Stats().Blocks != 0 {
		t.Errorf("the cache is %+v, %d blocks are in the tree", c, p.cfg.Tree.Stats().Blocks)
	}
}

// The prompt is where it was served.
func TestAssumedWhereItWasServed(t *testing.T) {
	a := prompt(1, 8)
	b := "127.0.0.1:8001"
	for _, tt := range []struct {
		name string
		do   func(p *Pool, r *Reservation)
		want [2]int
	}{
		{"moved before the answer", func(p *Pool, r *Reservation) { p.Move(r, "b", b, 0); r.Stored() }, [2]int{0, 8}},
		{"told before the answer", func(p *Pool, r *Reservation) { p.Reassign(r, b); r.Stored() }, [2]int{0, 8}},
		{"told after the answer", func(p *Pool, r *Reservation) { r.Stored(); p.Reassign(r, b); r.Ended(128, 0) }, [2]int{0, 8}},
		{"told after the answer, by nobody known", func(p *Pool, r *Reservation) { r.Stored(); p.Reassign(r, "10.0.0.1:1"); r.Ended(128, 0) }, [2]int{0, 0}},
		{"told to be where it is", func(p *Pool, r *Reservation) { r.Stored(); p.Reassign(r, "127.0.0.1:8000"); r.Ended(128, 0) }, [2]int{8, 0}},
		{"told when it was let go", func(p *Pool, r *Reservation) { r.Stored(); r.Release(); p.Reassign(r, b); r.Ended(128, 0) }, [2]int{0, 0}},
		{"moved with an error", func(p *Pool, r *Reservation) { p.Reassign(r, b); r.Ended(128, 0) }, [2]int{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newAssuming(t, "a", "b")
			tt.do(p, p.sends(a, 0))
			p.assumed(t, a, "a", tt.want[0])
			p.assumed(t, a, "b", tt.want[1])
		})
	}
	t.Run("what was there before stays", func(t *testing.T) {
		p, _ := newAssuming(t, "a", "b")
		p.serves(a[:3], 0, 0)
		r := p.sends(a, 0)
		r.Stored()
		p.Reassign(r, b)
		p.assumed(t, a, "a", 3)
	})
}

// told is a page that says how large the cache is, and of which process it is.
func told(blocks int, started, prompts float64) engine.Page {
	pg := page()
	pg.BlockSize, pg.NumBlocks = blockSize, blocks
	pg.Started, pg.Prompts = engine.Value{Known: true, V: started}, engine.Value{Known: true, V: prompts}
	return pg
}

func TestCapacityIsTheEngines(t *testing.T) {
	p, _ := newAssuming(t, "a")
	p.scrape("a", told(21, 1, 0)) // one of which the engine keeps for itself
	a, b := prompt(1, 12), prompt(2, 12)
	p.serves(a, 0, 0)
	p.serves(b, 0, 2*blockSize) // the answer takes room
	p.assumed(t, b, "a", 12)
	p.assumed(t, a, "a", 6)
	ranks := told(42, 1, 0)
	ranks.Ranks = make([]engine.Rank, 2)
	p.scrape("a", ranks)
	c := prompt(3, 26)
	p.serves(c, 0, 0)
	p.assumed(t, b, "a", 12) // of the 40 of both
	p.assumed(t, a, "a", 0)
	if note := p.state(t, "a").Notes[score.CacheMatch]; note != "assumed: what was sent to it, on any of its 2 ranks" {
		t.Errorf("the note is %q", note)
	}
}

func TestCapacityThatNobodyTells(t *testing.T) {
	p, _ := newAssuming(t, "a")
	a := prompt(1, 80)
	p.serves(a, 0, 0)
	p.assumed(t, a, "a", 64)
	if n := p.cfg.Tree.Stats().Blocks; n != 64 {
		t.Errorf("%d blocks are in the tree, want the 64 of the configuration", n)
	}
}

func TestBlockSizeIsTheEngines(t *testing.T) {
	p, _ := newAssuming(t, "a")
	pg := told(100, 1, 0)
	pg.BlockSize = 2 * blockSize
	p.scrape("a", pg)
	if sizes := p.BlockSizes(); len(sizes) != 2 || sizes[1] != 2*blockSize {
		t.Fatalf("block sizes are %v", sizes)
	}
	tokens := make([]uint32, 64*blockSize)
	root := prefix.Root("m", "", "")
	both := func() *Query {
		q := &Query{}
		for _, size := range p.BlockSizes() {
			m := Match{BlockSize: size, Blocks: prefix.Fingerprints(nil, root, tokens, size), Counts: make([]uint32, p.cfg.Tree.Slots())}
			p.cfg.Tree.Lookup(m.Blocks, m.Counts)
			q.Matches = append(q.Matches, m)
		}
		return q
	}
	var r Reservation
	p.Choose(nil, both(), nth(0), &r)
	r.Stored()
	states, _ := p.States(nil, both())
	if c := states[0].Cache; c.Value != 64 || p.Views()[0].TreeBlocks != 32 {
		t.Errorf("%v of our blocks match, %d of the engine's are held; want 64 and 32", c.Value, p.Views()[0].TreeBlocks)
	}
	pg.BlockSize = 24
	p.scrape("a", pg)
	if c, n := p.state(t, "a"), p.cfg.Tree.Stats().Blocks; c.Cache.State != score.Unknown || c.Notes[score.CacheMatch] != "unknown: block size 24" || n != 0 {
		t.Errorf("with blocks of 24 the cache is %+v (%v), %d blocks are in the tree", c.Cache, c.Notes, n)
	}
}

// Another process, and what may be one, holds nothing of before; nor does a request
// of before tell what it holds.
func TestRestartClears(t *testing.T) {
	a, late := prompt(1, 8), prompt(2, 8)
	for _, tt := range []struct {
		name string
		do   func(p *Pool)
		want int
	}{
		{"the same process", func(p *Pool) { p.scrape("a", told(100, 1000, 80)) }, 8},
		{"a page that does not say", func(p *Pool) { p.scrape("a", page()); p.scrape("a", told(100, 1000, 70)) }, 8},
		{"another start", func(p *Pool) { p.scrape("a", told(100, 1001, 80)) }, 0},
		{"another start, after a page that does not say", func(p *Pool) { p.scrape("a", page()); p.scrape("a", told(100, 1001, 80)) }, 0},
		{"fewer prompt tokens", func(p *Pool) { p.scrape("a", told(100, 1000, 60)) }, 0},
		{"no process at all", func(p *Pool) {
			p.Probed(p.target("a"), engine.Probe{Refused: true, Reason: "connection refused", At: time.Now()})
		}, 0},
		{"slow", func(p *Pool) { p.Probed(p.target("a"), engine.Probe{Slow: true, At: time.Now()}) }, 8},
		{"not ready any more", func(p *Pool) {
			m := members("a")
			m[0].NotReady = true
			_ = p.Set(m)
			_ = p.Set(members("a"))
		}, 0},
		{"described anew", func(p *Pool) { _ = p.Set(members("a", "b")) }, 8},
		{"gone and back", func(p *Pool) { _ = p.Set(members("b")); _ = p.Set(members("a")) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newAssuming(t, "a")
			p.scrape("a", told(100, 1000, 70))
			p.serves(a, 0, 0)
			before := p.sends(late, 0)
			tt.do(p)
			p.assumed(t, a, "a", tt.want)
			before.Stored()
			p.assumed(t, late, "a", tt.want)
			p.serves(late, 0, 0)
			p.assumed(t, late, "a", 8)
		})
	}
}

// What the engine counted corrects what was assumed.
func TestEngineCorrectsAssumption(t *testing.T) {
	a, b := prompt(1, 8), prompt(2, 8)
	for _, tt := range []struct {
		name           string
		prompt, cached int // tokens, of b
		ranks          int
		want           int // blocks of a, which was used before b
	}{
		{"all but the last block, which is always computed", 128, 112, 1, 8},
		{"not told", 128, -1, 1, 8},
		{"less", 128, 48, 1, 0},
		{"a full eviction", 128, 0, 1, 0},
		{"other tokens", 90, 48, 1, 8},
		{"other tokens, and a full eviction", 90, 0, 1, 0},
		{"another rank, for all that is known", 128, 0, 2, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newAssuming(t, "a")
			pg := told(100, 1, 0)
			pg.Ranks = make([]engine.Rank, tt.ranks)
			p.scrape("a", pg)
			p.serves(a, 0, 0)
			p.serves(b, 0, 0)
			r := p.sends(b, 0)
			r.Stored()
			r.Correct(tt.prompt, tt.cached)
			r.Ended(tt.prompt, 0)
			p.assumed(t, a, "a", tt.want)
			p.assumed(t, b, "a", 8) // it has just been computed
		})
	}
}

// Who tells is believed: events before reports, and reports before what is assumed.
func TestAssumedOnlyWhileNobodyTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tree := newAssuming(t, "a")
		a := prompt(1, 8)
		p.serves(a, 0, 0)
		p.assumed(t, a, "a", 8)
		source := func(want score.Source, blocks int) {
			t.Helper()
			c := p.state(t, "a").Cache
			if got := matched(p, tree, a, "a"); c.Source != want || int(got) != blocks {
				t.Errorf("the cache is by %v with %v blocks, want %v and %d", c.Source, got, want, blocks)
			}
		}
		p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", Chains: chain(a[:2])})
		source(score.SourceReport, 2)
		p.serves(a, 0, 0) // it will tell
		source(score.SourceReport, 2)
		p.scrape("a", page())
		if n := tree.PodBlocks(p.endpoints[0].assumed.slot); n != 0 {
			t.Errorf("%d blocks are kept that nobody needs", n)
		}

		stream := quiet{}
		slots, ok := p.RankOpened(p.target("a").ID, 0, []kvindex.Level{{Tiers: kvindex.Tiers(0), Weight: 1, Name: "gpu"}}, stream)
		if !ok {
			t.Fatal("no slot")
		}
		tree.Store(slots[0], 0, a[:5])
		p.RankChanged(slots[0], kvfeed.State{Connected: true, BlockSize: blockSize})
		source(score.SourceEvents, 5)
		p.RankChanged(slots[0], kvfeed.State{BlockSize: blockSize})
		source(score.SourceEvents, 5)
		time.Sleep(DefaultLimits.Events + time.Second) // of the fake clock: events and reports are stale
		source(score.SourceAssumed, 0)
		p.serves(a, 0, 0)
		source(score.SourceAssumed, 8)
		time.Sleep(24 * time.Hour)
		source(score.SourceAssumed, 8) // it is never stale
		p.RankClosed(slots[0])
	})
}

// quiet is a stream of events on which nothing comes.
type quiet struct{ kvfeed.Stream }

// Steps of requests, restarts and lookups at once.
func TestAssumedAtOnce(t *testing.T) {
	p, tree := newAssuming(t, "a", "b")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				a := prompt(i%7+w%2, 20)
				r := p.sends(a, i%2)
				var steps sync.WaitGroup
				steps.Go(r.Stored)
				steps.Go(func() { p.Reassign(r, "127.0.0.1:8001") })
				steps.Wait()
				r.Correct(320, 16*(i%20))
				r.Ended(320, 40)
				r.Release()
			}
		})
	}
	wg.Go(func() {
		for i := range 100 {
			p.scrape("a", told(50+i%10, float64(i/10), float64(i)))
			p.Views()
		}
	})
	wg.Wait()
	for i, e := range p.endpoints {
		a := e.assumed
		if n := tree.PodBlocks(a.slot); n != a.cache.Len() || a.cache.Held() > 64 {
			t.Errorf("endpoint %d: %d blocks are in the tree, %d in the list, %d are held", i, n, a.cache.Len(), a.cache.Held())
		}
	}
	if err := p.Set(nil); err != nil {
		t.Fatal(err)
	}
	if n := tree.Stats().Blocks; n != 0 {
		t.Errorf("%d blocks are left without endpoints", n)
	}
}
