package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/logtest"
	"github.com/eppctl/eppctl/internal/pool"
)

func TestParseEndpoint(t *testing.T) {
	for _, tt := range []struct {
		text    string
		want    pool.Member
		problem string
	}{
		{text: "a=http://10.0.0.1:8000", want: pool.Member{Name: "a", Address: "10.0.0.1:8000", URL: "http://10.0.0.1:8000"}},
		{text: "a=http://host/", want: pool.Member{Name: "a", Address: "host:80", URL: "http://host:80"}},
		{text: "a=http://[::1]:8000", want: pool.Member{Name: "a", Address: "[::1]:8000", URL: "http://[::1]:8000"}},
		{text: "http://10.0.0.1:8000", problem: "name=http://host:port"},
		{text: "=http://10.0.0.1:8000", problem: "name=http://host:port"},
		{text: "a=10.0.0.1:8000", problem: `endpoint "a": "10.0.0.1:8000" must have`},
		{text: "a=https://10.0.0.1:8000", problem: "http://host:port"},
		{text: "a=http://10.0.0.1:8000/v1", problem: "http://host:port"},
		{text: "a=http://u:p@10.0.0.1:8000", problem: `endpoint "a": "http://…@10.0.0.1:8000" must have the form http://host:port`},
		{text: "a=u:p=@10.0.0.1:8000", problem: `endpoint "a": "…@10.0.0.1:8000" must`},
		{text: "http://u:p@10.0.0.1", problem: `endpoint "http://…@10.0.0.1": must`},
		{text: "a=http://:8000", problem: "http://host:port"},
		{text: "a=http://h:65536", problem: "the port must be between 1 and 65535"},
		{text: "a=http://h:0", problem: "the port must be between 1 and 65535"},
		{text: "a\x1b[31m=http://h:1", problem: `name "a\x1b[31m" must be printable`},
		{text: "a\xff=http://h:1", problem: "must be printable"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseEndpoint(tt.text)
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("error %v, want one with %q", err, tt.problem)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(pool.Member{})); err != nil || diff != "" {
				t.Errorf("error %v (−want +got):\n%s", err, diff)
			}
		})
	}
}

func TestParseEndpointsNamesThePlace(t *testing.T) {
	for _, tt := range []struct{ name, text, problem string }{
		{"unknown key", "endpoints: [{name: a, uri: http://h:1}]", "uri"},
		{"no name", "endpoints: [{name: a, url: http://h:1}, {url: http://h:2}]", "endpoints[1]"},
		{"a name without an end", "endpoints: [{name: " + strings.Repeat("a", 254) + ", url: http://h:1}]", "endpoints[0]: name must be at most 253 bytes long, got 254"},
		{"fewer than no requests", "endpoints: [{name: a, url: http://h:1, maxRunning: -4}]", "endpoints[0]: maxRunning: must be a number from 1 on"},
		{"a password", "endpoints: [{name: a, url: 'http://u:p@h:1'}]", `endpoints[0]: "http://…@h:1" must`},
		{"no URL", "endpoints: [{name: a}]", "endpoints[0]"},
		{"no list", "endpoints: 7", "endpoints"},
		{"engine of no name", "endpoints: [{name: a, url: http://h:1, engine: VLLM}]", `endpoints[0]: engine "VLLM": must be vllm, sglang or trtllm`},
		{"GPU page without a host", "endpoints: [{name: a, url: http://h:1, gpuMetrics: h:9400}]", "endpoints[0]: gpuMetrics: must be the URL"},
		{"GPU page with a password", "endpoints: [{name: a, url: http://h:1, gpuMetrics: 'http://u:p@h:9400'}]", "endpoints[0]: gpuMetrics"},
		{"events of a port", "endpoints: [{name: a, url: http://h:1, events: 5557}]", "events"},
		{"events without a port", "endpoints: [{name: a, url: http://h:1, events: tcp://h}]", "endpoints[0]: events: must be off, listen or an address"},
		{"events everywhere", "endpoints: [{name: a, url: http://h:1, events: 'tcp://*:5557'}]", "endpoints[0]: events: must be off, listen or an address"},
		{"replay of another kind", "endpoints: [{name: a, url: http://h:1, events: tcp://h:5557, replay: ipc://x}]", "endpoints[0]: replay: must be an address"},
		{"replay without events", "endpoints: [{name: a, url: http://h:1, replay: tcp://h:5657}]", "endpoints[0]: replay: is of no use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseEndpoints([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want one with %q", err, tt.problem)
			}
		})
	}
}

func TestParseEndpointsSources(t *testing.T) {
	members, err := ParseEndpoints([]byte("endpoints: [{name: a, url: http://h:1, engine: sglang, gpuMetrics: https://h:9400/metrics, events: tcp://h:5557, replay: tcp://h:5657}, {name: b, url: http://h:2, events: 'off'}, {name: c, url: http://h:3, events: off}]"))
	if err != nil {
		t.Fatal(err)
	}
	if m := members[0]; m.Engine != "sglang" || m.GPUURL != "https://h:9400/metrics" {
		t.Errorf("engine %q, GPU page %q", m.Engine, m.GPUURL)
	}
	if a, b, c := members[0], members[1], members[2]; a.Events != "tcp://h:5557" || a.Replay != "tcp://h:5657" || b.Events != pool.EventsOff || c.Events != pool.EventsOff {
		t.Errorf("events at %q, replay at %q; events of the others at %q and %q", a.Events, a.Replay, b.Events, c.Events)
	}
}

