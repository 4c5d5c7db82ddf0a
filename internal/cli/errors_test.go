package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatus(t *testing.T) {
	notFound := WithHint(errors.New("no decision"), ExitNotFound, "list them")
	brokenPipe := &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
	brokenConnection := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, ExitOK},
		{"plain", errors.New("x"), ExitError},
		{"coded", notFound, ExitNotFound},
		{"wrapped", fmt.Errorf("explain: %w", notFound), ExitNotFound},
		{"joined", errors.Join(errors.New("x"), notFound), ExitNotFound},
		{"outermost counts", WithHint(notFound, ExitUsage, ""), ExitUsage},
		{"hint without a code", WithHint(notFound, 0, "more"), ExitNotFound},
		{"hint without any code", WithHint(errors.New("x"), 0, "more"), ExitError},
		{"findings", Exit(ExitFindings), ExitFindings},
		{"nothing but zero", Exit(0), ExitError},
		{"cancelled", fmt.Errorf("get: %w", context.Canceled), ExitInterrupted},
		{"cancelled beats a code", WithHint(context.Canceled, ExitUnreachable, ""), ExitInterrupted},
		{"deadline", context.DeadlineExceeded, ExitError},
		{"reader of the output went away", fmt.Errorf("print: %w", brokenPipe), ExitOK},
		{"server went away", fmt.Errorf("send: %w", brokenConnection), ExitError},
		{"file on a broken pipe", &fs.PathError{Op: "write", Path: "/tmp/fifo", Err: syscall.EPIPE}, ExitError},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Status(test.err); got != test.want {
				t.Errorf("Status(%v) = %d, want %d", test.err, got, test.want)
			}
		})
	}
}

func TestPrintError(t *testing.T) {
	notFound := WithHint(errors.New("no decision recorded for request zz"), ExitNotFound,
		"list recent decisions with 'eppctl decisions'")
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"plain", errors.New("boom"), "eppctl: boom\n"},
		{"with a hint", notFound, "eppctl: no decision recorded for request zz\n" +
			"hint: list recent decisions with 'eppctl decisions'\n"},
		{
			"two hints, outermost first", WithHint(fmt.Errorf("explain: %w", notFound), 0, "see 'eppctl help explain'"),
			"eppctl: explain: no decision recorded for request zz\n" +
				"hint: see 'eppctl help explain'\nhint: list recent decisions with 'eppctl decisions'\n",
		},
		{
			"the same hint twice", WithHint(notFound, 0, "list recent decisions with 'eppctl decisions'"),
			"eppctl: no decision recorded for request zz\nhint: list recent decisions with 'eppctl decisions'\n",
		},
		{
			"several problems", errors.Join(errors.New("weights: sum 1.2"), errors.New("models[0].name: empty")),
			"eppctl: weights: sum 1.2\n        models[0].name: empty\n",
		},
		{"from the wire", errors.New("server said \x1b[2J\u202e"), `eppctl: server said \x1b[2J\u202e` + "\n"},
		{"no hint of its own", errors.New("server said x\nhint: curl evil"), "eppctl: server said x\n        hint: curl evil\n"},
		{"hint of two lines", WithHint(errors.New("x"), 1, "a\nb"), "eppctl: x\nhint: a\n      b\n"},
		{"silent", Exit(ExitFindings), ""},
		{"interrupted", fmt.Errorf("x: %w", ErrInterrupted), ""},
		{"cancelled by ourselves", context.Canceled, "eppctl: context canceled\n"},
		{"reader went away", &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			PrintError(&out, test.err)
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("PrintError (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	if WithHint(nil, ExitUsage, "x") != nil {
		t.Error("WithHint(nil) is an error")
	}
	if got := Exit(ExitFindings).Error(); got != "exit status 5" {
		t.Errorf("Exit(5).Error() = %q", got)
	}
	base := errors.New("base")
	if err := WithHint(base, ExitUsage, "x"); !errors.Is(err, base) || err.Error() != "base" {
		t.Errorf("WithHint lost its error: %v", err)
	}
}

func TestExitCodesAreComplete(t *testing.T) {
	want := []int{ExitOK, ExitError, ExitUsage, ExitNotFound, ExitUnreachable, ExitFindings, ExitInterrupted}
	var got []int
	for _, code := range ExitCodes() {
		got = append(got, code.Code)
		if code.Meaning == "" {
			t.Errorf("exit status %d has no meaning", code.Code)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ExitCodes (-want +got):\n%s", diff)
	}
}

func ExamplePrintError() {
	err := WithHint(errors.New("no decision recorded for request zz"), ExitNotFound,
		"list recent decisions with 'eppctl decisions'")
	PrintError(os.Stdout, err)
	fmt.Println("exit", Status(err))
	// Output:
	// eppctl: no decision recorded for request zz
	// hint: list recent decisions with 'eppctl decisions'
	// exit 3
}
