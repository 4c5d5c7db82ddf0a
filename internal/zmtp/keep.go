package zmtp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// The pauses between two attempts to connect double from the first to the last,
// and are each between half and all of that: 50 ms to 5 s.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// steady is how long a connection must have lasted for the next pause to be
	// the first again. A peer that accepts and closes at once is not there.
	steady = time.Second
)

// keep connects to a peer again and again until ctx ends. Each connection is
// handed to work, which closes it; failed is told of those that were not made.
func keep(ctx context.Context, address string, o Options, work func(context.Context, net.Conn), failed func(error)) error {
	hostPort, err := dialAddress(address)
	if err != nil {
		return err
	}
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		nc, err := o.dial(ctx, hostPort)
		switch {
		case err == nil:
			began := now()
			if work(ctx, nc); since(began) >= steady {
				pause = firstPause
			}
		case ctx.Err() == nil:
			failed(err)
		}
		half := pause / 2
		_ = clock.Wall{}.Sleep(ctx, half+rand.N(half)) // the loop looks at its context
	}
	return nil
}

// ErrTooMany is told of connections that a listening socket does not take.
var ErrTooMany = fmt.Errorf("%w: too many connections", ErrLimit)

// accept takes connections until ctx ends, each in a goroutine of its own, and
// waits for them. It closes the listener.
func accept(ctx context.Context, l net.Listener, peers int, work func(context.Context, net.Conn), refused func(net.Conn, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel() // before the waiting, whatever ends the loop
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	free := make(chan struct{}, peers)
	for pause := firstPause; ; {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of file descriptors: some may come free
			_ = clock.Wall{}.Sleep(ctx, pause) // the next Accept fails if ctx ended
			pause = min(2*pause, lastPause)
			continue
		}
		pause = firstPause
		select {
		case free <- struct{}{}:
			conns.Go(func() {
				defer func() { <-free }()
				work(ctx, nc)
			})
		default:
			nc.Close()
			refused(nc, ErrTooMany)
		}
	}
}
