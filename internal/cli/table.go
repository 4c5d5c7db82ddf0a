package cli

import (
	"bytes"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// columnGap separates two columns.
const columnGap = 2

// Column describes one column of a [Table]. What it can do is data, so that a
// command's columns are one literal that help and tests can read too.
type Column struct {
	Name  string // header, upper case
	Wide  bool   // shown with -o wide alone
	Right bool   // numbers: aligned at their right end

	// Min > 0 lets a terminal that is too narrow cut the cells of this column
	// in the middle, down to Min cells and no further.
	Min int
	// Sentence says that they are cut at the end instead: what matters is said first.
	Sentence bool
	// Priority says who leaves a terminal that is too narrow nevertheless: the
	// column with the highest first, the rightmost of equals; 0 always stays.
	Priority int
}

// Cell is one value with what it means to the reader.
type Cell struct {
	Text string
	Tone Tone
}

// Table collects rows and writes them with aligned columns. On a terminal the
// table fits the width and has tones; elsewhere it has the same columns, nothing
// cut, no tones. Every text is sanitized, and an empty one becomes [Unknown], so
// that each line has one field a column.
type Table struct {
	streams   *Streams
	columns   []Column
	index     []int // of each column among the cells of a row
	rows      [][]Cell
	widest    []int // of each column in rows that are written already
	noHeaders bool
}

// Table starts a table of those columns that the format shows.
func (p Printer) Table(columns ...Column) *Table {
	t := &Table{streams: p.Streams, noHeaders: p.NoHeaders}
	for i, column := range columns {
		if !column.Wide || p.Format == FormatWide {
			t.columns = append(t.columns, column)
			t.index = append(t.index, i)
		}
	}
	return t
}

// Row adds a row of texts, one for each column that [Printer.Table] was given,
// whether it is shown or not. Missing ones count as empty.
func (t *Table) Row(texts ...string) {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	t.Cells(cells...)
}

// Cells is Row for cells that have a tone.
func (t *Table) Cells(cells ...Cell) {
	row := make([]Cell, len(t.columns))
	for i, from := range t.index {
		if from < len(cells) {
			row[i] = cells[from]
		}
		row[i].Text = Sanitize(row[i].Text)
		if row[i].Text == "" {
			row[i].Text = Unknown
		}
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Flush writes the header and the rows.
func (t *Table) Flush() error {
	layout := t.fit()
	var out bytes.Buffer
	if !t.noHeaders {
		header := make([]Cell, len(t.columns))
		for i, column := range t.columns {
			header[i] = Cell{column.Name, Strong}
		}
		t.writeLine(&out, header, layout)
	}
	for _, row := range t.rows {
		t.writeLine(&out, row, layout)
	}
	_, err := t.streams.Out.Write(out.Bytes())
	return err
}

// Continue forgets the rows, for others to be written below them: without a header,
// and with no column narrower than it was.
func (t *Table) Continue() {
	widest := make([]int, len(t.columns))
	for i := range widest {
		widest[i] = t.need(i)
	}
	t.widest, t.rows, t.noHeaders = widest, nil, true
}

// slot is the place of one column in a line.
type slot struct {
	column int
	width  int
}

// fit chooses the columns and widths: what they need, unless a terminal is
// narrower. Then cells that may be cut are cut, and if that is not enough, a
// column leaves and the others get back what they need.
func (t *Table) fit() []slot {
	slots := make([]slot, len(t.columns))
	for i := range t.columns {
		slots[i] = slot{i, t.need(i)}
	}
	if !t.streams.OutIsTerminal || t.streams.Width <= 0 {
		return slots
	}
	for {
		shrunk, fits := t.shrink(slots)
		leaving := t.leaving(slots)
		if fits || leaving < 0 {
			return shrunk // at worst the terminal wraps: what must stay is shown
		}
		slots = append(slots[:leaving], slots[leaving+1:]...)
	}
}

// need is the width of the widest cell of a column.
func (t *Table) need(column int) int {
	width := 0
	if t.widest != nil {
		width = t.widest[column]
	}
	if !t.noHeaders {
		width = ansi.StringWidth(t.columns[column].Name)
	}
	for _, row := range t.rows {
		width = max(width, ansi.StringWidth(row[column].Text))
	}
	return width
}

// shrink takes cells off the widest columns that may be cut until the line
// fits, and says whether it does.
func (t *Table) shrink(slots []slot) ([]slot, bool) {
	shrunk := append([]slot(nil), slots...)
	excess := lineWidth(shrunk) - t.streams.Width
	for ; excess > 0; excess-- {
		widest := -1
		for i, s := range shrunk {
			least := t.columns[s.column].Min
			if least > 0 && s.width > least && (widest < 0 || s.width > shrunk[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			return shrunk, false
		}
		shrunk[widest].width--
	}
	return shrunk, true
}

// leaving picks the slot that a narrow terminal gives up, -1 for none.
func (t *Table) leaving(slots []slot) int {
	leaving, highest := -1, 1
	for i, s := range slots {
		if priority := t.columns[s.column].Priority; priority >= highest {
			leaving, highest = i, priority
		}
	}
	return leaving
}

func lineWidth(slots []slot) int {
	width := columnGap * max(len(slots)-1, 0)
	for _, s := range slots {
		width += s.width
	}
	return width
}

func (t *Table) writeLine(out *bytes.Buffer, row []Cell, slots []slot) {
	for i, s := range slots {
		cell := row[s.column]
		text := CutMiddle(cell.Text, s.width)
		if t.columns[s.column].Sentence {
			text = ansi.Truncate(cell.Text, s.width, "…")
		}
		padding := strings.Repeat(" ", max(s.width-ansi.StringWidth(text), 0))
		painted := t.streams.Paint(cell.Tone, text)
		last := i == len(slots)-1
		switch {
		case t.columns[s.column].Right:
			out.WriteString(padding + painted)
		case last:
			out.WriteString(painted) // no blanks at the end of a line
		default:
			out.WriteString(painted + padding)
		}
		if !last {
			out.WriteString(strings.Repeat(" ", columnGap))
		}
	}
	out.WriteByte('\n')
}

// CutMiddle shortens text to at most width cells by putting "…" in place of
// its middle: the ends of pod names and IDs tell them apart. The text must be
// safe already (see [Sanitize]).
func CutMiddle(text string, width int) string {
	total := ansi.StringWidth(text)
	switch {
	case total <= width:
		return text
	case width <= 0:
		return ""
	case width == 1:
		return "…"
	}
	left := width / 2
	for right := width - 1 - left; right > 0; right-- {
		cut := ansi.Truncate(text, left, "") + "…" + ansi.TruncateLeft(text, total-right, "")
		if ansi.StringWidth(cut) <= width {
			return cut
		}
		// A mark that stood on a letter now stands on the "…" and takes a cell.
	}
	return ansi.Truncate(text, width, "…")
}
