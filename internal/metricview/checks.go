package metricview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/score"
)

// The thresholds. An alert with a duration asks that the value stays beyond for so
// long; the values for WARN are where one should look.
const (
	cacheMatchAlert     = .40 // p50 below it
	cacheMatchFor       = 10 * time.Minute
	queueAlert          = .80 // of maxQueue
	queueFor            = 5 * time.Minute
	staleAlert          = .05 // of the decisions
	staleWarn           = .03
	scoringLatencyAlert = 5000. // p99, in microseconds
	scoringLatencyWarn  = 1000.
	adapterLoadsWarn    = 2. // a minute, of one adapter
)

// Held remembers since when checks are beyond their thresholds. The zero value is
// ready.
type Held struct {
	since   map[string]time.Time
	touched map[string]bool // in the present look
}

// seconds is for how long a thing has been beyond, as far as it was looked at.
func (h *Held) seconds(what string, beyond bool, now time.Time) float64 {
	if h == nil || !beyond {
		return 0
	}
	if h.since == nil {
		h.since, h.touched = map[string]time.Time{}, map[string]bool{}
	}
	if _, there := h.since[what]; !there {
		h.since[what] = now
	}
	h.touched[what] = true
	return now.Sub(h.since[what]).Seconds()
}

// forget drops what is not beyond any more, or not there.
func (h *Held) forget() {
	if h == nil {
		return
	}
	maps.DeleteFunc(h.since, func(what string, _ time.Time) bool { return !h.touched[what] })
	clear(h.touched)
}

// judge fills in the checks.
func (d *Document) judge(held *Held, now time.Time) {
	j := &judge{d: d, held: held, now: now}
	if d.Window.Seconds != nil {
		j.window = *d.Window.Seconds
	}
	for _, check := range []func() Check{
		j.cacheMatch, j.queue, j.stale, j.scoringLatency, j.compositeScore, j.health, j.candidates, j.prefixTree, j.adapterLoads,
	} {
		d.Checks = append(d.Checks, check())
	}
	if n := len(d.Failed); n > 0 {
		d.Checks = append(d.Checks, Check{
			Code: "replicas", Status: Warn, Value: known(float64(n)), Saw: fmt.Sprintf("%d of %d gave no page", n, n+len(d.Pages)),
		})
	}
	held.forget()
	d.Status = worst(d.Checks)
}

// severity orders the judgements; Unknown is no finding.
var severity = []Status{Unknown, OK, Warn, Alert}

func worst(checks []Check) Status {
	status := Unknown
	for _, c := range checks {
		if slices.Index(severity, c.Status) > slices.Index(severity, status) {
			status = c.Status
		}
	}
	return status
}

// AtLeast reports whether a judgement is as bad as another, or worse.
func (s Status) AtLeast(limit Status) bool {
	return slices.Index(severity, s) >= slices.Index(severity, limit)
}

type judge struct {
	d      *Document
	held   *Held
	now    time.Time
	window float64 // seconds that distributions are about
}

// unknown is a check without a value.
func unknown(code, alert, why string) Check {
	return Check{Code: code, Status: Unknown, Saw: why, Alert: alert}
}

// lasting judges an alert that asks for a duration: beyond for a shorter time is a
// warning.
func (c *Check) lasting(beyond bool, asked time.Duration, seen float64) {
	c.Status, c.ForSeconds = OK, asked.Seconds()
	if !beyond {
		return
	}
	c.Status, c.SeenSeconds = Warn, seen
	if seen >= asked.Seconds() {
		c.Status = Alert
	}
}

// stepped judges a value that should be small.
func (c *Check) stepped(v, warn, alert float64) {
	switch {
	case v > alert:
		c.Status = Alert
	case v > warn:
		c.Status = Warn
	default:
		c.Status = OK
	}
}

const (
	noFamily    = "not on the page"
	noDecisions = "no decisions in this time"
)

func (j *judge) cacheMatch() Check {
	const code, alert = "cache-match", "p50 < 0.40 for 10m"
	m := j.d.CacheMatch
	switch {
	case m == nil:
		return unknown(code, alert, noFamily)
	case m.P50 == nil:
		return unknown(code, alert, noDecisions)
	}
	c := Check{Code: code, Value: m.P50, Threshold: known(cacheMatchAlert), Alert: alert, Saw: fmt.Sprintf("p50 %.2f of %s decisions", *m.P50, Number(m.Count))}
	beyond := *m.P50 < cacheMatchAlert
	c.lasting(beyond, cacheMatchFor, max(j.window, j.held.seconds(code, beyond, j.now)))
	return c
}

func (j *judge) queue() Check {
	const code, alert = "queue", "a pod > 80% for 5m"
	var worst *Pod
	longest := 0.0
	beyond := 0
	for i := range j.d.Pods {
		p := &j.d.Pods[i]
		if p.QueueShare == nil {
			continue
		}
		over := *p.QueueShare > queueAlert
		longest = max(longest, j.held.seconds(code+"\x00"+p.Pod, over, j.now))
		if over {
			beyond++
		}
		if worst == nil || *p.QueueShare > *worst.QueueShare {
			worst = p
		}
	}
	if worst == nil {
		why := noFamily
		if len(j.d.Pods) > 0 && j.d.MaxQueue == nil {
			why = "maxQueue is not on the page"
		}
		return unknown(code, alert, why)
	}
	c := Check{Code: code, Value: worst.QueueShare, Threshold: known(queueAlert), Alert: alert}
	c.Saw = fmt.Sprintf("%s has %s of %s", worst.Pod, Number(*worst.Queue), Number(*j.d.MaxQueue))
	if beyond > 1 {
		c.Saw += fmt.Sprintf("; %d pods are above", beyond)
	}
	c.lasting(beyond > 0, queueFor, longest)
	return c
}

