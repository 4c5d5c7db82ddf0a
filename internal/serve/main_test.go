package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if binary.dir != "" {
			os.RemoveAll(binary.dir)
		}
		os.Exit(code)
	}))
}

// binary is the program, built once and only when a test starts new processes.
var binary struct {
	once sync.Once
	dir  string
	err  error
	out  []byte
}

// eppctl runs the program as a process of its own, and returns its standard
// output and its exit status.
func eppctl(t *testing.T, args ...string) (stdout string, status int) {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "eppctl-serve-test-"); binary.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(binary.dir, "eppctl"), "github.com/eppctl/eppctl")
		binary.out, binary.err = build.CombinedOutput()
	})
	if binary.err != nil {
		t.Fatalf("build eppctl: %v\n%s", binary.err, binary.out)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(binary.dir, "eppctl"), args...)
	out, err := command.Output()
	status = command.ProcessState.ExitCode()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() < 0) {
		t.Fatalf("eppctl %q: %v", args, err)
	} else if ok {
		t.Logf("eppctl %q: %s", args, exit.Stderr)
	}
	return string(out), status
}
