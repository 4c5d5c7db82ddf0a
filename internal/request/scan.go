package request

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth is how deep values may nest. The deepest real bodies (JSON schemas
// of tools) stay under 50; the limit keeps a hostile one from growing the stack.
const maxDepth = 256

// A scanner walks JSON text (RFC 8259) and hands out byte ranges instead of
// values, since what is forwarded must stay what the client wrote. It is ours
// because encoding/json matches keys without regard to case, keeps no
// positions of object members, and rounds numbers.
type scanner struct {
	b []byte
	i int
	// checked says that the text has been scanned once without an error, so
	// that strings may be skipped without looking at each of their bytes.
	checked bool
}

// A syntaxError is where the text stops being JSON.
type syntaxError struct {
	offset int
	want   string
}

// Error implements error.
func (e *syntaxError) Error() string { return fmt.Sprintf("expected %s at byte %d", e.want, e.offset) }

func (s *scanner) fail(want string) error { return &syntaxError{offset: s.i, want: want} }

// peek is the byte at the cursor, 0 at the end (which no grammar rule wants).
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next skips white space and takes c when it stands there.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// value steps over the value at the cursor and returns its text.
func (s *scanner) value(depth int) ([]byte, error) {
	s.space()
	from := s.i
	var err error
	switch c := s.peek(); {
	case c == '"':
		_, err = s.str()
	case c == '{':
		err = s.object(depth, nil)
	case c == '[':
		err = s.array(depth, nil)
	case c == '-' || (c >= '0' && c <= '9'):
		err = s.number()
	case c == 't':
		err = s.word("true")
	case c == 'f':
		err = s.word("false")
	case c == 'n':
		err = s.word("null")
	default:
		err = s.fail("a value")
	}
	return s.b[from:s.i], err
}

// object walks the members of the object at the cursor. Keys are given with
// their quotes, as written.
func (s *scanner) object(depth int, member func(key, value []byte) error) error {
	if depth >= maxDepth {
		return s.fail(fmt.Sprintf("at most %d levels of nesting", maxDepth))
	}
	s.i++ // the brace
	for first := true; !s.next('}'); first = false {
		if !first && !s.next(',') {
			return s.fail("',' or '}'")
		}
		s.space()
		if s.peek() != '"' {
			return s.fail("a property name in double quotes")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if !s.next(':') {
			return s.fail("':'")
		}
		value, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		if member == nil {
			continue
		}
		if err := member(key, value); err != nil {
			return err
		}
	}
	return nil
}

// array walks the elements of the array at the cursor.
func (s *scanner) array(depth int, element func(index int, value []byte) error) error {
	if depth >= maxDepth {
		return s.fail(fmt.Sprintf("at most %d levels of nesting", maxDepth))
	}
	s.i++ // the bracket
	for n := 0; !s.next(']'); n++ {
		if n > 0 && !s.next(',') {
			return s.fail("',' or ']'")
		}
		if element == nil {
			s.skipIntegers()
		}
		value, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		if element == nil {
			continue
		}
		if err := element(n, value); err != nil {
			return err
		}
	}
	return nil
}

// str steps over the string at the cursor and returns it with its quotes.
func (s *scanner) str() ([]byte, error) {
	from := s.i
	s.i++ // the opening quote
	if s.checked {
		s.skipString()
		return s.b[from:s.i], nil
	}
	for {
		s.i += plain(s.b[s.i:])
		switch s.peek() {
		case '"':
			s.i++
			return s.b[from:s.i], nil
		case '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		default:
			if s.i == len(s.b) {
				return nil, s.fail("a closing quote")
			}
			return nil, s.fail("no bare control character in a string")
		}
	}
}

// plain is how many of the first bytes mean themselves in a string: neither
// quote, backslash nor control character. Sixteen bytes are looked at at once.
func plain(b []byte) int {
	i := 0
	for ; i+16 <= len(b); i += 16 {
		if special(binary.LittleEndian.Uint64(b[i:]))|special(binary.LittleEndian.Uint64(b[i+8:])) != 0 {
			break
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if found := special(binary.LittleEndian.Uint64(b[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// special has the highest bit of a byte set where that is no plain one. The lowest
// that is set is right, whatever borrows do to those above it (determining if a
// word has a byte less than n, Bit Twiddling Hacks).
func special(w uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
}

// skipString goes behind the closing quote of a string that is known to have
// one, in time linear in its length whatever is escaped in it.
func (s *scanner) skipString() {
	quote := s.i + bytes.IndexByte(s.b[s.i:], '"')
	for {
		slash := bytes.IndexByte(s.b[s.i:quote], '\\')
		if slash < 0 {
			s.i = quote + 1
			return
		}
		if s.i += slash + 2; s.i > quote { // it was the quote that was escaped
			quote = s.i + bytes.IndexByte(s.b[s.i:], '"')
		}
	}
}

func (s *scanner) escape() error {
	s.i++ // the backslash
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
		s.i++
		if _, ok := hex4(s.b[s.i:]); !ok {
			return s.fail("4 hex digits")
		}
		s.i += 4
		return nil
	}
	return s.fail("an escape sequence")
}

func (s *scanner) digits() error {
	from := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	if s.i == from {
		return s.fail("a digit")
	}
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.i++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return nil
}

// skipIntegers steps over integers that have a comma right behind them: most of
// what a prompt of token ids consists of. A value has to follow.
func (s *scanner) skipIntegers() {
	for i := s.i; i < len(s.b); {
		if s.b[i] < '1' || s.b[i] > '9' {
			return
		}
		for i++; i < len(s.b) && s.b[i]-'0' <= 9; {
			i++
		}
		if i == len(s.b) || s.b[i] != ',' {
			return
		}
		i++
		s.i = i
	}
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.fail("a value")
	}
	s.i += len(w)
	return nil
}

// hex4 reads 4 hex digits.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}

// topLevel checks that body is one JSON object and nothing else, and walks its
// members.
func topLevel(body []byte, member func(key, value []byte) error) error {
	s := scanner{b: body}
	s.space()
	if s.peek() != '{' {
		return s.fail("a JSON object")
	}
	if err := s.object(0, member); err != nil {
		return err
	}
	return s.end()
}

// end checks that nothing but white space is left.
func (s *scanner) end() error {
	s.space()
	if s.i != len(s.b) {
		return s.fail("the end of the body")
	}
	return nil
}

// members walks the object in text that topLevel has been over.
func members(text []byte, member func(key, value []byte) error) error {
	s := scanner{b: text, checked: true}
	return s.object(0, member)
}

// elements walks the array in text that topLevel has been over.
func elements(text []byte, element func(index int, value []byte) error) error {
	s := scanner{b: text, checked: true}
	return s.array(0, element)
}

// keyIs compares a key as written (with quotes, maybe with escapes) to a name,
// with regard to case as the engines do.
func keyIs(key []byte, name string) bool {
	bare := key[1 : len(key)-1]
	if bytes.IndexByte(bare, '\\') < 0 {
		return string(bare) == name
	}
	return string(unquote(key)) == name
}
