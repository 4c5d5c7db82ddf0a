package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/source"
)

// changing is a source whose decisions come and end.
type changing struct {
	mu   sync.Mutex
	list []*explain.Record // oldest first
	err  error
}

func (c *changing) Find(context.Context, string, int) (source.Found, error) {
	return source.Found{}, errors.ErrUnsupported
}

func (c *changing) Each(_ context.Context, want source.Want, visit func(*explain.Record) error) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false, c.err
	}
	q, err := want.Query(time.Time{})
	if err != nil {
		return false, err
	}
	visited := 0
	for _, rec := range slices.Backward(c.list) {
		if !q.Wants(rec) {
			continue
		}
		if visited++; visited > want.Limit {
			return true, nil
		}
		if err := visit(rec); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (c *changing) set(err error, list ...*explain.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.list = err, list
}

// parts are replicas that come and go.
type parts struct {
	changing
	now map[string]*changing
}

func (p *parts) Parts(context.Context) (list []source.Part, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, src := range p.now {
		list = append(list, source.Part{Name: name, Source: src})
	}
	slices.SortFunc(list, func(a, b source.Part) int { return strings.Compare(a.Name, b.Name) })
	return list, p.err
}

func (p *parts) put(name string, src *changing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now[name] = src; src == nil {
		delete(p.now, name)
	}
}

// watching is a watch, and what it has shown and told since it was last asked.
type watching struct {
	mu          sync.Mutex
	shown, told []string
	ended       chan error
}

func watch(ctx context.Context, src source.Source, limit int, interval time.Duration) *watching {
	w := &watching{ended: make(chan error, 1)}
	opts := source.Options{Warn: func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, text)
	}}
	go func() {
		w.ended <- source.Watch(ctx, src, source.Want{Filter: admin.Filter{Limit: limit}}, interval, opts, func(list []*explain.Record) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, rec := range list {
				w.shown = append(w.shown, rec.RequestID)
			}
			return nil
		})
	}()
	return w
}

// want compares the IDs and the warnings.
func (w *watching) want(t *testing.T, when, ids, news string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.shown, " "); got != ids {
		t.Errorf("%s: shown %q, want %q", when, got, ids)
	}
	if got := strings.Join(w.told, ", "); got != news {
		t.Errorf("%s: told %q, want %q", when, got, news)
	}
	w.shown, w.told = nil, nil
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		src := new(changing)
		running := func(n int, id string) *explain.Record {
			rec := decision(n, id)
			rec.Outcome = explain.Outcome{State: explain.OutcomePending}
			return rec
		}
		a, b, c := decision(1, "a"), decision(2, "b"), decision(3, "c")
		src.set(nil, a, running(2, "b"))
		w := watch(ctx, src, 20, 2*time.Second)
		w.want(t, "at first", "a", "")
		src.set(nil, a, running(2, "b"), c)
		time.Sleep(2 * time.Second)
		w.want(t, "a later one has ended", "c", "")
		src.set(nil, a, b, c)
		time.Sleep(2 * time.Second)
		w.want(t, "the earlier one has ended", "b", "")
		src.set(errors.New("no picker there"))
		time.Sleep(10 * time.Second)
		w.want(t, "nobody answers", "", "no picker there; trying again")
		src.set(nil, a, b, c, decision(4, "d"), running(5, "e"), decision(900, "f"))
		time.Sleep(2 * time.Second)
		w.want(t, "it answers again; what never ends is shown at last", "d e f", "")
		interrupted := errors.New("interrupted")
		cancel(interrupted)
		if err := <-w.ended; !errors.Is(err, interrupted) {
			t.Errorf("Watch ended with %v", err)
		}
	})
}

func TestWatchFailsAtFirst(t *testing.T) {
	src := &changing{err: errors.New("no picker there")}
	err := source.Watch(t.Context(), src, source.Want{}, time.Second, source.Options{}, func([]*explain.Record) error { return nil })
	if !errors.Is(err, src.err) {
		t.Errorf("%v", err)
	}
}

// What a replica decided while it was silent is shown when it answers again, though
// others have gone on; who reads is told of who is silent, comes and goes, once.
func TestWatchOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, b, c := new(changing), new(changing), new(changing)
		a.set(nil, decision(1, "a1"), decision(3, "a3"))
		b.set(nil, decision(2, "b2"))
		src := &parts{now: map[string]*changing{"epp-a": a, "epp-b": b}}
		w := watch(ctx, src, 2, time.Second)
		w.want(t, "at first, the newest two of all", "b2 a3", "")
		b.set(errors.New("epp-b: connection refused"))
		a.set(nil, decision(3, "a3"), decision(5, "a5"))
		time.Sleep(3 * time.Second)
		w.want(t, "one is silent", "a5", "epp-b: connection refused; trying again")
		b.set(nil, decision(2, "b2"), decision(4, "b4"), decision(6, "b6"))
		time.Sleep(time.Second)
		w.want(t, "it answers again", "b4 b6", "epp-b answers again; what it decided meanwhile follows")
		c.set(nil, decision(2, "c2"), decision(7, "c7"))
		src.put("epp-c", c)
		src.put("epp-a", nil)
		time.Sleep(2 * time.Second)
		w.want(t, "one goes, another comes", "c7", "epp-c is there now, and is followed too, epp-a is gone; what it decided last may be missing")
		src.put("epp-a", a)
		a.set(nil, decision(5, "a5"), decision(8, "a8"))
		time.Sleep(2 * time.Second)
		w.want(t, "the first is back", "a8", "epp-a is there now, and is followed too")
		b.set(errors.New("epp-b: lost"))
		c.set(errors.New("epp-c: lost"))
		a.set(errors.New("epp-a: lost"))
		time.Sleep(3 * time.Second)
		w.want(t, "all are silent", "", "epp-a: lost; trying again, epp-b: lost; trying again, epp-c: lost; trying again")
		cancel()
		if err := <-w.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

// When none of several has it, each says how far back it knows decisions; one that does
// not answer may have it.
func TestNowhere(t *testing.T) {
	p, servers, _ := fleet(t)
	_, err := p.Find(t.Context(), "elsewhere", 1)
	e, ok := errors.AsType[*source.NowhereError](err)
	if !ok || e.Deaf != 0 || len(e.Reaches) != 2 || !strings.HasSuffix(e.Error(), "by any of 2 pickers") {
		t.Fatalf("%v", err)
	}
	for i, reach := range e.Reaches {
		if !strings.HasPrefix(reach, servers[i].URL+": ") {
			t.Errorf("reach %q", reach)
		}
	}
	servers[1].Close()
	_, err = p.Find(t.Context(), "elsewhere", 1)
	if e, ok = errors.AsType[*source.NowhereError](err); !ok || e.Deaf != 1 || !strings.HasSuffix(e.Error(), ", as far as 1 of 2 pickers answer") {
		t.Errorf("with one that is silent: %v", err)
	}
	if _, absent := errors.AsType[*admin.NotFoundError](fmt.Errorf("explain: %w", err)); !absent {
		t.Errorf("%v is no longer that of a picker", err)
	}
}
