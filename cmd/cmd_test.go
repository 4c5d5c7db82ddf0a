package cmd

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/score/cost"
)

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []Option
		want    string // in the error; "" = none
	}{
		{"a scorer that takes its weight from the cache", []Option{WithWeights("cache=.55"), WithScorer("cost", .05, cost.New())}, ""},
		{"a scorer twice", []Option{WithScorer("cost", .05, cost.New()), WithScorer("cost", .05, cost.New())}, `scorer "cost" is registered twice`},
		{"a scorer without a name", []Option{WithScorer("", .05, cost.New())}, "a name and a scorer are needed"},
		{"no scorer", []Option{WithScorer("cost", .05, nil)}, "a name and a scorer are needed"},
		{"a weight that is no number", []Option{WithWeights("cache=much")}, `"cache=much" is not KEY=NUMBER`},
		{"a weight that does not exist", []Option{WithWeights("cash=.5")}, "cash"},
		{"weights that don't sum to 1", []Option{WithScorer("cost", .05, cost.New())}, "sum is 1.05 (cache 0.6 + load 0.2 + queue 0.1 + health 0.05 + adapter 0.05 + cost 0.05), must be 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, errOut := cli.Test()
			status := run(context.Background(), s, []string{"serve", "--check-config"}, tc.options...)
			switch {
			case tc.want == "" && status != cli.ExitOK:
				t.Errorf("status %d: %s", status, errOut)
			case tc.want != "" && (status != cli.ExitUsage || !strings.Contains(errOut.String(), tc.want)):
				t.Errorf("status %d, %q, want status 2 with %q", status, errOut, tc.want)
			}
		})
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1048576": 1 << 20, "64MiB": 64 << 20, "1 GiB": 1 << 30, "2KiB": 2 << 10,
		"": 0, "MiB": 0, "-1": 0, "0": 0, "1.5GiB": 0, "64MB": 0, "9999999999GiB": 0, "99999999999999999999": 0, "1\n2": 0,
	} {
		got, err := parseBytes("record-memory", text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "--record-memory: ") {
			t.Errorf("parseBytes(%q): the error does not name the flag: %v", text, err)
		}
	}
}

func TestWelcome(t *testing.T) {
	all := serve.Addresses{Gateway: "127.0.0.1:8080", Extproc: "127.0.0.1:9002", Admin: "127.0.0.1:9091", Model: "it's a \"model\""}
	for _, tc := range []struct {
		name         string
		flags        serveFlags
		pipe         bool
		env          string
		change       func(*serve.Addresses)
		want, absent string
	}{
		{name: "defaults", want: "explain latest\n", absent: "--server"},
		{name: "another admin address", change: func(a *serve.Addresses) { a.Admin = "127.0.0.1:1" }, want: "explain latest --server 127.0.0.1:1"},
		{name: "EPPCTL_SERVER points elsewhere", env: "other:1", want: "explain latest --server 127.0.0.1:9091"},
		{name: "listening on all addresses", change: func(a *serve.Addresses) { a.Gateway, a.Admin = "[::]:80", "0.0.0.0:9091" }, want: "curl -s http://127.0.0.1:80/v1/", absent: "--server"},
		{name: "no gateway", change: func(a *serve.Addresses) { a.Gateway = "" }, want: "explain latest", absent: "curl"},
		{name: "ext_proc", want: "\nEnvoy asks it by ext_proc at 127.0.0.1:9002.\n"},
		{name: "no ext_proc", change: func(a *serve.Addresses) { a.Extproc = "" }, want: "explain latest", absent: "Envoy"},
		{name: "no admin API", change: func(a *serve.Addresses) { a.Admin = "" }, want: "curl", absent: "explain"},
		{name: "a model that nobody told", change: func(a *serve.Addresses) { a.Model = "" }, want: `with the name of one of its models for MODEL:`},
		{name: "built-in traffic", flags: serveFlags{simLoad: "5"}, absent: "curl"},
		{name: "built-in traffic and then more", flags: serveFlags{simLoad: "5", simLoadStay: true}, want: "curl"},
		{name: "a pipe", pipe: true, absent: "curl"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, out, _ := cli.Test()
			s.OutIsTerminal = !tc.pipe
			s.Env = func(string) string { return tc.env }
			a := all
			if tc.change != nil {
				tc.change(&a)
			}
			tc.flags.welcome(s, a)
			if !strings.Contains(out.String(), tc.want) {
				t.Errorf("no %q in\n%s", tc.want, out)
			}
			if tc.absent != "" && strings.Contains(out.String(), tc.absent) {
				t.Errorf("%q in\n%s", tc.absent, out)
			}
		})
	}
}

func TestBusyPorts(t *testing.T) {
	gateway := serve.BusyPort{Name: "gateway", Flag: "gateway-addr", Address: "127.0.0.1:8080", Free: "127.0.0.1:1"}
	admin := serve.BusyPort{Name: "admin", Flag: "admin-addr", Address: "127.0.0.1:9091", Free: "127.0.0.1:2"}
	none := serve.BusyPort{Name: "admin", Flag: "admin-addr", Address: "10.0.0.1:9091"}
	for _, tc := range []struct {
		name, args string
		ports      []serve.BusyPort
		want       string // the end of the hint
	}{
		{"a default", "serve --sim 4", []serve.BusyPort{gateway}, " serve --sim 4 --gateway-addr 127.0.0.1:1"},
		{"a flag with =", "serve --gateway-addr=127.0.0.1:8080 --sim 4", []serve.BusyPort{gateway}, " serve --sim 4 --gateway-addr 127.0.0.1:1"},
		{"a flag with a value behind it", "serve --gateway-addr 127.0.0.1:8080 --sim 4", []serve.BusyPort{gateway}, " serve --sim 4 --gateway-addr 127.0.0.1:1"},
		{"two", "serve --sim 4", []serve.BusyPort{gateway, admin}, " serve --sim 4 --gateway-addr 127.0.0.1:1 --admin-addr 127.0.0.1:2"},
		{"one of the configuration", "serve --config c.yaml", []serve.BusyPort{{Name: "events.listen", Address: "0.0.0.0:5557", Free: "[::]:1"}}, "choose another address for events.listen in the configuration"},
		{"none free", "serve --sim 4", []serve.BusyPort{none}, "choose another address with --admin-addr"},
		{"a token", "serve --report-token secret", []serve.BusyPort{gateway}, "these are free: add --gateway-addr 127.0.0.1:1"},
		{"a token with =", "serve --report-token=secret", []serve.BusyPort{gateway}, "these are free: add --gateway-addr 127.0.0.1:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := explainStart(&serve.PortInUseError{Ports: tc.ports}, strings.Fields(tc.args))
			e, ok := errors.AsType[*cli.Error](err)
			if !ok || e.Code != cli.ExitError || !strings.HasSuffix(e.Hint, tc.want) {
				t.Errorf("hint %q, want one that ends with %q", e.Hint, tc.want)
			}
			for _, port := range tc.ports {
				setting := "--" + port.Flag
				if port.Flag == "" {
					setting = port.Name
				}
				if want := port.Address + " (" + setting + ")"; !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not name %s: %v", want, err)
				}
			}
		})
	}
	if got := cli.Status(explainStart(&net.AddrError{Err: "missing port in address", Addr: "8080"}, nil)); got != cli.ExitUsage {
		t.Errorf("an address that is none: status %d, want 2", got)
	}
}
