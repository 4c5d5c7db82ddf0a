package cmd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/playback"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
	"github.com/eppctl/eppctl/tui"
)

// maxReplayed bounds the decisions of a replay: the newest ones.
const maxReplayed = 100_000

// replayRows is how many decisions the list of a replay has.
const replayRows = 200

// replaySource plays recorded decisions. It implements [tui.Player].
type replaySource struct {
	recording   *playback.Recording
	from, until time.Time

	mu    sync.Mutex // guards the recording too
	at    time.Time
	speed float64
	pace  *tui.Pace // set by Follow
}

// openReplay reads the decisions of a file or directory.
func openReplay(ctx context.Context, path string, opts source.Options) (*replaySource, error) {
	files, err := source.Open(path, opts)
	if err != nil {
		return nil, sourceError(err)
	}
	var list []*explain.Record
	var want source.Want
	want.Limit = maxReplayed
	more, err := files.Each(ctx, want, func(rec *explain.Record) error {
		list = append(list, rec)
		return nil
	})
	switch {
	case err != nil:
		return nil, sourceError(err)
	case len(list) == 0:
		return nil, sourceError(&source.MissingError{MissingError: &record.MissingError{ID: record.Latest}, Name: path})
	case more && opts.Warn != nil:
		opts.Warn(fmt.Sprintf("%s: only the newest %d decisions are played", path, maxReplayed))
	}
	r := playback.New(list)
	return &replaySource{recording: r, from: r.From(), until: r.Until(), at: r.From(), speed: 1}, nil
}

// Follow implements [tui.Source]: a frame at each interval.
func (s *replaySource) Follow(ctx context.Context, pace *tui.Pace, send func(tui.Update)) error {
	s.mu.Lock()
	s.pace = pace
	s.mu.Unlock()
	for {
		send(s.frame())
		if !sleepOr(ctx, pace.Interval(), pace.Changed()) {
			return context.Cause(ctx)
		}
		s.advance(pace.Interval())
	}
}

// frame is the moment where the replay stands.
func (s *replaySource) frame() tui.Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	return tui.Update{
		Snapshot: s.recording.At(s.at), Rows: s.recording.Rows(s.at, replayRows), Whole: true,
		Play: &tui.Playback{From: s.from, Until: s.until, At: s.at, Speed: s.speed},
	}
}

func (s *replaySource) advance(interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.move(time.Duration(float64(interval) * s.speed)); s.at.Equal(s.until) {
		s.speed = 0
	}
}

func (s *replaySource) move(by time.Duration) {
	s.at = s.at.Add(by)
	before, after := s.recording.Around(s.at)
	if !before.IsZero() && !after.IsZero() && s.at.Sub(before) >= lull && after.Sub(s.at) >= lull {
		if s.at = after; by < 0 {
			s.at = before.Add(lull)
		}
	}
	if s.at.Before(s.from) {
		s.at = s.from
	}
	if s.at.After(s.until) {
		s.at = s.until
	}
}

// lull is how far from decisions a replay goes. What lies farther from both neighbours,
// hours perhaps, is left out.
const lull = time.Minute

// stepTime is how far a step goes in recorded time.
const stepTime = time.Second

// Step implements [tui.Player].
func (s *replaySource) Step(frames int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speed = 0
	s.move(time.Duration(frames) * stepTime)
	s.hurry()
}

// Play implements [tui.Player]. At the end it begins anew.
func (s *replaySource) Play(speed float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if speed > 0 && s.at.Equal(s.until) {
		s.at = s.from
	}
	s.speed = speed
	s.hurry()
}

func (s *replaySource) hurry() {
	if s.pace != nil {
		s.pace.Hurry()
	}
}

// Decision implements [tui.Source].
func (s *replaySource) Decision(_ context.Context, id string) (*explain.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := record.Query{ID: id}
	for _, rec := range s.recording.Recent(s.until, maxReplayed) {
		if id == record.Latest || rec.DecisionID == id || q.Wants(rec) {
			return rec, nil
		}
	}
	return nil, errors.New("no decision " + id + " in this recording")
}

// Recent implements [tui.Source]: of the moment where the replay stands.
func (s *replaySource) Recent(_ context.Context, limit int) ([]*explain.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recording.Recent(s.at, limit), nil
}
