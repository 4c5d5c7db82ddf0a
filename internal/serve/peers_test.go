package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/nettest"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/sim"
)

// startReplicas serves the pods of one fleet by three pickers that know each other; the
// first brings the fleet.
func startReplicas(t *testing.T, pods int) []*rig {
	addresses := []string{nettest.Free(t), nettest.Free(t), nettest.Free(t)}
	var all []*rig
	for i, address := range addresses {
		opts := serveOptions(0)
		if i == 0 {
			opts = serveOptions(pods)
			opts.Sim.Events = true
		} else {
			for _, p := range all[0].fleet.Pods() {
				opts.Endpoints = append(opts.Endpoints, pool.Member{Name: p.Name, Address: p.Address, URL: p.URL, Events: p.Events, Replay: p.Replay})
			}
		}
		opts.Config.Addresses.Report = address
		opts.ReportToken, opts.Replica, opts.Peers = "a token of all", fmt.Sprint("epp-", i), addresses
		r := start(t, opts)
		if i > 0 {
			r.model = all[0].model
		}
		all = append(all, r)
	}
	for _, r := range all {
		r.until("all replicas hear each other", func() bool { return r.ours("epp_peers_connected") == "2" && r.ours("epp_peers") == "2" })
	}
	return all
}

// queued is what a replica counts at a pod beside what waits there.
func (r *rig) queued() map[string]int {
	r.t.Helper()
	n := map[string]int{}
	for name, p := range r.pods() {
		n[name] = p.Pending + p.PeerPending
	}
	return n
}

func (r *rig) depth() (n int) {
	for _, of := range r.queued() {
		n += of
	}
	return n
}

// Worked example 5, over three replicas: of 50 requests for a prompt that one pod has,
// it gets as many as its queue may have, and the others share the rest.
func TestAHerdOverThreeReplicas(t *testing.T) {
	all := startReplicas(t, 4)
	a := all[0]
	prompt := words("hot", 600)
	first, _ := a.ask("warm", completionsPath, a.completion(prompt, 1))
	hot := first.pod()
	for _, r := range all {
		r.until("all know who has the prompt", func() bool {
			p := r.pods()[hot]
			return p.Cache.Blocks != nil && *p.Cache.Blocks >= 30
		})
		r.until("and that nobody has anything to do", func() bool { return r.depth() == 0 })
	}
	a.hold(sim.Everything())
	defer a.release()
	const requests = 50
	var running []*crowd
	for i := range requests {
		running = append(running, all[i%3].crowd(fmt.Sprint("c", i), 1, func(int) object { return a.completion(prompt, 1) }))
		for _, r := range all {
			r.until("all know of the request", func() bool { return r.depth() == i+1 })
		}
	}
	for _, r := range all {
		got := r.queued()
		for pod, n := range got {
			if pod == hot && n != 20 || pod != hot && (n < 8 || n > 12) { // by the pods' health too
				t.Errorf("%s counts %v; %s has the prompt", r.server.opts.Replica, got, hot)
			}
		}
	}
	tellsOfOthers(t, all[1], hot)
	a.release()
	for _, c := range running {
		c.allWell(t)
	}
	for _, r := range all {
		r.until("nothing is pending", func() bool { return r.depth() == 0 })
	}
}

// tellsOfOthers fails unless the second replica's decisions say what it knew of the
// others, and replay.
func tellsOfOthers(t *testing.T, r *rig, hot string) {
	t.Helper()
	rec := r.decision("c49-0") // its last one is of 50 by turns
	c := candidate(t, rec, hot)
	if c.Pending == 0 || c.PeerPending == 0 || c.Pending+c.PeerPending != 20 {
		t.Errorf("%d pending and %d by others", c.Pending, c.PeerPending)
	}
	replayed(t, rec)
	var text strings.Builder
	if err := explain.Explain(rec, explain.Options{}).Text(&text, explain.TextOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d pending + %d by other replicas of 20", c.Pending, c.PeerPending); !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}

func TestReplicasNeedATokenAndAnAddress(t *testing.T) {
	opts := serveOptions(0)
	opts.Peers = []string{"epp-peers:9092"}
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("without a token: %v", err)
	}
	opts.ReportToken, opts.Peers = "t", []string{"epp-peers"}
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("without a port: %v", err)
	}
	opts.Config.Addresses.Report = ""
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "--report-addr") {
		t.Errorf("without an address of its own: %v", err)
	}
}

func TestPeersAskForAToken(t *testing.T) {
	r := startReplicas(t, 1)[0]
	for _, token := range []string{"", "wrong"} {
		req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, "http://"+r.at.Report+"/v1/peers", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("with the token %q: %s", token, res.Status)
		}
	}
}

// With TLS at the port for reports replicas hear each other as without it, a pod reports
// over it, and who speaks none is refused and counted.
func TestReportsAndReplicasOverTLS(t *testing.T) {
	fleet := start(t, serveOptions(1))
	var pair TLS
	pair.CertFile, pair.KeyFile = newPair(t, t.TempDir(), "epp.test")
	pair.Reports = true
	addresses := []string{nettest.Free(t), nettest.Free(t)}
	var all []*rig
	for i, address := range addresses {
		opts := serveOptions(0)
		for _, p := range fleet.fleet.Pods() {
			opts.Endpoints = append(opts.Endpoints, pool.Member{Name: p.Name, Address: p.Address, URL: p.URL})
		}
		opts.TLS, opts.Config.Addresses.Report = pair, address
		opts.ReportToken, opts.Replica, opts.Peers = "a token of all", fmt.Sprint("epp-", i), addresses
		all = append(all, start(t, opts))
	}
	for _, r := range all {
		r.until("both hear each other", func() bool { return r.ours("epp_peers_connected") == "1" && r.ours("epp_peers") == "1" })
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for scheme, want := range map[string]string{
		"https": "want the pod's name", // the handler's answer to a report that is none
		"http":  "Client sent an HTTP request to an HTTPS server",
	} {
		url := scheme + "://" + addresses[0] + "/v1/reports"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a token of all")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s %s, %v", url, resp.Status, text, err)
		}
	}
	all[0].until("who speaks no TLS is counted", func() bool { return all[0].ours("epp_report_handshake_failures_total") != "0" })
}

func TestReplicasNeedACertificateOfTheirs(t *testing.T) {
	opts := serveOptions(1)
	opts.TLS.Reports, opts.ReportToken, opts.Peers = true, "a token of all", []string{"127.0.0.1:1"}
	opts.Config.Addresses.Report = "127.0.0.1:0"
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "give all of them the same --tls-cert and --tls-key") {
		t.Errorf("error %v", err)
	}
}
