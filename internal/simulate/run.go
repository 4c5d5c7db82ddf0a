package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// The alarms of each pod, in the order in which those of one moment go off. Behind
// those of all pods come that of faults and that of arrivals.
const (
	alarmStep    = iota // of the engine
	alarmEvents         // KV events arrive
	alarmReport         // a status report
	alarmGPU            // the exporter is read
	alarmProbe          // of health
	alarmMetrics        // are scraped
	podAlarms
)

// A run is one policy with a fleet of its own.
type run struct {
	cfg    *Config
	router router
	pods   []*pod
	alarms *schedule
	now    time.Duration
	faults []fault // still to come, in order
	next   int     // request to arrive
	open   int     // requests that have arrived and not ended
	out    []Outcome
	events uint64 // that were simulated
	every  [podAlarms]time.Duration
}

// A job is a request that has arrived.
type job struct {
	run     *run
	index   int // of the request in the trace
	request *Request
	seq     vllm.Sequence
	pod     *pod
	ticket  any // the router's
}

func newRun(cfg *Config, p *Policy) (*run, error) {
	n := len(cfg.Pods)
	r := &run{
		cfg: cfg, alarms: newSchedule(n*podAlarms + 2), faults: cfg.faults(), out: make([]Outcome, len(cfg.Trace.Requests)),
	}
	adapters := cfg.Profile.adapters(cfg.Trace)
	for i, spec := range cfg.Pods {
		r.pods = append(r.pods, &pod{
			Pod: spec, index: i, cfg: cfg.Profile.engine(&spec.GPU, adapters), slow: 1, jobs: map[*job]struct{}{},
		})
	}
	var err error
	if r.router, err = p.router(r); err != nil {
		return nil, err
	}
	r.every = r.router.wants()
	for _, p := range r.pods {
		if r.every[alarmEvents] != 0 {
			p.cfg.Events = func(b vllm.Batch) { r.publish(p, b) }
		}
		if err := p.start(0); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkEvery is how many events are simulated between two looks at the context.
const checkEvery = 1 << 14

// simulate runs until all requests have ended.
func (r *run) simulate(ctx context.Context) error {
	r.begin()
	for r.open > 0 || r.next < len(r.out) {
		alarm, at := r.alarms.next()
		r.now = at
		r.events++
		if r.events%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.ring(alarm); err != nil {
			return err
		}
	}
	for _, p := range r.pods {
		if p.engine != nil {
			p.tally.add(p.engine.Stats(r.now).Totals)
		}
	}
	return r.router.close()
}

// begin tells the router of all pods as they are, and sets the alarms: the pods'
// turns are spread over an interval.
func (r *run) begin() {
	n := len(r.pods)
	for kind := alarmReport; kind < podAlarms; kind++ {
		for i := range r.pods {
			if r.every[kind] == 0 {
				continue
			}
			if kind != alarmReport {
				r.router.hear(kind, r.pods[i])
			}
			r.alarms.set(kind*n+i, r.every[kind]*time.Duration(i)/time.Duration(n))
		}
	}
	if len(r.faults) > 0 {
		r.alarms.set(podAlarms*n, r.faults[0].at)
	}
	r.alarms.set(podAlarms*n+1, r.cfg.Trace.Requests[0].At)
}

// ring does what an alarm is for and sets it anew.
func (r *run) ring(alarm int) error {
	n := len(r.pods)
	kind, i := alarm/n, alarm%n
	if kind >= podAlarms {
		if alarm == podAlarms*n {
			return r.fault()
		}
		r.arrive()
		return nil
	}
	p := r.pods[i]
	switch kind {
	case alarmStep:
		p.engine.Advance(r.now)
		p.look()
		r.wake(p)
	case alarmEvents:
		r.deliver(p)
	default:
		r.router.hear(kind, p)
		r.alarms.set(alarm, r.now+r.every[kind])
	}
	return nil
}

// wake sets the alarm for the end of the engine's step.
func (r *run) wake(p *pod) {
	at := never
	if p.engine != nil {
		if next, busy := p.engine.NextStep(); busy {
			at = next
		}
	}
	r.alarms.set(p.index, at)
}

// publish sends KV events on their way.
func (r *run) publish(p *pod, b vllm.Batch) {
	if len(p.batches) == 0 {
		r.alarms.set(alarmEvents*len(r.pods)+p.index, b.At+r.every[alarmEvents])
	}
	p.batches = append(p.batches, b)
}

// deliver hands over the KV events that have arrived.
func (r *run) deliver(p *pod) {
	due := never
	for len(p.batches) > 0 {
		if due = p.batches[0].At + r.every[alarmEvents]; due > r.now {
			break
		}
		r.router.events(p, &p.batches[0])
		p.batches[0] = vllm.Batch{}
		p.batches, due = p.batches[1:], never
	}
	r.alarms.set(alarmEvents*len(r.pods)+p.index, due)
}

// arrive lets the next request come.
func (r *run) arrive() {
	q := &r.cfg.Trace.Requests[r.next]
	j := &job{run: r, index: r.next, request: q}
	r.next++
	next := never
	if r.next < len(r.out) {
		next = r.cfg.Trace.Requests[r.next].At
	}
	r.alarms.set(podAlarms*len(r.pods)+1, next)
	r.open++
	if r.router.route(j); j.pod == nil {
		j.end(Rejected)
		return
	}
	if j.pod.engine == nil && !r.router.reroute(j) {
		j.end(Failed)
		return
	}
	j.submit()
	if r.cfg.Progress != nil {
		r.cfg.Progress()
	}
}

// submit gives the request to its pod.
func (j *job) submit() {
	q := j.request
	j.seq = vllm.Sequence{
		Text: text(q.Prompt), Adapter: q.Adapter, MaxTokens: q.Output, Choice: uint64(j.index), Stream: true, Progress: j.progress,
	}
	if q.Answer != 0 {
		j.seq.Answer = text{{ID: q.Answer, End: q.Output}}
	}
	if err := j.pod.engine.Submit(j.run.now, &j.seq); err != nil {
		j.end(Refused)
		return
	}
	j.pod.jobs[j] = struct{}{}
	j.pod.look()
	j.run.wake(j.pod)
}

// progress is called for each token.
func (j *job) progress() {
	if len(j.seq.Output) == 1 {
		j.run.router.answered(j)
	}
	if j.seq.State == vllm.Finished {
		delete(j.pod.jobs, j)
		j.end(Completed)
	}
}

// end notes how the request ended.
func (j *job) end(how Ending) {
	r := j.run
	o := &r.out[j.index]
	o.Ending, o.Pod, o.Ended = how, -1, r.now
	if j.pod != nil {
		o.Pod = int32(j.pod.index)
		r.router.ended(j, how)
	}
	if how == Completed {
		o.Cached = int32(j.seq.Cached)
		o.TTFT, o.E2E = j.seq.FirstToken-j.request.At, j.seq.Ended-j.request.At
		t := &j.pod.tally
		t.requests++
		t.input += j.request.Input()
		t.cached += j.seq.Cached
	}
	r.open--
}

// A fault is the begin or the end of a [Fault].
type fault struct {
	at   time.Duration
	pod  int
	slow float64 // 0: down
	over bool
}

// fault does the next one.
func (r *run) fault() error {
	f := r.faults[0]
	r.faults = r.faults[1:]
	next := never
	if len(r.faults) > 0 {
		next = r.faults[0].at
	}
	r.alarms.set(podAlarms*len(r.pods), next)
	p := r.pods[f.pod]
	switch {
	case f.slow > 0:
		if p.slow = f.slow; f.over {
			p.slow = 1
		}
		if p.engine != nil {
			p.engine.SetSlow(p.slow)
		}
	case f.over && p.engine == nil:
		if err := p.start(r.now); err != nil {
			return err
		}
		r.router.connected(p, true)
	case !f.over && p.engine != nil:
		r.kill(p)
	}
	return nil
}

// kill ends a pod's life, and all requests that are there.
func (r *run) kill(p *pod) {
	jobs := make([]*job, 0, len(p.jobs))
	for j := range p.jobs {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b *job) int { return a.index - b.index })
	clear(p.jobs)
	p.stop(r.now)
	r.wake(p)
	r.alarms.set(alarmEvents*len(r.pods)+p.index, never)
	r.router.connected(p, false)
	for _, j := range jobs {
		j.end(Failed)
	}
}
