package kube

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// candidate takes part in an election until it is ended.
type candidate struct {
	*Election
	line *line
	log  *bytes.Buffer // to be read when nothing runs
	stop context.CancelFunc
	done sync.WaitGroup
}

func stand(server *fakeLease, name string) *candidate {
	c := &candidate{line: &line{server: server}, log: new(bytes.Buffer)}
	c.Election = newElection(ElectionConfig{Namespace: "ns", Lease: "l", Name: name, Logger: slog.New(slog.NewTextHandler(c.log, nil))}, c.line)
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	c.done.Go(func() { _ = c.Run(ctx, func() {}) })
	return c
}

func (c *candidate) end() {
	c.stop()
	c.done.Wait()
}

// expect says who leads, of the candidates.
func expect(t *testing.T, when string, leads *candidate, all ...*candidate) {
	t.Helper()
	synctest.Wait()
	for _, c := range all {
		if c.Leading() != (c == leads) {
			t.Errorf("%s: %s leads: %v", when, c.cfg.Name, c.Leading())
		}
	}
}

func TestElection(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, server *fakeLease, a, b *candidate)
	}{
		{"the first one leads and renews", func(t *testing.T, server *fakeLease, a, b *candidate) {
			time.Sleep(10 * time.Minute)
			expect(t, "later", a, a, b)
			if n := server.writes; n < 280 || n > 310 {
				t.Errorf("%d writes in 10 minutes, one every 2 seconds was expected", n)
			}
			if a.Leader() != "a" || b.Leader() != "a" {
				t.Errorf("leaders %q and %q", a.Leader(), b.Leader())
			}
		}},
		{"one that ends gives the lease back", func(t *testing.T, server *fakeLease, a, b *candidate) {
			a.end()
			expect(t, "at once", nil, a)
			if l, _ := server.get(); holderOf(l) != "" || *l.Spec.LeaseTransitions != 0 {
				t.Errorf("the lease: %+v", l.Spec)
			}
			time.Sleep(leaseRetry * 6 / 5)
			expect(t, "a retry later", b, a, b)
			if l, _ := server.get(); *l.Spec.LeaseTransitions != 1 || *l.Spec.LeaseDurationSeconds != 15 {
				t.Errorf("the lease: %+v", l.Spec)
			}
		}},
		{"one that is cut off ends before the other begins", func(t *testing.T, server *fakeLease, a, b *candidate) {
			a.line.set(func(l *line) { l.lost = true })
			time.Sleep(renewDeadline)
			expect(t, "at the deadline", nil, a, b)
			time.Sleep(leaseDuration - renewDeadline + leaseRetry*6/5) // b saw the last renewal so late at most
			expect(t, "when the lease is over", b, a, b)
			a.line.set(func(*line) {})
			time.Sleep(time.Minute)
			expect(t, "with a back", b, a, b)
		}},
		{"one whose answers are lost ends too", func(t *testing.T, server *fakeLease, a, b *candidate) {
			a.line.set(func(l *line) { l.deaf = true })
			time.Sleep(renewDeadline)
			expect(t, "at the deadline", nil, a, b)
			time.Sleep(2 * leaseDuration)
			expect(t, "when the lease is over", b, a, b)
		}},
		{"a lease that others touch is not taken for renewed", func(t *testing.T, server *fakeLease, a, b *candidate) {
			a.line.set(func(l *line) { l.lost = true })
			for range 20 {
				l, _ := server.get()
				l.Annotations = map[string]string{"touched": time.Now().String()}
				if _, err := server.put(l, false); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			expect(t, "after 20 seconds", b, a, b)
		}},
		{"a lease that was taken away by hand", func(t *testing.T, server *fakeLease, a, b *candidate) {
			l, _ := server.get()
			l.Spec.HolderIdentity = new("someone_else")
			if _, err := server.put(l, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(leaseRetry)
			expect(t, "a retry later", nil, a, b)
			if a.Leader() != "someone" {
				t.Errorf("leader %q", a.Leader())
			}
		}},
		{"a lease that is deleted is made anew", func(t *testing.T, server *fakeLease, a, b *candidate) {
			server.remove()
			time.Sleep(3 * leaseRetry)
			synctest.Wait()
			if a.Leading() == b.Leading() {
				t.Errorf("a leads: %v, b leads: %v", a.Leading(), b.Leading())
			}
		}},
		{"a server that refuses", func(t *testing.T, _ *fakeLease, a, b *candidate) {
			b.line.set(func(l *line) {
				l.refused = apierrors.NewForbidden(leaseGroup, "l", fmt.Errorf(`User "u" cannot get resource "leases"`))
			})
			time.Sleep(time.Minute)
			b.end()
			if log := b.log.String(); strings.Count(log, "cannot get resource") != 2 || !strings.Contains(log, "a Role must grant get, create and update on leases") {
				t.Errorf("once while it lasts, once at the end: %s", log) // the end tries to give back what it may hold
			}
		}},
		{"a lease that somebody else has written to", func(t *testing.T, server *fakeLease, a, b *candidate) {
			server.mu.Lock()
			server.version++
			server.lease.ResourceVersion = strconv.Itoa(server.version)
			s := &server.lease.Spec
			s.HolderIdentity, s.LeaseTransitions = new("\x1b[31mx\ny"+strings.Repeat("z", 1000)+"_1"), new(int32(math.MaxInt32))
			server.mu.Unlock()
			time.Sleep(5 * time.Second)
			expect(t, "at once", nil, a, b)
			if name := a.Leader(); !strings.HasPrefix(name, "?[31mx?yz") || len(name) != maxLeader {
				t.Errorf("the leader is shown as %q", name)
			}
			time.Sleep(leaseDuration)
			if a.Leading() == b.Leading() {
				t.Error("nobody leads when it is over")
			}
			if l, _ := server.get(); deref(l.Spec.LeaseTransitions) < 0 {
				t.Errorf("%d transitions", *l.Spec.LeaseTransitions)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := new(fakeLease)
				a := stand(server, "a")
				time.Sleep(time.Second)
				b := stand(server, "b")
				time.Sleep(5 * time.Second)
				expect(t, "at first", a, a, b)
				tt.run(t, server, a, b)
				a.end()
				b.end()
			})
		})
	}
}

