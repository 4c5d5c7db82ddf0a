package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// An envoy is a running Envoy.
type envoy struct {
	*process
	front, admin string // host:port

	mu  sync.Mutex
	log map[string][]*logEntry // by request ID
}

// A logEntry is a line of the access log.
type logEntry struct {
	ID       string `json:"requestID"`
	Code     int    `json:"code"`
	Flags    string `json:"flags"`
	Details  string `json:"details"`
	Upstream string `json:"upstream"`
	Attempts int    `json:"attempts"`
	line     string
}

// startEnvoy runs Envoy until the test ends, and until it is ready before that.
func startEnvoy(t *testing.T, path string, config envoyConfig) *envoy {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file, admin := filepath.Join(dir, "envoy.json"), filepath.Join(dir, "admin")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e := &envoy{log: map[string][]*logEntry{}}
	e.process = launch(t, "envoy", e.logged, path, "-c", file, "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning",
		"--admin-address-path", admin, "--file-flush-interval-msec", "20")
	until(t, "Envoy listens", func() bool {
		if err := e.alive(); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		address, err := os.ReadFile(admin)
		e.admin = string(address)
		return err == nil && len(address) > 0
	})
	until(t, "Envoy is ready", func() bool {
		if err := e.alive(); err != nil {
			t.Fatal(err)
		}
		_, ok := e.get("/ready")
		return ok
	})
	e.front = e.listener(t)
	return e
}

// get asks Envoy's admin interface.
func (e *envoy) get(path string) (string, bool) {
	res, err := http.Get("http://" + e.admin + path)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err == nil && res.StatusCode == http.StatusOK
}

// listener is the real address of the only listener.
func (e *envoy) listener(t *testing.T) string {
	t.Helper()
	text, _ := e.get("/listeners?format=json")
	var doc struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Statuses) != 1 {
		t.Fatalf("Envoy's listeners: %v: %s", err, text)
	}
	a := doc.Statuses[0].Address.Socket
	return fmt.Sprintf("%s:%d", a.Address, a.Port)
}

// healthy are the addresses of a cluster's hosts that Envoy sends requests to.
func (e *envoy) healthy(t *testing.T, cluster string) []string {
	t.Helper()
	text, _ := e.get("/clusters")
	var hosts []string
	for line := range strings.Lines(text) {
		if parts := strings.Split(strings.TrimSpace(line), "::"); len(parts) == 4 && parts[0] == cluster && parts[2] == "health_flags" && parts[3] == "healthy" {
			hosts = append(hosts, parts[1])
		}
	}
	return hosts
}

// logged takes in a line of Envoy's standard output.
func (e *envoy) logged(line string) {
	entry := &logEntry{line: line}
	if json.Unmarshal([]byte(line), entry) != nil || entry.ID == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log[entry.ID] = append(e.log[entry.ID], entry)
}

// entry waits for the access log's line about a request.
func (e *envoy) entry(t *testing.T, id string) *logEntry {
	t.Helper()
	var entries []*logEntry
	until(t, "Envoy logs "+id, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		entries = e.log[id]
		return len(entries) > 0
	})
	if len(entries) != 1 {
		t.Errorf("Envoy logged %s %d times", id, len(entries))
	}
	return entries[0]
}

// An envoyConfig is a configuration, as eppctl prints it.
type envoyConfig map[string]any

// printConfig has eppctl print a configuration.
func printConfig(t *testing.T, args ...string) envoyConfig {
	t.Helper()
	var out, complaints bytes.Buffer
	p := exec.Command(program(t), append([]string{"envoy-config"}, args...)...)
	p.Stdout, p.Stderr = &out, &complaints
	if err := p.Run(); err != nil {
		t.Fatalf("eppctl envoy-config %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
	}
	config := envoyConfig{}
	if err := json.Unmarshal(out.Bytes(), &config); err != nil {
		t.Fatalf("eppctl envoy-config %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return config
}

// dig goes down a path of keys and of indices into a document.
func dig(node any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := node.(map[string]any)
			if envoy, ok := node.(envoyConfig); ok {
				m = envoy
			}
			node = m[step]
		case int:
			l, _ := node.([]any)
			if step >= len(l) {
				return nil
			}
			node = l[step]
		}
	}
	return node
}

// manager is the HTTP connection manager of the only listener.
func (c envoyConfig) manager() map[string]any {
	m, _ := dig(c, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config").(map[string]any)
	return m
}

// insert puts a filter before all others.
func (c envoyConfig) insert(filter map[string]any) {
	filters, _ := c.manager()["http_filters"].([]any)
	c.manager()["http_filters"] = append([]any{filter}, filters...)
}

// route is the only route's action.
func (c envoyConfig) route() map[string]any {
	r, _ := dig(c.manager(), "route_config", "virtual_hosts", 0, "routes", 0, "route").(map[string]any)
	return r
}
