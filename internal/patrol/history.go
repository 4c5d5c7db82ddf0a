package patrol

import (
	"maps"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
)

const (
	maxEvents = 200
	// maxFlaps bounds the times that are remembered of a pod.
	maxFlaps = 100
)

// history is what happened to the fleet.
type history struct {
	pods    map[string]*podHistory
	begun   bool
	events  []explain.FleetEvent // newest first
	verdict [2]string            // code and pod
}

// podHistory is how a pod was.
type podHistory struct {
	down  bool
	flaps []time.Time // when it went down or came back, of the longest window
}

func newHistory() history { return history{pods: map[string]*podHistory{}} }

func (h *history) tell(at time.Time, pod, code, text string) {
	h.events = slices.Insert(h.events, 0, explain.FleetEvent{Time: at.Round(0).UTC(), Pod: pod, Code: code, Text: text})
	h.events = h.events[:min(len(h.events), maxEvents)]
}

// look compares the pods with how they were. While the picker does not answer, the
// pods that it alone tells of have not left.
func (h *history) look(r *round, s *explain.Snapshot, f *fleet) {
	there := map[string]bool{}
	for i := range s.Pods {
		p := &s.Pods[i]
		there[p.Pod] = true
		known := h.pods[p.Pod]
		if known == nil {
			known = &podHistory{down: p.State == explain.PodDown}
			h.pods[p.Pod] = known
			if h.begun {
				h.tell(r.at, p.Pod, explain.EventJoined, "is there")
			}
		}
		h.pod(r.at, p, known)
	}
	if !slices.ContainsFunc(r.pickers, func(a answer) bool { return a.err != nil }) {
		for _, name := range slices.Sorted(maps.Keys(h.pods)) {
			if !there[name] {
				h.tell(r.at, name, explain.EventLeft, "the picker does not have it any more")
				delete(h.pods, name)
			}
		}
	}
	h.restarts(r, f)
	h.begun = true
}

// pod notes that a pod went down or came back.
func (h *history) pod(at time.Time, p *explain.PodSnapshot, known *podHistory) {
	known.flaps = slices.DeleteFunc(known.flaps, func(t time.Time) bool { return at.Sub(t) >= longest })
	if down := p.State == explain.PodDown; down != known.down {
		known.down = down
		if len(known.flaps) < maxFlaps {
			known.flaps = append(known.flaps, at)
		}
		if down {
			h.tell(at, p.Pod, explain.EventDown, p.Reason)
		} else {
			h.tell(at, p.Pod, explain.EventUp, "answers again")
		}
	}
	p.Flaps = len(known.flaps)
}

// restarts notes the engines that are another process than a page ago.
func (h *history) restarts(r *round, f *fleet) {
	for i, pages := range f.worked {
		if len(pages) < 2 || r.engines[i].err != nil {
			continue
		}
		before, known := pages[len(pages)-2].Started()
		after, knownToo := pages[len(pages)-1].Started()
		if known && knownToo && before != after {
			h.tell(r.at, f.names[i], explain.EventRestart, "its engine was started anew")
		}
	}
}

// judged makes an event of another verdict.
func (h *history) judged(s *explain.Snapshot) {
	verdict := [2]string{s.Verdict.Code, s.Verdict.Pod}
	if h.verdict[0] != "" && h.verdict != verdict {
		h.tell(s.Time, s.Verdict.Pod, explain.EventVerdict, s.Verdict.Code+": "+s.Verdict.Message)
	}
	h.verdict = verdict
	s.Events = append([]explain.FleetEvent{}, h.events...)
}
