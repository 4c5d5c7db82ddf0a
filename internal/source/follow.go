package source

import (
	"context"
	"io"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// FromReader are the decisions in a text that can be read once, such as a log that is
// read from afar. The name is for messages.
func FromReader(name string, in io.Reader, opts Options) *Files {
	return &Files{opts: opts, name: name, groups: []group{{texts: []string{name}}}, once: true, in: in}
}

// Follow visits the decisions of a text as they are written, in the order in which
// they are complete, until the text ends. It returns visit's error as it is.
func Follow(ctx context.Context, name string, in io.Reader, want Want, opts Options, visit func(*explain.Record) error) error {
	q, err := want.Query(time.Time{})
	if err != nil {
		return err
	}
	r := newReading(&opts, name, q, func(rec *explain.Record) error {
		if !q.Wants(rec) {
			return nil
		}
		return visit(rec)
	})
	if err := r.text(ctx, name, in); err != nil {
		return err
	}
	return r.close()
}
