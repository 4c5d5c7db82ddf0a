package serve

import (
	"errors"
	"fmt"
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
}

func build() {
	if binary.dir, binary.err = os.MkdirTemp("", "eppctl-serve-test-"); binary.err != nil {
		return
	}
	out, err := exec.Command("go", "build", "-o", filepath.Join(binary.dir, "eppctl"), "github.com/eppctl/eppctl").CombinedOutput()
	if err != nil {
		binary.err = fmt.Errorf("%w\n%s", err, out)
	}
}

// eppctl runs the program as a process of its own, and returns its standard
// output and its exit status.
func eppctl(t *testing.T, args ...string) (stdout string, status int) {
	t.Helper()
	binary.once.Do(build)
	if binary.err != nil {
		t.Fatalf("build eppctl: %v", binary.err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(binary.dir, "eppctl"), args...).Output()
	if err == nil {
		return string(out), 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() < 0 {
		t.Fatalf("eppctl %q: %v", args, err)
	}
	t.Logf("eppctl %q: %s", args, exit.Stderr)
	return string(out), exit.ExitCode()
}
