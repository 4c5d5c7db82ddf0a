package pool

import (
	"math"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/health"
	"github.com/eppctl/eppctl/score"
)

// vitals is what an endpoint's health is judged by, beside its probe's and its
// report's readings.
type vitals struct {
	probe, generation    health.Check
	doubleBit, singleBit health.Counter
	gpu                  engine.GPU
	model, warm          health.Answer

	generated, measured instant // when there was news of these
	drained             instant // since when; never = it is not

	signals    health.Signals // that the assessment is of
	assessment health.Assessment
	note       string
	judged     bool
}

// unfelt is the state of an endpoint of which nothing is known.
func unfelt() vitals { return vitals{generated: never, measured: never, drained: never} }

// feel is the health as decisions see it, and until when it counts. It is known when
// there is a fresh probe or report, or an operator's word; what else is known makes it
// better or worse.
func (e *endpoint) feel(now instant, l Limits) (r reading, until instant) {
	v := &e.vitals
	s := e.signals(now, l)
	switch {
	case s.Drained || s.Probe.Known || s.Reported.Known:
		if !v.judged || s != v.signals {
			v.signals, v.judged = s, true
			v.assessment = health.Assess(&s)
			v.note = v.assessment.Note()
		}
		r, until = e.from(&s, l)
	case v.judged:
		r, until = newer(e.probe, e.reportHealth), never // stale
	default:
		return none, never
	}
	r.value, r.note = v.assessment.Score, v.note
	return r, until
}

// signals are what is known and not too old.
func (e *endpoint) signals(now instant, l Limits) (s health.Signals) {
	v, at := &e.vitals, time.Duration(now)
	s.Drained, s.Model = v.drained != never, v.model
	if now <= e.probe.expires(l) {
		s.Probe, s.Warm = v.probe.Standing(at), v.warm
	}
	if now <= e.reportHealth.expires(l) {
		s.Reported = health.Of(e.reportHealth.value)
	}
	if v.generated != never && now <= v.generated+instant(l.Generation) {
		s.Generation = v.generation.Standing(at)
	}
	if v.measured != never && now <= v.measured+instant(l.Metrics) {
		s.DoubleBit, s.SingleBit = v.doubleBit.New(at), v.singleBit.New(at)
		s.XID, s.Hottest, s.Throttle = number(v.gpu.XID), number(v.gpu.Temperature), number(v.gpu.Throttled)
		if used, free := v.gpu.MemoryUsed, v.gpu.MemoryFree; used.Known && free.Known && used.V+free.V > 0 {
			s.Memory = health.Of(used.V / (used.V + free.V))
		}
	}
	return s
}

func number(v engine.Value) health.Number { return health.Number{V: v.V, Known: v.Known} }

// from is where the health comes from: the signal that cost most. It counts as long
// as the probe or the report does.
func (e *endpoint) from(s *health.Signals, l Limits) (r reading, until instant) {
	v := &e.vitals
	until = never
	if s.Reported.Known {
		r, until = e.reportHealth, e.reportHealth.expires(l)
	}
	if s.Probe.Known {
		r, until = e.probe, max(until, e.probe.expires(l))
	}
	if len(v.assessment.Costs) == 0 {
		return r, until
	}
	switch v.assessment.Costs[0].Signal {
	case health.Operator:
		return reading{at: v.drained, source: score.SourceManual}, math.MaxInt64
	case health.Report:
		r = e.reportHealth
	case health.Generation:
		r = reading{at: v.generated, source: score.SourceProbe}
	case health.DoubleBit, health.SingleBit, health.XID, health.Temperature, health.Throttling, health.Memory:
		r = reading{at: v.measured, source: score.SourceDCGM}
	case health.Probe, health.Models, health.Warmth:
	}
	return r, until
}

// probed takes what a probe of an endpoint found. The pool's lock is held.
func (p *Pool) probed(e *endpoint, probe engine.Probe) {
	at := p.since(probe.At)
	if at < e.probe.at {
		return // something newer is known: a connection that was refused meanwhile
	}
	note(&e.vitals.probe, probe, time.Duration(at))
	e.probe = reading{at: at, source: score.SourceProbe}
	e.vitals.warm = p.warmth(e)
	e.arrange(p.now(), p.cfg.Limits)
}

// measured takes what the exporter says of the GPUs.
func (e *endpoint) measured(gpu *engine.GPU, at instant) {
	v := &e.vitals
	v.gpu, v.measured = *gpu, at
	if n := gpu.DoubleBitErrors; n.Known {
		v.doubleBit.Read(n.V, time.Duration(at))
	}
	if n := gpu.SingleBitErrors; n.Known {
		v.singleBit.Read(n.V, time.Duration(at))
	}
}

// note hands a probe to a check.
func note(c *health.Check, probe engine.Probe, at time.Duration) {
	switch {
	case probe.Healthy:
		c.Succeed(at)
	case probe.Refused:
		c.Break(at, probe.Reason)
	default:
		c.Fail(at, probe.Reason)
	}
}

// Generated takes whether an engine answered a request for one token. One that has
// requests waiting may have had no time for it.
func (p *Pool) Generated(t engine.Target, probe engine.Probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byID[t.ID]
	if e == nil {
		return
	}
	at, now := p.since(probe.At), p.now()
	e.vitals.generated = at
	if busy := e.waiting.value > 0 && now <= e.waiting.expires(p.cfg.Limits); busy && probe.Slow {
		e.vitals.generation.Hinder(time.Duration(at), probe.Reason+" with requests waiting")
	} else {
		note(&e.vitals.generation, probe, time.Duration(at))
	}
	e.arrange(now, p.cfg.Limits)
}

// warmth is whether anything is in an endpoint's cache.
func (p *Pool) warmth(e *endpoint) health.Answer {
	switch {
	case !e.cache.known(), p.now() > e.cache.expires(p.cfg.Limits), e.cache.source == score.SourceAssumed:
		return health.Unknown
	case p.treeBlocks(e) > 0:
		return health.Yes
	}
	return health.No
}

// loaded is whether an engine lists a model that requests can ask for.
func (c *catalogue) loaded(e *endpoint, configured []ModelEntry) health.Answer {
	if e.listed == nil {
		return health.Unknown
	}
	asked := len(configured) == 0 && len(e.models) > 0
	for _, m := range configured {
		asked = asked || slices.Contains(e.models, m.Name)
	}
	if asked {
		return health.Yes
	}
	return health.No
}

// Drain keeps new requests from the endpoints of a pod until it is undone or they
// leave the pool; those that run finish. It reports whether there is such a pod.
func (p *Pool) Drain(pod string, drained bool) (found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, e := range p.endpoints {
		if e.member.Name != pod {
			continue
		}
		found = true
		e.drain(drained, now)
		e.arrange(now, p.cfg.Limits)
	}
	return found
}

func (e *endpoint) drain(drained bool, now instant) {
	switch v := &e.vitals; {
	case !drained:
		v.drained = never
	case v.drained == never:
		v.drained = now
	}
}
