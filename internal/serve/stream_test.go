package serve

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/sim"
)

// A decision comes by the stream when it is taken and when it has ended, each time
// just as it is on record.
func TestStreamedRowsAreThoseOfTheRecords(t *testing.T) {
	r := start(t, serveOptions(2))
	ctx, cancel := context.WithCancelCause(r.ctx)
	enough := errors.New("enough")
	var mu sync.Mutex
	rows := map[string][]explain.Row{}
	var following sync.WaitGroup
	following.Go(func() {
		err := r.admin.Stream(ctx, admin.DefaultInterval, func(l *admin.StreamLine) error {
			mu.Lock()
			defer mu.Unlock()
			if l.Decision != nil {
				rows[l.Decision.RequestID] = append(rows[l.Decision.RequestID], *l.Decision)
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Errorf("the stream ended with %v", err)
		}
	})
	defer following.Wait()
	defer cancel(enough)
	r.until("the stream is followed", func() bool { return r.snapshot().Router.Streams == 1 })

	body := r.completion(words("s", 256), 4)
	for _, id := range []string{"cold", "warm"} {
		r.ask(id, completionsPath, body)
		r.reported()
	}
	r.must(r.fleet.Fail(sim.AllPods, sim.FailStatus))
	r.send(r.ctx, "failed", completionsPath, body)
	r.must(r.fleet.Recover(sim.AllPods))
	r.must(r.fleet.SetHealth(sim.AllPods, 0))
	r.until("nobody is well", func() bool { return r.snapshot().Verdict.Code == explain.VerdictNoEndpoints })
	r.send(r.ctx, "refused", completionsPath, body)

	for id, want := range map[string]int{"cold": 2, "warm": 2, "failed": 2, "refused": 1} {
		record := explain.Summarize(r.completed(id))
		var got []explain.Row
		r.until(id+" came as often as it should", func() bool {
			mu.Lock()
			defer mu.Unlock()
			got = rows[id]
			return len(got) == want
		})
		if diff := cmp.Diff(record, got[want-1]); diff != "" {
			t.Errorf("%s ended (−record +stream):\n%s", id, diff)
		}
		if want == 1 {
			continue
		}
		pending := record
		pending.State, pending.Status, pending.TTFTSeconds, pending.CachedTokens = explain.OutcomePending, nil, nil, nil
		pending.Flags = got[0].Flags // some follow from the outcome
		if diff := cmp.Diff(pending, got[0]); diff != "" {
			t.Errorf("%s was picked (−record +stream):\n%s", id, diff)
		}
	}
}

// Streams do not hold up the end of the picker.
func TestStreamEndsWithThePicker(t *testing.T) {
	r := start(t, serveOptions(1))
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		ended <- r.admin.Stream(r.ctx, admin.DefaultInterval, func(l *admin.StreamLine) error {
			if l.Hello != nil {
				close(begun)
			}
			return nil
		})
	}()
	<-begun
	r.stop()
	<-r.ended
	if _, ok := errors.AsType[*admin.UnreachableError](<-ended); !ok {
		t.Error("the stream did not end as with a picker that has gone")
	}
}
