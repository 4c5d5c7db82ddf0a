package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext gives a context that ends at the first SIGINT or SIGTERM, with
// a cause that matches [ErrInterrupted] and [context.Canceled]. From then on
// the signals have their default effect again, so a second ctrl-c ends a
// process that is slow to finish. Call stop when the command has ended.
//
// It also turns SIGPIPE off: a reader of our output that goes away becomes a
// write error, which [Status] counts as success, and not a killed server.
func SignalContext(parent context.Context) (ctx context.Context, stop func()) {
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case sig := <-received:
			signal.Stop(received)
			cancel(&interruptError{sig})
		case <-ctx.Done():
			signal.Stop(received)
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-ended
	}
}

// Interrupted makes err match [ErrInterrupted] if a signal ended ctx: whatever
// a command says after that was caused by the signal.
func Interrupted(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInterrupted, err)
}

// interruptError is the cause of a context that a signal ended.
type interruptError struct{ signal os.Signal }

func (e *interruptError) Error() string { return e.signal.String() + " received" }

func (e *interruptError) Is(target error) bool {
	return target == ErrInterrupted || target == context.Canceled
}
