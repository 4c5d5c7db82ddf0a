package cmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/tui"
)

// poolSource is the picker of a pool in a cluster, of which one can go to another.
type poolSource struct {
	flags topFlags
	quiet *cli.Streams // the screen is taken

	mu  sync.Mutex
	now *topSource
	// next is what Follow goes on with; only its newest counts.
	next chan *topSource
}

var errOther = errors.New("another pool")

// newPoolSource begins with a picker.
func newPoolSource(f *topFlags, s *cli.Streams, first *topSource) *poolSource {
	quiet := *s
	quiet.Err = io.Discard
	return &poolSource{flags: *f, quiet: &quiet, now: first, next: make(chan *topSource, 1)}
}

// command are the flags that explain takes for the picker that is looked at.
func (s *poolSource) command() []string { return s.current().command }

func (s *poolSource) current() *topSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// close lets the picker go that is looked at, and one that was to be.
func (s *poolSource) close() {
	s.current().done()
	select {
	case other := <-s.next:
		other.done()
	default:
	}
}

// Follow implements [tui.Source].
func (s *poolSource) Follow(ctx context.Context, pace *tui.Pace, send func(tui.Update)) error {
	for anew := false; ; anew = true {
		other, err := s.followOne(ctx, pace, func(u tui.Update) {
			u.Anew, anew = anew, false
			send(u)
		})
		if other == nil {
			return err
		}
		s.mu.Lock()
		last := s.now
		s.now = other
		s.mu.Unlock()
		last.done()
	}
}

// followOne follows a picker until it ends, or another is to be followed.
func (s *poolSource) followOne(ctx context.Context, pace *tui.Pace, send func(tui.Update)) (other *topSource, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case other = <-s.next:
			cancel(errOther)
		case <-ctx.Done():
		}
	})
	err = s.current().source.Follow(ctx, pace, send)
	cancel(nil)
	waiting.Wait()
	return other, err
}

// Switch implements [tui.Switcher].
func (s *poolSource) Switch(ctx context.Context, namespace, pool string) (where string, err error) {
	flags := s.flags
	flags.in.pool, flags.in.cluster.set.Namespace = pool, cmp.Or(namespace, s.current().replicas.pool.Namespace)
	other, err := flags.openPool(ctx, s.quiet)
	if err != nil {
		return "", err
	}
	select {
	case last := <-s.next: // it was not gone to yet
		last.done()
	default:
	}
	s.next <- other
	return "the picker of pool " + other.replicas.pool.String(), nil
}

// Decision implements [tui.Source].
func (s *poolSource) Decision(ctx context.Context, id string) (*explain.Record, error) {
	return s.current().source.Decision(ctx, id)
}

// Recent implements [tui.Source].
func (s *poolSource) Recent(ctx context.Context, limit int) ([]*explain.Record, error) {
	return s.current().source.Recent(ctx, limit)
}
