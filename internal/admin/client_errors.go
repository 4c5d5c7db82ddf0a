package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// NotFoundError says that there is no such decision. Coverage says how far back it was
// looked for.
type NotFoundError struct {
	FailureText
	Coverage Coverage
}

// Error implements error.
func (e *NotFoundError) Error() string { return e.Message }

// Reach says in words how far back decisions are known.
func (e *NotFoundError) Reach() string {
	c := &e.Coverage
	if c.Oldest == nil {
		return "nothing is recorded yet"
	}
	text := fmt.Sprintf("decisions are known back to %s: %d in memory", c.Oldest.Format(time.RFC3339), c.Ring.Decisions)
	if c.Files != nil {
		text += fmt.Sprintf(", more in %d files", c.Files.Files)
	}
	if c.Ring.Dropped > 0 && c.Files == nil {
		text += fmt.Sprintf(", %d older ones dropped (--record-memory, --record)", c.Ring.Dropped)
	}
	return text
}

// AmbiguousError says that several requests have an ID that begins so.
type AmbiguousError struct {
	FailureText
	Candidates []Ref // newest first, not all when there are many
}

// Error implements error.
func (e *AmbiguousError) Error() string { return e.Message }

// GenerationError says that the weights were changed by somebody else in between.
type GenerationError struct {
	FailureText
	Current uint64
}

// Error implements error.
func (e *GenerationError) Error() string { return e.Message }

// RequestError is anything else that the picker refused. The Code may be empty.
type RequestError struct {
	FailureText
	Status int // HTTP status
}

// Error implements error.
func (e *RequestError) Error() string { return e.Message }

// VersionError says that the picker speaks another version of the API.
type VersionError struct {
	Server, Theirs string
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the picker at %s speaks %.40q, this eppctl %s", e.Server, e.Theirs, APIVersion)
}

// Hint says what to do.
func (e *VersionError) Hint() string {
	return "use the eppctl of the picker's version: see its /v1/version"
}

// UnreachableError says that no picker answered there. Err says what happened.
type UnreachableError struct {
	Server string
	Err    error

	hint     string
	answered bool // a picker did, to a point
}

func (c *Client) unreachable(err error) error {
	return &UnreachableError{Server: c.Server(), Err: err, hint: c.hint}
}

// garbled is the error of an answer of a picker that is no answer.
func (c *Client) garbled(err error) error {
	return &UnreachableError{Server: c.Server(), Err: err, hint: c.hint, answered: true}
}

// Error implements error.
func (e *UnreachableError) Error() string {
	if e.answered {
		return fmt.Sprintf("the picker at %s: %v", e.Server, e.Err)
	}
	return fmt.Sprintf("no picker at %s: %v", e.Server, e.Err)
}

// Unwrap returns what happened.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Hint says what to try.
func (e *UnreachableError) Hint() string {
	if errors.Is(e.Err, errSpeaksTLS) {
		return "give its address as " + strings.Replace(e.Server, "http:", "https:", 1)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](e.Err); ok {
		return "a certificate that a picker made for itself can't be checked: give --pool [NAMESPACE/]NAME, or start the picker with --tls-cert"
	}
	if e.answered {
		return "it may have ended meanwhile: try again, and see its log"
	}
	if e.hint != "" {
		return e.hint
	}
	return "start one with 'eppctl serve --sim 4', or name its admin address (port 9091) with --server or EPPCTL_SERVER"
}

// errSpeaksTLS says that a request without TLS came to where TLS is spoken.
var errSpeaksTLS = errors.New("it speaks https, not http")

func failureError(status int, f *Failure) error {
	switch {
	case f.Error.Code == CodeNotFound:
		e := &NotFoundError{FailureText: f.Error}
		if f.Coverage != nil {
			e.Coverage = *f.Coverage
		}
		return e
	case f.Error.Code == CodeAmbiguous:
		return &AmbiguousError{f.Error, f.Candidates}
	case f.Error.Code == CodeGenerationChanged && f.Generation != nil:
		return &GenerationError{f.Error, *f.Generation}
	}
	return &RequestError{f.Error, status}
}

// plainError says in fewer words what its cause says.
type plainError struct {
	text string
	err  error
}

// Error implements error.
func (e *plainError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *plainError) Unwrap() error { return e.err }

// plain takes from an error of net/http what a person needs not know.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	dns, noName := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &plainError{"connection refused: nothing listens there", err}
	case noName:
		return &plainError{fmt.Sprintf("the name %s is not known", dns.Name), err}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || isNet && timeout.Timeout():
		return &plainError{"no answer in time", err}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		return &plainError{"the connection was closed", err}
	case strings.Contains(err.Error(), "malformed HTTP"):
		return &plainError{"something else answers there, not HTTP", err}
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return &plainError{"it speaks http, not https", err}
	}
	return err
}
