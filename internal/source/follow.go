package source

import (
	"context"
	"io"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Text is a text that can be read once, such as a log that is read from afar.
type Text struct {
	Name string // for messages
	In   io.Reader
}

// FromTexts are the decisions in texts that follow each other. One that breaks off is
// warned of, and the next is read. The name, of all of them, is for messages.
func FromTexts(name string, texts []Text, opts Options) *Files {
	return &Files{opts: opts, name: name, groups: []group{{}}, once: true, in: texts}
}

// texts reads texts that follow each other; what can be read only once is read again as
// it was kept.
func (w *walk) texts(r *reading, names []string) (err error) {
	switch {
	case w.f.once && w.f.kept != nil:
		again, err := w.f.kept.reader()
		if err != nil {
			return err
		}
		return r.text(w.ctx, w.f.name, again)
	case w.f.once && w.f.opts.Twice:
		if w.f.kept, err = newKept(); err != nil {
			return err
		}
		r.kept = w.f.kept
	}
	for _, text := range w.f.in {
		if err := r.text(w.ctx, text.Name, text.In); err != nil {
			return err
		}
	}
	if w.f.in != nil {
		return nil
	}
	for _, name := range names {
		if err := w.text(r, name); err != nil {
			return err
		}
	}
	return nil
}

// Follow visits the decisions of a text as they are written, in the order in which
// they are complete, until the text ends. What is wrong with it is told when it is
// found. It returns visit's error as it is.
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
	r.live = true
	if err := r.text(ctx, name, in); err != nil {
		return err
	}
	return r.close()
}
