package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/score"
)

// picking is the picker of eppctl serve, told of pods at computed times.
type picking struct {
	run     *run
	clock   *virtual
	pool    *pool.Pool
	tree    *prefix.Tree
	picker  *picker.Picker
	targets []engine.Target
	byName  map[string]int
	feeds   []*feed // of KV events, by pod; nil when there are none
	sent    []sent  // reports, by pod
	oracle  bool    // knows caches and queues as they are at the moment of a pick

	memory  []uint32
	request request.Request
	prompts [1][]uint32
	call    picker.Call
}

// sent is how far a pod's reports have come.
type sent struct {
	seq  uint64
	full bool // the next one has to be
	host string
}

// virtual is the clock of a run.
type virtual struct{ run *run }

// epoch is when runs begin; nothing depends on it.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (v *virtual) Now() time.Time { return epoch.Add(v.run.now) }

// Sleep is not for a run, in which nobody waits.
func (v *virtual) Sleep(context.Context, time.Duration) error { panic("simulate: nobody waits here") }

func (v *virtual) Scale() float64 { return 1 }

func newPicking(r *run, w score.Weights, oracle bool) (*picking, error) {
	in := &r.cfg.Profile.Intervals
	k := &picking{
		run: r, clock: &virtual{r}, tree: prefix.New(), byName: map[string]int{}, oracle: oracle,
		sent: make([]sent, len(r.pods)),
	}
	limits := pool.Limits{
		Metrics: time.Duration(in.Stale), Reports: 3 * time.Duration(in.Report), Events: 6 * time.Duration(in.Stale),
		Allowance: time.Duration(in.Allowance),
	}
	if oracle {
		limits.Allowance = 1 // a scrape knows of all but the picks of its own moment
	}
	k.pool = pool.New(pool.Config{Clock: k.clock, Tree: k.tree, BlockSize: vllm.TokensPerBlock, Limits: limits})
	var err error
	k.picker, err = picker.New(picker.Config{
		Pool: k.pool, Tree: k.tree, Recorder: cmp.Or[picker.Recorder](r.cfg.Recorder, unrecorded{}), Clock: k.clock, Weights: w, BlockSize: vllm.TokensPerBlock,
		Random: rand.NewPCG(r.cfg.Seed, 1), Hasty: true,
	})
	if err != nil {
		return nil, err
	}
	k.request = request.Request{
		Kind: request.Completions, Stream: true, Choices: 1, HasMaxTokens: true, TokensFrom: request.FromIDs,
	}
	k.call = picker.Call{ID: "simulated", Path: "/v1/completions", Request: &k.request}
	return k, k.join()
}

// join makes the pods members of the pool, which know their models.
func (k *picking) join() error {
	var members []pool.Member
	for i, p := range k.run.pods {
		host, _, err := net.SplitHostPort(p.Address)
		if err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
		k.byName[p.Name], k.sent[i] = i, sent{full: true, host: host}
		members = append(members, pool.Member{Name: p.Name, Address: p.Address, Events: pool.EventsOff})
	}
	if err := k.pool.Set(members); err != nil {
		return err
	}
	models := []engine.Model{{ID: k.run.cfg.Profile.Model}}
	for _, a := range k.run.cfg.Trace.Adapters {
		models = append(models, engine.Model{ID: a.Name, Parent: k.run.cfg.Profile.Model})
	}
	byName := map[string]engine.Target{}
	for _, t := range k.pool.Targets() {
		byName[t.Name] = t
		k.pool.Listed(t, models, nil)
	}
	for _, p := range k.run.pods {
		k.targets = append(k.targets, byName[p.Name])
		if k.oracle || k.run.cfg.Profile.Cache == byEvents {
			f, err := k.listen(byName[p.Name])
			if err != nil {
				return err
			}
			k.feeds = append(k.feeds, f)
		}
	}
	return nil
}

func (k *picking) wants() (every [podAlarms]time.Duration) {
	in := &k.run.cfg.Profile.Intervals
	for alarm, d := range map[int]Duration{alarmReport: in.Report, alarmGPU: in.GPU, alarmProbe: in.Probe, alarmMetrics: in.Metrics} {
		every[alarm] = time.Duration(d)
	}
	if k.feeds != nil {
		every[alarmEvents] = max(1, time.Duration(in.Events))
	}
	if k.oracle {
		every[alarmEvents] = 1
	}
	return every
}

