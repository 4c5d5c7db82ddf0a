package render

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

var binary string // the program under test

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	defer cluster.Stop()
	if binary = os.Getenv("EPPCTL_BINARY"); binary == "" {
		dir, err := os.MkdirTemp("", "eppctl-render-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "eppctl")
		build := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", binary, ".")
		build.Dir = filepath.Join("..", "..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build eppctl: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// An install is a set of the command's flags, without the namespace's.
type install struct {
	name string
	args []string
}

// installs have, together, every object that there can be.
var installs = []install{
	{"small", []string{"chat", "-l", "app=vllm"}},
	{"replicas", []string{
		"chat", "-l", "app=vllm,example.com/tier=", "--replicas", "3", "--report-token-secret", "reports", "--tls-secret", "tls",
		"--target-port", "8000,8001", "--preset", "rag", "--monitor", "service", "--prometheus-namespace", "observability",
		"--cpu", "0.5", "--memory", "3Gi", "--image", "registry.example:5000/eppctl@sha256:" + strings.Repeat("0a", 32),
	}},
	{"standby", []string{
		"chat", "-l", "app=vllm", "--replicas", "2", "--leader-elect", "--admin-auth", "--plaintext",
		"--report-token-secret", "reports", "--restrict-egress", "--monitor", "pod", "--gateway", "gateways/public",
	}},
	{"names", []string{"no", "--name", "null", "-l", "app=1,on=off", "--gateway", "true", "--report-token-secret", "0"}},
	{"agentgateway", []string{"chat", "-l", "app=vllm", "--gateway-class", "agentgateway"}},
	{"envoy-gateway", []string{"chat", "-l", "app=vllm", "--gateway-class", "envoy-gateway", "--gateway", "public"}},
	{"gke", []string{"chat", "-l", "app=vllm", "--gateway-class", "gke"}},
	{"istio", []string{"chat", "-l", "app=vllm", "--gateway-class", "istio"}},
	{"kgateway", []string{"chat", "-l", "app=vllm", "--gateway-class", "kgateway"}},
}

// manifests runs the command and returns its standard output.
func manifests(t *testing.T, namespace string, i install, more ...string) string {
	t.Helper()
	args := append([]string{"manifests", "-n", namespace}, i.args...)
	command := exec.CommandContext(t.Context(), binary, append(args, more...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
	return string(out)
}

// files runs the command with --dir, and returns the directory.
func files(t *testing.T, namespace string, i install, format string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), format)
	manifests(t, namespace, i, "--format", format, "--dir", dir)
	return dir
}

// read reads the YAML files of a directory, by their names.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(b)
	}
	return texts
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
