package engine

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"
)

// errOdd is what [decoder.decode] says of lines that it leaves to
// prometheus/common: malformed ones, for its words, and correct ones that no
// engine writes (escapes, timestamps, blanks between labels, names in quotes).
var errOdd = errors.New("not the plain form of the format")

// families are the wanted families of a page by their number in [wanted].
type families [][]sample

// sample is one series of a family, and its value.
type sample struct {
	value  float64
	labels []label
}

// label has its texts in the page's bytes.
type label struct{ name, value []byte }

// label is the value of a label; nil when the sample has none of that name.
func (s *sample) label(name string) []byte {
	for i := range s.labels {
		if string(s.labels[i].name) == name {
			return s.labels[i].value
		}
	}
	return nil
}

// of returns the samples of a family; none when the page has none, or none with
// a value of its own (histograms).
func (f families) of(name string) []sample {
	if i := wanted.number(name); i >= 0 {
		return f[i]
	}
	return nil
}

// maxLabels bounds the labels of a series; the most seen are 43.
const maxLabels = 128

// decoder reads the plain form of the text format. What it accepts,
// prometheus/common accepts too and reads as the same (FuzzPageAgainstOracle).
type decoder struct {
	families families
	typed    []bool  // by family: it has a TYPE
	labels   []label // of all samples
}

// reset forgets the last page.
func (d *decoder) reset() {
	if d.families == nil {
		d.families, d.typed = make(families, len(wanted.names)), make([]bool, len(wanted.names))
	}
	for i := range d.families {
		d.families[i] = d.families[i][:0]
	}
	clear(d.typed)
	d.labels = d.labels[:0]
}

// decode reads lines of wanted families; the result is good until the next page,
// and as long as the lines are not changed.
func (d *decoder) decode(lines []byte) (families, error) {
	d.reset()
	for len(lines) > 0 {
		i := bytes.IndexByte(lines, '\n')
		if i < 0 {
			return nil, errOdd
		}
		if !d.line(lines[:i]) {
			return nil, errOdd
		}
		lines = lines[i+1:]
	}
	return d.families, nil
}

func (d *decoder) line(line []byte) bool {
	if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
		return d.typeOf(rest)
	}
	i := wanted.find(line)
	if i < 0 {
		return false
	}
	s := sample{}
	rest := line[len(wanted.names[i]):]
	switch {
	case len(rest) > 0 && rest[0] == '{':
		var ok bool
		if s.labels, rest, ok = d.readLabels(rest[1:]); !ok {
			return false
		}
	case len(rest) == 0 || rest[0] != ' ':
		return false
	}
	var ok bool
	s.value, ok = number(skipBlank(rest))
	d.families[i] = append(d.families[i], s)
	return ok
}

// typeOf reads the rest of a TYPE line, which comes before the samples.
func (d *decoder) typeOf(rest []byte) bool {
	i := wanted.find(rest)
	if i < 0 || d.typed[i] || len(d.families[i]) > 0 {
		return false
	}
	d.typed[i] = true
	switch string(rest[len(wanted.names[i]):]) {
	case " gauge", " counter", " untyped":
		return true
	}
	return false
}

// readLabels reads what follows an opening brace, up to the closing one.
func (d *decoder) readLabels(rest []byte) (labels []label, after []byte, ok bool) {
	first, ascending := len(d.labels), true
	for {
		if len(rest) > 0 && rest[0] == '}' {
			return d.labels[first:len(d.labels):len(d.labels)], rest[1:], true
		}
		var l label
		if l, rest, ok = readLabel(rest); !ok {
			return nil, nil, false
		}
		// No name may be there twice. Engines write them in order.
		others := d.labels[first:]
		if n := len(others); n > 0 && ascending {
			ascending = bytes.Compare(others[n-1].name, l.name) < 0
		}
		if len(others) == maxLabels || !ascending && contains(others, l.name) {
			return nil, nil, false
		}
		d.labels = append(d.labels, l)
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) == 0 || rest[0] != '}':
			return nil, nil, false
		}
	}
}

func contains(labels []label, name []byte) bool {
	for _, l := range labels {
		if bytes.Equal(l.name, name) {
			return true
		}
	}
	return false
}

// readLabel reads name="value".
func readLabel(text []byte) (l label, rest []byte, ok bool) {
	i := 0
	for i < len(text) && isNameByte(text[i]) && text[i] != ':' {
		i++
	}
	if i == 0 || text[0] <= '9' || !bytes.HasPrefix(text[i:], []byte(`="`)) {
		return l, nil, false
	}
	l.name, rest = text[:i], text[i+2:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || string(l.name) == "__name__" {
		return l, nil, false
	}
	l.value = rest[:end]
	if bytes.IndexByte(l.value, '\\') >= 0 || !utf8.Valid(l.value) {
		return l, nil, false
	}
	return l, rest[end+1:], true
}

// number reads a value that is a whole text.
func number(text []byte) (float64, bool) {
	// The parser of the standard library also takes hexadecimal and underscores.
	if bytes.ContainsAny(text, "pPxX_ \t") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil
}