func (j *judge) stale() Check {
	const code, alert = "stale", "> 5%"
	s := j.d.Stale
	switch {
	case s == nil:
		return unknown(code, alert, noFamily)
	case s.Ratio == nil:
		return unknown(code, alert, noDecisions)
	}
	c := Check{Code: code, Value: s.Ratio, Threshold: known(staleAlert), Alert: alert}
	c.Saw = fmt.Sprintf("%s, %s of %s decisions", Percent(*s.Ratio), Number(s.Picks), Number(j.d.Routing.Decisions))
	c.stepped(*s.Ratio, staleWarn, staleAlert)
	return c
}

func (j *judge) scoringLatency() Check {
	const code, alert = "scoring-latency", "p99 > 5000 µs"
	l := j.d.ScoringLatencyUs
	switch {
	case l == nil:
		return unknown(code, alert, noFamily)
	case l.P99 == nil:
		return unknown(code, alert, noDecisions)
	}
	c := Check{Code: code, Value: l.P99, Threshold: known(scoringLatencyAlert), Alert: alert, Saw: "p99 " + l.quantile("p99", l.P99) + " µs"}
	if *l.P99 > scoringLatencyWarn {
		c.Saw += ", want < 1000"
	}
	c.stepped(*l.P99, scoringLatencyWarn, scoringLatencyAlert)
	return c
}

func (j *judge) compositeScore() Check {
	const code = "composite-score"
	s := j.d.CompositeScore
	if s == nil {
		return unknown(code, "", noFamily)
	}
	c := Check{Code: code, Status: OK, Value: s.P50}
	switch s.Shape {
	case ShapeBimodal:
		c.Saw = fmt.Sprintf("bimodal, near %.2f and %.2f", s.Modes[0], s.Modes[1])
	case ShapeLow:
		c.Status, c.Saw = Warn, fmt.Sprintf("low, near %.2f: the cache gives little", s.Modes[0])
	case ShapeSingle:
		c.Saw = fmt.Sprintf("not bimodal, near %.2f", s.Modes[0])
	default:
		c.Status, c.Saw = Unknown, fmt.Sprintf("%s scores are too few to say", Number(s.Count))
	}
	return c
}

// healthWarn is where trouble ceases to be minor: what is above, such as a cache with
// nothing in it, costs a pod a tie and no more.
const healthWarn = 0.7

func (j *judge) health() Check {
	const code, alert = "health", "a pod < 0.3"
	states := map[string]int{}
	var worst *Pod
	for i := range j.d.Pods {
		p := &j.d.Pods[i]
		states[p.State]++
		if p.Health != nil && (worst == nil || *p.Health < *worst.Health) {
			worst = p
		}
	}
	if worst == nil {
		return unknown(code, alert, noFamily)
	}
	c := Check{Code: code, Value: worst.Health, Threshold: known(score.HealthCutoff), Alert: alert, Status: OK}
	var parts []string
	for _, state := range []string{StateOut, StateDegraded, StateUnknown, StateOK} {
		if n := states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	c.Saw = strings.Join(parts, ", ")
	switch {
	case states[StateOut] > 0:
		c.Status = Alert
	case *worst.Health < healthWarn:
		c.Status = Warn
	}
	if states[StateOut]+states[StateDegraded] > 0 {
		c.Saw += fmt.Sprintf("; %s %.2f", worst.Pod, *worst.Health)
	}
	return c
}

func (j *judge) candidates() Check {
	const code, alert = "candidates", "none"
	n := j.d.CandidatePods
	if n == nil {
		return unknown(code, alert, noFamily)
	}
	c := Check{Code: code, Value: n, Threshold: known(0), Alert: alert, Status: OK, Saw: Number(*n)}
	if pool := j.d.PoolPods; pool != nil {
		c.Saw += " of " + Number(*pool)
		if *n < *pool {
			c.Status = Warn
		}
	}
	c.Saw += " pods"
	if *n <= 0 {
		c.Status = Alert
	}
	return c
}

func (j *judge) prefixTree() Check {
	const code = "prefix-tree"
	n := j.d.PrefixTree.Nodes
	if n == nil {
		return unknown(code, "", noFamily)
	}
	c := Check{Code: code, Value: n, Status: OK, Saw: Number(*n) + " blocks"}
	if b := j.d.PrefixTree.Bytes; b != nil {
		c.Saw += fmt.Sprintf(", %.1f MB", *b/1e6)
	}
	if *n == 0 && j.d.Routing != nil && j.d.Routing.Total > 0 {
		c.Status, c.Saw = Warn, "empty: no pod tells what it holds"
	}
	return c
}

func (j *judge) adapterLoads() Check {
	const code = "adapter-loads"
	if slices.ContainsFunc(j.d.Missing, func(m Missing) bool { return m.Question == adapterLoads.name }) {
		return unknown(code, "", noFamily)
	}
	c := Check{Code: code, Status: OK, Saw: "none"}
	if len(j.d.Adapters) == 0 {
		c.Value = known(0)
		return c
	}
	busiest := j.d.Adapters[0]
	c.Value = busiest.PerMinute
	c.Saw = fmt.Sprintf("%s loads of %s", Number(busiest.Loads), busiest.Adapter)
	if busiest.PerMinute == nil {
		return c
	}
	c.Saw = fmt.Sprintf("%s a minute of %s", Number(*busiest.PerMinute), busiest.Adapter)
	if *busiest.PerMinute > adapterLoadsWarn {
		c.Status = Warn
	}
	return c
}
