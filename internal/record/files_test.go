package record_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// disk is a directory whose files can be made to fail, as a full disk does.
type disk struct {
	mu    sync.Mutex
	full  bool // writes fail after a few bytes
	stuck bool // and can't be cut off again
	syncs int
}

func (d *disk) set(full, stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.stuck = full, stuck
}

func (d *disk) create(name string) (record.Sink, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	return &diskFile{f, d}, err
}

type diskFile struct {
	*os.File
	disk *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.full {
		n, _ := f.File.Write(b[:min(len(b), 10)])
		return n, syscall.ENOSPC
	}
	return f.File.Write(b)
}

func (f *diskFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.stuck {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.syncs++
	return f.File.Sync()
}

// recording is a ring with files behind it.
type recording struct {
	*record.Store
	ring  *record.Ring
	files *record.Files
	dir   string
	log   *bytes.Buffer
	disk  *disk
}

func newRecording(t *testing.T, ringBytes, fileBytes int64) *recording {
	t.Helper()
	r := &recording{
		ring: record.NewRing(record.RingConfig{Bytes: ringBytes, Key: []byte("k")}),
		dir:  filepath.Join(t.TempDir(), "new", "dir"), log: new(bytes.Buffer), disk: new(disk),
	}
	cfg := record.FilesConfig{Dir: r.dir, MaxFileBytes: fileBytes, Ring: r.ring, Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	var err error
	if r.files, err = record.NewFiles(record.WithSinks(cfg, r.disk.create)); err != nil {
		t.Fatal(err)
	}
	r.Store = record.NewStore(r.ring, r.files)
	return r
}

// run writes until the returned function is called, which waits for the end.
func (r *recording) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.files.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func (r *recording) complete(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if !r.Complete(mustAppend(t, r.ring, plainEntry(n, 2)), done(200)) {
			t.Fatalf("Complete(%d) = false", n)
		}
	}
}

// written is the request IDs and outcomes in all files, in order.
func (r *recording) written(t *testing.T) (out []string) {
	t.Helper()
	for _, name := range r.names(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		reader := record.NewReader(bytes.NewReader(data))
		for {
			rec, err := reader.Next()
			if err != nil {
				if rest := err.Error(); rest != "EOF" {
					out = append(out, rest)
				}
				break
			}
			if v, _, _ := explain.Replay(rec); !v.Identical {
				t.Errorf("%s: %s", rec.RequestID, v.Difference)
			}
			out = append(out, strings.TrimPrefix(rec.RequestID, "request-")+" "+rec.Outcome.State)
		}
	}
	return out
}

func (r *recording) names(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(r.dir, "decisions-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func numbered(from, to int, state string) (out []string) {
	for n := from; n < to; n++ {
		out = append(out, fmt.Sprintf("%06d %s", n, state))
	}
	return out
}

func TestFilesTakeCompletedAndThenOpenRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t, 0, 0)
		stop := r.run(t)
		r.complete(t, 0, 3)
		open := mustAppend(t, r.ring, plainEntry(3, 2))
		r.complete(t, 4, 6)
		synctest.Wait()
		want := append(numbered(0, 3, "done"), numbered(4, 6, "done")...)
		if diff := cmp.Diff(want, r.written(t)); diff != "" {
			t.Errorf("while running: %s", diff)
		}
		stop()
		want = append(want, "000003 unknown")
		if diff := cmp.Diff(want, r.written(t)); diff != "" {
			t.Errorf("after the end: %s", diff)
		}
		if rec, _ := r.Load(open); rec.Outcome.State != explain.OutcomePending {
			t.Errorf("in the ring the open one is %s", rec.Outcome.State)
		}
		if got := r.files.Stats(); got != (record.FilesStats{Written: 6}) || r.disk.syncs != 1 {
			t.Errorf("%+v and %d syncs; want 6 written, 1 sync", got, r.disk.syncs)
		}
	})
}

