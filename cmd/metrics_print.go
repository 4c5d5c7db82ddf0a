package cmd

import (
	"errors"
	"fmt"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/metricview"
)

// metricsPrinter prints what was seen.
type metricsPrinter struct {
	printer   cli.Printer
	selectors []metricview.Selector
	limit     metricview.Status // of --fail-on; "" = none
	held      *metricview.Held
	printed   bool
}

func (p *metricsPrinter) print(seen metricview.Observation) error {
	if p.printer.Format == formatProm {
		p.warn(seen)
		return seriesError(metricview.WriteProm(p.printer.Streams.Out, seen, p.selectors))
	}
	if len(p.selectors) > 0 {
		doc, err := metricview.Select(seen, p.selectors)
		if err != nil {
			return seriesError(err)
		}
		p.warn(seen)
		return p.write(doc, doc.Write)
	}
	doc, err := metricview.Look(seen, p.held)
	if err != nil {
		return lookError(err)
	}
	if p.limit != "" && doc.Maker == metricview.Engine {
		return cli.WithHint(errors.New("--fail-on: an engine's page has no thresholds"), cli.ExitUsage, "give the address of a picker's page")
	}
	if err := p.write(doc, doc.Write); err != nil {
		return err
	}
	switch {
	case p.limit == "":
		return nil
	case doc.Status == metricview.Unknown:
		return cli.WithHint(errors.New("--fail-on: nothing on the page can be judged"), cli.ExitError, "see what is missing, and why, in the table")
	case doc.Status.AtLeast(p.limit):
		return cli.Exit(cli.ExitFindings)
	}
	return nil
}

// clearScreen moves to the upper left corner and clears what is below.
const clearScreen = "\x1b[H\x1b[2J"

func (p *metricsPrinter) write(doc any, tables func(cli.Printer) error) error {
	if p.printer.Format == cli.FormatJSON {
		return p.printer.Document(doc)
	}
	if p.printer.Format == cli.FormatJSONL {
		return p.printer.Line(doc)
	}
	before := ""
	switch {
	case p.held != nil && p.printer.Streams.OutIsTerminal:
		before = clearScreen
	case p.printed:
		before = "\n"
	}
	p.printed = true
	if _, err := fmt.Fprint(p.printer.Streams.Out, before); err != nil {
		return err
	}
	return tables(p.printer)
}

// warn tells of replicas without a page, where the output has no place for it.
func (p *metricsPrinter) warn(seen metricview.Observation) {
	if p.printer.Format == cli.FormatJSON || p.printer.Format == cli.FormatJSONL {
		return
	}
	for _, failed := range seen.Failed {
		warner(p.printer.Streams)(failed.Source + ": " + failed.Error)
	}
}
