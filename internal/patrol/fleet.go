package patrol

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/metricview"
)

// midWindow is the place of the window that pods are counted in.
const midWindow = 1

// answer is a page, or why there is none.
type answer struct {
	page *metricview.Page
	err  error
}

// round is what was read of each page, in the order of the configuration.
type round struct {
	at               time.Time
	pickers, engines []answer
}

// fleet makes snapshots of rounds, one after the other. It does no I/O.
type fleet struct {
	pickers []string
	engines []Engine
	left    int   // engines that are left out
	lost    error // why it is not known which there are now

	picked, worked []past   // of the pickers, and of the engines
	names          []string // of the engines' pods
	begun, silent  time.Time
	judge          explain.FleetWatch
	history        history
}

func newFleet(pages Pages) *fleet {
	f := &fleet{history: newHistory()}
	f.change(pages)
	return f
}

// change goes on with other pages. Those that were looked at before keep their past.
func (f *fleet) change(pages Pages) {
	was := *f
	f.pickers, f.engines, f.left = pages.Pickers, pages.Engines, pages.Left
	f.picked, f.worked, f.names = make([]past, len(f.pickers)), make([]past, len(f.engines)), make([]string, len(f.engines))
	for i, page := range f.pickers {
		if old := slices.Index(was.pickers, page); old >= 0 {
			f.picked[i] = was.picked[old]
		}
	}
	before := make(map[Engine]int, len(was.engines))
	for i, e := range was.engines {
		before[e] = i
	}
	for i, e := range f.engines {
		f.names[i] = cmp.Or(e.Name, address(e.URL))
		if old, there := before[e]; there {
			f.worked[i], f.names[i] = was.worked[old], was.names[old]
		}
	}
}

func (f *fleet) server() string {
	names := make([]string, len(f.pickers))
	for i, page := range f.pickers {
		names[i] = strings.TrimSuffix(page, "/metrics")
	}
	return strings.Join(names, ", ")
}

// see makes a snapshot of a round. The error is that nobody told what only he can
// tell, see [Patrol.Look].
func (f *fleet) see(r *round) (*explain.Snapshot, error) {
	if f.begun.IsZero() {
		f.begun = r.at
	}
	for i := range r.pickers {
		if r.pickers[i].err == nil {
			f.picked[i].add(r.pickers[i].page)
		}
	}
	for i := range r.engines {
		if r.engines[i].err == nil {
			f.worked[i].add(r.engines[i].page)
		}
	}
	s := &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: r.at.Round(0).UTC(), TimeScale: 1, Source: explain.SourceMetrics,
		Router:  explain.RouterState{Server: f.server()},
		Windows: []explain.WindowRates{}, Pods: []explain.PodSnapshot{}, Events: []explain.FleetEvent{}, Missing: []string{},
	}
	p := f.askPicker(r, s)
	f.addPods(r, s, p)
	f.addWork(r, s)
	f.history.look(r, s, f)
	err := f.verdict(r, s)
	s.Missing = f.missing(r, s, p)
	return s, err
}

// verdict judges, and says when nobody answers.
func (f *fleet) verdict(r *round, s *explain.Snapshot) error {
	f.judge.Judge(s)
	asked, text := r.pickers, ""
	if len(asked) == 0 {
		asked, text = r.engines, "no engine gives a page"
	}
	if i := slices.IndexFunc(asked, func(a answer) bool { return a.err == nil }); i >= 0 {
		f.silent = time.Time{}
		f.history.judged(s)
		return nil
	}
	if f.silent.IsZero() {
		f.silent = r.at
	}
	s.Verdict = explain.Unreachable(s.Router.Server, reason(asked[0].err), f.silent.Round(0).UTC())
	s.Verdict.Message = cmp.Or(text, s.Verdict.Message)
	f.history.judged(s)
	return asked[0].err
}

// view is what the picker's pages tell.
type view struct {
	endpoints map[string]*endpoint
	// lists: it tells which endpoints it has.
	lists bool
	cut   int // endpoints that were left out
}

