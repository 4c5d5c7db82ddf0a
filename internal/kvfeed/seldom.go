package kvfeed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
)

// Bounds of how often one thing is said of a target, in wall time: once for each
// rank at once, and then one line in a while.
const (
	saidAtOnce = MaxRanks
	saidPause  = 10 * time.Second
)

// seldom is the log of one target. An engine that lies, or comes and goes, may
// give cause for thousands of lines in a second. Those that would say the same too
// often are left out, and the next one says how many.
type seldom struct {
	slog.Handler
	said *said
}

func newSeldom(log *slog.Logger) *slog.Logger {
	return slog.New(seldom{log.Handler(), &said{by: map[string]*allowance{}}})
}

// said is how often each thing was said. Messages are ours, so they are few.
type said struct {
	mu sync.Mutex
	by map[string]*allowance
}

type allowance struct {
	left    int       // lines that may be said now
	since   time.Time // when that was counted
	leftOut int       // lines, since the last that was said
}

// Handle implements [slog.Handler].
func (s seldom) Handle(ctx context.Context, line slog.Record) error {
	leftOut, ok := s.said.take(line.Message)
	if !ok {
		return nil
	}
	if leftOut > 0 {
		line = line.Clone()
		line.AddAttrs(slog.Int(logkey.LeftOut, leftOut))
	}
	return s.Handler.Handle(ctx, line)
}

// WithAttrs implements [slog.Handler].
func (s seldom) WithAttrs(attrs []slog.Attr) slog.Handler {
	return seldom{s.Handler.WithAttrs(attrs), s.said}
}

// WithGroup implements [slog.Handler].
func (s seldom) WithGroup(name string) slog.Handler {
	return seldom{s.Handler.WithGroup(name), s.said}
}

// take reports whether something may be said now, and how often it was not.
func (s *said) take(what string) (leftOut int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := wall()
	a := s.by[what]
	if a == nil {
		a = &allowance{left: saidAtOnce, since: now}
		s.by[what] = a
	}
	if more := int(now.Sub(a.since) / saidPause); more > 0 {
		a.left = min(saidAtOnce, a.left+more)
		a.since = a.since.Add(time.Duration(more) * saidPause)
	}
	if a.left == 0 {
		a.leftOut++
		return 0, false
	}
	a.left--
	leftOut, a.leftOut = a.leftOut, 0
	return leftOut, true
}
