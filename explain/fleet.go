package explain

import (
	"fmt"
	"slices"
	"time"
)

// The windows of a snapshot, by their place.
const (
	shortWindow = iota // 5 s
	midWindow          // 60 s
	longWindow         // 300 s
	numWindows
)

// WindowSeconds are the lengths of the windows.
var WindowSeconds = [numWindows]int{5, 60, 300}

// What a verdict takes. Rates are of the middle window unless said otherwise.
const (
	hotShare     = 2.5              // times the median pod's
	hotPicks     = 30               // decisions, below which shares mean little
	hotQueue     = 3.0              // requests more than the median pod has
	hotLoad      = 0.9              // utilisation
	fewPods      = 3                // below which nobody has more than a share
	herdPicks    = 20               // in the short window
	herdShare    = 0.6              // of these to one pod
	herdPending  = 0.5              // of maxQueue, not yet seen by the pod's figures
	silence      = 30.0             // seconds without a word of what pods hold
	silentServed = 20               // requests that should have made them talk
	oldFigures   = 5.0              // seconds
	manyFlaps    = 4                // in the long window: out and back, twice
	relaxedShare = 0.2              // of the short window's decisions
	thrashLoads  = 10               // adapter loads in all
	calm         = 5 * time.Second  // that a finding has to be absent to be over
	windowStart  = 10 * time.Second // before which a picker has no history
)

// finding is a rule that holds.
type finding struct {
	code, pod, message, key string
	evidence                []string
}

// FleetWatch judges the snapshots of a fleet, one after another. It remembers since
// when what holds. The zero value is ready.
type FleetWatch struct {
	seen map[[2]string]*span // by code and pod
}

type span struct{ since, last time.Time }

// Judge sets the verdict of a snapshot, and marks the pod that is hot.
func (w *FleetWatch) Judge(s *Snapshot) {
	found := w.settle(s.Time, findings(s))
	s.Verdict = FleetVerdict{Code: VerdictOK, Message: s.calmText(), Evidence: []string{}, Also: []string{}}
	for i, f := range found {
		if i > 0 {
			if f.code != s.Verdict.Code && !slices.Contains(s.Verdict.Also, f.code) {
				s.Verdict.Also = append(s.Verdict.Also, f.code)
			}
			continue
		}
		since := w.seen[[2]string{f.code, f.pod}].since
		s.Verdict.Code, s.Verdict.Message, s.Verdict.Pod, s.Verdict.Key = f.code, f.message, f.pod, f.key
		s.Verdict.Evidence, s.Verdict.Since = f.evidence, &since
	}
}

// settle keeps since when findings hold, and forgets what is over.
func (w *FleetWatch) settle(now time.Time, found []finding) []finding {
	if w.seen == nil {
		w.seen = map[[2]string]*span{}
	}
	for _, f := range found {
		key := [2]string{f.code, f.pod}
		if s := w.seen[key]; s != nil {
			s.last = now
		} else {
			w.seen[key] = &span{now, now}
		}
	}
	for key, s := range w.seen {
		if now.Sub(s.last) > calm {
			delete(w.seen, key)
		}
	}
	return found
}

// findings are all rules that hold, the gravest first.
func findings(s *Snapshot) (out []finding) {
	for _, rule := range []func(*Snapshot) []finding{
		saturatedFleet, deadIndex, staleFigures, flapping, herd, hotPod, thrashing,
	} {
		out = append(out, rule(s)...)
	}
	return out
}

func (s *Snapshot) window(i int) *WindowRates {
	if i >= len(s.Windows) {
		return &WindowRates{}
	}
	return &s.Windows[i]
}

// pickable are the pods that may be picked, as far as is known.
func (s *Snapshot) pickable() (out []*PodSnapshot) {
	for i := range s.Pods {
		switch p := &s.Pods[i]; p.State {
		case PodOK, PodHot, PodFull, PodStale, PodSick, PodUnknown:
			out = append(out, p)
		}
	}
	return out
}

