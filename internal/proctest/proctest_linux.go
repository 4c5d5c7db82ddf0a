package proctest

import (
	"os/exec"
	"syscall"
)

// EndWithTest has the process, which is not started yet, sent a signal when the test
// is gone.
func EndWithTest(cmd *exec.Cmd, with syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: with}
}
