package explain

import (
	"slices"
	"strings"
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

const (
	// calm is how long a finding has to be absent to be over.
	calm = 5 * time.Second
	// lasting is how long goes on what is no matter of a moment: queues come and go.
	lasting = 10 * time.Second
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

// span is how long a finding has held, and how it was last.
type span struct {
	since, last time.Time
	finding     finding
}

// Judge sets the verdict of a snapshot, and marks the pods that are hot. What was
// found less than five seconds ago still holds, so that a verdict does not flicker;
// only that no pod takes requests is over with the first that does, as the pods show.
func (w *FleetWatch) Judge(s *Snapshot) {
	found := w.settle(s.Time, findings(s))
	s.Verdict = FleetVerdict{Code: VerdictOK, Message: s.calmText(), Evidence: []string{}, Also: []string{}}
	for i, f := range found {
		if p := s.pod(f.pod); f.code == VerdictHotPod && p.State == PodOK {
			p.State, p.Reason = PodHot, f.message
		}
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

// settle keeps since when findings hold, forgets what is over, and returns what is
// not and has held for long enough, the gravest first.
func (w *FleetWatch) settle(now time.Time, found []finding) []finding {
	if w.seen == nil {
		w.seen = map[[2]string]*span{}
	}
	for _, f := range found {
		key := [2]string{f.code, f.pod}
		if s := w.seen[key]; s != nil {
			s.last, s.finding = now, f
		} else {
			w.seen[key] = &span{now, now, f}
		}
	}
	var lately []finding
	for key, s := range w.seen {
		switch {
		case now.Sub(s.last) > calm, key[0] == VerdictNoEndpoints && s.last.Before(now):
			delete(w.seen, key)
		case s.last.Before(now):
			lately = append(lately, s.finding)
		}
	}
	slices.SortFunc(lately, func(a, b finding) int { return strings.Compare(a.pod, b.pod) })
	found = slices.DeleteFunc(append(found, lately...), func(f finding) bool {
		s := w.seen[[2]string{f.code, f.pod}]
		return s.last.Sub(s.since) < rules[gravity(f.code)].after
	})
	slices.SortStableFunc(found, func(a, b finding) int { return gravity(a.code) - gravity(b.code) })
	return found
}

type rule struct {
	code string
	find func(*Snapshot) []finding
	// after is how long it has to hold before it is a verdict.
	after time.Duration
}

// rules are those of the verdicts, the gravest first. Each finds what it is about,
// the pod that matters most first.
var rules = []rule{
	{VerdictNoEndpoints, noEndpoints, 0},
	{VerdictSaturated, saturatedFleet, 0},
	{VerdictIndexDead, deadIndex, 0},
	{VerdictStale, staleFigures, 0},
	{VerdictFlapping, flapping, 0},
	{VerdictHerd, herd, 0},
	{VerdictHotPod, hotPod, lasting},
	{VerdictThrash, thrashing, 0},
}

func gravity(code string) int {
	return slices.IndexFunc(rules, func(r rule) bool { return r.code == code })
}

// findings are all rules that hold, the gravest first.
func findings(s *Snapshot) (out []finding) {
	for _, r := range rules {
		out = append(out, r.find(s)...)
	}
	return out
}

// Unreachable is the verdict of who got no answer from the picker, since when.
func Unreachable(server, why string, since time.Time) FleetVerdict {
	return FleetVerdict{
		Code: VerdictUnreachable, Message: "no answer from the picker at " + server, Since: &since,
		Evidence: []string{why}, Also: []string{}, Key: "?",
	}
}
