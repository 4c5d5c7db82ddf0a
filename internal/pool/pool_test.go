package pool

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const blockSize = 16

// newPool is a pool of pods a, b, … at 127.0.0.1:8000 and up, with its tree.
func newPool(t *testing.T, names ...string) (*Pool, *prefix.Tree) {
	t.Helper()
	tree := prefix.New()
	p := New(Config{Clock: clock.Wall{}, Tree: tree, BlockSize: blockSize})
	if err := p.Set(members(names...)); err != nil {
		t.Fatal(err)
	}
	return p, tree
}

func members(names ...string) []Member {
	out := make([]Member, len(names))
	for i, n := range names {
		out[i] = Member{Name: n, Address: "127.0.0.1:80" + string('0'+rune(i/10)) + string('0'+rune(i%10))}
	}
	return out
}

func (p *Pool) target(pod string) engine.Target {
	for _, t := range p.Targets() {
		if t.Name == pod {
			return t
		}
	}
	return engine.Target{}
}

// page is a metrics page of an idle engine.
func page() engine.Page {
	known := engine.Value{Known: true}
	return engine.Page{Engine: "vllm", Waiting: known, Running: known, KVUsage: known, AdaptersState: known}
}

func (p *Pool) scrape(pod string, page engine.Page) {
	now := time.Now()
	p.Scraped(p.target(pod), engine.Scrape{Page: page, Start: now, End: now})
}

func (p *Pool) state(t *testing.T, pod string) score.PodState {
	t.Helper()
	states, _ := p.States(nil, &Query{})
	for _, s := range states {
		if s.Pod == pod {
			return s
		}
	}
	t.Fatalf("no pod %s", pod)
	return score.PodState{}
}

