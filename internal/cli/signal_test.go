//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// brokenPipeChild makes the test binary a command that prints until its reader
// is gone.
const brokenPipeChild = "EPPCTL_TEST_BROKEN_PIPE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(brokenPipeChild) != "" {
		os.Exit(printForEver())
	}
	goleak.VerifyTestMain(m)
}

func printForEver() int {
	_, stop := SignalContext(context.Background())
	defer stop()
	for {
		if err := (Printer{Streams: System()}).Name("line"); err != nil {
			PrintError(os.Stderr, err)
			return Status(err)
		}
	}
}

func TestReaderThatGoesAwayIsNoError(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), brokenPipeChild+"=1")
	var complaints strings.Builder
	child.Stdout, child.Stderr = w, &complaints
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := child.Wait(); err != nil || complaints.Len() > 0 {
		t.Errorf("writing to a closed pipe: %v, printed %q, want exit 0 and silence", err, complaints.String())
	}
}

func TestSignalContext(t *testing.T) {
	ctx, stop := SignalContext(t.Context())
	defer stop()
	// A second registration keeps the test alive should the first be missing.
	guard := make(chan os.Signal, 1)
	signal.Notify(guard, syscall.SIGTERM)
	defer signal.Stop(guard)

	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	cause := context.Cause(ctx)
	if !errors.Is(cause, ErrInterrupted) || !errors.Is(cause, context.Canceled) {
		t.Errorf("cause %v matches ErrInterrupted %t, context.Canceled %t, want both",
			cause, errors.Is(cause, ErrInterrupted), errors.Is(cause, context.Canceled))
	}
	if got := cause.Error(); got != "terminated received" {
		t.Errorf("cause %q", got)
	}
	if Status(cause) != ExitInterrupted {
		t.Errorf("Status(%v) = %d, want 130", cause, Status(cause))
	}
}

func TestSignalContextStops(t *testing.T) {
	ctx, stop := SignalContext(t.Context())
	stop()
	stop() // once more does no harm
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) || errors.Is(cause, ErrInterrupted) {
		t.Errorf("after stop the cause is %v, want a plain cancellation", cause)
	}
}

func TestInterrupted(t *testing.T) {
	failure := WithHint(errors.New("connection reset"), ExitUnreachable, "try again")
	signalled, cancel := context.WithCancelCause(t.Context())
	cancel(&interruptError{os.Interrupt})
	timedOut, cancelTimeout := context.WithTimeout(t.Context(), 0)
	defer cancelTimeout()
	cancelled, cancelIt := context.WithCancel(t.Context())
	cancelIt()
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"no signal", t.Context(), failure, ExitUnreachable},
		{"deadline", timedOut, failure, ExitUnreachable},
		{"signal", signalled, failure, ExitInterrupted},
		{"cancelled by ourselves", cancelled, failure, ExitUnreachable},
		{"signal, but all went well", signalled, nil, ExitOK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := Interrupted(test.ctx, test.err)
			if got := Status(err); got != test.want {
				t.Errorf("Status(%v) = %d, want %d", err, got, test.want)
			}
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("%v no longer holds %v", err, test.err)
			}
		})
	}
}
