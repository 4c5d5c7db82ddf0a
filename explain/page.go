package explain

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tone is what a line means to the reader. The words say it too, so that text
// without tones loses nothing.
type Tone uint8

// The tones of lines.
const (
	Plain  Tone = iota
	Strong      // what the eye should find first
	Faint       // what may be skipped
	Good        // as it should be
	Warn        // worth a look
	Bad         // broken
)

// TextOptions say how a report is laid out as text.
type TextOptions struct {
	// Width is the number of columns that no line exceeds; 0 means no limit, and
	// less than 40 is taken as 40.
	Width int
	// All shows all pods. Else they are the best few, the one that holds most of the
	// prompt and the picked one, and many excluded are grouped by
	// reason.
	All bool
	// Wide shows all pods, the factors of the excluded ones too, and what the
	// weights mean.
	Wide bool
	// ASCII replaces the few other characters that the text uses (× – … →).
	ASCII bool
	// Paint gives a line its tone; nil leaves all lines plain.
	Paint func(tone Tone, text string) string
	// Sanitize makes text from the wire safe to show; nil means [Sanitize].
	Sanitize func(text string) string
}

const (
	minWidth    = 40
	matrixWidth = 120 // from here on pods and factors are shown as a matrix
)

// page collects the lines of a text. Every string passes the sanitizer and
// every line is folded to the width here, in one place.
type page struct {
	opt    TextOptions
	lines  []string
	onFact func(fact) // takes the facts in place of the page
}

func newPage(opt TextOptions) *page {
	if opt.Sanitize == nil {
		opt.Sanitize = Sanitize
	}
	if opt.Width > 0 {
		opt.Width = max(opt.Width, minWidth)
	}
	opt.All = opt.All || opt.Wide
	return &page{opt: opt}
}

// asciiOnly spells the characters beyond ASCII that this package writes.
var asciiOnly = strings.NewReplacer("×", "x", "–", "-", "…", "...", "→", "->")

// safe is text as it may be shown.
func (p *page) safe(text string) string {
	text = p.opt.Sanitize(text)
	if p.opt.ASCII {
		text = asciiOnly.Replace(text)
	}
	return text
}

// add appends finished lines.
func (p *page) add(tone Tone, lines ...string) {
	for _, line := range lines {
		line = strings.TrimRight(line, " ")
		if p.opt.Paint != nil && tone != Plain && line != "" {
			line = p.opt.Paint(tone, line)
		}
		p.lines = append(p.lines, line)
	}
}

// blank separates sections, once.
func (p *page) blank() {
	if n := len(p.lines); n > 0 && p.lines[n-1] != "" {
		p.lines = append(p.lines, "")
	}
}

// row writes text behind a prefix; what doesn't fit is continued below the
// text's start. A prefix that leaves no room stands alone.
func (p *page) row(tone Tone, prefix, text string) {
	prefix, text = p.safe(prefix), p.safe(text)
	const room = 20
	indent := width(prefix)
	if p.opt.Width > 0 && indent > p.opt.Width-room {
		p.add(tone, fold(strings.TrimRight(prefix, " "), p.opt.Width)...)
		prefix, indent = "      ", 6
	}
	rest := 0
	if p.opt.Width > 0 {
		rest = p.opt.Width - indent
	}
	for i, line := range fold(text, rest) {
		if i > 0 {
			prefix = strings.Repeat(" ", indent)
		}
		p.add(tone, prefix+line)
	}
}

// fact writes "key: text", continued with an indent.
func (p *page) fact(tone Tone, key, text string) {
	if text == "" {
		return
	}
	if p.onFact != nil {
		p.onFact(fact{tone, key, text})
		return
	}
	rest := 0
	const indent = "  "
	if p.opt.Width > 0 {
		rest = p.opt.Width - len(indent)
	}
	lines := fold(p.safe(key+": "+text), rest)
	for i := range lines[1:] {
		lines[i+1] = indent + lines[i+1]
	}
	p.add(tone, lines...)
}

// cells writes cells side by side in columns of these widths; each may have
// several lines, of which the first alone is strong.
func (p *page) cells(tone Tone, widths []int, cells [][]string) {
	height := 0
	for _, cell := range cells {
		height = max(height, len(cell))
	}
	for h := range height {
		var b strings.Builder
		for i, cell := range cells {
			text := ""
			if h < len(cell) {
				text = p.safe(cell[h])
			}
			b.WriteString(pad(text, widths[i]))
		}
		lineTone := tone
		if h > 0 && tone == Strong {
			lineTone = Plain
		}
		p.add(lineTone, b.String())
	}
}

func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(p.lines, "\n")+"\n")
	return err
}

// fold breaks text into lines of at most limit columns, at spaces where it can;
// 0 means no limit. The result has at least one line.
func fold(text string, limit int) []string {
	if limit <= 0 || width(text) <= limit {
		return []string{text}
	}
	var lines []string
	line, used := "", 0
	for word := range strings.FieldsSeq(text) {
		if used > 0 && used+1+width(word) > limit {
			lines = append(lines, line)
			line, used = "", 0
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		for used+width(word) > limit { // used is 0 here: the word alone is too long
			head, tail := cut(word, limit)
			lines = append(lines, head)
			word = tail
		}
		line, used = line+word, used+width(word)
	}
	return append(lines, line)
}

// cut splits text behind as many characters as fit the columns, at least one.
func cut(text string, columns int) (head, tail string) {
	used := 0
	for i, r := range text {
		if used += runeWidth(r); used > columns && i > 0 {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// pad fills text with spaces up to a number of columns.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-width(text)))
}

// width is the number of columns that a text takes on a terminal.
func width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// wide lists the main ranges of characters that take two columns (East Asian
// Wide and Fullwidth, UAX #11, and emoji).
var wide = [...][2]rune{
	{0x1100, 0x115f},
	{0x2e80, 0x303e},
	{0x3041, 0xa4cf},
	{0xac00, 0xd7a3},
	{0xf900, 0xfaff},
	{0xfe30, 0xfe6f},
	{0xff00, 0xff60},
	{0xffe0, 0xffe6},
	{0x1f300, 0x1f64f},
	{0x1f680, 0x1f6ff},
	{0x1f900, 0x1faff},
	{0x20000, 0x3fffd},
}

func runeWidth(r rune) int {
	if r < wide[0][0] && !unicode.Is(unicode.Mn, r) {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	for _, span := range wide {
		if r >= span[0] && r <= span[1] {
			return 2
		}
	}
	return 1
}

// Sanitize writes everything that is not printable the way Go does in a string
// literal: control characters, bidirectional overrides, zero-width characters,
// letters that show nothing and stray bytes stay visible and lose their effect.
func Sanitize(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			quoted := strconv.QuoteToASCII(text[i : i+1])
			b.WriteString(quoted[1 : len(quoted)-1])
		case strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return b.String()
}
