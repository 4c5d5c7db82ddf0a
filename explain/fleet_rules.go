package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a verdict takes. Rates are of the middle window unless said otherwise.
const (
	fewPods      = 3    // below which nobody has more than a share
	youngRouter  = 10.0 // seconds, before which a picker has no history
	shedShare    = 0.2  // of the short window's decisions …
	fewShed      = 3    // … and so many of them
	silence      = 30.0 // seconds without a word of what pods hold
	silentServed = 20   // requests that should have made them talk …
	silentTokens = 48.0 // … and what an engine computed of one of them in the mean: whole blocks
	manyFlaps    = 4    // in the long window: out and back, twice
	herdPicks    = 20   // in the short window
	herdFactor   = 1.5  // times the median pod's picks
	herdPending  = 0.5  // of maxQueue, not yet seen by the pod's figures …
	herdUnseen   = 2.0  // … and times as many as on the median pod
	hotPicks     = 30   // decisions, below which shares mean little
	hotFactor    = 2.5  // times the median pod's picks …
	hotFair      = 1.5  // … and times what each would have of equal shares
	hotTwice     = 2.0  // … or of the latter alone: half of the pods may be idle
	hotQueue     = 3.0  // requests more than the median pod has
	hotLoad      = 0.9  // utilisation, which many a pod has that is quick …
	hotTTFT      = 3.0  // … and times the median pod's time to first token
	manyReloads  = 10   // adapters that were loaded again, in all …
	podReloads   = 3    // … and for each pod on which that happened
)

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
		return float64(q.Pending + q.PeerPending)
	}
	return *q.Waiting + float64(q.Pending+q.PeerPending)
}

func (s *Snapshot) calmText() string {
	pods := s.pickable()
	switch {
	case s.FromOutside() && len(pods) == len(s.Pods):
		return "nothing stands out in the metrics of " + count(len(pods), "pod")
	case s.FromOutside():
		return fmt.Sprintf("nothing else stands out in the metrics; %d of %s may take requests", len(pods), count(len(s.Pods), "pod"))
	case len(pods) == len(s.Pods):
		return "all " + count(len(pods), "pod") + " take requests, nothing stands out"
	}
	return fmt.Sprintf("%d of %s take requests, nothing else stands out", len(pods), count(len(s.Pods), "pod"))
}

func noEndpoints(s *Snapshot) []finding {
	if len(s.pickable()) > 0 {
		return nil
	}
	f := finding{code: VerdictNoEndpoints, key: "enter", message: "the pool is empty", evidence: []string{}}
	if len(s.Pods) > 0 {
		states := map[string]int{}
		for i := range s.Pods {
			states[s.Pods[i].State]++
			if reason := s.Pods[i].Reason; len(f.evidence) < 3 && reason != "" {
				f.evidence = append(f.evidence, s.Pods[i].Pod+": "+reason)
			}
		}
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(states)) {
			parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
		}
		f.message = fmt.Sprintf("none of %s takes requests: %s", count(len(s.Pods), "pod"), strings.Join(parts, ", "))
	}
	return []finding{f}
}

// saturatedFleet: every queue is full, or was for a good part of the last decisions.
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
	over := w.Relaxed + w.Shed
	shed := over >= fewShed && float64(over) >= shedShare*float64(w.Decisions)
	if len(pods) == 0 || full < len(pods) && !shed {
		return nil
	}
	f := finding{
		code: VerdictSaturated, key: "s", evidence: []string{},
		message: fmt.Sprintf("the queues of %d of %s are full: %s of %d places are taken", full, count(len(pods), "pod"), number(depth), room),
	}
	if !s.FromOutside() {
		f.evidence = append(f.evidence, fmt.Sprintf("of the last %s %d were let in over the limit, and %d refused",
			count(w.Decisions, "decision"), w.Relaxed, w.Shed))
	}
	return []finding{f}
}

// storing is how many requests a pod served that must have put blocks into its cache:
// short prompts, and those that it holds already, put none there.
func (p *PodSnapshot) storing() int {
	if p.ComputedTokens != nil && *p.ComputedTokens < silentTokens {
		return 0
	}
	return p.Served
}