// Two never lead at once, however requests and answers are held up or lost, and
// candidates come and go.
func TestTwoNeverLead(t *testing.T) {
	var led, changes int
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			w := newTurmoil(seed)
			w.run(t, 10*time.Minute)
			led += w.led
			changes += w.changes
		})
	}
	t.Logf("somebody led in %d of %d samples; %d changes", led, 30*10*60*int(time.Second/turmoilStep), changes)
	if led < 30*10*60*int(time.Second/turmoilStep)/4 || changes < 100 {
		t.Errorf("somebody led in %d samples, with %d changes: the test shows nothing", led, changes)
	}
}

const turmoilStep = 20 * time.Millisecond

// turmoil is candidates with bad lines that come and go.
type turmoil struct {
	server       *fakeLease
	random       *rand.Rand
	seed         uint64
	all          []*candidate
	last         *candidate
	led, changes int
}

func newTurmoil(seed uint64) *turmoil {
	w := &turmoil{server: new(fakeLease), random: rand.New(rand.NewPCG(seed, 1)), seed: seed}
	for i := range 3 {
		w.all = append(w.all, stand(w.server, fmt.Sprint("c", i)))
	}
	return w
}

func (w *turmoil) run(t *testing.T, d time.Duration) {
	var next time.Duration
	for at := time.Duration(0); at < d; at += turmoilStep {
		if at >= next {
			w.stir()
			next = at + time.Duration(w.random.Int64N(int64(12*time.Second)))
		}
		w.look(t)
		time.Sleep(turmoilStep)
	}
	for _, c := range w.all {
		c.line.set(func(*line) {})
	}
	time.Sleep(time.Minute)
	if w.look(t) == nil {
		t.Errorf("seed %d: nobody leads a minute after all is well", w.seed)
	}
	for _, c := range w.all {
		c.end()
	}
}

// stir changes one line, or replaces a candidate.
func (w *turmoil) stir() {
	i := w.random.IntN(len(w.all))
	c := w.all[i]
	slow := func() func() time.Duration { return upTo(rand.New(rand.NewPCG(w.random.Uint64(), 2)), 20*time.Second) }
	switch w.random.IntN(7) {
	case 0:
		c.line.set(func(l *line) { l.lost = true })
	case 1:
		c.line.set(func(l *line) { l.deaf = true })
	case 2:
		c.line.set(func(l *line) { l.there = slow() })
	case 3:
		c.line.set(func(l *line) { l.there, l.back = slow(), slow() })
	case 4:
		c.end()
		w.all[i] = stand(w.server, c.cfg.Name)
	default:
		c.line.set(func(*line) {})
	}
}

// look finds who leads.
func (w *turmoil) look(t *testing.T) (leads *candidate) {
	synctest.Wait()
	for _, c := range w.all {
		switch {
		case !c.Leading():
		case leads != nil:
			t.Fatalf("seed %d: %s and %s lead", w.seed, leads.cfg.Name, c.cfg.Name)
		default:
			leads = c
		}
	}
	if leads != nil {
		w.led++
		if leads != w.last {
			w.changes++
		}
		w.last = leads
	}
	return leads
}
