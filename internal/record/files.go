package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// DefaultFileBytes is the size at which a file is closed and the next one begun.
const DefaultFileBytes = 64 << 20

// FilePattern is what the names of the files are like.
const FilePattern = "decisions-*.jsonl"

const (
	queueLength  = 4096             // handles: some seconds of a busy picker
	unindexed    = 64               // files that may wait for their index
	retryEvery   = time.Second      // of wall time, after a failed write
	warnInterval = 30 * time.Second // of wall time, between two warnings
	nameTime     = "20060102T150405.000000000Z"
)

// FilesConfig says where and how decisions are written.
type FilesConfig struct {
	Dir          string // made when it is missing
	MaxFileBytes int64  // default [DefaultFileBytes]
	Ring         *Ring
	Logger       *slog.Logger
	// Clock names the files and spaces warnings: the wall's unless set.
	Clock clock.Clock

	create func(name string) (sink, error) // a test's
}

// Files appends completed decisions to files in a directory, and finds them there
// again. [Files.Run] is the only writer. A file that can't be written never holds
// up a request: the record stays in the ring, and is written when that is possible
// again unless it has left by then.
type Files struct {
	cfg   FilesConfig
	queue chan Handle

	written, errors, overflow, gone atomic.Uint64
	behind                          atomic.Bool // the ring holds records that should be in a file

	// What follows is Run's alone.
	closed  chan string // to the indexer: the names of files that were closed
	out     sink
	name    string
	size    int64 // bytes of whole records in out
	failing bool
	warned  time.Time
	muted   int // warnings since
	line    bytes.Buffer
}

// sink is an open file.
type sink interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// NewFiles prepares the directory. It fails when that is none or can't be written
// to; a full disk is no failure, since it may have room later.
func NewFiles(cfg FilesConfig) (*Files, error) {
	if cfg.MaxFileBytes <= 0 {
		cfg.MaxFileBytes = DefaultFileBytes
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Wall{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.create == nil {
		cfg.create = createFile
	}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory for records: %w", err)
	}
	probe, err := os.CreateTemp(cfg.Dir, ".probe-*")
	switch {
	case err == nil:
		_ = probe.Close()
		_ = os.Remove(probe.Name())
	case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT):
		return nil, fmt.Errorf("write to the directory for records: %w", err)
	}
	return &Files{cfg: cfg, queue: make(chan Handle, queueLength)}, nil
}

func createFile(name string) (sink, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o640)
}

// Completed says that a record has its outcome and is to be written. It never
// waits: beyond the queue's length the writer looks for it in the ring later.
func (f *Files) Completed(h Handle) {
	if h == 0 {
		return
	}
	select {
	case f.queue <- h:
	default:
		f.overflow.Add(1)
		f.behind.Store(true)
	}
}

// Run writes until ctx ends, and then what is left: the decisions without an
// outcome too, as unknown. It returns when the last file is on disk; problems are
// logged and counted, and are never its error.
func (f *Files) Run(ctx context.Context) error {
	defer f.indexing(ctx)()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	for {
		select {
		case h := <-f.queue:
			f.take(h)
		case <-retry.C:
			if f.behind.Load() {
				f.failing = false
				f.catchUp(false)
			}
		case <-ctx.Done():
			f.failing = false
			f.catchUp(true)
			f.close()
			return nil
		}
	}
}

// take writes one record, or leaves it for later while writing fails.
func (f *Files) take(h Handle) {
	if f.failing {
		f.behind.Store(true)
		return
	}
	f.save(h)
}

// catchUp writes what the ring holds and no file does, oldest first; at the end
// of the run also what has no outcome.
func (f *Files) catchUp(end bool) {
	f.behind.Store(false)
	for c, more := (cursor{}), true; more; {
		var handles []Handle
		handles, more = f.cfg.Ring.unsavedHandles(&c, end)
		for _, h := range handles {
			if f.save(h); f.failing {
				return
			}
		}
	}
}

