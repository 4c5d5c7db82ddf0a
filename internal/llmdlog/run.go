package llmdlog

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// run is one run of a scheduling profile.
type run struct {
	profile, picker string
	start, end      time.Time
	scoring, scored time.Time

	pods    []*pod
	byKey   map[string]*pod
	counted int // of pods, in the parser's bound
	scorers []string
	emptied string // the filter that left none
	summed  bool   // totals were read
	targets []string
	twice   bool // a score came twice: two runs are mixed
}

// pod is one candidate of a run.
type pod struct {
	state
	excluded string    // the filter that took it out
	scores   []float64 // by scorer; NaN where there is none
	total    float64
}

func newRun(profile string, at time.Time) *run {
	return &run{profile: profile, start: at, byKey: map[string]*pod{}}
}

// whole reports whether all that a record needs was read: the run from its scorers
// on, the totals and a pick that has one.
func (r *run) whole() bool {
	if r.twice || r.scoring.IsZero() || !r.summed || len(r.targets) == 0 {
		return false
	}
	picked := r.byKey[r.targets[0]]
	return picked.excluded == "" && !math.IsNaN(picked.total)
}

// gaps reports whether a score is not there. A scorer may leave pods out, which then
// get nothing of it; else the line was lost, and the totals tell which it was.
func (r *run) gaps(scorers []string) bool {
	return slices.ContainsFunc(r.pods, func(p *pod) bool {
		return p.excluded == "" && (len(p.scores) < len(scorers) || slices.ContainsFunc(p.scores, math.IsNaN))
	})
}

// see adds the endpoints that are new, and brings the others up to date.
func (r *run) see(list []state) {
	for i := range list {
		s := &list[i]
		if known := r.byKey[s.key()]; known != nil {
			known.state = *s
			continue
		}
		if len(r.pods) < maxPods {
			one := &pod{state: *s, total: math.NaN()}
			r.pods = append(r.pods, one)
			r.byKey[s.key()] = one
		}
	}
}

func (r *run) allCandidates(e *entry) { r.see(e.Endpoints) }

// filtered marks those that a filter did not let through.
func (r *run) filtered(e *entry) {
	r.see(e.Endpoints)
	left := make(map[string]bool, len(e.Endpoints))
	for i := range e.Endpoints {
		left[e.Endpoints[i].key()] = true
	}
	for key, p := range r.byKey {
		if !left[key] && p.excluded == "" {
			p.excluded = "filter " + e.Plugin
		}
	}
}

func (r *run) eliminated(e *entry) { r.emptied = e.Plugin }

func (r *run) scoringBegins(e *entry) {
	r.twice = r.twice || !r.scoring.IsZero()
	r.scoring = e.at
	r.see(e.Endpoints)
}

func (r *run) scorerBegins(e *entry) { r.scorer(e.Plugin) }

// scorer finds or adds a scorer; they run in the order in which they are summed.
func (r *run) scorer(plugin string) int {
	at := slices.Index(r.scorers, plugin)
	if at < 0 && len(r.scorers) < maxScorers {
		at = len(r.scorers)
		r.scorers = append(r.scorers, plugin)
	}
	return at
}

func (r *run) calculated(e *entry) {
	var id name
	if json.Unmarshal(e.Endpoint, &id) != nil {
		return
	}
	p, at := r.byKey[id.Namespace+"/"+id.Name], r.scorer(e.Plugin)
	if p == nil || at < 0 {
		return
	}
	for len(p.scores) <= at {
		p.scores = append(p.scores, math.NaN())
	}
	r.twice = r.twice || !math.IsNaN(p.scores[at])
	p.scores[at] = e.score()
}

func (r *run) scoringEnds(e *entry) { r.scored = e.at }

func (r *run) pickerBegins(e *entry) { r.picker = e.Plugin }

func (r *run) totals(e *entry) {
	r.twice = r.twice || r.summed
	r.summed = len(e.Totals) > 0
	for i := range e.Totals {
		t := &e.Totals[i]
		if p := r.byKey[t.Endpoint.key()]; p != nil && t.Score != nil {
			p.total = *t.Score
		}
	}
}

func (r *run) picked(e *entry) {
	if r.picker == "" {
		r.picker = e.Plugin
	}
	if e.Result == nil {
		return
	}
	r.targets = nil
	for i := range e.Result.TargetEndpoints {
		if key := e.Result.TargetEndpoints[i].Endpoint.key(); r.byKey[key] != nil {
			r.targets = append(r.targets, key)
		}
	}
}
