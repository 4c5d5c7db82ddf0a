package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/score"
)

var updateProxies = flag.Bool("update-proxies", false, "send 1,000 requests through each proxy, and write the table of docs/proxies.md anew")

// proxyTrace has what proxies go by: a user, which is the conversation, and a URI for
// each of 16 applications with a system prompt of its own. A fifth of the requests has
// one parameter more in its URI.
const proxyTrace = "gen:chat:rate=16:systems=16:uris=1:vary=0.2:turns=6:question=120:answer=80:think=3"

const (
	proxyPods  = 4
	proxySpeed = 4 // simulated seconds in one of the wall's
	proxyDocs  = "../../docs/proxies.md"
)

// A proxyRun is how many requests each proxy gets, and how far its cache hit ratio may
// be from what the simulator computes.
type proxyRun struct {
	requests int
	margin   float64
}

var (
	quickProxies = proxyRun{requests: 100, margin: 0.10}
	fullProxies  = proxyRun{requests: 1000, margin: 0.03}
)

// A peer is a way to route with a real program, and the policy of the simulator that
// does the same.
type peer struct {
	name, method, policy string
	start                func(t *testing.T, method string, p *picker) (base string)
}

var peers = []peer{
	{"NGINX", "hash $request_uri consistent;", "uri-hash", startNginx},
	{"NGINX", "hash $http_x_user consistent;", "consistent-hash", startNginx},
	{"NGINX", "least_conn;", "least-connections", startNginx},
	{"HAProxy", "balance leastconn", "least-connections", startHAProxy},
	{"HAProxy", "balance hdr(x-user)\n    hash-type consistent", "consistent-hash", startHAProxy},
	{"Envoy", "ROUND_ROBIN", "round-robin", startEnvoyProxy},
	{"Envoy", "LEAST_REQUEST", "p2c", startEnvoyProxy},
	{"Envoy", "RING_HASH", "consistent-hash", startEnvoyProxy},
	{"eppctl", "scores", "eppctl", func(_ *testing.T, _ string, p *picker) string { return "http://" + p.at.Gateway }},
}

// What proxies make of caches, and that the simulator's policies of the same kind find
// as much in them.
func TestProxies(t *testing.T) {
	need(t, "proxies", proxiesVariable)
	need(t, "proxies", "EPPCTL_E2E_ENVOY")
	run := quickProxies
	if *updateProxies {
		run = fullProxies
	}
	trace, err := simulate.Generate(proxyTrace, 1, run.requests)
	if err != nil {
		t.Fatal(err)
	}
	for i := range trace.Requests {
		trace.Requests[i].Answer = 0 // clients do not wait for answers to build on
	}
	simulated := simulatedPeers(t, trace)
	var table bytes.Buffer
	fmt.Fprintln(&table, "| proxy | method | cache hit | TTFT p50 | p99 | failures | policy simulated | cache hit | TTFT p50 | p99 |\n"+
		"| --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
	for _, p := range peers {
		t.Run(p.name+" "+p.method, func(t *testing.T) {
			got, want := sendTrace(t, &p, trace), simulated[p.policy]
			fmt.Fprintf(&table, "| %s | `%s` | %.1f %% | %.0f ms | %.0f ms | %d | `%s` | %.1f %% | %.0f ms | %.0f ms |\n",
				p.name, oneLine(p.method), 100*got.hit(), 1000*got.quantile(0.5), 1000*got.quantile(0.99), got.failures,
				p.policy, 100**want.CacheHitRatio, 1000*want.TTFT.P50, 1000*want.TTFT.P99)
			if got.failures > 0 {
				t.Errorf("%d of %d requests failed, the first one: %v", got.failures, run.requests, got.err)
			}
			if math.Abs(got.hit()-*want.CacheHitRatio) > run.margin {
				t.Errorf("cache hit ratio %.3f, simulated %.3f", got.hit(), *want.CacheHitRatio)
			}
		})
	}
	t.Logf("%d requests\n%s", run.requests, &table)
	if *updateProxies && !t.Failed() {
		writeBetween(t, proxyDocs, "proxies", table.String())
	}
}

// simulatedPeers are the peers' policies, simulated with the same requests.
func simulatedPeers(t *testing.T, trace *simulate.Trace) map[string]*simulate.PolicyReport {
	t.Helper()
	profile, err := simulate.ProfileNamed("")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := profile.Fleet(fmt.Sprint(proxyPods))
	if err != nil {
		t.Fatal(err)
	}
	cfg := &simulate.Config{Trace: trace, Profile: profile, Pods: pods, Seed: 1}
	known := map[string]bool{}
	for _, p := range peers {
		if known[p.policy] {
			continue
		}
		known[p.policy] = true
		policy, err := simulate.ParsePolicy(p.policy, score.Default())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Policies = append(cfg.Policies, policy)
	}
	runs, err := simulate.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	reports := map[string]*simulate.PolicyReport{}
	for _, r := range runs.Report(simulate.ReportOptions{}).Policies {
		reports[r.Policy] = &r
	}
	return reports
}

// writeBetween replaces what stands in a page between the marks of that name.
func writeBetween(t *testing.T, path, name, text string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := []byte("<!-- "+name+": begin -->\n"), []byte("<!-- "+name+": end -->")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s lacks %s or %s", path, begin, end)
	}
	page = bytes.Join([][]byte{before, begin, []byte(text), end, after}, nil)
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
}
