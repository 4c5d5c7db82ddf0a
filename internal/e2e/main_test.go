package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// patience is how long a test waits for something that must happen; it fails
// after that. Nothing is waited for that long on a machine that is not stuck.
const patience = 2 * time.Minute

var scratch string // a directory of this run

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "eppctl-e2e-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	status := m.Run()
	cluster.Stop()
	if status != 0 {
		return status
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// need is the path of a real program. Without it the test is skipped, in CI it
// fails, unless it is left to the run of its part; all say what to do.
func need(t *testing.T, part, variable string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real programs")
	}
	path := os.Getenv(variable)
	switch path {
	case cluster.Later:
		t.Skipf("'.ci/e2e %s' runs this test", part)
	case "":
		reason := fmt.Sprintf("%s is not set: run '.ci/e2e %s', which installs what this test needs", variable, part)
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return path
}

// eppctl is the program under test, built once.
var eppctl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "eppctl")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/eppctl/eppctl")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build eppctl: %w\n%s", err, out)
	}
	return path, nil
})

func program(t *testing.T) string {
	t.Helper()
	path, err := eppctl()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// until waits for what the programs must reach by themselves.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// within reports whether a channel is closed in time.
func within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
