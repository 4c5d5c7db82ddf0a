// Package logtest keeps what a program logs, for tests that read it while it runs.
//
// It does not take lines apart: tests look for words. Only tests import it.
package logtest

import (
	"bytes"
	"sync"
)

// Log is what was written so far. It may be used from any goroutine, and its zero value
// is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
