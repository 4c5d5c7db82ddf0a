package pool

import (
	"testing"
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
