package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// terminal is a shell in a real terminal, which tmux plays.
type terminal struct {
	t      *testing.T
	socket string
}

// openTerminal starts bash in a terminal of 80x24, without anybody's configuration.
func openTerminal(t *testing.T) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		skip(t, "tmux is needed for a real terminal: "+err.Error())
	}
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env PS1='shell$ ' TERM=screen-256color bash --norc --noprofile -i")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.tmux("set-option", "-g", "escape-time", "0")
	term.sees("shell$")
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := exec.CommandContext(term.t.Context(), "tmux", append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// types sends keys, by tmux's names.
func (term *terminal) types(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

func (term *terminal) screen() string { return term.tmux("capture-pane", "-p") }

// sees waits until a text is on the screen.
func (term *terminal) sees(text string) {
	term.t.Helper()
	const patience = time.Minute
	screen := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if screen = term.screen(); strings.Contains(screen, text) {
			return
		}
	}
	term.t.Fatalf("%q did not come up in %v:\n%s", text, patience, screen)
}

// hangUp sends SIGHUP to the process whose number is in a file.
func (term *terminal) hangUp(pidFile string) {
	term.t.Helper()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		term.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		term.t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		term.t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGHUP); err != nil {
		term.t.Fatalf("hang up: %v", err)
	}
}

// The dashboard in a real terminal: filter, an explanation, other weights, suspended
// and resumed, and the screen as it was afterwards, also after a hangup.
func TestTopInATerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	binary := filepath.Join(t.TempDir(), "eppctl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	term := openTerminal(t)
	term.types("echo was here before; "+binary+" top --demo", "Enter")
	term.sees("● live 1s")
	term.sees("sim-7")
	term.sees("cacheMatch") // decisions come in

	term.types("/", "s", "i", "m", "-", "3")
	term.sees("1 of 8")
	term.types("Escape")
	term.sees("/ filter")

	term.types("Tab", "e")
	term.sees("could win, best first")
	term.types("Escape")
	term.sees("PICKED")

	term.types("w")
	term.sees("recorded picks")
	term.types("Right")
	term.sees("0.65")
	term.types("Escape")
	term.sees("PICKED")

	term.types("C-z")
	term.sees("Stopped")
	term.types("fg", "Enter")
	term.sees("PICKED")

	term.types("q")
	term.sees("shell$\n")
	term.types("echo status $?", "Enter")
	term.sees("status 0")
	term.types("bash -c 'echo $$ > "+binary+".pid; exec "+binary+" top --replay ../testdata/decisions/fleet.jsonl'", "Enter")
	term.sees("POD")
	term.hangUp(binary + ".pid")
	term.sees("shell$\n")
	if on := strings.TrimSpace(term.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}")); on != "0 1 0" {
		t.Errorf("alternate screen, cursor and mouse are %q, want \"0 1 0\"", on)
	}
	if screen := term.screen(); !strings.Contains(screen, "was here before") || strings.Contains(screen, "HEALTH") {
		t.Errorf("the screen is not as it was:\n%s", screen)
	}
	term.types("stty -a | grep -c ' echo '", "Enter")
	term.sees("\n1\n")
}
