package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/eppctl/eppctl/score"
)

// podRow is a pod as both layouts show it.
type podRow struct {
	rank, pod, endpoint string
	score, remark       string
	tone                Tone
	factors             []Factor
	reported            string // what the pod said of itself, "" when its factors show it
}

// writePods shows pods by factors: as a matrix where that fits, else as one
// block of lines a pod.
func (r *Report) writePods(p *page, rows []podRow) {
	if m := newMatrix(p, rows); m != nil {
		m.write(rows)
		return
	}
	for i := range rows {
		row := &rows[i]
		text := row.pod + " (" + row.endpoint + ")  score " + row.score
		if row.remark != "" {
			text += ", " + row.remark
		}
		p.row(row.tone, row.rank+". ", text)
		p.writeFactors("   ", row.factors)
		p.writeReported("   ", row)
	}
}

// writeReported shows what the pod said of itself, where that is known beside its
// factors.
func (p *page) writeReported(indent string, row *podRow) {
	if row.reported != "" {
		p.row(Faint, indent, row.reported)
	}
}

// writeFactors shows the factors of one pod, a line each:
//
//	cacheMatch    0.960 × 0.60 = 0.5760  187 of 195 blocks (report, 0.4s old)
func (p *page) writeFactors(indent string, factors []Factor) {
	name, weight := 0, 0
	for i := range factors {
		name = max(name, width(p.safe(factors[i].Name)))
		weight = max(weight, len(weightText(factors[i].Weight)))
	}
	for i := range factors {
		f := &factors[i]
		tone := Plain
		if f.Missing() || f.State == score.Clamped.String() {
			tone = Warn
		}
		p.row(tone, indent+pad(p.safe(f.Name), name)+"  "+pad(f.valueText(), 5)+" × "+
			pad(weightText(f.Weight), weight)+" = "+decimal(f.Contribution, 4)+"  ", f.rawText())
	}
}

// valueText is the factor's value, or a dash: it counts 0 but is not known.
func (f *Factor) valueText() string {
	if f.Value == nil {
		return "–"
	}
	return decimal(*f.Value, 3)
}

// weightText has two decimals, or as many as the weight needs.
func weightText(w float64) string {
	if text := decimal(w, -1); len(text) > 4 {
		return text
	}
	return decimal(w, 2)
}

// rawText is the raw input in words, with its state unless that is plain, and
// where it came from.
func (f *Factor) rawText() string {
	text := f.detailText()
	source, age := f.origin()
	if strings.Contains(text, " by "+source) { // the load's own words name it
		source = ""
	}
	if f.State == score.Stale.String() { // and the stale ones tell the age
		age = ""
	}
	if source == score.SourceAssumed.String() {
		source += ": what was sent to it"
	}
	if origin := strings.Trim(source+", "+age, ", "); origin != "" {
		text = strings.TrimLeft(text+" ("+origin+")", " ")
	}
	if queue := f.Input.Queue; queue != nil && queue.InFlight > 0 {
		text += fmt.Sprintf("; %d in flight", queue.InFlight)
	}
	return text
}

// detailText is the raw input in words, with its state unless that is plain.
func (f *Factor) detailText() string {
	if f.State == score.Known.String() || f.State == score.NotApplicable.String() || strings.HasPrefix(f.Detail, f.State) {
		return f.Detail
	}
	return strings.TrimSuffix(f.State+": "+f.Detail, ": ")
}

// origin is the source and the age of the input, as far as they are known.
func (f *Factor) origin() (source, age string) {
	var r *Reading
	switch in := &f.Input; {
	case f.State == score.NotApplicable.String():
		return "", ""
	case in.Cache != nil:
		r = &in.Cache.Reading
	case in.Load != nil:
		r = &in.Load.Reading
	case in.Queue != nil:
		r = &in.Queue.Reading
	case in.Health != nil:
		r = &in.Health.Reading
	default:
		return "", ""
	}
	if r.AgeSeconds != nil && *r.AgeSeconds > 0 {
		age = ageText(*r.AgeSeconds) + " old"
	}
	return r.Source, age
}

func ageText(seconds float64) string {
	const tenths, longest = 10, 1e9
	if seconds < tenths {
		return decimal(seconds, 1) + "s"
	}
	return (time.Duration(min(seconds, longest)) * time.Second).String()
}

// matrix is the layout for wide screens: a row of cells a pod, a column a
// factor; in a cell value and contribution, and the raw input below.
type matrix struct {
	p               *page
	rank, pod, cell int // widths of the columns
}

const (
	scoreColumn = 8
	maxPod      = 36
	minCell     = 14 // "0.960 → 0.5760"
	maxCell     = 26
	gap         = 2
)

// newMatrix is nil when a matrix doesn't fit or has nothing to show.
func newMatrix(p *page, rows []podRow) *matrix {
	if len(rows) == 0 || len(rows[0].factors) == 0 || (p.opt.Width > 0 && p.opt.Width < matrixWidth) {
		return nil
	}
	m := &matrix{p: p, cell: maxCell}
	for i := range rows {
		m.rank = max(m.rank, len(rows[i].rank)+len(".")+gap)
		m.pod = max(m.pod, min(width(p.safe(rows[i].pod)), maxPod), min(width(p.safe(rows[i].endpoint)), maxPod))
	}
	if p.opt.Width == 0 {
		return m
	}
	const podAtLeast = 14
	columns := len(rows[0].factors)
	for ; ; m.pod-- {
		room := p.opt.Width - m.rank - m.pod - gap - scoreColumn
		m.cell = min(maxCell, room/columns-gap)
		if m.cell >= minCell+gap || (m.cell >= minCell && m.pod <= podAtLeast) {
			return m
		}
		if m.pod <= podAtLeast {
			return nil
		}
	}
}

func (m *matrix) write(rows []podRow) {
	head := [][]string{{""}, {"pod"}, {"score"}}
	for i := range rows[0].factors {
		f := &rows[0].factors[i]
		head = append(head, append(fold(m.p.safe(f.Name), m.cell), "× "+weightText(f.Weight)))
	}
	m.line(Faint, head)
	for i := range rows {
		m.line(rows[i].tone, m.cells(&rows[i]))
		m.p.writeReported(strings.Repeat(" ", m.rank), &rows[i])
	}
}

func (m *matrix) cells(row *podRow) [][]string {
	pod := append(fold(m.p.safe(row.pod), m.pod), fold(m.p.safe(row.endpoint), m.pod)...)
	if row.remark != "" {
		pod = append(pod, fold(m.p.safe(row.remark), m.pod)...)
	}
	cells := [][]string{{row.rank + "."}, pod, {row.score}}
	for i := range row.factors {
		f := &row.factors[i]
		cell := []string{f.valueText() + " → " + decimal(f.Contribution, 4)}
		cells = append(cells, append(cell, fold(m.p.safe(f.rawText()), m.cell)...))
	}
	return cells
}

// line writes the cells of a row.
func (m *matrix) line(tone Tone, cells [][]string) {
	widths := make([]int, len(cells))
	for i := range cells {
		widths[i] = m.columnWidth(i)
	}
	m.p.cells(tone, widths, cells)
}

func (m *matrix) columnWidth(i int) int {
	switch i {
	case 0:
		return m.rank
	case 1:
		return m.pod + gap
	case 2:
		return scoreColumn
	}
	return m.cell + gap
}
