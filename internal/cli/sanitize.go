package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks may follow one another: living scripts
// stack up to three or four, text that means to spill over other lines more.
const maxMarks = 4

// Sanitize makes text that came from elsewhere safe to show on one line of a
// terminal. What is not printable is written as Go writes it in a string
// literal: an escape sequence becomes `\x1b[31m`, a newline `\n`, a
// right-to-left override `\u202e`, a stray byte `\xff`; so it stays visible and
// loses its effect. Zero-width and other format characters and piles of
// combining marks are treated alike. Printable text is unchanged, and so is
// what Sanitize returned before.
func Sanitize(text string) string {
	if clean(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	marks := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		marks = countMarks(r, marks)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[text[i]>>4])
			b.WriteByte(hexDigits[text[i]&0xf])
		case safeRune(r) && marks <= maxMarks:
			b.WriteRune(r)
		default:
			writeEscape(&b, r)
			marks = 0
		}
		i += size
	}
	return b.String()
}

// sanitizeLines sanitizes each line of text and joins them with separator.
func sanitizeLines(text, separator string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Sanitize(line)
	}
	return strings.Join(lines, separator)
}

const hexDigits = "0123456789abcdef"

// clean reports whether every byte is printable ASCII: nearly all text here.
func clean(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// safeRune excludes what strconv does: controls, format characters (bidi
// overrides, zero widths, tags), line separators, private use, surrogates; and letters
// that show nothing.
func safeRune(r rune) bool {
	return strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func countMarks(r rune, before int) int {
	if unicode.Is(unicode.M, r) {
		return before + 1
	}
	return 0
}

func writeEscape(b *strings.Builder, r rune) {
	quoted := strconv.QuoteRuneToASCII(r)
	b.WriteString(quoted[1 : len(quoted)-1])
}
