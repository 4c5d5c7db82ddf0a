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
		var mu sync.Mutex
		var shown, told []string
		ended := make(chan error, 1)
		go func() {
			ended <- source.Watch(ctx, src, source.Want{Filter: admin.Filter{Limit: 2}}, time.Second, source.Options{Warn: func(text string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, text)
			}}, func(list []*explain.Record) error {
				mu.Lock()
				defer mu.Unlock()
				for _, rec := range list {
					shown = append(shown, rec.RequestID)
				}
				return nil
			})
		}()
		want := func(when, ids, news string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(shown, " "); got != ids {
				t.Errorf("%s: shown %q, want %q", when, got, ids)
			}
			if got := strings.Join(told, ", "); got != news {
				t.Errorf("%s: told %q, want %q", when, got, news)
			}
			shown, told = nil, nil
		}
		want("at first, the newest two of all", "b2 a3", "")
		b.set(errors.New("epp-b: connection refused"))
		a.set(nil, decision(3, "a3"), decision(5, "a5"))
		time.Sleep(3 * time.Second)
		want("one is silent", "a5", "epp-b: connection refused; trying again")
		b.set(nil, decision(2, "b2"), decision(4, "b4"), decision(6, "b6"))
		time.Sleep(time.Second)
		want("it answers again", "b4 b6", "epp-b answers again; what it decided meanwhile follows")
		c.set(nil, decision(2, "c2"), decision(7, "c7"))
		src.put("epp-c", c)
		src.put("epp-a", nil)
		time.Sleep(2 * time.Second)
		want("one goes, another comes", "c7", "epp-c is there now, and is followed too, epp-a is gone; what it decided last may be missing")
		src.put("epp-a", a)
		a.set(nil, decision(5, "a5"), decision(8, "a8"))
		time.Sleep(2 * time.Second)
		want("the first is back", "a8", "epp-a is there now, and is followed too")
		b.set(errors.New("epp-b: lost"))
		c.set(errors.New("epp-c: lost"))
		a.set(errors.New("epp-a: lost"))
		time.Sleep(3 * time.Second)
		want("all are silent", "", "epp-a: lost; trying again, epp-b: lost; trying again, epp-c: lost; trying again")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
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
