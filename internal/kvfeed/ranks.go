package kvfeed

import (
	"context"
	"log/slog"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// keptLost is how long what a lost connection of an engine told is kept for its
// next one, by the clock of the feeds. Meanwhile the rank is not dialled.
const keptLost = 5 * time.Minute

// arrived is a rank of a target that came by a connection of the engine. The
// watch's lock guards it; its stream belongs to the connection while there is one.
type arrived struct {
	stream    *stream
	said      int // the rank that its batches say they are of
	connected bool
}

// admit gives a connection of the engine a rank. It is not ok when the target is
// left out, or has too many.
func (w *watch) admit(ctx context.Context, p zmtp.Peer, said int) (l listener, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said = max(said, 0)
	number := w.place(said)
	if w.over || number < 0 {
		return listener{}, false
	}
	r := w.arrived[number]
	if r != nil && !w.resumes(r, said) {
		delete(w.arrived, number)
		r.stream.close()
		r = nil
	}
	ctx, cancel := context.WithCancel(ctx)
	if r == nil {
		src := source{rank: number}
		if number == said {
			src.replay = further(w.target.Replay, number)
		}
		s := newStream(w, src, cancel)
		if !s.open() {
			cancel()
			return listener{}, false
		}
		r = &arrived{stream: s, said: said}
		w.arrived[number] = r
	}
	r.connected = true
	r.stream.attach(w.log, p, cancel)
	w.connections.Add(1)
	signal(w.told) // the rank is not to be dialled any more
	return listener{r.stream, ctx}, true
}

// place is the number of the rank for a connection whose batches say they are of
// one: that, unless it is taken. Else it is the next free one, first of those that
// nothing is kept of; -1 when there is none.
func (w *watch) place(said int) int {
	if said < MaxRanks && !w.taken(said) {
		return said
	}
	free := -1
	for n := range MaxRanks {
		switch {
		case w.taken(n):
		case w.arrived[n] == nil:
			return n
		case free < 0:
			free = n
		}
	}
	return free
}

// taken reports whether a connection stands for a rank.
func (w *watch) taken(number int) bool {
	if r := w.arrived[number]; r != nil && r.connected {
		return true
	}
	s := w.dialled[number]
	return s != nil && s.connected()
}

// resumes reports whether a connection of a rank goes on where a lost one ended.
// When several have said they are that rank, nobody knows which it is.
func (w *watch) resumes(lost *arrived, said int) bool {
	for _, r := range w.arrived {
		if r != lost && r.said == said {
			return false
		}
	}
	return lost.said == said
}

// lose is told that the connection of a stream has ended. What it told ages, unless
// another connection has said in the meantime that it is the same rank.
func (w *watch) lose(l listener, p zmtp.Peer, err error) {
	defer w.connections.Done()
	w.mu.Lock() // until all is done: the next connection may be there already
	defer w.mu.Unlock()
	l.Disconnected(p, err)
	l.stop() // its context, of which there would be one more for each connection
	number := l.source.rank
	lost := w.arrived[number]
	lost.connected = false
	for _, r := range w.arrived {
		if !w.over && r.connected && r.said == lost.said {
			delete(w.arrived, number)
			l.close()
			return
		}
	}
}

// forget closes the streams of connections that were lost long ago.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for number, r := range w.arrived {
		if !r.connected && w.feeds.cfg.Clock.Now().Sub(r.stream.lost) > keptLost {
			delete(w.arrived, number)
			r.stream.close()
		}
	}
}

// comes reports whether a rank comes by a connection of the engine.
func (w *watch) comes(number int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.arrived[number] != nil
}

// dismiss ends the engine's connections and their streams, and waits for them.
func (w *watch) dismiss() {
	w.mu.Lock()
	w.over = true
	for _, r := range w.arrived {
		if r.connected {
			r.stream.stop()
		}
	}
	w.mu.Unlock()
	w.connections.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.arrived {
		r.stream.close()
	}
	w.arrived = nil
}

// attach gives the stream to a connection.
func (s *stream) attach(log *slog.Logger, p zmtp.Peer, cancel context.CancelFunc) {
	s.stop = func() {
		cancel()
		p.Close()
	}
	s.source.events = "tcp://" + p.Address
	s.log = log.With(slog.Int(logkey.Rank, s.source.rank), slog.String(logkey.From, p.Address))
	s.note(func(st *Stats) { st.Events, st.Inbound = s.source.events, true })
}
