// Package cli is what every eppctl command shares with the person or the
// script in front of it: the streams, the errors with their hints and exit
// codes, and the table, JSON and YAML that go to standard output.
//
// The one idea: a command knows nothing of the process. It gets a [Streams]
// and returns an error; main turns that error into one printed line, one hint
// and one exit status. So a test runs a command twice, as a terminal would see
// it and as a pipe would, without a terminal or a process:
//
//	s, out, _ := cli.Test()
//	s.OutIsTerminal, s.Width = true, 80
//	p := cli.Printer{Streams: s, Format: cli.FormatTable}
//	t := p.Table(cli.Column{Name: "POD"}, cli.Column{Name: "AGE", Right: true})
//	t.Row("pod-1", "3s")
//	err := t.Flush()
//
// Rules of the house, which the functions here keep:
//
//   - Data goes to standard output, everything else to standard error.
//   - A terminal gets relative times, tones and tables that fit; a pipe gets the
//     same columns with RFC 3339 times, nothing cut and no colour.
//   - Text that came over the wire passes [Sanitize] before a terminal sees it.
//   - Errors start with a lower-case letter, have no full stop, and say what to do.
//
// It does not parse flags, know a command or format a decision: flags belong to
// package cmd, the words about decisions to package explain.
package cli
