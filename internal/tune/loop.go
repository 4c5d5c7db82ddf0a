package tune

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/score"
)

// A loop lets recorded arrivals come again to a simulated fleet, under several sets of
// weights: there every pick fills the queues and caches that later ones see.
type loop struct {
	opts     *Options
	w        *score.Weights
	profile  *simulate.Profile
	pods     []simulate.Pod
	segments []segment
}

// segment is a stretch of arrivals that come one after another, and begins with empty
// caches. The first few requests warm them and do not count.
type segment struct {
	trace *simulate.Trace
	at    time.Duration // of the first, in the whole trace
	warm  int
}

const (
	folds     = 4
	warmShare = 0.1 // of a segment
)

// segments cuts the trace: all of it when it has no more than limit requests, else a
// stretch at the end of each fold.
func segments(t *simulate.Trace, limit int) []segment {
	n := len(t.Requests)
	if n <= limit {
		return []segment{cut(t, 0, n)}
	}
	var out []segment
	for k := range folds {
		end := n * (k + 1) / folds
		out = append(out, cut(t, end-limit/folds, end))
	}
	return out
}

func cut(t *simulate.Trace, from, to int) segment {
	part := &simulate.Trace{Name: t.Name, Adapters: t.Adapters, Requests: slices.Clone(t.Requests[from:to])}
	first := part.Requests[0].At
	for i := range part.Requests {
		part.Requests[i].At -= first
	}
	return segment{trace: part, at: first, warm: int(warmShare * float64(to-from))}
}

// setUp makes a fleet like the recorded one, as far as records tell.
func setUp(t *Traffic, trace *simulate.Trace, w *score.Weights, o *Options) (*loop, error) {
	l := &loop{opts: o, w: w, segments: segments(trace, o.Requests)}
	var err error
	if l.profile = o.Profile; l.profile == nil {
		if l.profile, err = simulate.ProfileNamed(profileFor(t.newest.Request.Base)); err != nil {
			return nil, err
		}
	}
	p := *l.profile
	if t.tally.slots > 0 {
		p.AdapterSlots = t.tally.slots
	}
	if t.byReports() {
		p.Cache = cacheByReports
		p.Intervals.Report = simulate.Duration(t.interval() * float64(time.Millisecond))
	}
	l.profile = &p
	l.pods, err = p.Fleet(o.podsText(t))
	return l, err
}

const cacheByReports = "reports"

// profileFor is the built-in profile that a model is nearest to.
func profileFor(model string) string {
	if strings.Contains(strings.ToLower(model), "70b") {
		return "llama-70b"
	}
	return "llama-8b"
}

// podsText is how many pods there are, as [simulate.Profile.Fleet] takes it.
func (o *Options) podsText(t *Traffic) string {
	if o.Pods != "" {
		return o.Pods
	}
	return strconv.Itoa(max(1, len(t.newest.Candidates)))
}

// observed is one request under one set of weights.
type observed struct {
	fold          int
	input, cached int
	ttft, e2e     float64
	lost          bool
}

// series are all requests under one set of weights, in the order of their arrival, and
// what the pods did.
type series struct {
	list            []observed
	queue, adapters int // longest queue, adapters loaded
}

// run simulates the weights as they are, and with each move made.
func (l *loop) run(ctx context.Context, moves []*Move) ([]series, error) {
	out := make([]series, 1+len(moves))
	for _, g := range l.groups(moves) {
		for k, seg := range l.segments {
			cfg := &simulate.Config{
				Trace: seg.trace, Profile: g.profile, Pods: l.pods, Policies: g.policies,
				Seed: l.opts.Seed, Parallel: l.opts.Parallel, Progress: l.opts.Progress,
			}
			runs, err := simulate.Run(ctx, cfg)
			if err != nil {
				return nil, err
			}
			for i := range runs.Runs {
				l.collect(&out[g.of[i]], seg, k, &runs.Runs[i])
			}
		}
	}
	return out, nil
}

// group are sets of weights on one kind of fleet.
type group struct {
	profile  *simulate.Profile
	policies []*simulate.Policy
	of       []int // places among all: 0 for the weights as they are
}

func (l *loop) groups(moves []*Move) []group {
	usual := group{profile: l.profile}
	usual.add(l.w, 0)
	out := []group{usual}
	for i, m := range moves {
		if m.Key != KeyReportInterval {
			out[0].add(m.Apply(l.w), i+1)
			continue
		}
		p := *l.profile
		p.Intervals.Report = simulate.Duration(m.To * float64(time.Millisecond))
		g := group{profile: &p}
		g.add(l.w, i+1)
		out = append(out, g)
	}
	return out
}

func (g *group) add(w *score.Weights, place int) {
	p, err := simulate.ParsePolicy("eppctl", *w)
	if err != nil {
		return // weights that were in force, or a move of them, are valid
	}
	p.Name += "-" + strconv.Itoa(place)
	g.policies, g.of = append(g.policies, p), append(g.of, place)
}

// collect adds what came of a segment.
func (l *loop) collect(to *series, seg segment, k int, run *simulate.PolicyRun) {
	for i := seg.warm; i < len(run.Outcomes); i++ {
		o := &run.Outcomes[i]
		fold := k
		if len(l.segments) == 1 {
			fold = (i - seg.warm) * folds / (len(run.Outcomes) - seg.warm)
		}
		to.list = append(to.list, observed{
			fold: fold, input: seg.trace.Requests[i].Input(), cached: int(o.Cached),
			ttft: o.TTFT.Seconds(), e2e: o.E2E.Seconds(), lost: o.Ending != simulate.Completed,
		})
	}
	for i := range run.Pods {
		to.queue = max(to.queue, run.Pods[i].QueueMax)
		to.adapters += run.Pods[i].AdapterLoads
	}
}