func (p *PodSnapshot) picks(window int) int {
	if window >= len(p.Picks) {
		return 0
	}
	return p.Picks[window]
}

// depth is the queue as cutoffs go by it.
func (q *QueueSnapshot) depth() float64 {
	if q.Waiting == nil || q.Stale {
		return float64(q.Pending)
	}
	return *q.Waiting + float64(q.Pending)
}

func (s *Snapshot) calmText() string {
	pods := s.pickable()
	if len(s.Pods) == 0 {
		return "no pods"
	}
	if len(pods) == len(s.Pods) {
		return "all " + count(len(pods), "pod") + " take requests, nothing stands out"
	}
	return fmt.Sprintf("%d of %s take requests, nothing else stands out", len(pods), count(len(s.Pods), "pod"))
}

func saturatedFleet(s *Snapshot) []finding {
	pods, w := s.pickable(), s.window(shortWindow)
	full, depth, room := 0, 0.0, 0
	for _, p := range pods {
		depth += p.Queue.depth()
		room += p.Queue.Max
		if p.Queue.Max > 0 && p.Queue.depth() >= float64(p.Queue.Max) {
			full++
		}
	}
	let := w.Relaxed + w.Refused
	if len(pods) == 0 || full < len(pods) && (w.Relaxed == 0 || float64(w.Relaxed) < relaxedShare*float64(w.Decisions)) {
		return nil
	}
	return []finding{{
		code: VerdictSaturated, key: "s",
		message:  fmt.Sprintf("the queues of %d of %s are full (%s of %d requests wait)", full, count(len(pods), "pod"), number(depth), room),
		evidence: []string{fmt.Sprintf("%d of the last %s were let in over the limit, or refused", let, count(w.Decisions, "decision"))},
	}}
}

func deadIndex(s *Snapshot) (out []finding) {
	served := s.window(midWindow).Completed
	heard := s.Index.LastHeard
	if served >= silentServed && (heard == nil || *heard > silence) {
		text := "no pod has ever told what it holds"
		if heard != nil {
			text = "no pod has told what it holds for " + ageText(*heard)
		}
		evidence := fmt.Sprintf("%s in the last minute should have changed caches", count(served, "request"))
		if s.Index.Streams > 0 {
			evidence += fmt.Sprintf("; %d of %s of events are connected", s.Index.Connected, count(s.Index.Streams, "stream"))
		}
		return []finding{{code: VerdictIndexDead, key: "i", message: text + ": cache matches are guesses", evidence: []string{evidence}}}
	}
	for _, p := range s.pickable() {
		st := p.Stream
		if st == nil || p.Served < silentServed || st.AgeSeconds != nil && *st.AgeSeconds <= silence {
			continue
		}
		text := p.Pod + " has never sent an event"
		if st.AgeSeconds != nil {
			text = p.Pod + " has sent no event for " + ageText(*st.AgeSeconds)
		}
		out = append(out, finding{
			code: VerdictIndexDead, pod: p.Pod, key: "i", message: text + ": what it holds is a guess",
			evidence: []string{fmt.Sprintf("it served %s in the last minute; %d of %s connected", count(p.Served, "request"), st.Connected, count(st.Ranks, "rank"))},
		})
	}
	return out
}

func staleFigures(s *Snapshot) (out []finding) {
	for _, p := range s.pickable() {
		if p.AgeSeconds == nil || *p.AgeSeconds <= oldFigures {
			continue
		}
		f := finding{
			code: VerdictStale, pod: p.Pod, key: "enter",
			message:  fmt.Sprintf("%s's figures are %s old and count 0", p.Pod, ageText(*p.AgeSeconds)),
			evidence: []string{},
		}
		if p.PicksShare != nil {
			f.message += fmt.Sprintf("; it gets %s of picks", share(*p.PicksShare))
		}
		if p.Reason != "" {
			f.evidence = append(f.evidence, p.Reason)
		}
		out = append(out, f)
	}
	return out
}

