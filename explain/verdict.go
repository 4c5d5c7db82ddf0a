package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// verdict is the decision in one sentence: what decided, by how much, and what was
// unusual.
func verdict(r *Report) string {
	if _, cause := causeOf(r.Cause); cause != nil && cause.Short != "" && r.Refused == "" {
		return r.decided() + "; " + cause.Short
	}
	return r.decided()
}

func (r *Report) decided() string {
	subject := "request " + shortID(r.RequestID) + " (" + r.about() + ")"
	switch {
	case r.Refused != "":
		return subject + " was refused " + r.refusal()
	case !r.byScores():
		return subject + " went to " + r.Picked.Pod + " by policy " + r.Policy + r.insteadOf()
	}
	return subject + " went to " + r.Picked.Pod + ": score " + hundredths(r.Picked.Score) + r.because()
}

// shortID keeps IDs whole that people made and cuts UUIDs, which are told apart
// by their first digits.
func shortID(id string) string {
	const uuid, kept, longest = 36, 8, 48
	if len(id) == uuid && strings.Count(id, "-") == 4 {
		return id[:kept] + "…"
	}
	if len(id) > longest {
		return id[:longest-1] + "…"
	}
	return id
}

func (r *Report) about() string {
	about := r.Model
	if r.Adapter != "" && r.Adapter != r.Model {
		about += ", adapter " + r.Adapter
	}
	if r.Origin != nil && r.Origin.Profile != "" {
		about += ", " + r.Origin.Kind + " profile " + r.Origin.Profile
	}
	if r.Origin != nil && r.PromptTokens == 0 { // not known
		return strings.TrimPrefix(about, ", ")
	}
	return about + ", " + count(r.PromptTokens, "token")
}

func count(n int, noun string) string { return plural(strconv.Itoa(n), noun) }

func plural(number, noun string) string {
	if number == "1" {
		return "1 " + noun
	}
	return number + " " + noun + "s"
}

// refusal is what the client was told, and why.
func (r *Report) refusal() string {
	full := 0
	for i := range r.Excluded {
		if r.Excluded[i].Reason == score.QueueFull.String() {
			full++
		}
	}
	switch {
	case r.Refused == score.Saturated.String() && full == len(r.Excluded):
		return "with 429: the queue is full on " + all(full) + r.gaveWay()
	case r.Refused == score.Saturated.String():
		return "with 429: no pod was left whose queue is not full (" + r.reasons() + ")" + r.gaveWay()
	case len(r.Excluded) == 0:
		return "with 503: the pool has no pods"
	}
	return "with 503: no pod was eligible (" + r.reasons() + ")"
}

func all(n int) string {
	if n == 1 {
		return "the only pod"
	}
	return fmt.Sprintf("all %d pods", n)
}

// reasons counts the excluded pods by reason, in the order of the reasons.
func (r *Report) reasons() string {
	counts := map[string]int{}
	for i := range r.Excluded {
		counts[r.Excluded[i].Reason]++
	}
	if r.Origin != nil {
		return strings.Join(r.otherReasons(), ", ")
	}
	var parts []string
	for reason := score.NotReady; reason <= score.QueueFull; reason++ {
		if n := counts[reason.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	return strings.Join(parts, ", ")
}

// insteadOf tells what the scores say of a pick that they did not make.
func (r *Report) insteadOf() string {
	if len(r.Candidates) == 0 {
		return ""
	}
	best := &r.Candidates[0]
	out := ": score " + hundredths(r.Picked.Score)
	if best.Picked {
		return out + ", and the scores would have picked it too"
	}
	return out + "; the scores would have picked " + best.Pod + " (" + hundredths(best.Score) + ")"
}

// because tells the margin and what decided.
func (r *Report) because() string {
	pods := len(r.Candidates) + len(r.Excluded)
	switch {
	case r.RunnerUp == nil && pods == 1:
		return ", the only pod of the pool"
	case r.RunnerUp == nil:
		return fmt.Sprintf(", the only eligible pod of %d (%s)", pods, r.reasons())
	case r.Ties != nil:
		return r.tied()
	}
	out := ", ahead of " + r.RunnerUp.Pod + " by " + points(*r.Margin) + ", decided by " + r.DecidedBy
	winner, second := r.standingOf(r.Picked), r.standingOf(r.RunnerUp)
	if winner == nil || second == nil {
		return out
	}
	a, b := winner.factorNamed(r.DecidedBy), second.factorNamed(r.DecidedBy)
	if a == nil || b == nil {
		return out
	}
	return out + " (" + against(a, b) + ")"
}

func (r *Report) tied() string {
	out := ", the same as " + r.Ties.Pods[1]
	if more := r.Ties.Tied - 2; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	if r.Origin != nil {
		return out + r.drawn()
	}
	winner, second := &r.Candidates[0], &r.Candidates[1]
	switch r.Ties.By {
	case score.ByTieLoad.Name(nil):
		a, b := winner.factorNamed("load"), second.factorNamed("load")
		return out + ", won by the lower load (" + percentOf(a.Input.Load) + " against " + percentOf(b.Input.Load) + ")"
	case score.ByTieQueue.Name(nil):
		a, b := winner.factorNamed("queueDepth"), second.factorNamed("queueDepth")
		return out + ", won by the shorter queue (" + depthText(a) + " against " + depthText(b) + ")"
	}
	return out + fmt.Sprintf("; load and queue are the same too, so the seed %d chose", r.Seed)
}

func percentOf(in *LoadInput) string {
	if in.Utilization == nil || !usable(in.State) {
		return "unknown"
	}
	return number(*in.Utilization*100) + "%"
}

// depth is the queue depth that cutoff and ties go by, and whether the engine's
// part of it is known.
func (f *Factor) depth() (float64, bool) {
	in := f.Input.Queue
	if in.Waiting == nil || !usable(in.State) || *in.Waiting < 0 {
		return float64(in.Pending + in.PeerPending), false
	}
	return *in.Waiting + float64(in.Pending+in.PeerPending), true
}

func depthText(f *Factor) string {
	depth, known := f.depth()
	if !known {
		return number(depth) + " pending, waiting unknown"
	}
	return number(depth)
}

func usable(state string) bool {
	s, _ := score.ParseState(state)
	return s.Usable()
}

// against is two factor values with as many decimals as tell them apart.
func against(a, b *Factor) string {
	if a.Value == nil || b.Value == nil {
		return valueOrState(a) + " against " + valueOrState(b)
	}
	for decimals := 2; decimals <= 6; decimals++ {
		x, y := decimal(*a.Value, decimals), decimal(*b.Value, decimals)
		if x != y || decimals == 6 {
			return x + " against " + y
		}
	}
	return ""
}

func valueOrState(f *Factor) string {
	if f.Value == nil {
		return f.State
	}
	return hundredths(*f.Value)
}

func hundredths(v float64) string { return decimal(v, 2) }

// points is a difference of scores with as many decimals as it takes to be
// seen; what is smaller is written in powers of ten.
func points(v float64) string {
	for decimals := 2; decimals <= 6; decimals++ {
		if text := decimal(v, decimals); strings.Trim(text, "-0.") != "" {
			return text
		}
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// number is v with up to three decimals, without trailing zeros.
func number(v float64) string {
	if math.Abs(v) >= 1e15 {
		return decimal(v, -1)
	}
	text := decimal(v, 3)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
