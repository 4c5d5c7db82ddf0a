package explain

import (
	"io"
	"strings"
)

// DocumentOptions say how much an HTML or Markdown document shows.
type DocumentOptions struct {
	// All shows all pods; else the best few, the one that holds most of the prompt
	// and the picked one are shown, and many excluded are grouped by reason.
	All bool
}

// document is what there is to say, without a layout: HTML and Markdown are written
// of it. Its texts are as they came; who writes them makes them safe.
type document struct {
	title  string
	blocks []block
	raw    any // the JSON document
}

// block is a part of a document: verdict, heading, paragraph, list, facts, table.
type block interface {
	html(w *htmlWriter)
	markdown(w *markdownWriter)
}

type (
	verdictBlock string
	heading      string
	paragraph    struct {
		tone Tone
		text string
	}
	list  []item
	facts []fact
	table struct {
		columns []column
		rows    []tableRow
	}
)

// item is a line of a list, with lines below it.
type item struct {
	tone  Tone
	text  string
	code  string // a word for programs behind the text
	below []string
}

type fact struct {
	tone      Tone
	key, text string
}

// column is the head of a table's column.
type column struct {
	name, below string
	right       bool // numbers
}

type tableRow struct {
	tone  Tone
	cells []cell
}

// cell is a text with what stands below it, and a bar beside it.
type cell struct {
	text  string
	below []string
	bar   float64 // 0 to 1, a share of the longest; 0 draws none
}

func (d *document) add(b ...block) { d.blocks = append(d.blocks, b...) }

// section adds blocks under a heading, unless there are none.
func (d *document) section(name string, b ...block) {
	if len(b) > 0 {
		d.add(heading(name))
		d.add(b...)
	}
}

func cells(texts ...string) []cell {
	out := make([]cell, len(texts))
	for i, text := range texts {
		out[i].text = text
	}
	return out
}

func columns(names ...string) []column {
	out := make([]column, len(names))
	for i, name := range names {
		out[i].name = strings.TrimPrefix(name, ">")
		out[i].right = strings.HasPrefix(name, ">")
	}
	return out
}

// factsOf are the facts that are written on a page.
func factsOf(write func(*page)) facts {
	var out facts
	write(&page{
		opt:    TextOptions{Sanitize: func(text string) string { return text }},
		onFact: func(f fact) { out = append(out, f) },
	})
	return out
}

// HTML writes the report as one self-contained page, to be attached to a ticket: it
// loads nothing and runs nothing. It has the JSON document in it.
func (r *Report) HTML(w io.Writer, opt DocumentOptions) error { return r.document(opt).html(w) }

// Markdown writes the report for tickets and chats.
func (r *Report) Markdown(w io.Writer, opt DocumentOptions) error {
	return r.document(opt).markdown(w)
}

// HTML writes the comparison as a page of its own, as [Report.HTML] does.
func (c *Comparison) HTML(w io.Writer, opt DocumentOptions) error { return c.document(opt).html(w) }

// Markdown writes the comparison for tickets and chats.
func (c *Comparison) Markdown(w io.Writer, opt DocumentOptions) error {
	return c.document(opt).markdown(w)
}

// HTML writes the window as a page of its own, as [Report.HTML] does.
func (w *Window) HTML(out io.Writer, _ DocumentOptions) error { return w.document().html(out) }

// Markdown writes the window for tickets and chats.
func (w *Window) Markdown(out io.Writer, _ DocumentOptions) error { return w.document().markdown(out) }
