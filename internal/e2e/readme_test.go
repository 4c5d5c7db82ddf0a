package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeBehindEnvoy runs the README's lines as they stand there, in a network
// of their own: they use the default ports.
func TestReadmeBehindEnvoy(t *testing.T) {
	envoy := need(t, "envoy", "EPPCTL_E2E_ENVOY")
	for _, tool := range []string{"bash", "curl", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is needed to run the README's lines: %v", tool, err)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "### Behind Envoy\n")
	_, block, _ := strings.Cut(section, "```bash\n")
	lines, _, found := strings.Cut(block, "```")
	if !found || strings.Count(lines, "\n") != 5 {
		t.Fatalf("there are no five lines to run:\n%s", lines)
	}
	bin := filepath.Dir(envoy)
	script := fmt.Sprintf("set -em\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\nip link set lo up\nPATH=$PATH:%q\n%s\nwait\n", bin, lines)
	cmd := exec.CommandContext(t.Context(), "unshare", "-rn", "bash", "-c", script)
	cmd.Dir = "../.."
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = cmd.Run()
	for _, want := range []string{`"object":"chat.completion"`, "request through-envoy", "the gateway", "rest of the body", "replay: identical"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the lines do not print %q", want)
		}
	}
	if t.Failed() {
		t.Logf("ended with %v\n%s\n%s", err, out.String(), stderr.String())
	}
}