// send applies a report and fails the test when it is refused.
func (p *Pool) send(t *testing.T, r *report.Report) (resync bool) {
	t.Helper()
	if r.BlockSize == 0 {
		r.BlockSize = blockSize
	}
	r.TakenAt = time.Now()
	resync, err := p.Report(r, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return resync
}

func blocks(n int) []uint64 {
	tokens := make([]uint32, n*blockSize)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	return prefix.Fingerprints(nil, prefix.Root("m", "", ""), tokens, blockSize)
}

func chain(b []uint64) []report.Chain { return []report.Chain{{Root: true, Blocks: b}} }

func matched(p *Pool, tree *prefix.Tree, fps []uint64, pod string) float64 {
	counts := make([]uint32, tree.Slots())
	tree.Lookup(fps, counts)
	states, _ := p.States(nil, &Query{Matches: []Match{{BlockSize: blockSize, Blocks: fps, Counts: counts}}})
	for _, s := range states {
		if s.Pod == pod {
			return s.Cache.Value
		}
	}
	return -1
}

func TestReportsInOrder(t *testing.T) {
	b := blocks(8)
	full := func(epoch, seq uint64, n int) *report.Report {
		return &report.Report{Pod: "a", Epoch: epoch, Seq: seq, Full: true, Model: "m", Chains: chain(b[:n])}
	}
	more := func(epoch, seq uint64, from, to int) *report.Report {
		return &report.Report{Pod: "a", Epoch: epoch, Seq: seq, Model: "m", Chains: []report.Chain{{Parent: b[from-1], Blocks: b[from:to]}}}
	}
	t.Run("an increment continues a full report", func(t *testing.T) {
		p, tree := newPool(t, "a", "b")
		if p.send(t, full(1, 1, 4)) || p.send(t, more(1, 2, 4, 8)) {
			t.Error("a resync was asked for")
		}
		if n := matched(p, tree, b, "a"); n != 8 {
			t.Errorf("%v blocks match, want 8", n)
		}
	})
	t.Run("a gap asks for everything, and counts once", func(t *testing.T) {
		p, tree := newPool(t, "a")
		p.send(t, full(1, 1, 4))
		for seq := uint64(4); seq < 7; seq++ {
			if !p.send(t, more(1, seq, 4, 8)) {
				t.Errorf("report %d after 1: no resync", seq)
			}
		}
		if v := p.Views()[0]; v.ReportGaps != 2 || v.Resyncs != 3 {
			t.Errorf("%d reports missed, %d resyncs; want 2, 3", v.ReportGaps, v.Resyncs)
		}
		if n := matched(p, tree, b, "a"); n != 4 {
			t.Errorf("%v blocks match, want the 4 of before the gap", n)
		}
	})
	t.Run("an increment of an unknown pod asks for everything", func(t *testing.T) {
		p, _ := newPool(t, "a")
		if !p.send(t, more(1, 7, 4, 8)) {
			t.Error("no resync")
		}
	})
	t.Run("a report that was overtaken changes nothing", func(t *testing.T) {
		p, tree := newPool(t, "a")
		p.send(t, full(1, 2, 8))
		if p.send(t, full(1, 1, 1)) || p.send(t, more(1, 2, 4, 8)) {
			t.Error("a resync was asked for")
		}
		if n := matched(p, tree, b, "a"); n != 8 {
			t.Errorf("%v blocks match, want 8", n)
		}
	})
	t.Run("a restart clears the pod, whose cache is then unknown", func(t *testing.T) { // case K3
		p, tree := newPool(t, "a")
		p.send(t, full(1, 5, 8))
		if !p.send(t, more(2, 1, 4, 8)) {
			t.Error("no resync after the restart")
		}
		if n := matched(p, tree, b, "a"); n != 0 {
			t.Errorf("%v blocks match after the restart, want 0", n)
		}
		if s := p.state(t, "a"); s.Cache.State != score.Unknown {
			t.Errorf("cache is %v, want unknown until the pod reports in full", s.Cache.State)
		}
		if p.send(t, more(1, 6, 4, 8)) {
			t.Error("a late report of the time before the restart asks for a resync")
		}
		p.send(t, full(2, 2, 2))
		if n := matched(p, tree, b, "a"); n != 2 {
			t.Errorf("%v blocks match after the full report, want 2", n)
		}
	})
	t.Run("a removed pod matches nothing under its old name", func(t *testing.T) { // case K3
		p, tree := newPool(t, "a")
		p.send(t, full(1, 1, 8))
		if err := p.Set(nil); err != nil {
			t.Fatal(err)
		}
		if err := p.Set(members("a")); err != nil {
			t.Fatal(err)
		}
		if n := matched(p, tree, b, "a"); n != 0 {
			t.Errorf("%v blocks match, want 0", n)
		}
		if !p.send(t, more(1, 2, 4, 8)) {
			t.Error("an increment of before it left was applied")
		}
	})
}

func TestReportsComeFromTheirPod(t *testing.T) {
	p, _ := newPool(t, "a")
	for _, tc := range []struct{ pod, from string }{{"nobody", "127.0.0.1"}, {"a", "10.0.0.9"}, {"a", ""}} {
		r := &report.Report{Pod: tc.pod, Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: blockSize}
		if _, err := p.Report(r, tc.from); !errors.Is(err, ErrNotMember) {
			t.Errorf("a report of %s from %q gave %v", tc.pod, tc.from, err)
		}
	}
	r := &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: blockSize}
	if _, err := p.Report(r, "::ffff:127.0.0.1"); err != nil {
		t.Errorf("the same address as IPv4 in IPv6: %v", err)
	}
	if err := p.Set([]Member{{Name: "n", Address: "localhost:80"}}); err != nil {
		t.Fatal(err)
	}
	r.Pod = "n"
	if _, err := p.Report(r, "127.0.0.1"); err != nil {
		t.Errorf("a report of an endpoint with a host name: %v", err)
	}
}

func TestBlockSizes(t *testing.T) {
	tokens := make([]uint32, 128)
	fps := func(size int) []uint64 { return prefix.Fingerprints(nil, prefix.Root("m", "", ""), tokens, size) }
	for _, tc := range []struct {
		name         string
		size, blocks int
		want         float64 // blocks of 16
		state        score.State
	}{
		{"a multiple", 32, 2, 4, score.Known},
		{"a divisor", 8, 5, 2, score.Known},
		{"anything else", 24, 2, 0, score.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, tree := newPool(t, "a")
			p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: tc.size, Chains: chain(fps(tc.size)[:tc.blocks])})
			var q Query
			for _, size := range p.BlockSizes() {
				m := Match{BlockSize: size, Blocks: fps(size), Counts: make([]uint32, tree.Slots())}
				tree.Lookup(m.Blocks, m.Counts)
				q.Matches = append(q.Matches, m)
			}
			states, _ := p.States(nil, &q)
			if s := states[0]; s.Cache.Value != tc.want || s.Cache.State != tc.state {
				t.Errorf("%v blocks of 16, %v; want %v, %v", s.Cache.Value, s.Cache.State, tc.want, tc.state)
			}
			if s := states[0]; tc.state == score.Unknown && (s.Notes == nil || s.Notes[score.CacheMatch] != "unknown: block size 24") {
				t.Errorf("notes %v", s.Notes)
			}
		})
	}
}

