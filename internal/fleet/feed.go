package fleet

import (
	"sync"
	"sync/atomic"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/record"
)

const (
	// MaxReaders is how many may follow at once.
	MaxReaders = 32
	// MaxLines is how many rows wait for a reader.
	MaxLines = 512
	// maxPending is how many decisions are remembered until their requests end.
	maxPending = 8192
)

// feed hands the rows of decisions to readers. Without any it costs a load of the
// number of readers.
type feed struct {
	count   atomic.Int32
	dropped atomic.Uint64
	done    chan struct{} // closed at the end

	mu      sync.Mutex
	readers map[*Reader]struct{}
	pending map[string]*picked // by decision ID; of decisions since the first reader came
}

func newFeed() *feed {
	return &feed{done: make(chan struct{}), readers: map[*Reader]struct{}{}, pending: map[string]*picked{}}
}

// picked hands on a decision.
func (f *feed) picked(e *record.Entry) {
	if f.count.Load() == 0 {
		return
	}
	p := pickedOf(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		return
	}
	if e.Picked >= 0 && len(f.pending) < maxPending {
		f.pending[p.decisionID] = p
	}
	f.push(&line{picked: p})
}

// completed hands on the end of a request whose decision was handed on.
func (f *feed) completed(k *picker.Pick, o *record.Outcome) {
	if f.count.Load() == 0 {
		return
	}
	id := k.DecisionID()
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pending[id]
	if p == nil {
		return
	}
	delete(f.pending, id)
	outcome := *o
	f.push(&line{picked: p, outcome: &outcome})
}

// push gives a line to every reader. The lock is held.
func (f *feed) push(l *line) {
	for r := range f.readers {
		r.push(l)
	}
}

// subscribe adds a reader; false when there are too many.
func (f *feed) subscribe() (*Reader, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) >= MaxReaders {
		return nil, false
	}
	r := &Reader{feed: f, ready: make(chan struct{}, 1)}
	f.readers[r] = struct{}{}
	f.count.Store(int32(len(f.readers)))
	return r, true
}

func (f *feed) leave(r *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
	f.count.Store(int32(len(f.readers)))
	if len(f.readers) == 0 {
		clear(f.pending)
	}
}

// Reader follows the decisions. It may fall behind: then it loses the oldest lines.
type Reader struct {
	feed  *feed
	ready chan struct{}

	mu    sync.Mutex
	lines [MaxLines]*line
	first int
	n     int
}

// push never waits.
func (r *Reader) push(l *line) {
	r.mu.Lock()
	if r.n == MaxLines {
		r.first, r.n = (r.first+1)%MaxLines, r.n-1
		r.feed.dropped.Add(1)
	}
	r.lines[(r.first+r.n)%MaxLines] = l
	r.n++
	r.mu.Unlock()
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// Ready has a value when there may be lines to take.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Take takes all lines that wait, the oldest first: each {"decision":Row} with a
// newline, not to be changed.
func (r *Reader) Take() [][]byte {
	r.mu.Lock()
	taken := make([]*line, 0, r.n)
	for ; r.n > 0; r.n-- {
		taken = append(taken, r.lines[r.first])
		r.lines[r.first] = nil
		r.first = (r.first + 1) % MaxLines
	}
	r.mu.Unlock()
	texts := make([][]byte, len(taken))
	for i, l := range taken {
		texts[i] = l.encoded()
	}
	return texts
}

// Missed counts snapshots that the reader was too slow for.
func (r *Reader) Missed(n int) { r.feed.dropped.Add(uint64(max(0, n))) }

// Done is closed when nothing follows any more.
func (r *Reader) Done() <-chan struct{} { return r.feed.done }

// Close ends the reader.
func (r *Reader) Close() { r.feed.leave(r) }
