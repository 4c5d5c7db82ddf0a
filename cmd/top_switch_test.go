package cmd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/tui"
)

// named is a source that sends its name.
type named string

func (n named) Follow(ctx context.Context, _ *tui.Pace, send func(tui.Update)) error {
	send(tui.Update{Snapshot: &explain.Snapshot{Router: explain.RouterState{Server: string(n)}}})
	send(tui.Update{Snapshot: &explain.Snapshot{Router: explain.RouterState{Server: string(n)}}})
	<-ctx.Done()
	return context.Cause(ctx)
}

func (n named) Decision(context.Context, string) (*explain.Record, error) {
	return nil, errors.New("of " + string(n))
}

func (n named) Recent(context.Context, int) ([]*explain.Record, error) { return nil, nil }

// Another pool is followed in place of the first, which is let go; the first news of it
// say so.
func TestPoolSource(t *testing.T) {
	var done atomic.Int32
	source := func(name string) *topSource {
		replicas := &replicas{pool: kube.Name{Namespace: "prod", Name: name}}
		return &topSource{source: named(name), replicas: replicas, done: func() { done.Add(1) }}
	}
	pools := &poolSource{now: source("chat"), next: make(chan *topSource, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	updates, ended := make(chan tui.Update), make(chan error, 1)
	go func() {
		ended <- pools.Follow(ctx, tui.NewPace(tui.DefaultInterval), func(u tui.Update) { updates <- u })
	}()
	see := func(name string, anew bool) {
		t.Helper()
		if u := <-updates; u.Snapshot.Router.Server != name || u.Anew != anew {
			t.Errorf("an update of %s, anew %v; want %s, %v", u.Snapshot.Router.Server, u.Anew, name, anew)
		}
	}
	see("chat", false)
	see("chat", false)
	pools.next <- source("code")
	see("code", true)
	see("code", false)
	if _, err := pools.Decision(ctx, "x"); err.Error() != "of code" {
		t.Errorf("a decision is asked %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if pools.close(); done.Load() != 2 {
		t.Errorf("%d of 2 were let go", done.Load())
	}
}
