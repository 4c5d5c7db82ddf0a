package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/fleet"
)

// The intervals of a stream's snapshots.
const (
	MinInterval     = 100 * time.Millisecond
	MaxInterval     = time.Minute
	DefaultInterval = time.Second
)

const (
	// followTimeout is how long a client of a stream may take to read a piece of it.
	followTimeout = 10 * time.Second
	// gather is how long decisions are gathered before they are sent.
	gather = 50 * time.Millisecond
)

// StreamLine is one line of GET /v1/stream; one of its parts is there.
type StreamLine struct {
	Hello    *StreamHello      `json:"hello,omitempty"`
	Snapshot *explain.Snapshot `json:"snapshot,omitempty"`
	Decision *explain.Row      `json:"decision,omitempty"`
	End      *StreamEnd        `json:"end,omitempty"`
}

// StreamHello begins a stream.
type StreamHello struct {
	Document
	Interval  float64 `json:"intervalSeconds"` // of wall time
	TimeScale float64 `json:"timeScale"`       // seconds of the picker's clock in one of the wall's
	Version   string  `json:"version"`
}

// StreamEnd ends a stream.
type StreamEnd struct {
	Reason string `json:"reason"`
}

func (s *server) snapshot(w http.ResponseWriter, r *http.Request) error {
	snapshot := s.Fleet.Snapshot()
	if snapshot == nil {
		return fail(http.StatusServiceUnavailable, CodeNotReady, "the picker has not looked at its fleet yet").hint("ask again in a second")
	}
	return answer(w, r, snapshot)
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) error {
	interval, err := streamInterval(r.URL.RawQuery)
	if err != nil {
		return err
	}
	reader, ok := s.Fleet.Subscribe()
	if !ok {
		return fail(http.StatusServiceUnavailable, CodeTooManyReaders, fmt.Sprintf("%d readers follow already", fleet.MaxReaders)).
			hint("close a dashboard, or read /v1/snapshot now and then")
	}
	defer reader.Close()
	w.Header().Set("Content-Type", "application/jsonl")
	if r.Method == http.MethodHead {
		return nil
	}
	f := follower{w: w, control: http.NewResponseController(w), fleet: s.Fleet, reader: reader, interval: interval}
	// The server's own limit is for requests, and would end this one.
	_ = f.control.SetReadDeadline(time.Time{})
	f.line(StreamLine{Hello: &StreamHello{document("Stream"), interval.Seconds(), s.Clock.Scale(), s.Version.Version}})
	ctx, end := s.reviewed(r)
	defer end()
	f.follow(ctx)
	return nil // what was sent can't be taken back
}

func streamInterval(raw string) (time.Duration, error) {
	values, err := single(raw, []string{"interval"})
	if err != nil {
		return 0, err
	}
	text, given := values["interval"]
	if !given {
		return DefaultInterval, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < MinInterval || d > MaxInterval {
		return 0, badRequest("parameter interval: must be a duration from %v to %v, got %s", MinInterval, MaxInterval, quoted(text))
	}
	return d, nil
}

// follower writes one stream.
type follower struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	fleet    *fleet.Watch
	reader   *fleet.Reader
	interval time.Duration
	shown    time.Time // the last snapshot, by the wall
	err      error
}

// follow writes until the client has gone, or does not read or may not any more, or the
// picker ends.
func (f *follower) follow(ctx context.Context) {
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	gathered := time.NewTimer(gather)
	defer gathered.Stop()
	f.show()
	var ready <-chan struct{} // nil while decisions are gathered
	for f.err == nil {
		if f.err = f.control.Flush(); f.err != nil {
			return
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				f.end(cause.Error())
			}
			return
		case <-f.reader.Done():
			f.decisions()
			f.end("the picker is shutting down")
			return
		case <-tick.C:
			f.show()
		case <-ready:
			ready = nil
			gathered.Reset(gather)
		case <-gathered.C:
			f.decisions()
			ready = f.reader.Ready()
		}
	}
}

func (f *follower) end(reason string) {
	f.line(StreamLine{End: &StreamEnd{Reason: reason}})
	_ = f.control.Flush()
}

// show writes the newest snapshot, and counts those that there was no time for.
func (f *follower) show() {
	now := clock.Wall{}.Now()
	if !f.shown.IsZero() {
		f.reader.Missed(int(now.Sub(f.shown)/f.interval) - 1)
	}
	f.shown = now
	f.write(f.fleet.Line())
}

func (f *follower) decisions() {
	for _, line := range f.reader.Take() {
		f.write(line)
	}
}

func (f *follower) line(l StreamLine) {
	text, err := json.Marshal(l)
	if err != nil {
		f.err = err
		return
	}
	f.write(append(text, '\n'))
}

func (f *follower) write(text []byte) {
	if f.err == nil && len(text) > 0 {
		allow(f.control, followTimeout)
		_, f.err = f.w.Write(text)
	}
}
