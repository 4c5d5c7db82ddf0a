package source

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
)

// Source is a place that decisions are read from.
type Source interface {
	// Find returns the decision that an ID stands for: a request ID or decision ID,
	// a prefix that only one request has, or [record.Latest]. nth is 1 for the
	// newest of those with one request ID.
	Find(ctx context.Context, id string, nth int) (Found, error)
	// Each visits decisions, newest first, until visit fails, and reports whether
	// there were more than the filter's limit. It returns visit's error as it is.
	Each(ctx context.Context, want Want, visit func(*explain.Record) error) (more bool, err error)
}

// Found is the answer to a look-up.
type Found struct {
	Record *explain.Record
	Count  int    // decisions with that request ID
	Where  string // which of several pickers had it; "" when only one was asked
}

// Want says which decisions are visited.
type Want struct {
	admin.Filter
	// AnyOrder spares the effort of sorting.
	AnyOrder bool
}

// Options say how files are read. The zero value is usable.
type Options struct {
	Stdin   io.Reader          // what "-" stands for
	Weights map[string]float64 // of the scorers in logs of llm-d's picker that don't tell them
	Now     func() time.Time   // what durations count back from; nil: they can't be used
	Twice   bool               // what can be read only once is kept, to be asked again
	Warn    func(text string)  // takes what is wrong with a part of the source; nil: nobody is told
}

func (o *Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// MissingError says that a source holds no such decision, and why as far as it
// tells.
type MissingError struct {
	*record.MissingError
	Name string // of the source
	// Why the request has no pick there, in words, such as "it was rejected with
	// 429"; "" when the source is no log.
	Why string
}

// Error implements error.
func (e *MissingError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("%s: no pick in this log: %s", e.Name, e.Why)
	}
	return fmt.Sprintf("%s: %v", e.Name, e.MissingError)
}

// Unwrap returns what was looked for and how far.
func (e *MissingError) Unwrap() error { return e.MissingError }

// LevelError says that a log was written at a level that leaves decisions out.
type LevelError struct {
	Name, Level, Needed string
	How                 string // to set the level
}

// Error implements error.
func (e *LevelError) Error() string {
	return fmt.Sprintf("%s: no pick in this log: it was written at %s, and scores are logged at %s", e.Name, e.Level, e.Needed)
}