// deadIndex: requests were served that change caches, and nobody tells. Where nobody
// was ever expected to, matches are guesses by design.
func deadIndex(s *Snapshot) []finding {
	served := 0
	for i := range s.Pods {
		served += s.Pods[i].storing()
	}
	heard := s.Index.LastHeard
	if served < silentServed || heard == nil && s.Index.Streams == 0 || heard != nil && *heard <= silence {
		return silentPods(s)
	}
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

// silentPods are those whose events have stopped while others tell theirs.
func silentPods(s *Snapshot) (out []finding) {
	for _, p := range s.pickable() {
		st := p.Stream
		if st == nil || p.CacheSource != sourceEvents || p.storing() < silentServed || st.AgeSeconds != nil && *st.AgeSeconds <= silence {
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

const sourceEvents = "events"

// staleFigures: what a pod's picks go by is older than its limit, and counts 0. The
// pod with the most picks comes first.
func staleFigures(s *Snapshot) (out []finding) {
	pods := s.pickable()
	for _, p := range pods {
		silent := s.FromOutside() && p.State == PodUnknown && p.Endpoint != ""
		if p.State != PodStale && !p.Queue.Stale && !silent {
			continue
		}
		f := finding{code: VerdictStale, pod: p.Pod, key: "enter", message: p.staleText(s.FromOutside()), evidence: []string{}}
		if p.PicksShare != nil {
			f.message += fmt.Sprintf("; it gets %s of picks", share(*p.PicksShare))
		}
		if p.Reason != "" {
			f.evidence = append(f.evidence, p.Reason)
		}
		out = append(out, f)
	}
	if len(out) > 1 && len(out) == len(pods) {
		text := fmt.Sprintf("the figures of all %s are too old", count(len(pods), "pod"))
		if !s.FromOutside() {
			text += " and count 0"
		}
		return []finding{{code: VerdictStale, key: "enter", message: text, evidence: out[0].evidence}}
	}
	slices.SortStableFunc(out, func(a, b finding) int { return s.pod(b.pod).picks(midWindow) - s.pod(a.pod).picks(midWindow) })
	return out
}

// staleText says how old a pod's figures are. The picker's own count 0; what another
// one makes of them is not known.
func (p *PodSnapshot) staleText(outside bool) string {
	switch {
	case outside && p.AgeSeconds == nil:
		return p.Pod + " has told nothing yet"
	case outside:
		return fmt.Sprintf("%s has told nothing for %s", p.Pod, ageText(*p.AgeSeconds))
	case p.AgeSeconds == nil:
		return p.Pod + "'s figures are too old and count 0"
	}
	return fmt.Sprintf("%s's figures are %s old and count 0", p.Pod, ageText(*p.AgeSeconds))
}

// pod finds a pod by its name.
func (s *Snapshot) pod(name string) *PodSnapshot {
	for i := range s.Pods {
		if s.Pods[i].Pod == name {
			return &s.Pods[i]
		}
	}
	return &PodSnapshot{}
}

// flapping: a pod's health puts it out and lets it in again, more than once.
func flapping(s *Snapshot) (out []finding) {
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Flaps < manyFlaps || p.State == PodGone {
			continue
		}
		out = append(out, finding{
			code: VerdictFlapping, pod: p.Pod, key: "enter",
			message:  fmt.Sprintf("%s went out of the running or came back %d times in 5 minutes", p.Pod, p.Flaps),
			evidence: append([]string{}, p.Signals...),
		})
	}
	return out
}

// herd: a pod is picked faster than its figures can show, more than the others are.
func herd(s *Snapshot) (out []finding) {
	w, pods := s.window(shortWindow), s.pickable()
	if w.Decisions < herdPicks || len(pods) < fewPods {
		return nil
	}
	picks, unseen := medians(pods, func(p *PodSnapshot) (float64, float64) {
		return float64(p.picks(shortWindow)), float64(p.Queue.Pending)
	})
	for _, p := range pods {
		pending := float64(p.Queue.Pending)
		if pending < herdPending*float64(p.Queue.Max) || pending < herdUnseen*unseen || p.Queue.Max == 0 ||
			float64(p.picks(shortWindow)) < herdFactor*picks {
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

// hotPod: a pod takes much more than the others, and is slow for it.
func hotPod(s *Snapshot) (out []finding) {
	pods := s.pickable()
	if s.window(midWindow).Decisions < hotPicks || len(pods) < fewPods || s.Router.Uptime < youngRouter {
		return nil
	}
	picks, depth := medians(pods, func(p *PodSnapshot) (float64, float64) { return float64(p.picks(midWindow)), p.Queue.depth() })
	ttft := medianTTFT(pods)
	fair := float64(s.window(midWindow).Decisions) / float64(len(pods))
	for _, p := range pods {
		n := float64(p.picks(midWindow))
		slow := p.Queue.depth() >= depth+hotQueue ||
			p.Load != nil && *p.Load >= hotLoad && p.TTFTP95 != nil && ttft > 0 && *p.TTFTP95 >= hotTTFT*ttft
		if n < min(max(hotFactor*picks, hotFair*fair), hotTwice*fair) || !slow {
			continue
		}
		taken := share(n / float64(s.window(midWindow).Decisions))
		f := finding{code: VerdictHotPod, pod: p.Pod, key: "e", evidence: []string{p.decided()}}
		f.message = fmt.Sprintf("%s takes %s of picks", p.Pod, taken)
		if picks > 0 {
			f.message += fmt.Sprintf(", %.1fx the median", n/picks)
		}
		f.message += "; " + p.burden(ttft)
		out = append(out, f)
	}
	return out
}

// burden says what a pod is slow by.
func (p *PodSnapshot) burden(ttft float64) string {
	text := count(int(p.Queue.depth()), "request") + " in its queue"
	if p.Load != nil {
		text += ", load " + share(*p.Load)
	}
	if p.TTFTP95 != nil && ttft > 0 {
		text += fmt.Sprintf(", TTFT p95 %s where others have %s", secondsText(*p.TTFTP95), secondsText(ttft))
	}
	return text
}

// medianTTFT is that of the pods that have one; 0 when none has.
func medianTTFT(pods []*PodSnapshot) float64 {
	var known []float64
	for _, p := range pods {
		if p.TTFTP95 != nil {
			known = append(known, *p.TTFTP95)
		}
	}
	if len(known) == 0 {
		return 0
	}
	return median(known)
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

// thrashing: adapters are loaded, unloaded and loaded again. The first loads of
// adapters are none, however many.
func thrashing(s *Snapshot) []finding {
	again, pods, worst := 0, 0, (*PodSnapshot)(nil)
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Adapters.Reloads == 0 {
			continue
		}
		again += p.Adapters.Reloads
		pods++
		if worst == nil || p.Adapters.Reloads > worst.Adapters.Reloads {
			worst = p
		}
	}
	if again < manyReloads || again < podReloads*pods {
		return nil
	}
	f := finding{
		code: VerdictThrash, key: "l",
		message: fmt.Sprintf("%d adapters in the last minute were loaded again on %s that had unloaded them", again, count(pods, "pod")),
		evidence: []string{
			fmt.Sprintf("%s of adapters in all, most again on %s (%d)", count(s.window(midWindow).AdapterLoads, "load"), worst.Pod, worst.Adapters.Reloads),
			"eppctl explain --window 5m says whether one adapter is spread too far, or there are too many",
		},
	}
	if pods == 1 {
		f.pod = worst.Pod
	}
	return []finding{f}
}

func share(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

// medians are those of two figures of each pod.
func medians(pods []*PodSnapshot, figures func(*PodSnapshot) (a, b float64)) (a, b float64) {
	as, bs := make([]float64, len(pods)), make([]float64, len(pods))
	for i, p := range pods {
		as[i], bs[i] = figures(p)
	}
	return median(as), median(bs)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
