package answer

import "bytes"

// class says what a byte of an answer is to somebody who watches for a member.
type class uint8

const (
	other  class = iota // nothing of interest
	opened              // an outermost object or array has begun
	value               // a byte of the member's value, or white space around it
	closed              // the outermost object or array is complete
)

// spot is where in the outermost object the next byte stands.
type spot uint8

const (
	nowhere spot = iota
	beforeKey
	inKey
	afterKey
	inValue // of the member that is watched for
	inOther
)

// scanner finds one top-level member in an answer that passes by in pieces, cut
// anywhere: in JSON, or in the JSON of an event stream's data lines. It needs no
// memory of what has passed, and what is not JSON only finds nothing.
//
// An event whose data is spread over several lines is one text to a client of
// the stream; only its first line is looked at, which then is not complete.
type scanner struct {
	name   string
	format Format // JSON or EventStream

	// The line of an event stream: how much of "data:" has matched, or lineSkipped.
	at       int
	dataSeen bool // the event has had a data line
	afterCR  bool

	depth           int // of open containers
	object          bool
	quoted, escaped bool
	spot            spot
	matched         int // bytes of name that the key agrees with; −1 = it differs
}

const (
	dataField   = "data:"
	lineSkipped = -1
)

// step takes the next byte.
func (s *scanner) step(c byte) class {
	if s.format != EventStream {
		return s.json(c)
	}
	if c == '\n' || c == '\r' {
		s.newline(c)
		return other
	}
	s.afterCR = false
	switch {
	case s.at == lineSkipped:
		return other
	case s.at == len(dataField):
		return s.json(c)
	case c != dataField[s.at]:
		s.at = lineSkipped
	default:
		s.at++
		if s.at == len(dataField) {
			if s.dataSeen {
				s.at = lineSkipped
			}
			s.dataSeen = true
		}
	}
	return other
}

// newline ends a line, which may end with CR, LF or both, and with it whatever
// JSON was unfinished. An empty line ends the event.
func (s *scanner) newline(c byte) {
	if c == '\n' && s.afterCR {
		s.afterCR = false
		return
	}
	s.afterCR = c == '\r'
	if s.at == 0 {
		s.dataSeen = false
	}
	s.at = 0
	s.depth, s.quoted, s.escaped, s.spot = 0, false, false, nowhere
}

func (s *scanner) json(c byte) class {
	if s.quoted {
		return s.text(c)
	}
	switch c {
	case '"':
		s.quoted = true
		if s.spot == beforeKey {
			s.spot, s.matched = inKey, 0
		}
	case '{', '[':
		s.depth++
		if s.depth == 1 {
			return s.open(c)
		}
	case '}', ']':
		if s.depth--; s.depth <= 0 {
			s.depth, s.spot = 0, nowhere
			return closed
		}
	case ',':
		if s.depth == 1 && s.object {
			s.spot = beforeKey
		}
	case ':':
		if s.spot == afterKey {
			s.colon()
			return other
		}
	}
	if s.spot == inValue {
		return value
	}
	return other
}

func (s *scanner) open(c byte) class {
	s.object, s.spot = c == '{', nowhere
	if s.object {
		s.spot = beforeKey
	}
	return opened
}

func (s *scanner) colon() {
	s.spot = inOther
	if s.matched == len(s.name) {
		s.spot = inValue
	}
}

// text takes a byte of a string, its closing quote included.
func (s *scanner) text(c byte) class {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = false
	}
	switch s.spot {
	case inKey:
		s.keyByte(c)
	case inValue:
		return value
	case nowhere, beforeKey, afterKey, inOther:
	}
	return other
}

// keyByte compares the key. One that is written with escapes is not recognised:
// engines don't, and unknown is better than wrong.
func (s *scanner) keyByte(c byte) {
	switch {
	case !s.quoted:
		s.spot = afterKey
	case s.matched >= 0 && s.matched < len(s.name) && c == s.name[s.matched]:
		s.matched++
	default:
		s.matched = -1
	}
}

// What ends a run of bytes that change nothing, by the state of the scanner.
const (
	endsLine uint8 = 1 << iota
	endsText
	endsSpace // and numbers and words: what stands between strings and brackets
)

var ends = [256]uint8{
	'\n': endsLine | endsText | endsSpace,
	'\r': endsLine | endsText | endsSpace,
	'"':  endsText | endsSpace, '\\': endsText,
	'{': endsSpace, '}': endsSpace, '[': endsSpace, ']': endsSpace, ',': endsSpace, ':': endsSpace,
}

// run says what ends the present run; 0 when the next byte matters anyhow.
func (s *scanner) run() uint8 {
	switch {
	case s.format == EventStream && s.at == lineSkipped:
		return endsLine
	case s.format == EventStream && s.at != len(dataField), s.spot == inKey, s.spot == inValue, s.escaped:
		return 0
	case s.quoted:
		return endsText
	}
	return endsSpace
}

// idle is how many of the next bytes are [other] and change nothing. Most of an
// answer is text inside strings.
func (s *scanner) idle(p []byte) int {
	end := s.run()
	if end == 0 || len(p) == 0 || ends[p[0]]&end != 0 {
		return 0
	}
	s.afterCR = false
	for i, c := range p {
		if ends[c]&end != 0 {
			return i
		}
	}
	return len(p)
}

// line is the length of the next line of an event stream when all of it is there
// and the member can't stand in it, as with most of a stream; else 0.
func (s *scanner) line(p []byte) int {
	if s.format != EventStream || s.at != 0 {
		return 0
	}
	end := bytes.IndexByte(p, '\n')
	if end <= 0 {
		return 0
	}
	text := bytes.TrimSuffix(p[:end], []byte{'\r'})
	if bytes.IndexByte(text, '\r') >= 0 || bytes.Contains(text, []byte(s.name)) || len(text) == 0 {
		return 0
	}
	s.afterCR = false
	if bytes.HasPrefix(text, []byte(dataField)) {
		s.dataSeen = true
	}
	return end + 1
}
