package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fakeLease is an API server with one lease.
type fakeLease struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	writes  int
}

var leaseGroup = schema.GroupResource{Group: coordinationv1.GroupName, Resource: leaseResource}

func (f *fakeLease) get() (*coordinationv1.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lease == nil {
		return nil, apierrors.NewNotFound(leaseGroup, "l")
	}
	return f.lease.DeepCopy(), nil
}

func (f *fakeLease) put(l *coordinationv1.Lease, create bool) (*coordinationv1.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case create && f.lease != nil:
		return nil, apierrors.NewAlreadyExists(leaseGroup, "l")
	case !create && f.lease == nil:
		return nil, apierrors.NewNotFound(leaseGroup, "l")
	case !create && l.ResourceVersion != f.lease.ResourceVersion:
		return nil, apierrors.NewConflict(leaseGroup, "l", errors.New("the object has been modified"))
	}
	f.version++
	f.writes++
	f.lease = l.DeepCopy()
	f.lease.ResourceVersion = strconv.Itoa(f.version)
	return f.lease.DeepCopy(), nil
}

func (f *fakeLease) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease = nil
}

// line is a candidate's connection to the server. What it is asked reaches the server
// even if the one who asked has given up meanwhile.
type line struct {
	server *fakeLease

	mu          sync.Mutex
	there, back func() time.Duration // how long a message takes; nil: it arrives at once
	lost, deaf  bool                 // requests, answers do not arrive
	refused     error
}

func (l *line) set(change func(l *line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.there, l.back, l.lost, l.deaf, l.refused = nil, nil, false, false, nil
	change(l)
}

func (l *line) ask(ctx context.Context, request func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	there, back, lost, deaf, refused := l.there, l.back, l.lost, l.deaf, l.refused
	l.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	type answer struct {
		lease *coordinationv1.Lease
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		if there != nil {
			time.Sleep(there())
		}
		if lost {
			return
		}
		lease, err := request()
		if back != nil {
			time.Sleep(back())
		}
		if !deaf {
			got <- answer{lease, err}
		}
	}()
	select {
	case a := <-got:
		return a.lease, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *line) get(ctx context.Context) (*coordinationv1.Lease, error) {
	return l.ask(ctx, l.server.get)
}

func (l *line) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.ask(ctx, func() (*coordinationv1.Lease, error) { return l.server.put(lease, true) })
}

func (l *line) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.ask(ctx, func() (*coordinationv1.Lease, error) { return l.server.put(lease, false) })
}

// upTo is a delay of at most d.
func upTo(r *rand.Rand, d time.Duration) func() time.Duration {
	var mu sync.Mutex
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(d)))
	}
}