func (k *picking) route(j *job) {
	if k.oracle {
		for _, p := range k.run.pods {
			k.hear(alarmMetrics, p)
		}
	}
	q := j.request
	k.memory = text(q.Prompt).Append(k.memory[:0], 0, q.Input())
	k.prompts[0] = k.memory
	r := &k.request
	r.Model, r.Tokens, r.PromptTokens, r.TotalTokens, r.MaxTokens = k.run.cfg.Profile.Model, k.memory, k.prompts[:], len(k.memory), q.Output
	if q.Adapter != "" {
		r.Model = q.Adapter
	}
	k.call.Arrival = k.clock.Now()
	pick, err := k.picker.Pick(context.Background(), &k.call)
	if err != nil {
		return // a refusal: nothing else can go wrong
	}
	j.ticket, j.pod = pick, k.run.pods[k.byName[pick.Pod()]]
}

func (k *picking) reroute(j *job) bool {
	pick := j.ticket.(*picker.Pick)
	if !pick.Second("connection refused") {
		return false
	}
	j.pod = k.run.pods[k.byName[pick.Pod()]]
	return j.pod.engine != nil
}

func (k *picking) answered(j *job) {
	pick := j.ticket.(*picker.Pick)
	pick.Answered(200)
	pick.FirstByte()
}

func (k *picking) ended(j *job, how Ending) {
	pick := j.ticket.(*picker.Pick)
	end := picker.End{Status: 502, Error: picker.ErrorUpstreamClosed, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}
	switch how {
	case Completed:
		end = picker.End{
			Status: 200, ServedEndpoint: pick.Endpoint(),
			PromptTokens: j.request.Input(), CachedTokens: j.seq.Cached, OutputTokens: len(j.seq.Output),
		}
	case Refused:
		end.Status, end.Error = 400, ""
	case Rejected, Failed:
	}
	pick.Done(end)
}

func (k *picking) close() error { return k.picker.Close(context.Background()) }

// hear tells the pool what the watchers of engines would.
func (k *picking) hear(alarm int, p *pod) {
	now := k.clock.Now()
	t := k.targets[p.index]
	switch alarm {
	case alarmMetrics:
		s := engine.Scrape{Start: now, End: now, Err: errDown}
		if p.engine != nil {
			s.Page, s.Err = page(p, k.run.now), nil
		}
		k.pool.Scraped(t, s)
	case alarmProbe:
		k.pool.Probed(t, engine.Probe{Healthy: p.engine != nil, Refused: p.engine == nil, Reason: reasonDown(p), At: now})
	case alarmGPU:
		m := engine.Measurement{At: now, Err: errDown}
		if p.engine != nil {
			share := p.meter.Read(k.run.now, p.engine.Stats(k.run.now).Busy)
			m = engine.Measurement{At: now, GPU: engine.GPU{Utilization: known(percent(share))}}
		}
		k.pool.Measured(t, m)
	case alarmReport:
		k.report(p)
	}
}

// report lets the pod send its status report.
func (k *picking) report(p *pod) {
	s := &k.sent[p.index]
	if p.engine == nil {
		s.full = true
		return
	}
	stats := p.engine.Stats(k.run.now)
	base := report.Report{
		Pod: p.Name, Epoch: p.life, Model: k.run.cfg.Profile.Model, BlockSize: vllm.TokensPerBlock,
		Adapters: stats.LoadedAdapters, QueueDepth: &stats.Waiting, Health: new(1.0),
		GPUUtilization: p.usage.Read(k.run.now, stats.Busy), TakenAt: k.clock.Now(),
	}
	var changes vllm.Changes
	if k.feeds == nil { // else nobody would look at them
		changes = p.engine.Changes(s.full)
	}
	for _, part := range status.Reports(base, changes, report.MaxBlocks) {
		s.seq++
		part.Seq = s.seq
		resync, err := k.pool.Report(part, s.host)
		if s.full = resync || err != nil; s.full {
			return
		}
	}
}

// unrecorded keeps no records.
type unrecorded struct{}

func (unrecorded) Append(*record.Entry) record.Handle           { return 0 }
func (unrecorded) Complete(record.Handle, *record.Outcome) bool { return true }
