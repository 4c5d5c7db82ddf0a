// Package zmqtest starts peers that speak with libzmq, for tests of what speaks with it.
// They are those of testdata/peer.py of package zmtp.
//
// Where libzmq is not installed a test is skipped, but for CI, where it fails. Only
// tests import it.
package zmqtest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/eppctl/eppctl/internal/proctest"
)

// Peer is a process. It lives until it is killed, or the test ends.
type Peer struct {
	In   io.WriteCloser
	Out  io.Reader
	kill func()
}

// Start starts the script with arguments.
func Start(t testing.TB, script string, args ...string) *Peer {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real programs")
	}
	python := os.Getenv("EPPCTL_E2E_ZMQ")
	if python == "" {
		const reason = "EPPCTL_E2E_ZMQ is not set: run '.ci/e2e zmq', which installs what this test needs"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	cmd := exec.CommandContext(context.Background(), python, append([]string{script}, args...)...)
	proctest.EndWithTest(cmd, syscall.SIGKILL)
	cmd.Stderr = t.Output()
	p := new(Peer)
	var err error
	if p.In, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.Out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(p.kill)
	return p
}

// Kill ends it, and waits.
func (p *Peer) Kill() { p.kill() }
