package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/load"
	"github.com/eppctl/eppctl/internal/record"
)

// A part of the trace is its first requests. To be quick they are shrunk: each of
// its blocks of 512 tokens, each prompt and each answer has only a share of its
// tokens, so that what prompts have in common stays as it is. With a number in
// EPPCTL_TRACE so many are read, and nothing is shrunk; .ci/foretold does that.
type part struct {
	file   *os.File
	lines  *bufio.Scanner
	model  string
	left   int
	shrink int
}

func newPart(t *testing.T) *part {
	t.Helper()
	file, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	p := &part{file: file, lines: bufio.NewScanner(file), left: 2000, shrink: 8}
	switch {
	case wholeTrace():
		if p.left, err = strconv.Atoi(os.Getenv("EPPCTL_TRACE")); err != nil {
			t.Fatalf("EPPCTL_TRACE: %v", err)
		}
		p.shrink = 1
	case testing.Short():
		p.left = 120
	}
	p.lines.Buffer(nil, 1<<20)
	return p
}

func wholeTrace() bool { return os.Getenv("EPPCTL_TRACE") != "" }

func (p *part) Close() error { return p.file.Close() }

// Next implements [load.Source]. Arrivals are so dense that the fleet is busy and
// not overrun: prefill takes most of its time.
func (p *part) Next() (*load.Arrival, error) {
	if p.left == 0 || !p.lines.Scan() {
		return nil, errors.Join(p.lines.Err(), io.EOF)
	}
	p.left--
	var l struct {
		Timestamp float64  `json:"timestamp"` // milliseconds
		Input     int      `json:"input_length"`
		Output    int      `json:"output_length"`
		Blocks    []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(p.lines.Bytes(), &l); err != nil {
		return nil, err
	}
	size := load.BlockTokens / p.shrink
	body := fmt.Appendf(nil, `{"model":%q,"max_tokens":%d,"prompt":[`, p.model, max(1, l.Output/p.shrink))
	for i := range max(1, l.Input/p.shrink) {
		if i > 0 {
			body = append(body, ',')
		}
		const mix, keep = 0x9e3779b97f4a7c15, 47 // other tokens for other places, below 2¹⁷
		body = strconv.AppendUint(body, (l.Blocks[i/size]*load.BlockTokens+uint64(i%size))*mix>>keep, 10)
	}
	at := time.Duration(2 * l.Timestamp / float64(p.shrink) * float64(time.Millisecond))
	return &load.Arrival{At: at, Path: completionsPath, Body: append(body, "]}"...)}, nil
}

// foretelling is a fleet of eight that publishes KV events, and a part of the trace.
type foretelling struct {
	*rig
	*part
}

func newForetelling(t *testing.T, speed float64, change func(o *Options, shrink int)) *foretelling {
	t.Helper()
	p := newPart(t)
	opts := serveOptions(8)
	opts.Sim.Events, opts.Sim.Speed, opts.Sim.Blocks = true, speed, 1<<20
	opts.Config.Intervals = config.Intervals{PodReportMs: 60_000, ScrapeMs: 5000, ProbeMs: 5000} // at such a speed
	opts.Config.Staleness = config.Staleness{MetricsSeconds: 1e6, ReportsSeconds: 1e6}
	opts.settle = patience // on a busy machine events take long
	change(&opts, p.shrink)
	f := &foretelling{start(t, opts), p}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	f.ctx, p.model = ctx, f.rig.model
	return f
}

// together sends the requests at their times.
func (f *foretelling) together() {
	f.t.Helper()
	result, err := load.Run(f.ctx, load.Config{
		Source: f.part, URL: "http://" + f.at.Gateway, Model: f.part.model, Clock: f.server.clock, Drain: patience,
	})
	f.must(err)
	f.must(f.Close())
	if result.Failed > 0 {
		f.t.Fatalf("%d requests failed, the first: %s", result.Failed, result.FirstFailure)
	}
}

// oneByOne sends each request when the one before it has ended. Their IDs are
// numbers from 0.
func (f *foretelling) oneByOne(before func(n int)) {
	f.t.Helper()
	for n := 0; ; n++ {
		a, err := f.Next()
		if errors.Is(err, io.EOF) {
			f.must(f.Close())
			return
		}
		f.must(err)
		before(n)
		req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, "http://"+f.at.Gateway+a.Path, bytes.NewReader(a.Body))
		f.must(err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", strconv.Itoa(n))
		res, err := f.client.Do(req)
		f.must(err)
		text, err := io.ReadAll(res.Body)
		f.must(errors.Join(err, res.Body.Close()))
		if res.StatusCode != http.StatusOK {
			f.t.Fatalf("request %d: status %d: %s", n, res.StatusCode, text)
		}
	}
}

// account is how many requests there were, how many of them found less and more
// than predicted, and how many there are of each class.
type account struct {
	requests, less, more int
	lessAs, moreAs       map[string]int
}

// account reads all records. What nothing explains yet is waited for.
func (f *foretelling) account() (a account) {
	f.t.Helper()
	f.inFlight(0)
	for range patience / (100 * time.Millisecond) {
		a = f.count(func(*explain.Record) bool { return true })
		if a.lessAs[explain.PredictionUnexplained]+a.moreAs[explain.PredictionUnexplained] == 0 {
			break
		}
		f.must((clock.Wall{}).Sleep(f.ctx, 100*time.Millisecond))
	}
	f.t.Logf("%d requests; less than predicted: %v; more: %v", a.requests, a.lessAs, a.moreAs)
	return a
}

func (f *foretelling) count(which func(rec *explain.Record) bool) account {
	f.t.Helper()
	a := account{lessAs: map[string]int{}, moreAs: map[string]int{}}
	f.must(f.server.store.Walk(f.ctx, record.Query{}, func(rec *explain.Record) bool {
		if !which(rec) {
			return true
		}
		a.requests++
		o := &rec.Outcome
		switch p, c := countOf(f.t, "prediction", o.PredictedCached), countOf(f.t, "count", o.CachedTokens); {
		case p > c:
			a.less++
			a.lessAs[o.Prediction]++
		case p < c:
			a.more++
			a.moreAs[o.Prediction]++
		case o.Prediction != explain.PredictionMet:
			f.t.Errorf("%s: %d tokens as predicted are classed %q", rec.RequestID, c, o.Prediction)
		}
		return true
	}))
	return a
}

func sum(of map[string]int, classes ...string) (n int) {
	for _, class := range classes {
		n += of[class]
	}
	return n
}

func whole(*Options, int) {}

func evicting(o *Options, shrink int) { o.Sim.Blocks = 8192 / shrink }

// Without eviction nothing is predicted that is not found.
func TestForetoldTogether(t *testing.T) {
	f := newForetelling(t, 20, whole)
	f.together()
	a := f.account()
	if a.less != 0 || a.more != a.moreAs[explain.PredictionInFlight] {
		t.Errorf("%+v", a)
	}
	// How many events are on their way when a request comes is the machine's to say,
	// which other packages' tests keep busy; .ci/foretold has it for itself.
	most := a.requests / 10
	if wholeTrace() {
		most = a.requests / 100
	}
	if a.more > most && !testing.Short() { // the trace begins with a crowd
		t.Errorf("%d of %d found more than predicted, want at most %d", a.more, a.requests, most)
	}
	if n := f.ours("epp_stale_cache_routing_total"); n != "0" {
		t.Errorf("%s picks were for a stale cache", n)
	}
}

// When each event comes before the next request, everything is found as predicted.
func TestForetoldOneByOne(t *testing.T) {
	for name, blocks := range map[string]func(*Options, int){"without eviction": whole, "with eviction": evicting} {
		t.Run(name, func(t *testing.T) {
			f := newForetelling(t, 500, blocks)
			f.oneByOne(func(int) { f.applied() })
			if a := f.account(); a.less+a.more != 0 {
				t.Errorf("%+v", a)
			}
			f.known()
		})
	}
}

// Evictions that the pick could not know of explain all that was not there.
func TestForetoldWithEviction(t *testing.T) {
	f := newForetelling(t, 40, evicting)
	f.together()
	a := f.account()
	if n := sum(a.lessAs, explain.PredictionRaced, explain.PredictionUnseen); n != a.less || a.less == 0 && !testing.Short() {
		t.Errorf("%d of %d that found less are explained by evictions", n, a.less)
	}
	if n := sum(a.moreAs, explain.PredictionInFlight); n != a.more {
		t.Errorf("%d of %d that found more are explained by events in flight", n, a.more)
	}
	f.known()
	stale, err := strconv.Atoi(f.ours("epp_stale_cache_routing_total"))
	if err != nil || stale < a.less {
		t.Errorf("%d picks were for a stale cache, of which %d found less", stale, a.less)
	}
}

// known fails unless what is known of each pod is what it has in its cache. That the
// very last events of a pod were lost, nobody can know yet.
func (f *foretelling) known() {
	f.t.Helper()
	aware := f.applied()
	for _, v := range f.server.pool.Views() {
		s, pod := &v.Streams[0], f.pod(v.State.Pod)
		if !aware[pod.Name] {
			continue
		}
		if s.Blocks != pod.BlocksCached || s.TreeBlocks != pod.BlocksCached {
			f.t.Errorf("%s has %d blocks; %d are known, %d of them in the tree", pod.Name, pod.BlocksCached, s.Blocks, s.TreeBlocks)
		}
	}
}

// applied waits until all events that were sent are applied, and says of which pods
// all that were lost are known to be.
func (r *rig) applied() (aware map[string]bool) {
	r.t.Helper()
	r.until("all events are applied", func() bool {
		aware = map[string]bool{}
		for _, v := range r.server.pool.Views() {
			s, pod := &v.Streams[0], r.pod(v.State.Pod)
			if s.Waiting || s.Batches != pod.Batches-pod.BatchesLost+s.Recovered {
				return false
			}
			aware[pod.Name] = s.Missed == pod.BatchesLost
		}
		return true
	})
	return aware
}

// With some events lost for good, the gaps are counted and the pods marked. What is
// claimed in spite of them is counted; and when a gap clears what was known, nothing is.
func TestForetoldWithLoss(t *testing.T) {
	for _, onGap := range []string{"keep", "clear"} {
		t.Run(onGap, func(t *testing.T) {
			f := newForetelling(t, 500, func(o *Options, shrink int) {
				evicting(o, shrink)
				o.Sim.EventLoss, o.Sim.NoReplays, o.Config.Events.OnGap = .01, true, onGap
			})
			f.left /= 2
			var aware []map[string]bool // before each request
			f.oneByOne(func(int) { aware = append(aware, f.applied()) })
			a := f.account()
			if a.less != a.lessAs[explain.PredictionAfterGap] {
				t.Errorf("less was found for other reasons than a gap: %v", a.lessAs)
			}
			if n := f.ours("epp_stale_cache_routing_total"); n != strconv.Itoa(a.less) {
				t.Errorf("%s picks were for a stale cache, want %d", n, a.less)
			}
			f.gapsAreMarked()
			if onGap == "keep" {
				return
			}
			after := f.count(func(rec *explain.Record) bool {
				n, err := strconv.Atoi(rec.RequestID)
				f.must(err)
				return aware[n][rec.Result.Pod]
			})
			if after.less != 0 || after.requests == 0 {
				t.Errorf("%d of %d picks of pods whose gaps were known counted on what was not there", after.less, after.requests)
			}
		})
	}
}

// What was lost and can be had again leaves no trace.
func TestForetoldWithLossMadeUp(t *testing.T) {
	f := newForetelling(t, 500, func(o *Options, shrink int) {
		evicting(o, shrink)
		o.Sim.EventLoss = .01
	})
	f.left = min(f.left, 200)
	f.oneByOne(func(int) { f.applied() })
	if a := f.account(); a.less != 0 || a.more != 0 {
		t.Errorf("%d found less and %d more than was foretold", a.less, a.more)
	}
	f.known()
}

// gapsAreMarked compares what is known of lost events with what was lost.
func (f *foretelling) gapsAreMarked() {
	f.t.Helper()
	aware := f.applied()
	var lost, missed, marked uint64
	pods := f.pods()
	for _, v := range f.server.pool.Views() {
		s, name := &v.Streams[0], v.State.Pod
		lost, missed = lost+f.pod(name).BatchesLost, missed+s.Missed
		if got := pods[name].Streams[0].Counts.Missed; got != s.Missed || aware[name] && s.Missed > 0 && s.Gaps == 0 {
			f.t.Errorf("%s: %d gaps of %d batches; the admin API says %d", name, s.Gaps, s.Missed, got)
		}
		if s.Degraded.String() != "" {
			marked++
		} else if s.ReplaysSpared > 0 {
			f.t.Errorf("%s is not marked, and what it missed was not asked for", name)
		}
	}
	f.t.Logf("%d batches lost, of which %d are known to be; %d pods are marked", lost, missed, marked)
	if missed > lost || (missed == 0 || marked == 0) && !testing.Short() {
		f.t.Errorf("%d batches lost, of which %d are known to be; %d pods are marked", lost, missed, marked)
	}
}
