package pool

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

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
