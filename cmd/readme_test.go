package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/proctest"
)

// block is a fenced block of commands in the README.
type block struct {
	line int
	text string
}

// shellBlocks are the blocks marked sh: the commands that a reader would type.
func shellBlocks(readme string) []block {
	var blocks []block
	var current *block
	for i, line := range strings.SplitAfter(readme, "\n") {
		switch {
		case current != nil && strings.HasPrefix(line, "```"):
			blocks = append(blocks, *current)
			current = nil
		case current != nil:
			current.text += line
		case strings.HasPrefix(line, "```sh"):
			current = &block{line: i + 1}
		}
	}
	return blocks
}

// serves reports whether a block starts a picker that runs until it is ended.
func (b block) serves() bool {
	for _, ends := range []string{"--check-config", "--print-config", "--sim-load "} {
		if strings.Contains(b.text, ends) {
			return false
		}
	}
	return regexp.MustCompile(`^go run \S+ serve`).MatchString(b.text)
}

// takesPorts reports whether a block needs the ports of the picker before it.
func (b block) takesPorts() bool { return b.serves() || strings.Contains(b.text, "--sim-load ") }

// testCommand is the README's command for the tests. It can't run itself; that
// it works is what running this test shows.
const testCommand = "go test ./...\n"

// prelude is what the generated script begins with. A picker is started in a
// process group of its own and ended as ctrl-c ends it.
const prelude = `set -euo pipefail
set -m
ip link set lo up
picker=
end_picker() {
	if [[ -n $picker ]]; then
		kill -INT -- "-$picker" 2>/dev/null || true
		wait "$picker" || true
		picker=
	fi
}
trap end_picker EXIT
trap 'exit 1' TERM
await_picker() { # LOG
	for ((i = 0; i < 1200; i++)); do
		if curl -sf http://127.0.0.1:9003/readyz; then
			sleep 0.2 # for the words that it prints
			return
		fi
		kill -0 "$picker" || break
		sleep 0.1
	done
	echo "the picker is not ready:" >&2
	cat "$1" >&2
	exit 1
}
`

// script runs the blocks one after another, unchanged. What the first picker
// prints, a request and a call of explain, is run too.
func script(blocks []block, logs string) string {
	var b strings.Builder
	b.WriteString(prelude)
	pickers := 0
	for _, block := range blocks {
		if block.text == testCommand {
			continue
		}
		fmt.Fprintf(&b, "\necho '=== README.md:%d'\n", block.line)
		if block.takesPorts() {
			b.WriteString("end_picker\n")
		}
		if !block.serves() {
			b.WriteString(block.text)
			continue
		}
		log := filepath.Join(logs, fmt.Sprintf("picker-%d", pickers))
		fmt.Fprintf(&b, "{\n%s} >%s 2>%s.err &\npicker=$!\nawait_picker %[2]s.err\n", block.text, log, log)
		if pickers == 0 {
			fmt.Fprintf(&b, `echo '=== what the picker printed'
cat %[1]s
sed -n '/^  curl/,/^$/p' %[1]s >%[1]s.curl
sed -n '/ explain latest/p' %[1]s >%[1]s.explain
[[ -s %[1]s.curl && -s %[1]s.explain ]]
. %[1]s.curl
. %[1]s.curl
. %[1]s.explain >%[1]s.explanation
cat %[1]s.explanation
grep -q 'replay: identical' %[1]s.explanation
`, log)
		}
		pickers++
	}
	b.WriteString("\necho '=== done'\n")
	return b.String()
}

// needNamespace skips the test, or fails it in CI, where a network namespace
// can't be had.
func needNamespace(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"bash", "unshare", "ip", "curl", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, fmt.Sprintf("%s is needed to run the README's commands: %v", tool, err))
		}
	}
	out, err := exec.Command("unshare", "-rn", "ip", "link", "set", "lo", "up").CombinedOutput()
	if err != nil {
		skip(t, fmt.Sprintf("no network namespace to run the README's commands in: %v: %s", err, out))
	}
}

func skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Every command of the README works as it stands there, on a machine where
// nothing else listens.
func TestReadmeCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("runs pickers for half a minute")
	}
	needNamespace(t)
	blocks := shellBlocks(document(t, "README.md"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	logs := t.TempDir()
	c := exec.CommandContext(ctx, "unshare", "-rn", "bash", "-c", script(blocks, logs))
	c.Dir = ".."
	c.Env = append(os.Environ(), "EPPCTL_FORCE_TTY=100x40", "NO_COLOR=1")
	proctest.EndWithTest(c, syscall.SIGTERM)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("not done in time: %w", err)
	}
	t.Log(out.String()) // shown on failure
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"=== done\n",
		`"identical": true`,
		"errors         0\n",
		"replays        identical, 300 of 300 decisions\n",
		"replays        identical, 100 of 100 decisions\n",
		"ledger         0 in flight\n",
		"the configuration is right\n",
		"x-eppctl-endpoint: 127.0.0.1:",
		"cost 0.05", // the weight of the custom factor
		"epp_routing_decisions_total{",
	} {
		if !strings.Contains(strings.ToLower(out.String()), strings.ToLower(want)) {
			t.Errorf("the commands did not print %q", want)
		}
	}
}

// The two commands that a newcomer types are in the README.
func TestReadmeHasTheTwoCommands(t *testing.T) {
	blocks := shellBlocks(document(t, "README.md"))
	for _, want := range []string{"go run . serve --sim 4\n", testCommand} {
		found := false
		for _, b := range blocks {
			found = found || b.text == want
		}
		if !found {
			t.Errorf("no block with %q alone", want)
		}
	}
}

// Links to files of the repository lead somewhere.
func TestDocumentLinks(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, page := range append(pages, "../README.md") {
		for _, m := range link.FindAllStringSubmatch(document(t, strings.TrimPrefix(page, "../")), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", page, m[1], err)
			}
		}
	}
}