// A record of which more is to be said is not written before that.
func TestFilesWaitForWhatIsUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t, 1<<20, 1<<20)
		stop := r.run(t)
		h := mustAppend(t, r.ring, plainEntry(0, 2))
		o := done(200)
		o.Prediction, o.Unsettled = explain.PredictionUnexplained, true
		r.Complete(h, o)
		synctest.Wait()
		if rec, _ := r.Load(h); rec.Outcome.Prediction != explain.PredictionUnexplained {
			t.Errorf("in the ring it is %q", rec.Outcome.Prediction)
		}
		if got := r.names(t); len(got) != 0 {
			t.Errorf("written: %v", got)
		}
		o.Prediction, o.Unsettled = explain.PredictionRaced, false
		r.Complete(h, o)
		stop()
		if diff := cmp.Diff(numbered(0, 1, explain.OutcomeDone), r.written(t)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNothingToWriteMakesNoFile(t *testing.T) {
	r := newRecording(t, 0, 0)
	r.run(t)()
	if names := r.names(t); names != nil {
		t.Errorf("files %v, want none", names)
	}
}

func TestFilesRotateBySize(t *testing.T) {
	r := newRecording(t, 0, 10_000)
	stop := r.run(t)
	r.complete(t, 0, 50)
	stop()
	names := r.names(t)
	if len(names) < 5 || r.disk.syncs != len(names) {
		t.Errorf("%d files and %d syncs, want several and as many", len(names), r.disk.syncs)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() > 10_000 {
			t.Errorf("%s: %v, %v; want at most 10,000 bytes", name, info.Size(), err)
		}
	}
	if diff := cmp.Diff(numbered(0, 50, "done"), r.written(t)); diff != "" {
		t.Error(diff)
	}
}

// A full disk costs no request and, once there is room, no record.
func TestFullDisk(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("torn bytes stay=%v", stuck), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecording(t, 0, 0)
				stop := r.run(t)
				r.complete(t, 0, 2)
				synctest.Wait()
				r.disk.set(true, stuck)
				r.complete(t, 2, 5)
				time.Sleep(10 * time.Second)
				r.complete(t, 5, 6)
				synctest.Wait()
				if st := r.files.Stats(); st.Written != 2 || st.Errors < 5 {
					t.Errorf("%+v while the disk is full; want 2 written and an error a second", st)
				}
				if n := strings.Count(r.log.String(), "recording to files is failing"); n != 1 {
					t.Errorf("%d warnings in 10 s, want 1:\n%s", n, r.log)
				}
				r.disk.set(false, false)
				time.Sleep(2 * time.Second)
				r.complete(t, 6, 8)
				synctest.Wait()
				stop()
				got := r.written(t)
				if stuck {
					got = slices.DeleteFunc(got, func(s string) bool { return strings.Contains(s, "cut off") })
				}
				if diff := cmp.Diff(numbered(0, 8, "done"), got); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(r.log.String(), "no space left on device") || !strings.Contains(r.log.String(), "recording to files works again") {
					t.Errorf("log:\n%s\nwant the reason and the resumption", r.log)
				}
			})
		})
	}
}

func TestQueueOverflowIsCountedAndCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t, 0, 0)
		r.complete(t, 0, 4100) // nobody writes yet
		if st := r.files.Stats(); st.Overflow != 4 {
			t.Errorf("%+v, want 4 beyond the queue's 4,096", st)
		}
		stop := r.run(t)
		time.Sleep(3 * time.Second)
		if diff := cmp.Diff(numbered(0, 4100, "done"), r.written(t)); diff != "" {
			t.Error(diff)
		}
		stop()
	})
}

func TestRecordsThatLeftTheRingAreCounted(t *testing.T) {
	r := newRecording(t, 1, 0)
	r.complete(t, 0, 1000)
	st := r.ring.Stats()
	if st.Unsaved == 0 || st.Unsaved != st.Evicted {
		t.Errorf("%+v: want all evicted ones unsaved", st)
	}
	r.run(t)()
	if got := len(r.written(t)); got != st.Records {
		t.Errorf("%d written, want the %d that the ring still holds", got, st.Records)
	}
}

func TestACrashLeavesWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t, 0, 0)
		stop := r.run(t)
		r.complete(t, 0, 3)
		synctest.Wait()
		stop()
		name := r.names(t)[0]
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data[:len(data)-50], 0o600); err != nil {
			t.Fatal(err)
		}
		// The next process: another ring, the same directory.
		next := newRecording(t, 0, 0)
		next.files, err = record.NewFiles(record.FilesConfig{Dir: r.dir, Ring: next.ring})
		if err != nil {
			t.Fatal(err)
		}
		next.dir, next.Store = r.dir, record.NewStore(next.ring, next.files)
		stop = next.run(t)
		next.complete(t, 10, 12)
		synctest.Wait()
		stop()
		if got := len(next.names(t)); got != 2 {
			t.Errorf("%d files, want a new one beside the torn one", got)
		}
		found, err := next.Find(t.Context(), record.Query{})
		want := []string{"request-000011", "request-000010", "request-000001", "request-000000"}
		if diff := cmp.Diff(want, ids(found.Records)); diff != "" || err != nil || found.Damaged != 0 {
			t.Errorf("%v, %d damaged, %s", err, found.Damaged, diff)
		}
	})
}

func TestNewFilesRefusesWhatIsNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := record.NewFiles(record.FilesConfig{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("NewFiles(%s) = %v, want an error that names it", file, err)
	}
}