// save writes one record unless that was done before.
func (f *Files) save(h Handle) {
	rec, gone := f.cfg.Ring.unsavedRecord(h)
	if rec == nil {
		if gone {
			f.gone.Add(1)
		}
		return
	}
	if rec.Outcome.State == explain.OutcomePending {
		rec.Outcome.State, rec.Outcome.Detail = explain.OutcomeUnknown, "the picker stopped before it ended"
	}
	f.line.Reset()
	if err := Encode(&f.line, rec); err != nil { // not the disk's fault: don't try again
		f.problem(err)
		f.cfg.Ring.saved(h)
		return
	}
	if err := f.write(f.line.Bytes()); err != nil {
		f.failing = true
		f.behind.Store(true)
		f.problem(err)
		return
	}
	if f.muted > 0 || !f.warned.IsZero() {
		f.cfg.Logger.Info("recording to files works again", logkey.Dir, f.cfg.Dir)
		f.warned, f.muted = time.Time{}, 0
	}
	f.written.Add(1)
	f.cfg.Ring.saved(h)
}

// write appends a whole line, or nothing: what was written of it is cut off
// again, and a file that can't even be cut is given up.
func (f *Files) write(line []byte) error {
	if f.out != nil && f.size > 0 && f.size+int64(len(line)) > f.cfg.MaxFileBytes {
		f.close()
	}
	if f.out == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	if _, err := f.out.Write(line); err != nil {
		if cut := f.out.Truncate(f.size); cut != nil {
			_ = f.out.Close()
			f.out = nil
		}
		return fmt.Errorf("append to %s: %w", f.name, err)
	}
	f.size += int64(len(line))
	return nil
}

// open begins a file of its own: what another run left is never appended to.
func (f *Files) open() error {
	for at := f.cfg.Clock.Now().UTC(); ; at = at.Add(1) {
		name := filepath.Join(f.cfg.Dir, "decisions-"+at.Format(nameTime)+".jsonl")
		out, err := f.cfg.create(name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("begin a file of records: %w", err)
		}
		f.out, f.name, f.size = out, name, 0
		return nil
	}
}

// close brings the file to disk and closes it.
func (f *Files) close() {
	if f.out == nil {
		return
	}
	if err := errors.Join(f.out.Sync(), f.out.Close()); err != nil {
		f.problem(fmt.Errorf("close %s: %w", f.name, err))
	}
	f.out = nil
	select {
	case f.closed <- f.name:
	default: // the next run will find it without
	}
}

// indexing starts to write indexes beside files that have none: those of earlier
// runs, and each that is closed. The function that it returns waits for the last.
func (f *Files) indexing(ctx context.Context) (finish func()) {
	earlier, _ := f.list() // an error will show where something depends on it
	f.closed = make(chan string, unindexed)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, name := range earlier {
			if ctx.Err() != nil {
				break
			}
			f.index(name)
		}
		for name := range f.closed {
			f.index(name)
		}
	})
	return func() {
		close(f.closed)
		wg.Wait()
	}
}

func (f *Files) index(name string) {
	if err := WriteIndex(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // somebody may clean up
		f.cfg.Logger.Warn("a file of records has no index, look-ups read all of it", logkey.Error, err)
	}
}

// problem counts and logs, the latter not too often.
func (f *Files) problem(err error) {
	f.errors.Add(1)
	now := f.cfg.Clock.Now()
	if !f.warned.IsZero() && now.Sub(f.warned) < warnInterval {
		f.muted++
		return
	}
	f.cfg.Logger.Warn("recording to files is failing, requests go on", logkey.Dir, f.cfg.Dir, logkey.Error, err, logkey.Alike, f.muted)
	f.warned, f.muted = now, 0
}

// FilesStats counts what the writer did.
type FilesStats struct {
	Written uint64 // decisions
	Errors  uint64 // failed attempts to write
	// Overflow is how many completed decisions came faster than they were
	// written. They are written later, unless they leave the ring first.
	Overflow uint64
	// Gone is how many had left the ring when their turn came.
	Gone uint64
}

// Stats counts what the writer did. All 0 for nil Files.
func (f *Files) Stats() FilesStats {
	if f == nil {
		return FilesStats{}
	}
	return FilesStats{f.written.Load(), f.errors.Load(), f.overflow.Load(), f.gone.Load()}
}