func TestReadings(t *testing.T) {
	t.Run("a page that answers 404 leaves the queue unknown, with the reason", func(t *testing.T) { // case M5
		p, _ := newPool(t, "a")
		p.Scraped(p.target("a"), engine.Scrape{Err: errors.New("HTTP 404 on port 8000")})
		s := p.state(t, "a")
		if s.Waiting.State != score.Unknown || s.Notes == nil || s.Notes[score.QueueDepth] != "HTTP 404 on port 8000" {
			t.Errorf("waiting %v, notes %v", s.Waiting, s.Notes)
		}
	})
	t.Run("a value of a page that fails later grows stale", func(t *testing.T) { // case M6
		synctest.Test(t, func(t *testing.T) {
			p, _ := newPool(t, "a")
			p.scrape("a", page())
			p.Scraped(p.target("a"), engine.Scrape{Start: p.cfg.Clock.Now(), Err: errors.New("timeout after 1s")})
			if s := p.state(t, "a"); s.Waiting.State != score.Known || s.Notes != nil && s.Notes[score.QueueDepth] != "" {
				t.Errorf("waiting %v, notes %v; want known without a note", s.Waiting, s.Notes)
			}
			time.Sleep(6 * time.Second)
			s := p.state(t, "a")
			if s.Waiting.State != score.Stale || s.Waiting.Age != 6*time.Second || s.Notes[score.QueueDepth] != "timeout after 1s" {
				t.Errorf("waiting %v, notes %v", s.Waiting, s.Notes)
			}
		})
	})
	t.Run("the newer of scrape and report wins", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := newPool(t, "a")
			p.scrape("a", page())
			time.Sleep(time.Millisecond)
			p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", QueueDepth: new(7), GPUUtilization: new(.5)})
			if s := p.state(t, "a"); s.Waiting.Value != 7 || s.Utilization != (score.Reading{Value: .5, State: score.Known, Source: score.SourceReport}) {
				t.Errorf("waiting %v, load %v", s.Waiting, s.Utilization)
			}
			time.Sleep(time.Millisecond)
			p.scrape("a", page())
			if s := p.state(t, "a"); s.Waiting.Value != 0 || s.Waiting.Source != score.SourceMetrics {
				t.Errorf("waiting %v, want the scrape's", s.Waiting)
			}
		})
	})
	t.Run("a load source that grows stale gives way to a fresh one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := newPool(t, "a")
			p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", GPUUtilization: new(.5)})
			time.Sleep(5 * time.Second)
			p.scrape("a", page())
			if s := p.state(t, "a"); s.Utilization.Source != score.SourceReport {
				t.Errorf("load by %v while the report is fresh", s.Utilization.Source)
			}
			time.Sleep(2 * time.Second)
			if s := p.state(t, "a"); s.Utilization.Source != score.SourceKVUsage || s.Utilization.State != score.Known {
				t.Errorf("load %v when the report is 7 s old, want KV usage", s.Utilization)
			}
		})
	})
	t.Run("a reading names the series it was read from", func(t *testing.T) { // case M4
		p, _ := newPool(t, "a")
		const waiting, usage = "vllm:num_requests_waiting", "vllm:gpu_cache_usage_perc"
		page := page()
		page.Waiting.Series, page.KVUsage.Series = waiting, usage
		p.scrape("a", page)
		if s := p.state(t, "a"); s.Notes[score.QueueDepth] != waiting || s.Notes[score.Load] != usage {
			t.Errorf("notes %q", s.Notes)
		}
	})
	t.Run("the load has the best source that is fresh", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := newPool(t)
			m := members("a")
			m[0].MaxRunning = 4
			if err := p.Set(m); err != nil {
				t.Fatal(err)
			}
			want := func(source score.Source, value float64) {
				t.Helper()
				if u := p.state(t, "a").Utilization; u.Source != source || u.Value != value || u.State != score.Known {
					t.Errorf("load %+v, want %v by %v", u, value, source)
				}
			}
			page := page()
			page.Running.V, page.KVUsage.V = 3, .25
			measured := func(u engine.Value, err error) {
				p.Measured(p.target("a"), engine.Measurement{GPU: engine.GPU{Utilization: u}, At: time.Now(), Err: err})
			}
			page.Running.Known = false
			p.scrape("a", page)
			want(score.SourceKVUsage, .25)
			page.Running.Known = true
			p.scrape("a", page)
			want(score.SourceRunning, .75)
			measured(engine.Value{Known: true, V: .9}, nil)
			want(score.SourceDCGM, .9)
			measured(engine.Value{}, errors.New("HTTP 404 on port 9400"))
			want(score.SourceDCGM, .9)
			time.Sleep(time.Millisecond)
			p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", GPUUtilization: new(.5)})
			want(score.SourceReport, .5)
			time.Sleep(time.Millisecond)
			measured(engine.Value{Known: true, V: .8}, nil)
			want(score.SourceDCGM, .8)
			time.Sleep(5500 * time.Millisecond) // the report lives longer
			want(score.SourceReport, .5)
			measured(engine.Value{Reason: "page has no DCGM_FI_DEV_GPU_UTIL"}, nil)
			time.Sleep(time.Second)
			p.scrape("a", page)
			want(score.SourceRunning, .75)
		})
	})
	t.Run("a scrape that started before one that is known is late", func(t *testing.T) {
		p, _ := newPool(t, "a")
		now := time.Now()
		newest := page()
		newest.Waiting.V = 3
		p.Scraped(p.target("a"), engine.Scrape{Page: newest, Start: now, End: now.Add(time.Millisecond)})
		p.Scraped(p.target("a"), engine.Scrape{Page: page(), Start: now.Add(-time.Millisecond), End: now.Add(2 * time.Millisecond)})
		p.Scraped(p.target("a"), engine.Scrape{Err: errors.New("late"), Start: now.Add(-time.Millisecond), End: now.Add(2 * time.Millisecond)})
		if v := p.Views()[0]; v.State.Waiting.Value != 3 || v.LastError != "" || v.Scrapes != 1 {
			t.Errorf("waiting %v, error %q, %d scrapes; want those of the newest", v.State.Waiting, v.LastError, v.Scrapes)
		}
	})
	t.Run("the engine is the one that is set, else the label's", func(t *testing.T) {
		for _, tt := range []struct{ set, label, want string }{
			{"", "", ""}, {"", "sglang", "sglang"}, {"", "triton", ""}, {"trtllm", "sglang", "trtllm"},
		} {
			p, _ := newPool(t)
			m := members("a")
			m[0].Engine, m[0].Labels, m[0].GPUURL = tt.set, map[string]string{"llm-d.ai/engine-type": tt.label}, "http://n:9400/metrics"
			if err := p.Set(m); err != nil {
				t.Fatal(err)
			}
			if got := p.target("a"); got.Engine != tt.want || got.GPUURL != m[0].GPUURL {
				t.Errorf("set %q, label %q: target %+v", tt.set, tt.label, got)
			}
		}
	})
	t.Run("a late answer of an earlier stay finds nobody", func(t *testing.T) {
		p, _ := newPool(t, "a")
		old := p.target("a")
		if err := p.Set(nil); err != nil {
			t.Fatal(err)
		}
		if err := p.Set(members("a")); err != nil {
			t.Fatal(err)
		}
		p.Scraped(old, engine.Scrape{Page: page(), Start: time.Now(), End: time.Now()})
		if s := p.state(t, "a"); s.Waiting.State != score.Unknown {
			t.Errorf("waiting %v", s.Waiting)
		}
	})
}

