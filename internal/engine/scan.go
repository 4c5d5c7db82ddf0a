package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
)

// scratch is what reading a page needs and the next one can use again.
type scratch struct {
	// chunk is the part of a page that is looked at.
	chunk [maxLineBytes]byte
	// kept are the lines that matter, in the page's order.
	kept []byte
	decoder
}

// scratchPool is shared by all readers of the process.
var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// maxScratchBytes is the largest buffer that is worth keeping for the next page.
const maxScratchBytes = 256 << 10

func (s *scratch) release() {
	if cap(s.kept) <= maxScratchBytes {
		scratchPool.Put(s)
	}
}

// scan keeps the lines of a page that matter. Of a real page's 600 to 1000
// lines about ten do, and the others are not looked at beyond their first bytes.
func (s *scratch) scan(body io.Reader, limits Limits) error {
	page := bounded(body, limits.pageBytes())
	s.kept = s.kept[:0]
	lines := lineScan{scratch: s, blank: true}
	held, idle := 0, 0 // bytes of a line that has not ended; empty reads
	for {
		n, err := page.Read(s.chunk[held:])
		if idle++; n > 0 {
			idle = 0
		}
		rest, failed := lines.take(s.chunk[:held+n], held)
		held = copy(s.chunk[:], rest)
		switch {
		case failed != nil:
			return failed
		case errors.Is(err, io.EOF):
			return lines.end(s.chunk[:held])
		case err == nil && idle > 100:
			err = io.ErrNoProgress
			fallthrough
		case err != nil:
			return fmt.Errorf("read page: %w", err)
		}
	}
}

// lineScan cuts a page into lines.
type lineScan struct {
	*scratch
	blank bool // nothing but blanks so far
	long  bool // inside of a line that is longer than a chunk, and does not matter
}

// take looks at the lines that end in a chunk, of whose first line seen bytes
// are known not to have its end. It returns the beginning of the last line.
func (l *lineScan) take(chunk []byte, seen int) (rest []byte, err error) {
	full := len(chunk) == maxLineBytes
	for rest = chunk; ; {
		i := bytes.IndexByte(rest[seen:], '\n')
		if i < 0 {
			break
		}
		line := rest[:seen+i+1]
		rest, seen = rest[len(line):], 0
		if err := l.line(line); err != nil {
			return nil, err
		}
		l.long = false
	}
	if !full || len(rest) < maxLineBytes {
		return rest, nil
	}
	if !l.long && wantedLine(rest) {
		return nil, fmt.Errorf("page has a line of more than %d bytes", maxLineBytes)
	}
	l.long = true
	return nil, nil
}

func (l *lineScan) line(line []byte) error {
	if l.long {
		return nil
	}
	if l.blank {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] == '<' {
			return errHTML
		}
		l.blank = len(text) == 0
	}
	if wantedLine(line) {
		l.kept = append(l.kept, line...)
	}
	return nil
}

// end takes a last line without an end.
func (l *lineScan) end(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	return l.line(line)
}

// wantedLine reports whether a line is a sample or the TYPE of a wanted family.
// Names in quotes it leaves to the parser.
func wantedLine(line []byte) bool {
	switch line[0] {
	case 'v', 's', 't', 'D', 'p':
		return wanted.find(line) >= 0
	case '#':
		if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
			return wantedType(rest)
		}
		if bytes.HasPrefix(line, []byte("# HELP ")) {
			return false
		}
		rest, ok := bytes.CutPrefix(skipBlank(line[1:]), []byte("TYPE"))
		return ok && wantedType(skipBlank(rest))
	case '{', '"':
		return true
	case ' ', '\t':
		line = skipBlank(line)
		return len(line) > 0 && wantedLine(line)
	}
	return false
}

// wantedType reports whether the TYPE of a family matters: types of
// OpenMetrics that the parser has no name for are those of plain values.
func wantedType(line []byte) bool {
	i := wanted.find(line)
	if i < 0 {
		return len(line) > 0 && line[0] == '"'
	}
	switch string(bytes.TrimSpace(line[len(wanted.names[i]):])) {
	case "unknown", "info", "stateset":
		return false
	}
	return true
}

func skipBlank(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':'
}

// nameTable finds the wanted name that a line begins with, or, almost always,
// that there is none. For a few positions it has the set of names, as bits, that
// have a given byte there: what is in all of the sets is worth a comparison.
type nameTable struct {
	names []string // at most 64
	sets  [len(looks)][256]uint64
}

// looks are the positions that are looked at; each name is longer.
var looks = [...]int{0, 6, 9, 12}

func newNameTable(names []string) *nameTable {
	t := &nameTable{names: names}
	for i, name := range names {
		for k, at := range looks {
			t.sets[k][name[at]] |= 1 << i
		}
	}
	return t
}

// find returns the number of the name, or -1.
func (t *nameTable) find(line []byte) int {
	if len(line) <= looks[len(looks)-1] {
		return -1
	}
	set := ^uint64(0)
	for k, at := range looks {
		set &= t.sets[k][line[at]]
	}
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		n := len(t.names[i])
		if len(line) >= n && string(line[:n]) == t.names[i] && (len(line) == n || !isNameByte(line[n])) {
			return i
		}
	}
	return -1
}

// number is that of a name of the table.
func (t *nameTable) number(name string) int { return t.find([]byte(name)) }
