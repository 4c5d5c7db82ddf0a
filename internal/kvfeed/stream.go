package kvfeed

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// stream is the events of one rank. What is not under mu belongs to the
// goroutine of the connection.
type stream struct {
	feeds  *Feeds
	target *Target
	source source
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
	tried  func() // is called when it was connected once, or could not be

	slot     prefix.Slot // of the first level
	decoder  kvevent.Decoder
	told     State
	lost     time.Time // when the connection before this one ended
	replayed time.Time // when the last replay began, in wall time
	brokeOff bool      // and whether it did not come to its end
	silent   bool      // that there is no connection was said
	topic    []byte    // of the message before
	stranger bool      // that topic names nobody that is known
	warned   bool      // of this on this connection

	mu    sync.Mutex
	rank  *kvindex.Rank // nil: not opened yet
	stats Stats         // but for the rank's
	rate  rate
}

func newStream(w *watch, src source, stop context.CancelFunc) *stream {
	return &stream{
		feeds: w.feeds, target: &w.target, source: src, stop: stop, done: make(chan struct{}), tried: func() {},
		log:   w.log.With(slog.Int(logkey.Rank, src.rank), slog.String(logkey.Address, src.events)),
		stats: Stats{Rank: src.rank, Events: src.events, Replay: src.replay},
	}
}

// run connects to the engine and listens until ctx ends or the slot is no longer
// the stream's own.
func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	defer s.stop()
	defer s.tried()
	if !s.open() {
		return
	}
	defer s.close()
	options := zmtp.Options{Topic: s.feeds.cfg.Topic, Limits: zmtp.Limits{Budget: s.feeds.budget}}
	err := zmtp.Subscribe(ctx, s.source.events, options, listener{s, ctx})
	if err != nil {
		s.note(func(st *Stats) { st.LastError = err.Error() })
		s.log.WarnContext(ctx, "KV events can't be had", slog.String(logkey.Reason, err.Error()))
	}
}

// open gets the stream its slots. It is not ok when the target is gone.
func (s *stream) open() bool {
	cfg := &s.feeds.cfg
	slots, ok := s.feeds.sink.RankOpened(s.target.ID, s.source.rank, cfg.Levels, s)
	if !ok {
		return false
	}
	s.slot = slots[0]
	rank := kvindex.New(kvindex.Config{
		Tree: cfg.Tree, Slots: slots, Levels: cfg.Levels, Model: s.target.Model, BlockSize: cfg.BlockSize,
		OnGap: cfg.OnGap, Replay: s.source.replay != "", Limits: cfg.Limits, Removed: s.removed,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rank = rank
	return true
}

// close gives the slots back.
func (s *stream) close() {
	s.index().Close()
	s.feeds.sink.RankClosed(s.slot)
}

// ended reports whether the stream has come to its end by itself.
func (s *stream) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *stream) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.Connected
}

// Stats are the stream's figures and its rank's.
func (s *stream) Stats() Stats {
	s.mu.Lock()
	st, rank := s.stats, s.rank
	now := s.feeds.cfg.Clock.Now()
	st.PerSecond, st.LastAge = s.rate.of(now), max(0, now.Sub(st.LastMessage))
	s.mu.Unlock()
	if rank != nil {
		st.Stats = rank.Stats()
	}
	return st
}

// Mark implements [Stream].
func (s *stream) Mark() kvindex.Mark {
	if rank := s.index(); rank != nil {
		return rank.Mark()
	}
	return 0
}

// Correct implements [Stream].
func (s *stream) Correct(a kvindex.Answer) {
	if rank := s.index(); rank != nil {
		rank.Correct(a)
	}
}

// index is what the rank holds, nil before it has a slot.
func (s *stream) index() *kvindex.Rank {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rank
}

