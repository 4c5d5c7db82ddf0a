package explain

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// markdownWriter writes a document as Markdown with the tables that GitHub, GitLab
// and most chats know. Every text passes safeMarkdown here, in one place.
type markdownWriter struct{ strings.Builder }

// markdownMarks are the characters that may mean something, and how they are
// written to mean nothing. What would be taken for an address gets no link.
var markdownMarks = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "{", `\{`, "}", `\}`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`, "#", `\#`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "://", `\://`, "www.", `www\.`, "WWW.", `WWW\.`,
)

// safeMarkdown is text that shows as it is, inside a line.
func safeMarkdown(text string) string {
	return withoutMentions(markdownMarks.Replace(Sanitize(text)))
}

// withoutMentions parts the @ of what would call somebody from the name, by a
// character that can't be seen.
func withoutMentions(text string) string {
	const apart = "\u2060"
	var b strings.Builder
	before := ' '
	for i, r := range text {
		b.WriteRune(r)
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		if r == '@' && !wordRune(before) && wordRune(next) {
			b.WriteString(apart)
		}
		before = r
	}
	return b.String()
}

func wordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// startOfLine keeps the beginning of a line from making it a list or a rule.
func startOfLine(text string) string {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	switch {
	case text == "":
		return ""
	case digits > 0 && digits < len(text) && strings.ContainsRune(".)", rune(text[digits])):
		return text[:digits] + `\` + text[digits:]
	case strings.ContainsRune("-+=", rune(text[0])):
		return `\` + text
	}
	return strings.TrimLeft(text, " ")
}

func (d *document) markdown(out io.Writer) error {
	w := new(markdownWriter)
	for i, b := range d.blocks {
		if i > 0 {
			w.WriteString("\n")
		}
		b.markdown(w)
	}
	_, err := io.WriteString(out, w.String())
	return err
}

// mark sets what must not be overlooked in bold. A space at an end would undo it.
func mark(tone Tone, text string) string {
	text = strings.TrimSpace(text)
	if text != "" && (tone == Strong || tone == Warn || tone == Bad) {
		return "**" + text + "**"
	}
	return text
}

func (v verdictBlock) markdown(w *markdownWriter) {
	w.WriteString(mark(Strong, safeMarkdown(string(v))) + "\n")
}

func (h heading) markdown(w *markdownWriter) { w.WriteString("### " + safeMarkdown(string(h)) + "\n") }

func (p paragraph) markdown(w *markdownWriter) {
	text := safeMarkdown(p.text)
	if p.tone == Plain || p.tone == Faint || p.tone == Good {
		text = startOfLine(text)
	}
	w.WriteString(mark(p.tone, text) + "\n")
}

func (l list) markdown(w *markdownWriter) {
	for _, one := range l {
		text := startOfLine(safeMarkdown(one.text))
		if one.tone == Warn || one.tone == Bad {
			text = mark(one.tone, safeMarkdown(one.text))
		}
		if one.code != "" {
			text += " (" + safeMarkdown(one.code) + ")"
		}
		w.WriteString("- " + text + "\n")
		for _, below := range one.below {
			w.WriteString("  - " + startOfLine(safeMarkdown(below)) + "\n")
		}
	}
}

func (f facts) markdown(w *markdownWriter) {
	for _, one := range f {
		w.WriteString("- " + safeMarkdown(one.key) + ": " + mark(one.tone, safeMarkdown(one.text)) + "\n")
	}
}

func (t *table) markdown(w *markdownWriter) {
	for _, c := range t.columns {
		w.WriteString("| " + strings.TrimSpace(safeMarkdown(c.name)+" "+safeMarkdown(c.below)) + " ")
	}
	w.WriteString("|\n")
	for _, c := range t.columns {
		if c.right {
			w.WriteString("| ---: ")
		} else {
			w.WriteString("| --- ")
		}
	}
	w.WriteString("|\n")
	for _, row := range t.rows {
		for i := range row.cells {
			w.WriteString("| " + row.cells[i].inMarkdown(row.tone) + " ")
		}
		w.WriteString("|\n")
	}
}

func (c *cell) inMarkdown(tone Tone) string {
	parts := []string{mark(tone, safeMarkdown(c.text))}
	for _, below := range c.below {
		parts = append(parts, safeMarkdown(below))
	}
	return strings.TrimPrefix(strings.Join(parts, "<br>"), "<br>")
}