// A pod without history gets a share of the traffic: neither all of it nor none.
func TestNewPodGetsAShare(t *testing.T) { // case M7
	p, _ := newPool(t, "busy-1", "busy-2", "busy-3", "new")
	busy := page()
	busy.Waiting.V, busy.KVUsage.V = 2, .6
	for _, pod := range []string{"busy-1", "busy-2", "busy-3"} {
		p.scrape(pod, busy)
	}
	p.scrape("new", page())
	picks := map[string]int{}
	for range 40 {
		r := new(Reservation)
		pods, chosen, _ := p.Choose(nil, &Query{}, decider{t}, r)
		picks[pods[chosen].Pod]++
		if pods[chosen].Pod == "new" { // its load grows with what it gets, as it would
			loaded := page()
			loaded.KVUsage.V = .05 * float64(picks["new"])
			p.scrape("new", loaded)
		}
		defer r.Release()
	}
	if n := picks["new"]; n < 5 || n > 30 {
		t.Errorf("the new pod got %d of 40: %v", n, picks)
	}
}

// decider picks by the engine's default weights.
type decider struct{ t *testing.T }

func (d decider) Choose(pods []score.PodState, _ uint64) int {
	w := score.Default()
	var dec score.Decision
	score.Decide(&dec, &score.InferenceRequest{}, pods, nil, &w, 1)
	return dec.Winner
}

