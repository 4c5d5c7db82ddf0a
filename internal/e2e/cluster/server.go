package cluster

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eppctl/eppctl/internal/proctest"
)

// A server is a process whose output goes to a file.
type server struct {
	path   string
	args   []string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts the process, again after it ended.
func (s *server) start() error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                       // the process has its own
	s.cmd = exec.Command(s.path, s.args...) //nolint:noctx // its end has an order, see stop
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// Whatever becomes of the tests, the server does not outlive them.
	proctest.EndWithTest(s.cmd, syscall.SIGKILL)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(s.path), err)
	}
	cmd, exited := s.cmd, make(chan struct{})
	s.exited = exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // killed servers have no good status
	}()
	return nil
}

// stop ends the process and waits for it; what does not go is killed.
func (s *server) stop(with syscall.Signal) {
	if s == nil || s.exited == nil {
		return
	}
	_ = s.cmd.Process.Signal(with) // may be gone
	select {
	case <-s.exited:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// tailBytes is how much of a log is shown.
const tailBytes = 6 << 10

// tail is the end of the log.
func (s *server) tail() string {
	log, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	if cut := len(log) - tailBytes; cut > 0 {
		log = log[cut:]
		_, log, _ = bytes.Cut(log, []byte("\n"))
	}
	return string(log)
}

// ports are free ones of loopback, as many as asked for. Somebody else can take one
// before it is used.
func ports(n int) ([]int, error) {
	free := make([]int, n)
	for i := range free {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed below
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		free[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return free, nil
}
