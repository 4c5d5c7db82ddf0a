package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/explain"
)

// podsData is what the pods table is drawn from.
type podsData struct {
	snap    *explain.Snapshot
	order   []int // of snap.Pods, those to show
	top     int   // the first line that is shown
	cursor  int   // in order; −1 for none
	focused bool
	window  int
	sort    string
	reverse bool
	filter  string
	metric  int
	history *history
	strip   bool
	scale   float64 // the share of picks that is a whole bar
}

// share is a pod's part of the picks in the window; nil when there were none.
func (d *podsData) share(p *explain.PodSnapshot) *float64 {
	if d.window >= len(p.Picks) || d.window >= len(d.snap.Windows) {
		return p.PicksShare
	}
	w := &d.snap.Windows[d.window]
	return ratio(p.Picks[d.window], w.Decisions-w.Refused)
}

// scales are the shares that a whole bar can stand for: few, so that bars do not
// jump.
var scales = []float64{0.1, 0.2, 0.5, 1}

func (d *podsData) findScale() {
	most := 0.0
	for i := range d.snap.Pods {
		if s := d.share(&d.snap.Pods[i]); s != nil {
			most = max(most, *s)
		}
	}
	for _, d.scale = range scales {
		if most <= d.scale {
			return
		}
	}
}

// slot is a column at its width.
type slot struct {
	*Column
	width int
}

const gap = 1 // between columns

// fitColumns chooses the columns for a width: those that leave first are left out
// until the rest fits; what is then left over goes to the names and the bars.
func fitColumns(width, longest int) []slot {
	slots := make([]slot, len(columns))
	for i := range columns {
		slots[i] = slot{&columns[i], columns[i].width}
	}
	used := func() (n int) {
		for _, s := range slots {
			n += s.width + gap
		}
		return n // the mark stands for the gap of the first
	}
	for used() > width {
		first := 0
		for i, s := range slots {
			if s.leave > slots[first].leave {
				first = i
			}
		}
		if slots[first].leave == 0 {
			slots[0].width = max(width-(used()-slots[0].width), 4)
			return slots
		}
		slots = append(slots[:first], slots[first+1:]...)
	}
	spare := width - used()
	more := func(name string, most int) {
		for i := range slots {
			if slots[i].Name == name {
				n := min(spare, max(most-slots[i].width, 0))
				slots[i].width, spare = slots[i].width+n, spare-n
			}
		}
	}
	more("POD", min(longest, 32))
	more("PICKS", 13)
	more("CACHE", 19)
	more("QUEUE", 12)
	more("HISTORY", 24)
	more("WHY", 60)
	return slots
}

// renderPods draws the table: a header, the pods, and the sum.
func renderPods(d podsData, w, h int, st *styles) []string {
	if d.snap.Time.IsZero() {
		return fill([]string{st.draw(w, span{faint, " POD"}), "", st.draw(w, span{text: " nothing is known yet"})}, w, h)
	}
	if len(d.snap.Pods) == 0 {
		return fill([]string{st.draw(w, span{faint, " POD"}), "", st.draw(w, span{text: " no pods: the pool is empty"})}, w, h)
	}
	if len(d.order) == 0 {
		return fill([]string{st.draw(w, span{faint, " POD"}), "", st.draw(w, span{text: " no pod matches "}, span{strong, d.filter}, span{faint, "   esc clears the filter"})}, w, h)
	}
	d.findScale()
	longest := 0
	for _, i := range d.order {
		longest = max(longest, ansi.StringWidth(d.snap.Pods[i].Pod))
	}
	slots := fitColumns(w, longest)
	lines := []string{d.header(slots, st)}
	rows := d.rows(h)
	for k := d.top; k < min(d.top+rows, len(d.order)); k++ {
		lines = append(lines, d.row(slots, k, st))
	}
	if !d.strip {
		lines = append(lines, d.sum(slots, st))
	}
	return fill(lines, w, h)
}