func flapping(s *Snapshot) (out []finding) {
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Flaps < manyFlaps {
			continue
		}
		out = append(out, finding{
			code: VerdictFlapping, pod: p.Pod, key: "enter",
			message:  fmt.Sprintf("%s went out of the running or came back %d times in 5 minutes", p.Pod, p.Flaps),
			evidence: slices.Clone(p.Signals),
		})
	}
	return out
}

func herd(s *Snapshot) (out []finding) {
	w := s.window(shortWindow)
	pods := s.pickable()
	if w.Decisions < herdPicks || len(pods) < fewPods {
		return nil
	}
	for _, p := range pods {
		if float64(p.picks(shortWindow)) < herdShare*float64(w.Decisions) || float64(p.Queue.Pending) < herdPending*float64(p.Queue.Max) {
			continue
		}
		out = append(out, finding{
			code: VerdictHerd, pod: p.Pod, key: "e",
			message: fmt.Sprintf("a herd forms on %s: %d of the last %s, %d of them not yet seen in its queue",
				p.Pod, p.picks(shortWindow), count(w.Decisions, "pick"), p.Queue.Pending),
			evidence: []string{p.decided()},
		})
	}
	return out
}

func hotPod(s *Snapshot) (out []finding) {
	pods := s.pickable()
	if s.window(midWindow).Decisions < hotPicks || len(pods) < fewPods || s.Router.Uptime < windowStart.Seconds() {
		return nil
	}
	shares, depths := make([]float64, 0, len(pods)), make([]float64, 0, len(pods))
	for _, p := range pods {
		if p.PicksShare == nil {
			return nil
		}
		shares, depths = append(shares, *p.PicksShare), append(depths, p.Queue.depth())
	}
	medianShare, medianDepth := median(shares), median(depths)
	for i, p := range pods {
		busy := p.Load != nil && *p.Load >= hotLoad || depths[i] >= medianDepth+hotQueue
		if shares[i] < hotShare*medianShare || !busy {
			continue
		}
		if p.State == PodOK {
			p.State, p.Reason = PodHot, "it takes "+share(shares[i])+" of picks"
		}
		f := finding{code: VerdictHotPod, pod: p.Pod, key: "e", evidence: []string{p.decided()}}
		f.message = fmt.Sprintf("%s takes %s of picks", p.Pod, share(shares[i]))
		if medianShare > 0 {
			f.message += fmt.Sprintf(", %.1fx the median", shares[i]/medianShare)
		}
		f.message += fmt.Sprintf("; %s wait there", count(int(depths[i]), "request"))
		out = append(out, f)
	}
	return out
}

// decided says what most of a pod's picks were decided by.
func (p *PodSnapshot) decided() string {
	best, most, all := "", 0, 0
	for by, n := range p.DecidedBy {
		all += n
		if n > most || n == most && by < best {
			best, most = by, n
		}
	}
	if all == 0 {
		return "what decided is not known"
	}
	return fmt.Sprintf("%d of %s were decided by %s", most, count(all, "pick"), best)
}

func thrashing(s *Snapshot) []finding {
	loads, pods := s.window(midWindow).AdapterLoads, 0
	for _, p := range s.pickable() {
		if p.Adapters.Loads > 0 {
			pods++
		}
	}
	if loads < thrashLoads || float64(loads) < thrash*float64(pods) {
		return nil
	}
	return []finding{{
		code: VerdictThrash, key: "l",
		message:  fmt.Sprintf("%s in the last minute on %s", count(loads, "adapter load"), count(pods, "pod")),
		evidence: []string{"eppctl explain --window 5m says whether one adapter is spread too far, or there are too many"},
	}}
}

func share(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Unreachable is the verdict of who got no answer from the picker, since when.
func Unreachable(server, why string, since time.Time) FleetVerdict {
	return FleetVerdict{
		Code: VerdictUnreachable, Message: "no answer from the picker at " + server, Since: &since,
		Evidence: []string{why}, Also: []string{}, Key: "?",
	}
}
