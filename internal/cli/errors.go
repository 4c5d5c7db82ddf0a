package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit statuses of eppctl. Scripts rely on them: add with care, change never.
const (
	ExitOK          = 0   // done
	ExitError       = 1   // anything that has no status of its own
	ExitUsage       = 2   // a flag, an argument or the configuration is wrong
	ExitNotFound    = 3   // the request, decision, pod or pool asked for is not there
	ExitUnreachable = 4   // the router or the cluster did not answer
	ExitFindings    = 5   // the check ran and found what --fail-on asked for
	ExitInterrupted = 130 // ended by ctrl-c or SIGTERM (128 + SIGINT, as shells report it)
)

// ExitCode documents one exit status.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes lists every exit status in ascending order: the text of
// `eppctl help exit-codes`.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{ExitOK, "success"},
		{ExitError, "error"},
		{ExitUsage, "usage or configuration: a flag, an argument or the config file is wrong"},
		{ExitNotFound, "not found: no such request, decision, pod or pool"},
		{ExitUnreachable, "unreachable: the router or the cluster did not answer"},
		{ExitFindings, "findings: the check ran and found what --fail-on asks for"},
		{ExitInterrupted, "interrupted by a signal"},
	}
}

// ErrInterrupted is what an error matches when a signal ended the command.
var ErrInterrupted = errors.New("interrupted")

// Error is an error with what main needs to end the process well. A nil Err
// ends it without a word, for a command that has printed its findings already.
type Error struct {
	Err  error
	Code int    // exit status; 0 counts as ExitError
	Hint string // what the reader can do, one or more lines; may be empty
}

// Error implements error: the message without the hint.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives the error below, for [errors.Is].
func (e *Error) Unwrap() error { return e.Err }

// WithHint gives err an exit status and a hint that says what to do next.
// It returns nil when err is nil. An error deeper in the chain may have a hint
// too: all are printed, the outermost first; the outermost status counts.
func WithHint(err error, code int, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Err: err, Code: code, Hint: hint}
}

// Exit ends the command with a status and without a message.
func Exit(code int) error { return &Error{Code: code} }

// Status is the exit status that err asks for.
func Status(err error) int {
	if err == nil || outputClosed(err) {
		return ExitOK
	}
	if interrupted(err) {
		return ExitInterrupted
	}
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Err) {
		if e.Code != 0 {
			return e.Code
		}
		if e.Err == nil {
			break
		}
	}
	return ExitError
}

// PrintError writes what a person needs to know of err, as
//
//	eppctl: no decision recorded for request zz
//	hint: list recent decisions with 'eppctl decisions'
//
// and nothing for nil, for an interruption, for a reader that went away and
// for [Exit]. Each line is sanitized; the further lines of a message are
// indented, so that text from elsewhere can't pose as a hint of ours.
func PrintError(w io.Writer, err error) {
	if err == nil || outputClosed(err) || errors.Is(err, ErrInterrupted) {
		return
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Err == nil {
		return
	}
	// The writes below go to standard error; when that fails there is nowhere
	// left to say so.
	_, _ = io.WriteString(w, "eppctl: "+indentLines(err.Error(), "        ")+"\n")
	for _, hint := range hints(err) {
		_, _ = io.WriteString(w, "hint: "+indentLines(hint, "      ")+"\n")
	}
}

// hints collects the hints of err's chain, outermost first, each once.
func hints(err error) []string {
	var found []string
	seen := map[string]bool{"": true}
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Err) {
		if !seen[e.Hint] {
			seen[e.Hint] = true
			found = append(found, e.Hint)
		}
	}
	return found
}

func indentLines(text, indent string) string {
	return sanitizeLines(strings.TrimRight(text, "\n"), "\n"+indent)
}

func interrupted(err error) bool {
	return errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled)
}