// rows is how many pods there is room for.
func (d *podsData) rows(h int) int {
	if d.strip {
		return max(h-1, 0)
	}
	return max(h-2, 0)
}

func (d *podsData) header(slots []slot, st *styles) string {
	var b strings.Builder
	for _, s := range slots {
		name, t := s.Name, faint
		if s.Name == "HISTORY" {
			name += " " + strings.ToLower(metrics[d.metric].name)
		}
		if s.Name == d.sort {
			mark := st.glyphs.down
			if d.reverse {
				mark = st.glyphs.up
			}
			name, t = st.fit(name+mark, min(s.width, ansi.StringWidth(name+mark)), false), strong
		}
		b.WriteString(" " + st.paint(t, st.fit(name, s.width, s.right)))
	}
	return b.String()
}

func (d *podsData) row(slots []slot, k int, st *styles) string {
	var b strings.Builder
	p := &d.snap.Pods[d.order[k]]
	for i, s := range slots {
		switch {
		case i > 0:
			b.WriteByte(' ')
		case k == d.cursor && d.focused:
			b.WriteString(st.paint(strong, ">"))
		case k == d.cursor:
			b.WriteString(st.paint(faint, ">"))
		default:
			b.WriteByte(' ')
		}
		c := podCell{podsData: d, st: st, p: p, width: s.width}
		b.WriteString(st.cell(s.cell(&c), s.width, s.right))
	}
	return b.String()
}

// cell draws spans at a width; a single one is cut in its middle.
func (st *styles) cell(spans []span, width int, right bool) string {
	if len(spans) == 1 {
		text := st.cutMiddle(st.clean(spans[0].text), width)
		blank := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
		if right {
			return blank + st.paint(spans[0].tone, text)
		}
		return st.paint(spans[0].tone, text) + blank
	}
	text := st.draw(width, spans...)
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// sum is the last line: all pods that are shown together.
func (d *podsData) sum(slots []slot, st *styles) string {
	t := d.total()
	var b strings.Builder
	for _, s := range slots {
		text := ""
		if s.sum != nil {
			text = s.sum(&t, st)
		}
		b.WriteString(" " + st.paint(faint, st.fit(text, s.width, s.right)))
	}
	return b.String()
}

// podSum is the sum over pods; nil where none told.
type podSum struct {
	shown, all, ok              int
	share, load, events, age    *float64
	running                     *float64
	blocks, adapters            *int
	depth, loads, loadsThatTold float64
}

func (t *podSum) name() string {
	if t.shown < t.all {
		return fmt.Sprintf("%d of %d", t.shown, t.all)
	}
	return fmt.Sprintf("all %d", t.all)
}

func (d *podsData) total() (t podSum) {
	addF := func(to **float64, v *float64) {
		if v != nil {
			if *to == nil {
				*to = new(float64)
			}
			**to += *v
		}
	}
	addI := func(to **int, v *int) {
		if v != nil {
			if *to == nil {
				*to = new(int)
			}
			**to += *v
		}
	}
	t.shown, t.all = len(d.order), len(d.snap.Pods)
	for _, i := range d.order {
		p := &d.snap.Pods[i]
		if p.State == explain.PodOK {
			t.ok++
		}
		addF(&t.share, d.share(p))
		addF(&t.events, eventRate(p))
		addF(&t.running, p.Running)
		addI(&t.blocks, p.CachedBlocks)
		if p.Adapters.Loaded != nil {
			addI(&t.adapters, new(len(p.Adapters.Loaded)))
		}
		t.depth += depth(&p.Queue)
		if p.Load != nil {
			t.loads, t.loadsThatTold = t.loads+*p.Load, t.loadsThatTold+1
		}
		if p.AgeSeconds != nil && (t.age == nil || *p.AgeSeconds > *t.age) {
			t.age = p.AgeSeconds
		}
	}
	if t.loadsThatTold > 0 {
		t.load = new(t.loads / t.loadsThatTold)
	}
	return t
}
