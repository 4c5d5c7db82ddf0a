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

// pastRead is what reading through files came across.
type pastRead struct {
	looked  int // lines
	damaged int // lines that are no decisions
	first   error
}

func (p *pastRead) damage(err error) {
	p.damaged++
	if p.first == nil {
		p.first = err
	}
}

// list is the files of the directory, oldest first.
func (f *Files) list() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(f.cfg.Dir), namePattern))
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
func (f *Files) walk(ctx context.Context, q *Query, seen *pastRead, visit func(*explain.Record) bool) error {
	names, err := f.list()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		more, err := walkFile(ctx, name, walker{q, seen, visit})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

type walker struct {
	q     *Query
	seen  *pastRead
	visit func(*explain.Record) bool
}

func walkFile(ctx context.Context, name string, w walker) (more bool, err error) {
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
	lines := newBackward(file, info.Size())
	for ctx.Err() == nil {
		line, whole, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil && !errors.Is(err, errLong):
			return false, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		if !w.line(filepath.Base(name), line, whole, err) {
			return false, nil
		}
	}
	return false, context.Cause(ctx)
}

// line handles one line and reports whether to go on.
func (w *walker) line(name string, line []byte, whole bool, err error) bool {
	if err == nil && (len(line) == 0 || !w.q.mayMatch(line)) {
		w.seen.looked += min(len(line), 1)
		return true
	}
	w.seen.looked++
	var rec *explain.Record
	if err == nil {
		rec, err = decode(line)
	}
	switch {
	case err == nil:
		return w.visit(rec)
	case !whole: // being written, or torn by a crash: whatever it was, it isn't one yet
	default:
		w.seen.damage(fmt.Errorf("%s: %w", name, err))
	}
	return true
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