func TestAdapters(t *testing.T) {
	loaded := func(p *Pool, want ...string) {
		t.Helper()
		s := p.state(t, "a")
		if s.AdapterState != score.Known || !slices.Equal(s.Adapters, want) {
			t.Errorf("adapters %v (%v), want %v", s.Adapters, s.AdapterState, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, "a")
		running := page()
		running.Adapters, running.MaxAdapters = []string{"fr"}, 4
		p.scrape("a", running)
		loaded(p, "fr")
		time.Sleep(time.Millisecond)
		p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", Adapters: []string{"de", "fr"}})
		loaded(p, "de", "fr")
		time.Sleep(time.Millisecond)
		p.scrape("a", page()) // no request for an adapter runs: they are loaded all the same
		loaded(p, "de", "fr")
		running.Adapters = []string{"it"}
		time.Sleep(time.Millisecond)
		p.scrape("a", running) // loaded since the report
		loaded(p, "de", "fr", "it")
		time.Sleep(7 * time.Second)
		p.scrape("a", running) // the report is stale: what the page says is all that is known
		loaded(p, "it")
	})
}

func TestCatalogue(t *testing.T) {
	list := func(p *Pool, pod string, models ...engine.Model) { p.Listed(p.target(pod), models, nil) }
	served := func(t *testing.T, p *Pool, base string) (pods []string) {
		t.Helper()
		states, _ := p.States(nil, &Query{Base: base})
		for _, s := range states {
			if s.Excluded == score.Eligible {
				pods = append(pods, s.Pod)
			}
		}
		return pods
	}
	t.Run("names of one root are one model, in whatever order they are listed", func(t *testing.T) {
		p, _ := newPool(t, "a", "b")
		list(p, "a", engine.Model{ID: "m", Root: "r"}, engine.Model{ID: "alias", Root: "r"}, engine.Model{ID: "fr", Parent: "m"})
		list(p, "b", engine.Model{ID: "alias", Root: "r"}, engine.Model{ID: "m", Root: "r"})
		for _, name := range []string{"m", "alias"} {
			r := p.Resolve(name)
			if !r.Found || r.Base != "m" || len(served(t, p, r.Base)) != 2 {
				t.Errorf("%s is %+v, served by %v", name, r, served(t, p, r.Base))
			}
		}
		if r := p.Resolve("fr"); r != (Resolution{Base: "m", Adapter: "fr", Served: "fr", Found: true}) {
			t.Errorf("the adapter is %+v", r)
		}
		if r := p.Resolve("other"); r.Found || r.Unchecked {
			t.Errorf("an unknown name is %+v", r)
		}
	})
	t.Run("a configured catalogue knows the engines' names by its aliases", func(t *testing.T) {
		tree := prefix.New()
		p := New(Config{Clock: clock.Wall{}, Tree: tree, BlockSize: blockSize, Models: []ModelEntry{
			{Name: "llama", Aliases: []string{"meta/llama"}, Adapters: []string{"fr"}},
		}})
		if err := p.Set(members("a", "b")); err != nil {
			t.Fatal(err)
		}
		list(p, "a", engine.Model{ID: "meta/llama"})
		list(p, "b", engine.Model{ID: "other"})
		r := p.Resolve("fr")
		if r != (Resolution{Base: "llama", Adapter: "fr", Served: "fr", Found: true}) {
			t.Errorf("the adapter is %+v", r)
		}
		if got := served(t, p, "llama"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("llama is served by %v, want a", got)
		}
	})
	t.Run("without any source a name is taken as it is", func(t *testing.T) {
		p, _ := newPool(t, "a")
		if r := p.Resolve("x"); r != (Resolution{Base: "x", Served: "x", Unchecked: true}) {
			t.Errorf("%+v", r)
		}
		if got := served(t, p, "x"); len(got) != 1 {
			t.Errorf("served by %v", got)
		}
	})
}

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
