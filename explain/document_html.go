package explain

import (
	_ "embed" // the style sheet
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

//go:embed document.css
var styleSheet string

// htmlWriter writes a document as HTML that is XML too, so that a test can read it
// strictly. Every text passes safeHTML here, in one place; attributes are this
// package's own words and numbers, but for the labels of cells, which pass it too.
type htmlWriter struct{ strings.Builder }

// safeHTML is text that shows as it is and does nothing, between tags and in
// attributes.
func safeHTML(text string) string { return html.EscapeString(Sanitize(text)) }

// pageHead forbids scripts and everything that would be loaded, even if a text
// came through.
const pageHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>%s</title>
<style>
%s</style>
</head>
<body>
<main>
`

func (d *document) html(out io.Writer) error {
	raw, err := json.MarshalIndent(d.raw, "", " ")
	if err != nil {
		return err
	}
	w := new(htmlWriter)
	fmt.Fprintf(w, pageHead, safeHTML(d.title), styleSheet)
	for _, b := range d.blocks {
		b.html(w)
	}
	fmt.Fprintf(w, "<details>\n<summary>The whole document as JSON</summary>\n<pre>%s</pre>\n</details>\n", betweenTags.Replace(safeJSON(raw)))
	w.WriteString("</main>\n</body>\n</html>\n")
	_, err = io.WriteString(out, w.String())
	return err
}

// betweenTags leaves quotes alone, of which JSON is full.
var betweenTags = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// safeJSON writes what is not printable in a JSON document, which can only be in its
// strings, as escapes of JSON.
func safeJSON(document []byte) string {
	var b strings.Builder
	for _, r := range string(document) {
		switch high, low := utf16.EncodeRune(r); {
		case r == '\n' || strconv.IsPrint(r):
			b.WriteRune(r)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// element writes a text between tags; no text, nothing.
func (w *htmlWriter) element(name string, tone Tone, text string) {
	fmt.Fprintf(w, "<%s%s>%s</%s>", name, tone.class(), safeHTML(text), name)
}

var toneNames = [...]string{Plain: "", Strong: "strong", Faint: "faint", Good: "good", Warn: "warn", Bad: "bad"}

func (t Tone) class() string {
	if t == Plain {
		return ""
	}
	return ` class="` + toneNames[t] + `"`
}

func (v verdictBlock) html(w *htmlWriter) {
	w.element("h1", Plain, string(v))
	w.WriteString("\n")
}

func (h heading) html(w *htmlWriter) {
	w.element("h2", Plain, string(h))
	w.WriteString("\n")
}

func (p paragraph) html(w *htmlWriter) {
	w.element("p", p.tone, p.text)
	w.WriteString("\n")
}

func (l list) html(w *htmlWriter) {
	w.WriteString("<ul>\n")
	for _, one := range l {
		fmt.Fprintf(w, "<li%s>%s", one.tone.class(), safeHTML(one.text))
		if one.code != "" {
			w.WriteString(" ")
			w.element("code", Plain, one.code)
		}
		for _, text := range one.below {
			w.element("small", Plain, text)
		}
		w.WriteString("</li>\n")
	}
	w.WriteString("</ul>\n")
}

func (f facts) html(w *htmlWriter) {
	w.WriteString("<dl>\n")
	for _, one := range f {
		w.element("dt", Plain, one.key)
		w.element("dd", one.tone, one.text)
		w.WriteString("\n")
	}
	w.WriteString("</dl>\n")
}

func (t *table) html(w *htmlWriter) {
	w.WriteString("<div class=\"scroll\"><table>\n<thead><tr>")
	for _, c := range t.columns {
		fmt.Fprintf(w, `<th scope="col"%s>%s`, c.class(), safeHTML(c.name))
		if c.below != "" {
			w.element("small", Plain, c.below)
		}
		w.WriteString("</th>")
	}
	w.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t.rows {
		fmt.Fprintf(w, "<tr%s>", row.tone.class())
		for i := range row.cells {
			t.cellHTML(w, i, &row.cells[i])
		}
		w.WriteString("</tr>\n")
	}
	w.WriteString("</tbody>\n</table></div>\n")
}

func (c *column) class() string {
	if c.right {
		return ` class="number"`
	}
	return ""
}

// cellHTML labels the cell with its column: on a narrow screen a row is a block of
// lines.
func (t *table) cellHTML(w *htmlWriter, i int, c *cell) {
	fmt.Fprintf(w, `<td data-column="%s"%s>%s`, safeHTML(t.columns[i].name), t.columns[i].class(), safeHTML(c.text))
	if c.bar > 0 {
		fmt.Fprintf(w, `<span class="bar"><i style="width:%s%%"></i></span>`, decimal(100*min(c.bar, 1), 1))
	}
	for _, text := range c.below {
		w.element("small", Plain, text)
	}
	w.WriteString("</td>")
}