// note changes the figures.
func (s *stream) note(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

// tell tells the sink what has changed.
func (s *stream) tell() {
	rank := s.rank.Stats()
	s.mu.Lock()
	state := State{
		Connected: s.stats.Connected, Unconfirmed: s.stats.Unconfirmed,
		BlockSize: rank.BlockSize, Mismatch: rank.Mismatch, Hybrid: rank.Hybrid, Degraded: rank.Degraded, Gaps: rank.Gaps,
	}
	s.mu.Unlock()
	if state != s.told {
		s.told = state
		s.feeds.sink.RankChanged(s.slot, state)
	}
}

// removed is called by the rank. That it forgets everything says by itself
// nothing of what the engine has: see [stream.apply].
func (s *stream) removed(blocks []uint64, at time.Time) {
	if blocks != nil {
		s.feeds.sink.RankEvicted(s.slot, blocks, s.bounded(at))
	}
}

// bounded is an engine's idea of when something happened: clocks differ.
func (s *stream) bounded(claimed time.Time) time.Time {
	const most = 10 * time.Second // of the wall's
	received := s.feeds.cfg.Clock.Now()
	if claimed.After(received) || received.Sub(claimed).Seconds() > most.Seconds()*s.feeds.cfg.Clock.Scale() {
		return received
	}
	return claimed
}

// listener is what the connection's goroutine calls.
type listener struct {
	*stream
	ctx context.Context
}

// Connected implements [zmtp.Handler].
func (l listener) Connected(zmtp.Peer) {
	now := l.feeds.cfg.Clock.Now()
	l.note(func(st *Stats) {
		st.Connections++
		st.Connected, st.Since, st.LastError = true, now, ""
		st.Unconfirmed = st.Messages > 0
	})
	l.silent, l.warned, l.topic, l.stranger = false, false, nil, false
	l.log.InfoContext(l.ctx, "listening to KV events", slog.Bool(logkey.Replay, l.source.replay != ""))
	l.tell()
	l.tried()
}

// Disconnected implements [zmtp.Handler].
func (l listener) Disconnected(_ zmtp.Peer, err error) {
	l.lost = l.feeds.cfg.Clock.Now()
	l.note(func(st *Stats) {
		st.Connected, st.Unconfirmed, st.Since = false, false, l.lost
		st.LastError = reason(err)
	})
	if l.ctx.Err() != nil {
		return
	}
	l.silent = true
	l.log.WarnContext(l.ctx, "connection for KV events lost", slog.String(logkey.Reason, reason(err)))
	l.tell()
}

// Failed implements [zmtp.Handler].
func (l listener) Failed(_ string, err error) {
	l.note(func(st *Stats) { st.LastError = reason(err) })
	l.tried()
	if !l.silent {
		l.silent = true
		l.log.InfoContext(l.ctx, "no KV events yet: status reports count until there are some", slog.String(logkey.Reason, reason(err)))
	}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Message implements [zmtp.Handler].
func (l listener) Message(_ zmtp.Peer, parts [][]byte) {
	l.note(func(st *Stats) { st.Messages++ })
	m, err := kvevent.ParseLive(parts)
	if err != nil {
		l.note(func(st *Stats) { st.Unreadable++ })
		l.debug(err)
		return
	}
	l.compare(m.Topic)
	batch, ok := l.decode(m.Payload)
	if !ok {
		return
	}
	now := l.feeds.cfg.Clock.Now()
	l.mu.Lock()
	l.stats.LastMessage, l.stats.Unconfirmed = now, false
	l.rate.add(len(batch.Events), now)
	if batch.Rank >= 0 && batch.Rank != l.source.rank {
		l.stats.OtherRank++
	}
	l.mu.Unlock()
	l.apply(m.Seq, batch)
}

func (l listener) debug(err error) {
	l.log.DebugContext(l.ctx, "KV event message not readable", slog.String(logkey.Reason, err.Error()))
}

// decode reads a batch. One that can't be read is missing: the next shows a gap.
func (l listener) decode(payload []byte) (*kvevent.Batch, bool) {
	batch, err := l.decoder.Decode(payload)
	if err == nil {
		return batch, true
	}
	l.note(func(st *Stats) { st.DecodeErrors++ })
	l.debug(err)
	return nil, false
}

// apply takes the next batch, and fetches those that are missing before it.
func (l listener) apply(seq uint64, batch *kvevent.Batch) {
	at := batch.At
	cleared := slices.ContainsFunc(batch.Events, func(e kvevent.Event) bool { return e.Kind == kvevent.Cleared })
	out := l.rank.Apply(seq, batch)
	switch {
	case out.Closed:
		l.stop()
		return
	case out.Restarted && !l.lost.IsZero():
		l.log.InfoContext(l.ctx, "the engine has begun anew, its cache is empty")
		l.feeds.sink.RankEvicted(l.slot, nil, l.lost)
	case out.Restarted || cleared:
		l.feeds.sink.RankEvicted(l.slot, nil, l.bounded(at))
	}
	if out.Missed > 0 {
		l.log.WarnContext(l.ctx, "KV events missed", slog.Uint64(logkey.Batches, out.Missed), slog.Bool(logkey.Replay, out.Replay))
	}
	l.tell()
	if out.Replay {
		l.replay(out.From, out.To)
		l.tell()
	}
}

// maxTopic bounds what is kept of a topic.
const maxTopic = 256

// compare counts messages whose topic names a pod that no endpoint is, as
// kv@10.0.0.7:8000@model may. Several ranks may share one, and nobody vouches for
// it: the connection alone says whose events these are.
func (l listener) compare(topic []byte) {
	topic = topic[:min(len(topic), maxTopic)]
	if !bytes.Equal(topic, l.topic) {
		l.topic = append(l.topic[:0], topic...)
		l.stranger = !l.feeds.places.Load().knows(string(topic))
	}
	if !l.stranger {
		return
	}
	l.note(func(st *Stats) { st.Strangers++ })
	if !l.warned {
		l.warned = true
		l.log.WarnContext(l.ctx, "the topic of KV events names a pod that no endpoint is", slog.String(logkey.Topic, string(topic)))
	}
}
