package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// resortTime is how long the order of pods stays as it is.
const resortTime = 2 * time.Second

// podList is the order of the pods, and the cursor in it. The cursor is on a pod, not
// on a line.
type podList struct {
	sort     string // a column; "" by name
	reverse  bool
	filter   string
	strip    bool // gravest first, unless a column was chosen
	order    []int
	ids      []string // of order
	sortedAt time.Time
	cursor   string // the ID of a pod; "" until somebody moves
	top      int
	page     int // lines that are shown
}

// by is the column that counts.
func (l *podList) by() string {
	if l.sort == "" && l.strip {
		return "STATE"
	}
	return l.sort
}

// sortAt brings the order up to date. With a column chosen pods stay where they are
// for a while: who is new comes to the end.
func (l *podList) sortAt(pods []explain.PodSnapshot, window int, now time.Time, force bool) {
	by := l.by()
	settled := by != "" && by != "POD" && now.Sub(l.sortedAt) < resortTime
	place := map[string]int{}
	if settled && !force {
		for k, id := range l.ids {
			place[id] = k
		}
	}
	order := sorted(pods, by, window, l.reverse)
	if len(place) > 0 {
		rank := func(i int) int {
			if k, ok := place[podID(&pods[i])]; ok {
				return k
			}
			return len(place)
		}
		slices.SortStableFunc(order, func(a, b int) int { return rank(a) - rank(b) })
	} else {
		l.sortedAt = now
	}
	l.order, l.ids = order[:0], nil
	for _, i := range order {
		if matches(&pods[i], l.filter) {
			l.order = append(l.order, i)
			l.ids = append(l.ids, podID(&pods[i]))
		}
	}
}

// matches reports whether all words of a filter are in what a pod's line says.
func matches(p *explain.PodSnapshot, filter string) bool {
	text := strings.ToLower(p.Pod + " " + p.Endpoint + " " + p.State + " " + p.Reason + " " + strings.Join(p.Adapters.Loaded, " "))
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// at is the line of the cursor. Until somebody moves it is on the pod that the
// verdict is about; −1 without pods.
func (l *podList) at(snap *explain.Snapshot) int {
	if k := slices.Index(l.ids, l.cursor); k >= 0 {
		return k
	}
	for k, i := range l.order {
		if l.cursor == "" && snap.Verdict.Pod != "" && snap.Pods[i].Pod == snap.Verdict.Pod {
			return k
		}
	}
	return min(0, len(l.order)-1)
}

// pod is the one that the cursor is on; nil without pods.
func (l *podList) pod(snap *explain.Snapshot) *explain.PodSnapshot {
	if k := l.at(snap); k >= 0 && k < len(l.order) {
		return &snap.Pods[l.order[k]]
	}
	return nil
}

func (l *podList) move(snap *explain.Snapshot, by int) {
	if len(l.ids) > 0 {
		l.cursor = l.ids[min(max(l.at(snap)+by, 0), len(l.ids)-1)]
	}
}

// reveal scrolls no more than is needed to show the cursor.
func (l *podList) reveal(snap *explain.Snapshot, page int) {
	l.page = page
	k := max(l.at(snap), 0)
	l.top = min(l.top, k)
	l.top = max(l.top, k-page+1)
	l.top = max(min(l.top, len(l.order)-page), 0)
}

// names are the pods that are shown.
func (l *podList) names(snap *explain.Snapshot) map[string]bool {
	if l.filter == "" {
		return nil
	}
	out := make(map[string]bool, len(l.order))
	for _, i := range l.order {
		out[snap.Pods[i].Pod] = true
	}
	return out
}

// feedList is the decisions, the newest first.
type feedList struct {
	rows   []*explain.Row // all
	shown  []*explain.Row // those that the filter leaves
	cursor string         // the ID of a decision; "" follows the newest
	top    int
	page   int
}

// add takes decisions in. One that is known already is put in place of what was
// known of it.
func (l *feedList) add(rows []explain.Row, whole bool) {
	if whole {
		l.rows = nil
	}
	if len(rows) == 0 {
		return
	}
	known := make(map[string]int, len(l.rows))
	for i, r := range l.rows {
		known[r.DecisionID] = i
	}
	var fresh []*explain.Row
	for i := range rows {
		r := &rows[i]
		if at, ok := known[r.DecisionID]; !ok {
			known[r.DecisionID] = -len(fresh) - 1
			fresh = append(fresh, r)
		} else if at >= 0 {
			l.rows[at] = r
		} // else it came twice at once, the newest first
	}
	l.rows = append(fresh, l.rows...)
	slices.SortStableFunc(l.rows, func(a, b *explain.Row) int { return b.Time.Compare(a.Time) })
	l.rows = l.rows[:min(len(l.rows), maxRows)]
}

// choose leaves the decisions that a filter leaves: those that went to a pod that is
// shown, or that have all its words.
func (l *feedList) choose(filter string, pods map[string]bool) {
	was := l.at()
	defer func() {
		if is := l.at(); was >= 0 && is >= 0 {
			l.top += is - was // it stays on its line while newer ones come in above
		}
	}()
	if filter == "" {
		l.shown = l.rows
		return
	}
	l.shown = nil
	for _, r := range l.rows {
		text := strings.ToLower(strings.Join([]string{r.RequestID, r.DecisionID, r.Picked, r.Model, r.DecidedBy, strings.Join(r.Flags, " ")}, " "))
		all := true
		for word := range strings.FieldsSeq(strings.ToLower(filter)) {
			all = all && strings.Contains(text, word)
		}
		if all || pods[r.Picked] {
			l.shown = append(l.shown, r)
		}
	}
}

// at is the line of the cursor; −1 when it follows the newest, or its decision is
// not there any more.
func (l *feedList) at() int {
	return slices.IndexFunc(l.shown, func(r *explain.Row) bool { return r.DecisionID == l.cursor })
}

func (l *feedList) move(by int) {
	if len(l.shown) == 0 {
		return
	}
	k := l.at()
	if k < 0 && by > 0 {
		k = -1 // the first step goes on the newest
	}
	l.cursor = l.shown[min(max(k+by, 0), len(l.shown)-1)].DecisionID
}

// reveal scrolls no more than is needed to show the cursor.
func (l *feedList) reveal(page int) {
	l.page = page
	k := l.at()
	if k < 0 {
		l.top = 0
		return
	}
	l.top = min(l.top, k)
	l.top = max(l.top, k-page+1)
	l.top = max(min(l.top, len(l.shown)-page), 0)
}

// newest is the newest decision for a pod; nil when none is known.
func (l *feedList) newest(pod string) *explain.Row {
	for _, r := range l.rows {
		if r.Picked == pod {
			return r
		}
	}
	return nil
}
