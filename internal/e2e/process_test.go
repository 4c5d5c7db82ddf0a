package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/eppctl/eppctl/internal/proctest"
)

// A process is a program that a test started, and what it said.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone and all its output is read

	mu   sync.Mutex
	tail []string // the last lines of its output
}

// tailLines is how much of a program's output is shown when its test fails.
const tailLines = 60

// launch starts a program that is ended with the test. Each line of its standard
// output is shown to line as it comes.
func launch(t *testing.T, name string, line func(string), path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	// Whatever becomes of the test, the program does not outlive it.
	proctest.EndWithTest(p.cmd, syscall.SIGKILL)
	p.cmd.Env = append(os.Environ(), "NO_COLOR=1")
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.exited)
		var readers sync.WaitGroup
		readers.Go(func() { p.read(stdout, line) })
		readers.Go(func() { p.read(stderr, nil) })
		readers.Wait()
		_ = p.cmd.Wait() // killed programs have no good status
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("--- the last lines of %s\n%s", name, p.output())
		}
	})
	return p
}

func (p *process) read(r io.Reader, line func(string)) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		p.mu.Lock()
		p.tail = append(p.tail, text)
		if len(p.tail) > 2*tailLines {
			p.tail = slices.Clone(p.tail[tailLines:])
		}
		p.mu.Unlock()
		if line != nil {
			line(text)
		}
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// end sends a signal and waits; what does not go by then is killed.
func (p *process) end(s syscall.Signal) {
	p.t.Helper()
	if p.gone() {
		return
	}
	p.signal(s)
	if !within(patience, p.exited) {
		p.t.Errorf("%s did not end", p.name)
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

// alive fails the test when a program ended that should run.
func (p *process) alive() error {
	if p.gone() {
		return fmt.Errorf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, p.output())
	}
	return nil
}
