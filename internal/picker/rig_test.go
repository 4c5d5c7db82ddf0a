package picker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

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