// askPicker takes what the pickers' pages tell now, and in the windows.
func (f *fleet) askPicker(r *round, s *explain.Snapshot) *view {
	v := &view{endpoints: map[string]*endpoint{}}
	now := metricview.Observation{Now: r.at}
	ports := map[string]string{}
	for i := range r.pickers {
		if page := r.pickers[i].page; r.pickers[i].err == nil {
			now.Replicas = append(now.Replicas, metricview.Replica{After: page})
			maps.Copy(ports, page.Ports())
		}
	}
	if len(now.Replicas) == 0 {
		return v
	}
	doc, err := metricview.Look(now, nil)
	if err != nil { // replicas of different makers
		for i := range r.pickers {
			r.pickers[i].err = cmp.Or(r.pickers[i].err, err)
		}
		return v
	}
	s.Router.Version = strings.TrimSpace(string(doc.Maker) + " " + now.Replicas[0].After.Version())
	s.Router.Uptime = r.at.Sub(f.begun).Seconds() // that was seen, which rates and rules go by
	if doc.MaxQueue != nil {
		s.Router.MaxQueue = int(*doc.MaxQueue)
	}
	s.Index.Blocks = whole(doc.PrefixTree.Nodes)
	for i := range doc.Pods {
		v.add(&doc.Pods[i], ports)
	}
	for k := range explain.WindowSeconds {
		f.window(r, s, v, k)
	}
	return v
}

func (v *view) add(p *metricview.Pod, ports map[string]string) {
	switch {
	case p.Pod == "":
		return // picks that failed
	case len(v.endpoints) >= maxEndpoints:
		v.cut++
		return
	}
	listed := p.Queue != nil
	v.endpoints[p.Pod] = &endpoint{name: p.Pod, port: ports[p.Pod], listed: listed, queue: p.Queue, health: p.Health, load: p.Utilization}
	v.lists = v.lists || listed
}

// window adds the picks of one window. There are none to tell of a picker that was
// seen once.
func (f *fleet) window(r *round, s *explain.Snapshot, v *view, k int) {
	seen, share := metricview.Observation{Now: r.at}, 1.0
	for i := range r.pickers {
		if replica, ok := f.picked[i].since(span(k)); ok && r.pickers[i].err == nil {
			seen.Replicas = append(seen.Replicas, replica)
			share = min(share, part(span(k), replica))
		}
	}
	if len(seen.Replicas) == 0 {
		return
	}
	doc, err := metricview.Look(seen, nil)
	if err != nil {
		return // it was told of the newest pages
	}
	w := explain.WindowRates{Seconds: explain.WindowSeconds[k]}
	if doc.Routing != nil {
		w.Decisions = rounded(doc.Routing.Decisions * share)
	}
	if doc.CacheMatch != nil {
		w.MatchRatio = doc.CacheMatch.Mean
	}
	if took := doc.ScoringLatencyUs; took != nil {
		w.PickP50, w.PickP99 = micro(took.P50), micro(took.P99)
	}
	s.Windows = append(s.Windows, w)
	for i := range doc.Pods {
		p := &doc.Pods[i]
		e := v.endpoints[p.Pod]
		if e == nil {
			continue
		}
		if e.picks == nil {
			e.picks = make([]float64, len(explain.WindowSeconds))
		}
		if p.Picks != nil {
			e.picks[k] = *p.Picks * share
		}
		if k == midWindow {
			e.share = p.PicksShare
		}
	}
}

func rounded(v float64) int { return int(math.Round(v)) }

func micro(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v / 1e6)
}

func whole(v *float64) *int {
	if v == nil {
		return nil
	}
	return new(rounded(*v))
}

// addWork adds what the engines did in the windows.
func (f *fleet) addWork(r *round, s *explain.Snapshot) {
	for k := range explain.WindowSeconds {
		var all *metricview.Histogram
		known := false
		for i := range r.engines {
			replica, ok := f.worked[i].since(span(k))
			if !ok || r.engines[i].err != nil {
				continue
			}
			known = true
			all = all.Plus(replica.Engine().TTFT)
		}
		if len(s.Windows) <= k && known && len(f.pickers) == 0 {
			s.Windows = append(s.Windows, explain.WindowRates{Seconds: explain.WindowSeconds[k]})
		}
		if len(s.Windows) > k && known {
			s.Windows[k].TTFTP50, s.Windows[k].TTFTP95 = quantile(all, .5), quantile(all, .95)
		}
	}
}

// quantile of a histogram; nil when it is empty.
func quantile(h *metricview.Histogram, q float64) *float64 {
	if h == nil {
		return nil
	}
	v, _ := h.Quantile(q)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
