package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// Files are decisions in files, or on standard input.
type Files struct {
	opts   Options
	name   string // as given
	groups []group
	dir    bool   // of one file that can't be read the others are
	in     []Text // in place of files
	once   bool   // it can be read only once, as standard input or a pipe
	kept   *kept  // what was in it, once it was read
}

// group is files that are read as one: either one of the recorder's, which is read
// by its index and from its end, or texts that follow each other.
type group struct {
	recorded string
	texts    []string
}

// Open finds the files that a path names: a file, a directory of rotated ones, or
// "-" for standard input. What is in them is looked at when it is asked for.
func Open(path string, opts Options) (*Files, error) {
	f := &Files{opts: opts, name: path}
	if info, err := os.Stat(path); path == "-" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f.groups, f.once = []group{{texts: []string{path}}}, true
		if path == "-" {
			f.in = []Text{{path, opts.Stdin}}
		}
		return f, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	if !info.IsDir() {
		_, err := os.Stat(path + record.IndexSuffix)
		f.add(path, err == nil)
		return f, nil
	}
	names, err := inDir(path)
	if err != nil {
		return nil, err
	}
	f.dir = true
	for _, name := range names {
		f.add(name, recorded(name))
	}
	return f, nil
}

// recorded reports whether a file has the name that the recorder gives.
func recorded(name string) bool {
	ok, err := filepath.Match(record.FilePattern, filepath.Base(name))
	return ok && err == nil
}

func (f *Files) add(name string, recorded bool) {
	last := len(f.groups) - 1
	switch {
	case recorded:
		f.groups = append(f.groups, group{recorded: name})
	case last >= 0 && f.groups[last].recorded == "":
		f.groups[last].texts = append(f.groups[last].texts, name)
	default:
		f.groups = append(f.groups, group{texts: []string{name}})
	}
}

// inDir lists the files of a directory, oldest first: by the name where it begins
// as the recorder's do, which tells the time, else by when they were last changed.
func inDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	changed := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") || hasAnySuffix(e.Name(), record.IndexSuffix, ".tmp") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if names = append(names, name); !strings.HasPrefix(e.Name(), "decisions-") {
			changed[name] = info.ModTime()
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { // ReadDir has them by name
		if len(changed) == len(names) {
			return changed[a].Compare(changed[b])
		}
		return cmp.Compare(a, b)
	})
	return names, nil
}

func hasAnySuffix(name string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// Find implements [Source].
func (f *Files) Find(ctx context.Context, id string, nth int) (Found, error) {
	finder := record.Finder{ID: id}
	q := finder.Query()
	w := &walk{f: f, ctx: ctx, q: q, past: &finder.Past}
	see := func(rec *explain.Record) error { finder.See(rec); return nil }
	var err error
	if id == record.Latest {
		_, err = w.newestFirst(1, see)
	} else {
		err = w.all(see)
	}
	if err == nil {
		err = w.failed()
	}
	if err != nil {
		return Found{}, err
	}
	rec, count, err := finder.Result(nth)
	if missing, ok := errors.AsType[*record.MissingError](err); ok {
		return Found{}, w.missing(missing)
	}
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", f.name, err)
	}
	return Found{Record: rec, Count: count}, nil
}

// Each implements [Source].
func (f *Files) Each(ctx context.Context, want Want, visit func(*explain.Record) error) (more bool, err error) {
	now := time.Time{}
	if f.opts.Now != nil {
		now = f.opts.Now()
	}
	q, err := want.Query(now)
	if err != nil {
		return false, err
	}
	w := &walk{f: f, ctx: ctx, q: q, past: new(record.Past)}
	if want.AnyOrder && q.Limit == 0 {
		err = w.anyOrder(visit)
	} else {
		more, err = w.newestFirst(q.Limit, visit)
	}
	if err == nil {
		err = w.failed()
	}
	if err != nil {
		return false, err
	}
	if w.copies > 0 {
		f.opts.warn("%s: decisions were left out, since they are there already: %d", f.name, w.copies)
	}
	if w.past.Looked == 0 && w.level != nil {
		return false, w.level
	}
	return more, nil
}

// walk is one way through the files.
type walk struct {
	f    *Files
	ctx  context.Context //nolint:containedctx // lives as long as the call
	q    record.Query
	past *record.Past

	known    bool  // something was in some file that is known
	stranger error // what is wrong with the first file that holds nothing of that kind
	level    error // a log was written at one that leaves decisions out
	copies   int   // decisions that were there already

	read     int   // files
	unread   int   // files that can't be read
	unreadIs error // what is wrong with the first of them
	// Why the request that is looked for is not there: a log tells how it went, or has
	// no trace of it.
	why, untraced string
}

// anyOrder visits what is wanted, each decision once.
func (w *walk) anyOrder(visit func(*explain.Record) error) error {
	s := &settled{visit: visit}
	err := w.all(w.wanted(s.add))
	if err == nil {
		err = s.flush()
	}
	w.copies = s.left
	return err
}

