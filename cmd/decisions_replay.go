package cmd

import (
	"fmt"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/shell"
)

const kindReplay = "Replay"

// replayReport is the JSON document of 'eppctl decisions --replay': how many
// decisions were replayed, how many of them came out the same to the bit, and
// what the first of the others differs in.
type replayReport struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Decisions  int               `json:"decisions"`
	Identical  int               `json:"identical"`
	First      *replayDifference `json:"firstDifference"` // null when there is none
}

type replayDifference struct {
	RequestID  string `json:"requestID"`
	DecisionID string `json:"decisionID"`
	Difference string `json:"difference"`
}

// replayPrinter replays what a list would show.
type replayPrinter struct {
	printer cli.Printer
	from    []string // the flags that say where the decisions come from
	report  replayReport
}

func newReplayPrinter(p cli.Printer, from []string) *replayPrinter {
	return &replayPrinter{p, from, replayReport{APIVersion: explain.APIVersion, Kind: kindReplay}}
}

func (p *replayPrinter) add(rec *explain.Record) error {
	p.report.Decisions++
	verdict, _, _ := explain.Replay(rec)
	switch {
	case verdict.Identical:
		p.report.Identical++
	case p.report.First == nil:
		p.report.First = &replayDifference{rec.RequestID, rec.DecisionID, verdict.Difference}
	}
	return nil
}

func (p *replayPrinter) finish() error {
	r := &p.report
	if r.Decisions == 0 {
		return cli.WithHint(fmt.Errorf("no decision to replay"), cli.ExitNotFound, "list what there is with 'eppctl decisions'")
	}
	var err error
	if f := p.printer.Format; f == cli.FormatJSON || f == cli.FormatYAML {
		err = p.printer.Document(r)
	} else {
		_, err = fmt.Fprintf(p.printer.Streams.Out, "%d decisions replayed, %d identical\n", r.Decisions, r.Identical)
	}
	if err != nil || r.First == nil {
		return err
	}
	d := r.First
	see := shell.Line(append([]string{"eppctl", "explain", d.DecisionID}, p.from...)...)
	return cli.WithHint(fmt.Errorf("decision %s of request %s: %s", d.DecisionID, cli.Sanitize(d.RequestID), cli.Sanitize(d.Difference)),
		cli.ExitError, "see it whole: "+see)
}