// What --check-config says of endpoints is what the start would say.
func TestCheckEndpoints(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "endpoints.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	listening := config.Config{Events: config.Events{Enabled: true, Listen: "127.0.0.1:5557"}}
	for _, tt := range []struct {
		name    string
		texts   []string
		file    string
		cfg     config.Config
		problem string // "": none
	}{
		{name: "none"},
		{name: "right", texts: []string{"a=http://h:1"}, file: file("endpoints: [{name: b, url: http://h:2}]")},
		{name: "a wrong flag", texts: []string{"a=h:1"}, problem: `endpoint "a": "h:1" must`},
		{name: "a wrong file", file: file("endpoints: [{name: b}]"), problem: "endpoints[0]"},
		{name: "no file", file: filepath.Join(t.TempDir(), "none"), problem: "no such file"},
		{name: "a directory", file: t.TempDir(), problem: "is not a file"},
		{name: "a device", file: os.DevNull, problem: "is not a file"},
		{name: "one name twice", texts: []string{"a=http://h:1"}, file: file("endpoints: [{name: a, url: http://h:2}]"), problem: `two endpoints have the name "a"`},
		{name: "nobody listens", file: file("endpoints: [{name: a, url: http://h:2, events: listen}]"), cfg: config.Default(), problem: "set events.listen"},
		{name: "somebody listens", file: file("endpoints: [{name: a, url: http://h:2, events: listen}]"), cfg: listening},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckEndpoints(tt.texts, tt.file, &tt.cfg)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want one with %q", err, tt.problem)
			}
		})
	}
}

func FuzzParseEndpoints(f *testing.F) {
	f.Add([]byte("endpoints:\n- {name: a, url: http://h:1, labels: {x: y}, maxRunning: 64, engine: vllm, gpuMetrics: http://h:9400/metrics, terminating: true}\n"))
	f.Add([]byte(`{"endpoints":[{"name":"a","url":"http://[::1]"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		members, err := ParseEndpoints(b)
		if err != nil {
			return
		}
		for _, m := range members {
			if _, _, err := net.SplitHostPort(m.Address); err != nil || m.Name == "" || m.URL != "http://"+m.Address {
				t.Errorf("accepted %+v", m)
			}
		}
	})
}

// The file is read again while the picker runs; a bad one changes nothing.
func TestEndpointsFileIsFollowed(t *testing.T) {
	var log logtest.Log
	opts := serveOptions(0)
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	opts.EndpointsFile = filepath.Join(t.TempDir(), "endpoints.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(opts.EndpointsFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := leaky(t)
	write(fmt.Sprintf("endpoints: [{name: one, url: %q}]", one.URL))
	r := start(t, opts)
	names := func() (names []string) {
		for name := range r.pods() {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	if got := names(); !slices.Equal(got, []string{"one"}) {
		t.Fatalf("at the start the pods are %q", got)
	}
	write("endpoints: [{name: one")
	r.until("the bad file is told", func() bool { return strings.Contains(log.String(), "endpoints file not taken over") })
	if got := names(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("with a bad file the pods are %q", got)
	}
	write(fmt.Sprintf("endpoints: [{name: one, url: %q}, {name: two, url: %[1]q}]", one.URL))
	r.until("the second is there and was looked at", func() bool {
		return slices.Equal(names(), []string{"one", "two"}) && r.pods()["two"].Scrapes.Total > 0
	})
}

func TestPortsInUseSayWhichAndWhatIsFree(t *testing.T) {
	opts := serveOptions(2)
	addresses := &opts.Config.Addresses
	want := map[string]string{}
	for flag, address := range map[string]*string{"gateway-addr": &addresses.Gateway, "extproc-addr": &addresses.Extproc, "admin-addr": &addresses.Admin} {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		*address = taken.Addr().String()
		want[flag] = *address
	}
	_, err := New(opts)
	busy, ok := errors.AsType[*PortInUseError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	got := map[string]string{}
	for _, p := range busy.Ports {
		got[p.Flag] = p.Address
		if !strings.Contains(err.Error(), "--"+p.Flag) {
			t.Errorf("the error does not name --%s: %v", p.Flag, err)
		}
		free, err := net.Listen("tcp", p.Free)
		if err != nil {
			t.Fatalf("what is said to be free is not: %v", err)
		}
		free.Close()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports in use (−want +got):\n%s", diff)
	}
}

func TestAddressFileHoldsTheRealAddresses(t *testing.T) {
	opts := serveOptions(1)
	opts.AddrFile = filepath.Join(t.TempDir(), "addresses.json")
	r := start(t, opts)
	raw, err := os.ReadFile(opts.AddrFile)
	if err != nil {
		t.Fatal(err)
	}
	var got Addresses
	if err := json.Unmarshal(bytes.TrimSpace(raw), &got); err != nil {
		t.Fatal(err)
	}
	got.Model = r.model
	if diff := cmp.Diff(r.at, got); diff != "" {
		t.Errorf("(−server +file):\n%s", diff)
	}
	for name, address := range map[string]string{"gateway": got.Gateway, "extproc": got.Extproc, "health": got.Health, "metrics": got.Metrics, "admin": got.Admin, "report": got.Report} {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
			t.Errorf("%s: %q is no real address", name, address)
		}
	}
}
