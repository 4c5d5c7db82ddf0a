package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Past is what reading through files came across.
type Past struct {
	Looked  int   // decisions that were passed, and lines that are none
	Damaged int   // lines that are no decisions
	First   error // what was wrong with the first of them, and where
	// Oldest and Newest are the arrivals of the decisions that were passed.
	Oldest, Newest time.Time
}

func (p *Past) damage(err error) {
	p.Damaged++
	if p.First == nil {
		p.First = err
	}
}

// Passed notes decisions that arrived in a span of time.
func (p *Past) Passed(n int, oldest, newest time.Time) {
	p.Looked += n
	if n > 0 && (p.Oldest.IsZero() || oldest.Before(p.Oldest)) {
		p.Oldest = oldest
	}
	if n > 0 && newest.After(p.Newest) {
		p.Newest = newest
	}
}

// list is the files of the directory, oldest first.
func (f *Files) list() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(f.cfg.Dir), FilePattern))
	if err != nil {
		return nil, fmt.Errorf("list files of records: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && !info.Mode().IsRegular() // a directory or a pipe of that name is none of ours
	})
	slices.Sort(names)
	return names, nil
}

func escapeGlob(dir string) string {
	out := make([]byte, 0, len(dir))
	for i := range len(dir) {
		switch dir[i] {
		case '*', '?', '[', '\\':
			out = append(out, '\\')
		}
		out = append(out, dir[i])
	}
	return string(out)
}

// walk visits the decisions in the files that may fit the query, newest first,
// until visit returns false. Lines that are no decisions are counted in seen.
func (f *Files) walk(ctx context.Context, q *Query, seen *Past, visit func(*explain.Record) bool) error {
	names, err := f.list()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		more, err := WalkFile(ctx, name, Walker{q, seen, visit})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Walker is what a walk through a file needs.
type Walker struct {
	Query *Query
	Seen  *Past
	Visit func(*explain.Record) bool
}

// WalkFile visits the decisions of one file that may fit the query, in the order
// of completion with the last first, and reports whether Visit wants more. An ID
// and the bounds of the time are looked up in the file's index, see [WriteIndex];
// without one it is read from end to end. A file that has gone holds nothing.
func WalkFile(ctx context.Context, name string, w Walker) (more bool, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) { // somebody cleaned up
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read records: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, fmt.Errorf("read records: %w", err)
	}
	x := readIndex(file, info.Size())
	switch {
	case x == nil:
		return w.stretch(ctx, file, 0, info.Size())
	case w.Query.ID != "":
		oldest, newest := x.span()
		w.Seen.Passed(x.decisions, oldest, newest)
		return w.lines(ctx, file, x.find(w.Query.ID))
	}
	for _, b := range slices.Backward(x.stretches(w.Query.Since, w.Query.Until)) {
		if more, err := w.stretch(ctx, file, b.from, b.to); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// lines visits the lines that begin at offsets.
func (w *Walker) lines(ctx context.Context, file *os.File, offsets []int64) (more bool, err error) {
	for _, at := range offsets {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		line, err := NewReader(io.NewSectionReader(file, at, MaxLine)).Line()
		var rec *explain.Record
		if err == nil {
			rec, err = decode(line.Text)
		}
		if err != nil {
			w.Seen.damage(fmt.Errorf("%s at byte %d: %w", filepath.Base(file.Name()), at, err))
			continue
		}
		if !w.Visit(rec) {
			return false, nil
		}
	}
	return true, nil
}

// stretch visits the lines of a part of the file, the last first.
func (w *Walker) stretch(ctx context.Context, file *os.File, from, to int64) (more bool, err error) {
	lines := newBackward(io.NewSectionReader(file, from, to-from), to-from)
	for ctx.Err() == nil {
		line, whole, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil && !errors.Is(err, errLong):
			return false, fmt.Errorf("%s: %w", filepath.Base(file.Name()), err)
		}
		if err == nil {
			var wanted bool
			if wanted, err = w.line(line, whole); err == nil && !wanted {
				return false, nil
			}
		}
		if err != nil {
			w.Seen.Looked++
			w.Seen.damage(fmt.Errorf("%s at byte %d: %w", filepath.Base(file.Name()), from+lines.start, err))
		}
	}
	return false, context.Cause(ctx)
}

// line visits the decision of one line and reports whether to go on.
func (w *Walker) line(line []byte, whole bool) (bool, error) {
	if len(line) == 0 {
		return true, nil
	}
	h, ok := peek(line)
	if ok && whole {
		w.Seen.Passed(1, h.time, h.time)
		if !w.Query.fits(&h) {
			return true, nil
		}
	} else if !w.Query.mayMatch(line) {
		if whole {
			w.Seen.Looked++
		}
		return true, nil
	}
	rec, err := decode(line)
	switch {
	case err != nil && !whole: // being written, or torn by a crash: whatever it was, it isn't one yet
		return true, nil
	case err != nil:
		return true, err
	case !ok || !whole:
		w.Seen.Passed(1, rec.Time, rec.Time)
	}
	return w.Visit(rec), nil
}

// FilesSpan says what the files hold.
type FilesSpan struct {
	Files int
	Bytes int64
	// Oldest is the arrival of the first decision in the oldest file; zero when
	// there is none.
	Oldest time.Time
}

// Span looks at the directory.
func (f *Files) Span() (FilesSpan, error) {
	names, err := f.list()
	if err != nil {
		return FilesSpan{}, err
	}
	var s FilesSpan
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			continue // cleaned up meanwhile
		}
		s.Files++
		s.Bytes += info.Size()
		if s.Oldest.IsZero() {
			s.Oldest = firstTime(name)
		}
	}
	return s, nil
}

// firstTime is the arrival of a file's first decision.
func firstTime(name string) time.Time {
	file, err := os.Open(name)
	if err != nil {
		return time.Time{}
	}
	defer file.Close()
	rec, err := NewReader(file).Next()
	if err != nil {
		return time.Time{}
	}
	return rec.Time
}
