package telemetry

import (
	"io"
	"sync"
)

// Lines takes log lines off the hands of those who log: a goroutine of its own
// writes them, as many at once as come within a few milliseconds. When the reader
// of the log is slow, those who log wait; nothing is dropped.
type Lines struct {
	w      io.Writer
	mu     sync.Mutex
	change sync.Cond // of buf or closed
	buf    []byte
	closed bool
	done   chan struct{}
}

// maxLines is how much may wait to be written, in bytes.
const maxLines = 1 << 20

// NewLines starts to write to w what is given to [Lines.Write].
func NewLines(w io.Writer) *Lines {
	l := &Lines{w: w, done: make(chan struct{})}
	l.change.L = &l.mu
	go l.run()
	return l
}

// Write implements [io.Writer]. It never fails: that nobody reads the log any
// more is no reason to stop. After Close it writes at once.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.buf) >= maxLines && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return l.w.Write(p)
	}
	if len(l.buf) == 0 {
		defer l.change.Broadcast()
	}
	l.buf = append(l.buf, p...)
	return len(p), nil
}

// Close returns when everything is written.
func (l *Lines) Close() {
	l.mu.Lock()
	l.closed = true
	l.change.Broadcast()
	l.mu.Unlock()
	<-l.done
}

func (l *Lines) run() {
	defer close(l.done)
	var writing []byte
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.buf) == 0 && !l.closed {
			l.change.Wait()
		}
		if len(l.buf) == 0 {
			return
		}
		if !l.closed {
			l.mu.Unlock()
			gather()
			l.mu.Lock()
		}
		l.buf, writing = writing[:0], l.buf
		l.mu.Unlock()
		_, _ = l.w.Write(writing) // there is no other place to say it
		l.mu.Lock()
		l.change.Broadcast()
	}
}
