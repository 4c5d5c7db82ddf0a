package cmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// noKubeconfig hides the clusters of who runs the tests.
func noKubeconfig(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
}

func TestServePoolRefuses(t *testing.T) {
	noKubeconfig(t)
	f := kubetest.New(t)
	file := filepath.Join(t.TempDir(), "eppctl.yaml")
	if err := os.WriteFile(file, []byte("maxQueue: 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
	f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("wrong", "maxQueue: 9\nmaxQeue: 10"))
	f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("right", "maxQueue: 9"))
	in := []string{"--pool", "serving/chat", "--kube-server", f.URL, "--check-config"}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"a simulated fleet beside it", append(in, "--sim", "2"), cli.ExitUsage, "--pool and --sim exclude each other"},
		{"an endpoint beside it", append(in, "--endpoint", "a=http://10.0.0.1:8000"), cli.ExitUsage, "--pool and --endpoint exclude each other: the pods of a pool are found by its selector"},
		{"endpoints beside it", append(in, "--endpoints", file), cli.ExitUsage, "--pool and --endpoints exclude each other"},
		{"two configurations", append(in, "--pool-config", "right", "--config", file), cli.ExitUsage, "--pool-config and --config exclude each other"},
		{"a name that is none", append(in, "--pool", "a/b/c"), cli.ExitUsage, `--pool: "a/b/c" must have the form NAMESPACE/NAME, or NAME`},
		{"a name that can't be", append(in, "--pool", "serving/Chat"), cli.ExitUsage, `--pool: nothing in a cluster can be called "Chat"`},
		{"a namespace that can't be", append(in, "--pool", "../chat"), cli.ExitUsage, `--pool: nothing in a cluster can be called ".."`},
		{"a ConfigMap elsewhere", append(in, "--pool-config", "other/right"), cli.ExitUsage, `--pool-config: nothing in a cluster can be called "other/right"`},
		{"a pool twice", append(in, "--pool", "serving/chat"), cli.ExitUsage, "--pool: serving/chat is given twice"},
		{"a flag without its other", append(in, "--sim-load", "3"), cli.ExitUsage, "--sim-load needs --sim N"},
		{"a configuration without a pool", []string{"--sim", "2", "--pool-config", "right"}, cli.ExitUsage, "--pool-config needs --pool NAMESPACE/NAME"},
		{"a cluster without a pool", []string{"--sim", "2", "--context", "kind"}, cli.ExitUsage, "--context needs --pool NAMESPACE/NAME"},
		{"no cluster", []string{"--pool", "serving/chat", "--check-config"}, cli.ExitUsage, "no cluster is known"},
		{"a kubeconfig that is not there", []string{"--pool", "serving/chat", "--kubeconfig", file + ".none"}, cli.ExitUsage, "no such file"},
		{"a ConfigMap that is not there", append(in, "--pool-config", "none"), cli.ExitNotFound, "there is no ConfigMap serving/none with a key eppctl.yaml"},
		{"a wrong ConfigMap", append(in, "--pool-config", "wrong"), cli.ExitUsage, "ConfigMap serving/wrong: line 2: "},
		{"a right one", append(in, "--pool-config", "right"), cli.ExitOK, ""},
		{"none", in, cli.ExitOK, ""},
		{"a file", append(in, "--config", file), cli.ExitOK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, errOut := cli.Test()
			status := run(context.Background(), s, append([]string{"serve"}, c.args...))
			if status != c.status || !strings.Contains(errOut.String(), c.says) {
				t.Errorf("status %d, want %d with %q:\n%s", status, c.status, c.says, errOut)
			}
		})
	}
	t.Run("rights", func(t *testing.T) {
		f.Refuse(kubetest.ConfigMaps+"/right", 403)
		defer f.Refuse(kubetest.ConfigMaps+"/right", 0)
		s, _, errOut := cli.Test()
		status := run(context.Background(), s, append([]string{"serve"}, append(in, "--pool-config", "right")...))
		if status != cli.ExitUnreachable || !strings.Contains(errOut.String(), `may not get configmaps in namespace "serving"`) {
			t.Errorf("status %d:\n%s", status, errOut)
		}
	})
}

// Where a picker of a cluster listens, and that flags go before the ConfigMap.
func TestServePoolConfiguration(t *testing.T) {
	noKubeconfig(t)
	f := kubetest.New(t)
	p := kubetest.Pool("chat", "vllm", 8000)
	kubetest.Meta(p)["annotations"] = map[string]string{"eppctl.dev/config": "conf"}
	f.Put(kubetest.Pools, p)
	f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("conf", "maxQueue: 9\naddresses: {health: ':9103'}"))
	s, out, errOut := cli.Test()
	if status := run(context.Background(), s, []string{"serve", "--pool", "chat", "-n", "serving", "--kube-server", f.URL, "--metrics-addr", ":9190", "--print-config"}); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{"maxQueue: 9\n", `gateway: ""`, "extproc: :9002", "health: :9103", "metrics: :9190", "admin: 127.0.0.1:9091", "report: :9092"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the configuration lacks %q:\n%s", want, out)
		}
	}
}

// An API server that is away is waited for, until the picker is told to end, which is
// no failure.
func TestServePoolWaitsForTheAPIServer(t *testing.T) {
	noKubeconfig(t)
	f := kubetest.New(t)
	f.Refuse("*", 503)
	ctx, cancel := context.WithCancel(context.Background())
	s, _, _ := cli.Test()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, s, []string{"serve", "--pool", "serving/chat", "--kube-server", f.URL, "--health-addr", "127.0.0.1:0"})
	}()
	for deadline := time.Now().Add(time.Minute); f.Requests(kubetest.Pools+"/chat") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not ask again")
		}
	}
	cancel()
	if status := <-done; status != cli.ExitOK {
		t.Errorf("status %d, want 0 as of a picker that runs", status)
	}
}
