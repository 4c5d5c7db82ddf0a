package request

import (
	"bytes"
	"unicode/utf8"
)

// unquote decodes a checked string with its quotes. Without escapes it is a
// slice of the input. A lone surrogate becomes the three bytes that UTF-8
// would give it, so that different ones stay different.
func unquote(text []byte) []byte {
	bare := text[1 : len(text)-1]
	i := bytes.IndexByte(bare, '\\')
	if i < 0 {
		return bare
	}
	out := make([]byte, 0, len(bare))
	for i >= 0 {
		out = append(out, bare[:i]...)
		bare = bare[i+1:] // behind the backslash
		var n int
		out, n = appendEscape(out, bare)
		bare = bare[n:]
		i = bytes.IndexByte(bare, '\\')
	}
	return append(out, bare...)
}

// appendEscape decodes the escape sequence whose backslash stands before b and
// says how many bytes of b it took.
func appendEscape(out, b []byte) ([]byte, int) {
	if b[0] != 'u' {
		return append(out, unescaped(b[0])), 1
	}
	r, _ := hex4(b[1:])
	if r < 0xD800 || r > 0xDFFF {
		return utf8.AppendRune(out, r), 5
	}
	if r < 0xDC00 && len(b) >= 11 && b[5] == '\\' && b[6] == 'u' {
		if low, ok := hex4(b[7:]); ok && low >= 0xDC00 && low <= 0xDFFF {
			return utf8.AppendRune(out, (r-0xD800)<<10|(low-0xDC00)+0x10000), 11
		}
	}
	return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F), 5
}

// unescaped is what a letter behind a backslash means; the quote, the backslash
// and the slash stand for themselves.
func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// compact appends checked JSON text without its insignificant white space.
func compact(dst, text []byte) []byte {
	for len(text) > 0 {
		switch text[0] {
		case ' ', '\t', '\n', '\r':
			text = text[1:]
		case '"':
			s := scanner{b: text, i: 1, checked: true}
			s.skipString()
			dst = append(dst, text[:s.i]...)
			text = text[s.i:]
		default:
			dst = append(dst, text[0])
			text = text[1:]
		}
	}
	return dst
}
