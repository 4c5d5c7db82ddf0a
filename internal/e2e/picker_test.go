package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
)

// A picker is a running eppctl serve.
type picker struct {
	*process
	t     *testing.T
	file  string // that says where it listens
	at    addresses
	admin *admin.Client
}

// addresses are what serve writes to its --addr-file.
type addresses struct {
	Gateway string `json:"gateway"`
	Extproc string `json:"extproc"`
	Health  string `json:"health"`
	Metrics string `json:"metrics"`
	Admin   string `json:"admin"`
}

// pickerConfig keeps the picker from finding out about pods that go down, so
// that tests decide what it knows.
const pickerConfig = `
models:
- name: ` + model + `
  aliases: [` + alias + `]
intervals: {scrapeMs: 600000, probeMs: 600000}
staleness: {metricsSeconds: 3600, reportsSeconds: 3600}
`

// startPicker runs a picker for the pods of a fleet.
func startPicker(t *testing.T, f *fleet, config, extproc string, flags ...string) *picker {
	t.Helper()
	for _, p := range f.pods {
		flags = append(flags, "--endpoint", p.name+"=http://"+p.address)
	}
	return serve(t, config, extproc, flags...)
}

// serve runs a picker until the test ends, and returns when requests are welcome.
// extproc is where it listens for Envoy.
func serve(t *testing.T, config, extproc string, flags ...string) *picker {
	t.Helper()
	p := begin(t, config, extproc, flags...)
	p.await()
	return p
}

// begin is serve that returns at once.
func begin(t *testing.T, config, extproc string, flags ...string) *picker {
	t.Helper()
	dir := t.TempDir()
	configFile, file := filepath.Join(dir, "eppctl.yaml"), filepath.Join(dir, "addresses.json")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	const anyPort = "127.0.0.1:0"
	args := []string{
		"serve", "--config", configFile, "--addr-file", file, "--extproc-addr", extproc,
		"--gateway-addr", anyPort, "--health-addr", anyPort, "--metrics-addr", anyPort, "--admin-addr", anyPort, "--log-level", "warn",
	}
	return &picker{t: t, file: file, process: launch(t, "eppctl serve", nil, program(t), append(args, flags...)...)}
}

// await waits until requests are welcome.
func (p *picker) await() {
	p.t.Helper()
	until(p.t, "the picker is ready", func() bool {
		if err := p.alive(); err != nil {
			p.t.Fatal(err)
		}
		raw, err := os.ReadFile(p.file)
		return err == nil && json.Unmarshal(raw, &p.at) == nil
	})
	if p.at.Extproc == "" {
		p.t.Fatalf("no ext_proc address in %s", p.file)
	}
	var err error
	if p.admin, err = admin.NewClient(p.at.Admin, admin.ClientOptions{}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.admin.Close)
}

// lookUp is the decision about a request, nil when there is none.
func (p *picker) lookUp(id string) *explain.Record {
	p.t.Helper()
	doc, err := p.admin.Decision(context.Background(), id, 0)
	if _, missing := errors.AsType[*admin.NotFoundError](err); missing {
		return nil
	}
	if ambiguous, ok := errors.AsType[*admin.AmbiguousError](err); ok {
		p.t.Fatalf("%s: %v", id, ambiguous)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if doc.Count != 1 {
		p.t.Errorf("there are %d decisions about %s", doc.Count, id)
	}
	return doc.Item
}

// settled waits until no request is on the books, by the admin API and by the
// metrics.
func (p *picker) settled() {
	p.t.Helper()
	until(p.t, "no request is open", func() bool {
		l, err := p.admin.Ledger(context.Background())
		if err != nil {
			p.t.Fatal(err)
		}
		return l.Open == 0 && l.InFlight == 0 && l.Pending == 0
	})
	if open := p.metric("epp_open_requests"); open != 0 {
		p.t.Errorf("epp_open_requests is %v when nothing is open", open)
	}
}

// metric is a sample of the picker's page, −1 when it is not there.
func (p *picker) metric(name string) float64 {
	p.t.Helper()
	res, err := http.Get("http://" + p.at.Metrics + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	return -1
}
