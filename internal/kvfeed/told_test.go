package kvfeed_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
)

// sink is a pool of which it is known what it was told: the figures of a stream are
// a little ahead of that.
type sink struct {
	*pool.Pool
	mu    sync.Mutex
	slots map[string]prefix.Slot // of the newest stream of a pod's rank
	told  map[prefix.Slot]kvfeed.State
}

func (s *sink) RankOpened(target string, rank int, levels []kvindex.Level, stream kvfeed.Stream) ([]prefix.Slot, bool) {
	slots, ok := s.Pool.RankOpened(target, rank, levels, stream)
	if ok {
		pod, _, _ := strings.Cut(target, "@")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slots[fmt.Sprint(pod, rank)] = slots[0]
	}
	return slots, ok
}

func (s *sink) RankChanged(slot prefix.Slot, state kvfeed.State) {
	s.Pool.RankChanged(slot, state)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[slot] = state
}

func (s *sink) RankClosed(slot prefix.Slot) {
	s.mu.Lock()
	delete(s.told, slot)
	s.mu.Unlock()
	s.Pool.RankClosed(slot)
}

// connected reports whether the pool knows that the rank of a pod is connected.
func (r *rig) connected(pod string, rank int) bool {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	return r.sink.told[r.sink.slots[fmt.Sprint(pod, rank)]].Connected
}

// lines is what was logged.
type lines struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	last map[string]context.Context // that a message was last logged with
}

// lineHandler notes contexts beside the text.
type lineHandler struct {
	slog.Handler
	log *lines
}

func (h lineHandler) Handle(ctx context.Context, line slog.Record) error {
	h.log.mu.Lock()
	h.log.last[line.Message] = ctx
	h.log.mu.Unlock()
	return h.Handler.Handle(ctx, line)
}

func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lineHandler{h.Handler.WithAttrs(attrs), h.log}
}

// context is what a message was last logged with.
func (l *lines) context(message string) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[message]
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}
