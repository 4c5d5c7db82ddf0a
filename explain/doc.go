// Package explain turns a recorded decision into an explanation: why this pod,
// factor by factor, with the raw inputs beside every number.
//
// The one idea: a [Record] holds every input of a decision, so an explanation is
// computed by the engine that decided ([Replay] runs score.Decide again) and can
// be checked bit for bit against what was recorded. Nothing here is a guess
// about what the picker might have thought.
//
// [Record] is the document that decisions are stored and exchanged as (JSON
// Lines, one record a line). [Explain] makes a [Report] of it, which is rendered
// as text, HTML or Markdown, or marshalled to JSON. HTML and Markdown are written
// of one document without a layout, so that both say the same.
//
// The package is pure: no I/O, no clock, no terminal. It does not find records
// (internal/record does) and does not format tables for a screen width it wasn't
// given.
package explain
