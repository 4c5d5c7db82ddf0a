package patrol

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/score"
)

const (
	// stale is how old an engine's figures may be, as for our own picker.
	stale = 5 * time.Second
	// sick is the health below which a pod is not well.
	sick = 0.7
)

// addPods adds the engines, and the endpoints of the picker whose engines are not
// looked at.
func (f *fleet) addPods(r *round, s *explain.Snapshot, v *view) {
	joined := join(f.engines, f.names, v.endpoints)
	for i := range f.engines {
		s.Pods = append(s.Pods, f.engine(i, r, v, joined[i]))
	}
	for _, e := range apart(v.endpoints, joined) {
		if p := newPod(e.name, ""); v.unread(&p, e) {
			s.Pods = append(s.Pods, p)
		}
	}
	for i := range s.Pods {
		s.Pods[i].Queue.Max = s.Router.MaxQueue
	}
	slices.SortStableFunc(s.Pods, func(a, b explain.PodSnapshot) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Endpoint, b.Endpoint))
	})
}

func newPod(name, endpoint string) explain.PodSnapshot {
	return explain.PodSnapshot{Pod: name, Endpoint: endpoint, State: explain.PodOK, Signals: []string{}}
}

// engine is a pod whose engine is looked at; e is what the picker tells of it, or nil.
func (f *fleet) engine(i int, r *round, v *view, e *endpoint) explain.PodSnapshot {
	if e != nil {
		f.names[i] = e.name // and stays it when the picker does not answer
	}
	p := newPod(f.names[i], address(f.engines[i].URL))
	if e != nil {
		e.tell(&p)
	}
	last, err := f.worked[i].last(), r.engines[i].err
	if last != nil {
		p.AgeSeconds = new(max(r.at.Sub(last.At), 0).Seconds())
		figures(&p, &last.Engine)
		if work, ok := f.worked[i].since(span(midWindow)); ok {
			done := work.Engine()
			p.CacheHitRatio, p.TTFTP95 = done.HitRatio, quantile(done.TTFT, .95)
		}
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		p.State, p.Reason = explain.PodDown, reason(err)
	case err != nil && last == nil:
		p.State, p.Reason = explain.PodUnknown, reason(err)
	case err != nil && r.at.Sub(last.At) > stale:
		p.State, p.Reason, p.Queue.Stale = explain.PodStale, reason(err), true
	case e != nil && v.lists && !e.listed:
		p.State, p.Reason = explain.PodNotReady, "the picker does not have it among its endpoints"
	default:
		healthState(&p)
	}
	return p
}

// tell adds what the picker tells of an endpoint.
func (e *endpoint) tell(p *explain.PodSnapshot) {
	p.Queue.Waiting, p.Health, p.Load, p.PicksShare = e.queue, e.health, e.load, e.share
	for _, n := range e.picks {
		p.Picks = append(p.Picks, rounded(n))
	}
}

// unread fills a pod that the picker alone tells of; false when it is of the past.
func (v *view) unread(p *explain.PodSnapshot, e *endpoint) bool {
	e.tell(p)
	switch {
	case !v.lists:
		p.State, p.Reason = explain.PodUnknown, "its engine is not looked at"
	case e.listed:
		healthState(p)
	default:
		p.State, p.Reason = explain.PodGone, "the picker does not have it any more"
		return len(e.picks) > 0 && e.picks[len(e.picks)-1] >= 1
	}
	return true
}

// healthState is by the picker's health score, where it has one.
func healthState(p *explain.PodSnapshot) {
	switch {
	case p.Health == nil:
	case *p.Health < score.HealthCutoff:
		p.State, p.Reason = explain.PodDown, fmt.Sprintf("health %.2f", *p.Health)
	case *p.Health < sick:
		p.State, p.Reason = explain.PodSick, fmt.Sprintf("health %.2f", *p.Health)
	}
}

// figures adds what an engine's page tells. Its own queue is newer than what the
// picker has of it.
func figures(p *explain.PodSnapshot, page *engine.Page) {
	if page.Waiting.Known {
		p.Queue.Waiting = new(page.Waiting.V)
	}
	if page.Running.Known {
		p.Running = new(page.Running.V)
	}
	if page.KVUsage.Known {
		p.KVUsage = new(page.KVUsage.V)
	}
	if page.AdaptersState.Known {
		p.Adapters.Loaded = append([]string{}, page.Adapters...)
	}
	if page.MaxAdapters > 0 {
		p.Adapters.Max = new(page.MaxAdapters)
	}
}

// missing is what is not known, in words.
func (f *fleet) missing(r *round, s *explain.Snapshot, v *view) []string {
	out := []string{
		"decisions, and what decided: metrics do not tell them",
		"picks that a queue does not show yet, requests in flight by pod, weights",
		"refused and failed requests, ties, stale picks, adapter loads",
		"streams of KV events, and the blocks that pods hold",
	}
	if len(f.pickers) == 0 {
		out = append(out, "picks: no picker is looked at (--metrics-url)")
	}
	if len(s.Windows) == 0 {
		out = append(out, "rates: they need two looks")
	}
	for i := range r.pickers {
		if err := r.pickers[i].err; err != nil {
			out = append(out, "picks of "+f.pickers[i]+": "+reason(err))
		}
	}
	lacks := func(known func(*explain.PodSnapshot) bool) bool {
		return !slices.ContainsFunc(s.Pods, func(p explain.PodSnapshot) bool { return known(&p) })
	}
	if lacks(func(p *explain.PodSnapshot) bool { return p.Health != nil }) {
		out = append(out, "health: this picker has no score of it")
	}
	if lacks(func(p *explain.PodSnapshot) bool { return p.Load != nil }) {
		out = append(out, "load: no page tells it")
	}
	if f.left > 0 {
		out = append(out, fmt.Sprintf("figures of %d engines above %d: too many", f.left, len(f.engines)))
	}
	if f.lost != nil {
		out = append(out, "which pods there are now: "+f.lost.Error())
	}
	if v.cut > 0 {
		out = append(out, fmt.Sprintf("%d pods above %d", v.cut, maxEndpoints))
	}
	return append(out, f.unjoined(s)...)
}

// maxNamed is how many pods a sentence names.
const maxNamed = 3

// unjoined says which endpoints have no engine.
func (f *fleet) unjoined(s *explain.Snapshot) []string {
	var names []string
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Endpoint == "" && p.State != explain.PodGone {
			names = append(names, p.Pod)
		}
	}
	if len(names) == 0 {
		return nil
	}
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		names = names[:maxNamed]
	}
	return []string{"figures of the engines of " + strings.Join(names, ", ") + more + ": name their addresses (--engines NAME=URL)"}
}
