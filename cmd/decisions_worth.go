package cmd

import (
	"fmt"
	"slices"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/shell"
)

// worthRow is a decision that is worth an explanation.
type worthRow struct {
	RequestID  string `json:"requestID"`
	DecisionID string `json:"decisionID"`
	Flag       string `json:"flag"`
	Why        string `json:"why"`
}

// unusual is what makes a decision worth a look, the gravest first.
var unusual = []struct{ flag, why string }{
	{explain.FlagRefused, "no pod got it"},
	{explain.FlagCut, "the answer broke off"},
	{explain.FlagRetry, "it took more than one attempt"},
	{explain.FlagMoved, "the gateway in front had another pod serve"},
	{explain.FlagStale, "the engine had fewer cached tokens than predicted"},
	{explain.FlagRelaxed, "every queue was full"},
}

// maxWorth is how many decisions are named: more would be another list.
const maxWorth = 3

// worthALook names the first decision of each unusual kind, up to three.
func worthALook(rows []explain.Row) []worthRow {
	worth := []worthRow{}
	for _, kind := range unusual {
		at := slices.IndexFunc(rows, func(r explain.Row) bool {
			named := func(w worthRow) bool { return w.DecisionID == r.DecisionID }
			return slices.Contains(r.Flags, kind.flag) && !slices.ContainsFunc(worth, named)
		})
		if at >= 0 && len(worth) < maxWorth {
			worth = append(worth, worthRow{rows[at].RequestID, rows[at].DecisionID, kind.flag, kind.why})
		}
	}
	return worth
}

// cut says that the list is not all.
func (p *decisionsPrinter) cut() error {
	if !p.more {
		return nil
	}
	_, err := fmt.Fprintf(p.printer.Streams.Err, "the newest %d, there are more (--limit N)\n", p.limit)
	return err
}

// remarks are what a person is told below a table: that it was cut, and what in it
// is worth an explanation.
func (p *decisionsPrinter) remarks() error {
	if err := p.cut(); err != nil || !p.printer.Streams.OutIsTerminal {
		return err
	}
	for i, w := range worthALook(p.rows) {
		lead := "worth a look:"
		if i > 0 {
			lead = "             "
		}
		if _, err := fmt.Fprintf(p.printer.Streams.Err, "%s eppctl explain %s  (%s)\n", lead, cli.Sanitize(shell.Line(append([]string{w.DecisionID}, p.from...)...)), w.Why); err != nil {
			return err
		}
	}
	return nil
}
