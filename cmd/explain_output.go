package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
)

// explainFormats are the forms of an explanation.
var explainFormats = []cli.Format{
	cli.FormatText, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONL, cli.FormatHTML, cli.FormatMD,
}

// formatNames are what -o calls them.
func formatNames(formats []cli.Format) []string {
	names := make([]string, len(formats))
	for i, format := range formats {
		names[i] = string(format)
	}
	return names
}

// format reads -o. Several requests come as JSON Lines, the one form that can hold
// several.
func (f *explainFlags) format(ids []string) (cli.Format, error) {
	format, err := cli.ParseFormat(f.output, explainFormats...)
	switch {
	case err != nil:
		return "", err
	case len(ids) > 1 && format != cli.FormatJSONL:
		return "", cli.WithHint(fmt.Errorf("%d request IDs given: only -o jsonl shows several", len(ids)), cli.ExitUsage,
			"give one, or -o jsonl")
	case len(ids) > 1 && f.from.file == "-":
		return "", cli.WithHint(errors.New("-f -: only one request is looked for in standard input"), cli.ExitUsage,
			"write it to a file first")
	}
	return format, nil
}

// explained is a document that comes in all forms.
type explained interface {
	Text(w io.Writer, opt explain.TextOptions) error
	HTML(w io.Writer, opt explain.DocumentOptions) error
	Markdown(w io.Writer, opt explain.DocumentOptions) error
}

// writeExplained prints a document in a form.
func writeExplained(s *cli.Streams, doc explained, format cli.Format, layout explain.TextOptions) error {
	switch printer := (cli.Printer{Streams: s, Format: format}); format {
	case cli.FormatJSON, cli.FormatYAML:
		return printer.Document(doc)
	case cli.FormatJSONL:
		return printer.Line(doc)
	case cli.FormatHTML:
		return doc.HTML(s.Out, explain.DocumentOptions{All: layout.All})
	case cli.FormatMD:
		return doc.Markdown(s.Out, explain.DocumentOptions{All: layout.All})
	default:
		return doc.Text(s.Out, layout)
	}
}
