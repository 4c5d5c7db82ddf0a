package kvfeed

import (
	"context"
	"log/slog"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// Bounds of a replay, in wall time. An engine answers between two of its steps,
// and keeps 10,000 batches by default.
const (
	replayTime    = 5 * time.Second
	replayPause   = time.Second      // from the start of one to the start of the next
	failedPause   = 10 * time.Second // the same after one that broke off
	replayTries   = 3
	replayBatches = 100_000
)

// replay fetches the batches from one number to another, and applies them. What
// is not to be had is a gap. Soon after another replay it waits for its turn, while
// TCP holds the publisher back; an engine whose replays break off is spared instead.
func (l listener) replay(from, to uint64) {
	defer l.rank.ReplayDone(from)
	if !l.mayReplay() {
		l.note(func(st *Stats) { st.ReplaysSpared++ })
		return
	}
	l.replayed, l.brokeOff = wall(), false
	ctx, cancel := context.WithTimeout(l.ctx, replayTime)
	defer cancel()
	r := replay{listener: l, next: from, to: to, left: replayBatches}
	var err error
	for range replayTries {
		if err = r.try(ctx); err == nil {
			return
		}
	}
	l.brokeOff = true
	l.note(func(st *Stats) { st.ReplaysFailed++ })
	if l.ctx.Err() == nil {
		l.log.WarnContext(l.ctx, "replay of KV events broke off", slog.String(logkey.Reason, err.Error()))
	}
}

// mayReplay waits until the next replay may begin, if that is soon.
func (l listener) mayReplay() bool {
	if l.replayed.IsZero() {
		return true
	}
	passed := wall().Sub(l.replayed)
	if l.brokeOff {
		return passed >= failedPause
	}
	turn := time.NewTimer(replayPause - passed)
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// replay is one under way.
type replay struct {
	listener
	next, to uint64 // batches that are wanted
	left     int    // batches that are taken at most
}

// try asks for what is missing, once. An error means that it is worth another
// try.
func (r *replay) try(ctx context.Context) error {
	for reply, err := range zmtp.Request(ctx, r.source.replay, zmtp.Options{Limits: zmtp.Limits{Budget: r.feeds.budget}}, kvevent.ReplayRequest(r.next)...) {
		if err != nil {
			return err
		}
		m, end, err := kvevent.ParseReplay(reply)
		if err != nil {
			r.note(func(st *Stats) { st.Unreadable++ })
			r.debug(err)
			continue
		}
		if end || m.Seq > r.to || r.left == 0 {
			return nil
		}
		r.left--
		if m.Seq < r.next {
			continue
		}
		r.next = m.Seq + 1
		if batch, ok := r.decode(m.Payload); ok {
			r.rank.Replayed(m.Seq, batch)
		}
		if m.Seq == r.to {
			return nil
		}
	}
	return nil
}
