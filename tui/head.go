package tui

import (
	"fmt"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// headData is what the first lines are drawn from.
type headData struct {
	snap    *explain.Snapshot
	window  int
	now     time.Time
	got     time.Time // when snap came; zero before the first
	err     error     // why no newer one came
	failed  time.Time // since when
	retry   time.Time
	paused  time.Time // since when; zero while it runs
	every   time.Duration
	play    *Playback
	history *history
	verdict string // the key that shows what the verdict rests on, with what it does
	wide    bool   // room for the history of the fleet
}

// renderTitle says which fleet this is, and how fresh the screen.
func renderTitle(d headData, w int, st *styles) []string {
	ok := 0
	for i := range d.snap.Pods {
		if d.snap.Pods[i].State == explain.PodOK {
			ok++
		}
	}
	pods := fmt.Sprintf("%s: %d ok", count(len(d.snap.Pods), "pod"), ok)
	fresh := d.freshness(st)
	right := []span{{text: pods + "   "}, {faint, d.windowName() + "   "}, fresh}
	if d.got.IsZero() || w < 60 {
		right = []span{fresh}
	}
	r := &d.snap.Router
	left := []span{{strong, " eppctl top"}}
	scale := ""
	if d.snap.TimeScale != 0 && d.snap.TimeScale != 1 {
		scale = fmt.Sprintf("time x%g", d.snap.TimeScale)
	}
	for _, part := range []string{r.Models, scale, r.Pool, r.Replica, r.Server} {
		if part != "" {
			left = append(left, span{text: "  " + part})
		}
	}
	if w < 60 {
		left = append([]span{left[0], {text: "  " + pods}}, left[1:]...)
	}
	if d.wide && len(d.history.fleet) > 0 {
		right = append([]span{{accent, st.spark(d.history.fleet, 24)}, {text: "   "}}, right...)
	}
	return []string{st.between(w, left, right)}
}

// freshness is live, paused, stale, or what part of the past this is.
func (d *headData) freshness(st *styles) span {
	age := d.now.Sub(d.got)
	switch {
	case !d.paused.IsZero():
		return span{warn, st.glyphs.hold + " paused " + ago(d.now.Sub(d.paused))}
	case d.got.IsZero() && d.err == nil:
		return span{faint, "asking" + st.glyphs.cut}
	case d.err != nil && d.got.IsZero():
		return span{bad, st.glyphs.gone + " no answer"}
	case d.err != nil || d.play == nil && age > 3*d.every+time.Second:
		return span{bad, st.glyphs.gone + " stale " + ago(age)}
	case d.play != nil && d.play.Speed == 0:
		return span{warn, st.glyphs.hold + " " + d.play.At.UTC().Format("15:04:05Z")}
	case d.play != nil:
		return span{accent, fmt.Sprintf("%s %s x%g", st.glyphs.live, d.play.At.UTC().Format("15:04:05Z"), d.play.Speed)}
	}
	return span{accent, st.glyphs.live + " live " + every(d.every)}
}

// every is an interval as it was set: 1s, 500ms.
func every(d time.Duration) string { return d.String() }

// renderRates is the fleet in figures of the window. The last ones are left out
// where there is no room.
func renderRates(d headData, w int, st *styles) []string {
	if d.window >= len(d.snap.Windows) {
		return []string{""}
	}
	r := &d.snap.Windows[d.window]
	queued := 0.0
	for i := range d.snap.Pods {
		queued += depth(&d.snap.Pods[i].Queue)
	}
	flagged := func(v int) tone {
		if v > 0 {
			return warn
		}
		return plain
	}
	parts := [][]span{
		{{strong, " " + st.rate(decisionRate(d.snap, d.window))}},
		{{faint, "pick "}, {plain, st.latencies(r.PickP50, r.PickP99)}},
		{{faint, "shed "}, {flagged(r.Shed), amount(float64(r.Shed))}},
		{{faint, "queued "}, {plain, amount(queued)}},
		{{faint, "match "}, {plain, st.percent(r.MatchRatio)}},
		{{faint, "stale "}, {flagged(r.Stale), st.permille(ratio(r.Stale, r.Completed))}},
		{{faint, "TTFT p95 "}, {plain, st.latency(r.TTFTP95)}},
		{{faint, "failed "}, {flagged(r.Failed), amount(float64(r.Failed))}},
		{{faint, "in flight "}, {plain, amount(float64(d.snap.Router.InFlight))}},
		{{faint, "ties "}, {plain, st.percent(ratio(r.Ties, r.Decisions))}},
		{{faint, "over the limit "}, {flagged(r.Relaxed), amount(float64(r.Relaxed))}},
		{{faint, "adapter loads "}, {plain, amount(float64(r.AdapterLoads))}},
	}
	if d.snap.FromOutside() {
		parts = [][]span{parts[0], parts[1], parts[3], parts[4], parts[6]} // the others are not known
	}
	var line []span
	used := 0
	for i, part := range parts {
		if i > 0 {
			part = append([]span{{text: "  "}}, part...)
		}
		if used += spansWidth(part); used > w {
			break
		}
		line = append(line, part...)
	}
	return []string{st.draw(w, line...)}
}

func (d *headData) windowName() string {
	if d.window >= len(d.snap.Windows) {
		return ""
	}
	return "last " + windowName(d.snap.Windows[d.window].Seconds)
}

func windowName(seconds int) string {
	if seconds >= 120 {
		return fmt.Sprintf("%dm", seconds/60)
	}
	return fmt.Sprintf("%ds", seconds)
}

// renderSilence says what the picker has no news of from its cluster.
func renderSilence(d headData, w int, st *styles) []string {
	return []string{st.draw(w, span{warn, " ! " + d.snap.Router.Silence.Text(d.snap.Time)})}
}

// renderVerdict is the one sentence, always in the same place.
func renderVerdict(d headData, w int, st *styles) []string {
	if d.err != nil {
		return []string{d.unreachable(w, st)}
	}
	v := &d.snap.Verdict
	if v.Code == "" {
		return []string{""}
	}
	if v.Code == explain.VerdictOK {
		return []string{st.draw(w, span{faint, " " + st.glyphs.separator + " " + v.Message})}
	}
	t := warn
	if v.Code == explain.VerdictUnreachable || v.Code == explain.VerdictSaturated || v.Code == explain.VerdictIndexDead {
		t = bad
	}
	left := []span{{t, " ! " + v.Message + " "}}
	if v.Since != nil {
		left = append(left, span{faint, " for " + ago(d.snap.Time.Sub(*v.Since))})
	}
	for _, e := range v.Evidence {
		left = append(left, span{faint, "; " + e})
	}
	if d.verdict == "" {
		return []string{st.draw(w, left...)}
	}
	return []string{st.between(w, left, []span{{accent, d.verdict}})}
}

// unreachable says for how long nobody has answered, why, and when the next try is.
func (d *headData) unreachable(w int, st *styles) string {
	text := fmt.Sprintf(" %s router unreachable for %s", st.glyphs.gone, ago(d.now.Sub(d.failed)))
	next := "trying again"
	if wait := d.retry.Sub(d.now); wait > 0 {
		next = "retrying in " + ago(wait+time.Second-1)
	}
	return st.draw(w, span{bad, text + " "}, span{text: " (" + d.err.Error() + "), " + next})
}