// all visits what may be wanted, in any order.
func (w *walk) all(visit func(*explain.Record) error) error {
	for _, g := range w.f.groups {
		if err := w.group(g, visit); err != nil {
			return err
		}
	}
	return nil
}

// newestFirst visits what is wanted, newest first.
func (w *walk) newestFirst(limit int, visit func(*explain.Record) error) (more bool, err error) {
	sorted := &newest{limit: limit, visit: visit}
	for _, g := range slices.Backward(w.f.groups) {
		if g.recorded != "" {
			err = w.group(g, w.wanted(sorted.add))
		} else {
			err = w.forwards(g, limit, sorted)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = sorted.flush()
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	w.copies += sorted.left
	return sorted.more, err
}

func (w *walk) wanted(next func(*explain.Record) error) func(*explain.Record) error {
	return func(rec *explain.Record) error {
		if !w.q.Wants(rec) {
			return nil
		}
		return next(rec)
	}
}

// forwards reads texts to their end before it hands on what was newest in them.
func (w *walk) forwards(g group, limit int, sorted *newest) error {
	kept := held{limit: limit}
	err := w.group(g, w.wanted(func(rec *explain.Record) error {
		if kept.crowded {
			return sorted.emit(rec)
		}
		if kept.add(rec) {
			return nil
		}
		w.f.opts.warn("%s: too much to sort, these are in the order of the file", w.f.name)
		if err := errors.Join(sorted.flush(), kept.each(sorted.emit)); err != nil {
			return err
		}
		return sorted.emit(rec)
	}))
	if err == nil && !kept.crowded {
		err = kept.each(sorted.add)
	}
	w.copies += kept.left
	return err
}

// group visits what may be wanted of one group.
func (w *walk) group(g group, visit func(*explain.Record) error) error {
	if g.recorded != "" {
		return w.recorded(g.recorded, visit)
	}
	r := newReading(&w.f.opts, w.f.name, w.q, visit)
	if err := w.texts(r, g.texts); err != nil {
		return err
	}
	if err := r.close(); err != nil {
		return err
	}
	w.past.Passed(r.past.Looked, r.past.Oldest, r.past.Newest)
	w.known = w.known || r.known || r.past.Looked > 0
	w.stranger = cmp.Or(w.stranger, r.stranger)
	w.level = cmp.Or(w.level, r.level())
	if w.q.ID != "" {
		why, untraced := r.why(w.q.ID)
		w.why, w.untraced = cmp.Or(w.why, why), cmp.Or(w.untraced, untraced)
	}
	return nil
}

func (w *walk) text(r *reading, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return w.unreadable(fmt.Errorf("read decisions: %w", err))
	}
	defer file.Close()
	w.read++
	return r.text(w.ctx, name, file)
}

func (w *walk) recorded(name string, visit func(*explain.Record) error) error {
	var failed error
	var seen record.Past
	_, err := record.WalkFile(w.ctx, name, record.Walker{Query: &w.q, Seen: &seen, Visit: func(rec *explain.Record) bool {
		failed = visit(rec)
		return failed == nil
	}})
	w.past.Passed(seen.Looked-seen.Damaged, seen.Oldest, seen.Newest)
	w.known = w.known || seen.Looked > seen.Damaged
	if seen.Damaged > 0 {
		w.f.opts.warn("%s: %d lines skipped, the first is in %v", w.f.name, seen.Damaged, seen.First)
	}
	switch {
	case failed != nil:
		return failed
	case err != nil && w.ctx.Err() == nil:
		return w.unreadable(err)
	}
	w.read++
	return err
}

// unreadable notes a file that can't be read. It is the error of what was asked for by
// its name.
func (w *walk) unreadable(err error) error {
	if !w.f.dir {
		return err
	}
	w.unread++
	w.unreadIs = cmp.Or(w.unreadIs, err)
	return nil
}

// failed is the error of files that can't be read, or in which nothing is known; next
// to others that are known they are only worth a warning.
func (w *walk) failed() error {
	switch {
	case w.unread > 0 && w.read == 0:
		return w.unreadIs
	case w.stranger != nil && !w.known:
		return cmp.Or(w.unreadIs, w.stranger)
	}
	if w.stranger != nil {
		w.f.opts.warn("skipped: %v", w.stranger)
	}
	switch w.unread {
	case 0:
	case 1:
		w.f.opts.warn("skipped: %v", w.unreadIs)
	default:
		w.f.opts.warn("%d files skipped, the first: %v", w.unread, w.unreadIs)
	}
	return nil
}

func (w *walk) missing(e *record.MissingError) error {
	if w.why == "" && w.level != nil {
		return w.level
	}
	return &MissingError{MissingError: e, Name: w.f.name, Why: cmp.Or(w.why, w.untraced)}
}
