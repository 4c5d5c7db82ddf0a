// Package llmdlog reads the log of a stock llm-d endpoint picker (its EPP, at -v=4)
// and makes a decision record of every scheduling profile that it ran.
//
// The one idea: at that level the log holds each scorer's answer for each pod, the
// weighted totals and the pick, so that a record of it can be replayed like our
// own, bit for bit. The scorers become custom factors under their own names; what
// the log does not say (tokens, the prompt's blocks, how a tie was broken, the
// status) stays unknown in the record.
//
//	p := llmdlog.New(llmdlog.Options{})
//	for scanner.Scan() {
//		p.Line(scanner.Bytes())
//		show(p.Take())
//	}
//	show(p.Close())
//
// The log is hostile: clients choose request IDs and model names, other programs
// write in between, lines are cut. State is kept per request and bounded, what
// can't be read is counted. Error lines quote prompts; of them only known codes and
// this package's own words for the reason are kept.
//
// It opens no files, follows no log, joins no parts that a container runtime cut, and
// finds no records: the caller gives it whole lines, one at a time, from one
// goroutine.
package llmdlog
