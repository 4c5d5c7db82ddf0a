package e2e

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// proxiesVariable names the directory with the programs nginx and haproxy.
const proxiesVariable = "EPPCTL_E2E_PROXIES"

// startFleet runs simulated pods with empty caches, and the picker in front of them.
func startFleet(t *testing.T) *picker {
	t.Helper()
	p := startPicker(t, &fleet{}, "{}\n", "127.0.0.1:0", "--report-addr", "127.0.0.1:0",
		"--sim", strconv.Itoa(proxyPods), "--sim-speed", strconv.Itoa(proxySpeed))
	until(t, "the simulated pods are ready", func() bool {
		list, err := p.admin.Pods(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ready := 0
		for _, pod := range list.Items {
			if pod.State == "ready" && len(pod.Streams) == 1 && pod.Streams[0].Connected {
				ready++
			}
		}
		return ready == proxyPods
	})
	return p
}

// A server is a pod as configurations name it.
type server struct{ Name, Address, Host, Port string }

// configured fills a configuration in.
func configured(t *testing.T, file, method, listen string, p *picker) []byte {
	t.Helper()
	list, err := p.admin.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pods []server
	for _, pod := range list.Items {
		host, port, err := net.SplitHostPort(pod.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, server{pod.Pod, pod.Endpoint, host, port})
	}
	form, err := template.ParseFiles(filepath.Join("../../testdata/proxies", file))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := form.Execute(&b, map[string]any{"Method": method, "Listen": listen, "Pods": pods}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// startProxy runs a program until the test ends, and until it listens before that.
// args get the file with its configuration.
func startProxy(t *testing.T, name, file, method string, p *picker, args func(file string) []string) (base string) {
	t.Helper()
	listen := freeAddress(t)
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, configured(t, file, method, listen, p), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := launch(t, name, nil, filepath.Join(os.Getenv(proxiesVariable), name), args(path)...)
	until(t, name+" listens", func() bool {
		if err := proxy.alive(); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", listen)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	return "http://" + listen
}

// One process without workers, which does not outlive the test.
func startNginx(t *testing.T, method string, p *picker) string {
	t.Helper()
	return startProxy(t, "nginx", "nginx.conf", method, p, func(file string) []string {
		return []string{"-c", file, "-e", "stderr", "-g", "daemon off; master_process off; pid " + file + ".pid;"}
	})
}

func startHAProxy(t *testing.T, method string, p *picker) string {
	t.Helper()
	return startProxy(t, "haproxy", "haproxy.cfg", method, p, func(file string) []string { return []string{"-db", "-f", file} })
}

func startEnvoyProxy(t *testing.T, method string, p *picker) string {
	t.Helper()
	config := envoyConfig{}
	if err := yaml.Unmarshal(configured(t, "envoy.yaml", method, "", p), &config); err != nil {
		t.Fatal(err)
	}
	return "http://" + startEnvoy(t, os.Getenv("EPPCTL_E2E_ENVOY"), config).front
}

// oneLine is a method as the table shows it.
func oneLine(method string) string {
	return strings.Join(strings.Fields(strings.TrimSuffix(method, ";")), " ")
}
