package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/pool"
)

// inCluster is a pool of a cluster for a picker to serve.
func inCluster(t *testing.T, f *kubetest.Server, pools ...string) *Kube {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	c, err := kube.Connect(kube.ConnectOptions{KubeServer: f.URL, Namespace: "serving"})
	if err != nil {
		t.Fatal(err)
	}
	k := &Kube{Cluster: c}
	for _, p := range pools {
		k.Pools = append(k.Pools, kube.Name{Namespace: "serving", Name: p})
	}
	return k
}

// enginePool is a pool whose pods are the simulated ones of a rig: each has a port of
// its own on one address.
func (r *rig) enginePool(f *kubetest.Server) (pods []kubetest.Doc, p kubetest.Doc) {
	r.t.Helper()
	var ports []int
	for _, s := range r.fleet.Pods() {
		_, port, err := net.SplitHostPort(s.Address)
		if err != nil {
			r.t.Fatal(err)
		}
		var n int
		fmt.Sscan(port, &n)
		ports = append(ports, n)
		pods = append(pods, kubetest.Pod(s.Name, "vllm", "127.0.0.1", kubetest.Annotated("llm-d.ai/active-ports", port), kubetest.Annotated("eppctl.dev/events", "off")))
	}
	p = kubetest.Pool("chat", "vllm", ports...)
	f.Put(kubetest.Pools, p)
	for _, pod := range pods {
		f.Put(kubetest.Pods, pod)
	}
	return pods, p
}

func TestPoolOfACluster(t *testing.T) {
	engines, f := start(t, serveOptions(2)), kubetest.New(t)
	pods, chat := engines.enginePool(f)
	opts := serveOptions(0)
	opts.Kube = inCluster(t, f, "chat")
	r := start(t, opts)
	r.model = engines.model
	body := func(mark string) object { return r.completion(words(mark, 64), 1) }
	var n int
	send := func() *answer {
		n++
		return r.send(r.ctx, fmt.Sprint("q-", n), completionsPath, body("q"))
	}

	_, rec := r.ask("first", completionsPath, body("q"))
	other := pods[0]
	if kubetest.Meta(other)["name"] == rec.Result.Pod {
		other = pods[1]
	}
	name := fmt.Sprint(kubetest.Meta(other)["name"])

	// One that is not ready gets nothing, and its state stays.
	picked := rec.Result.Pod
	f.Put(kubetest.Pods, edited(pods, picked, kubetest.NotReady))
	r.until("it is not ready", func() bool { return r.pods()[picked].Reason == "not-ready" })
	if _, rec := r.ask("second", completionsPath, body("q")); rec.Result.Pod != name {
		t.Errorf("sent to %s, which is not ready", rec.Result.Pod)
	}
	f.Put(kubetest.Pods, edited(pods, picked, kubetest.Labelled("llm-d.ai/role", "prefill")))
	r.until("it is for prefill only", func() bool { return r.pods()[picked].Reason == "prefill-only" })
	f.Put(kubetest.Pods, edited(pods, picked, kubetest.Annotated("eppctl.dev/drain", "true")))
	r.until("it is drained", func() bool { p := r.pods()[picked]; return p.Health.Value != nil && *p.Health.Value == 0 })

	// Another process behind the same address has scraped nothing yet.
	f.Put(kubetest.Pods, edited(pods, picked))
	r.until("it is back", func() bool { p := r.pods()[picked]; return p.Reason == "" && p.Scrapes.Total > 3 })
	f.Put(kubetest.Pods, edited(pods, picked, kubetest.Restarted(1)))
	r.until("it starts anew", func() bool { return r.pods()[picked].Scrapes.Total <= 3 })

	// A pool that is deleted has no endpoints, and the picker is ready all the same.
	f.Drop(kubetest.Pools, "chat")
	r.until("its endpoints are gone", func() bool { return send().status == http.StatusServiceUnavailable })
	if status, text := r.fetch("http://" + r.at.Health + "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz of a picker whose pool was deleted: %d %s", status, text)
	}
	f.Put(kubetest.Pools, chat)
	r.until("its endpoints are back", func() bool { return send().status == http.StatusOK })

	// Without the API server the last known pods stand.
	f.Refuse("*", 503)
	r.until("it is missed", func() bool { return r.ours("epp_kube_watches_failing") != "0" })
	if a := send(); a.status != http.StatusOK {
		t.Errorf("without the API server: %d %s", a.status, a.body)
	}
	if r.ours("epp_kube_synced") != "1" || r.ours("epp_kube_watch_failures_total") == "0" || r.ours("epp_kube_last_contact_timestamp_seconds") == "0" {
		t.Error("the metrics page does not show how the watch fares")
	}
	_, shown := r.fetch("http://" + r.at.Admin + "/v1/config")
	for _, want := range []string{`"name": "serving/chat"`, `"synced": true`, `"reason": "`, `"lastContact": "`} {
		if !strings.Contains(shown, want) {
			t.Errorf("/v1/config lacks %s:\n%s", want, shown)
		}
	}
	f.Refuse("*", 0)
	r.inFlight(0)
}

// edited is one of the pods, with edits.
func edited(pods []kubetest.Doc, name string, edits ...kubetest.Edit) kubetest.Doc {
	for _, p := range pods {
		if kubetest.Meta(p)["name"] != name {
			continue
		}
		meta := kubetest.Meta(p)
		again := kubetest.Pod(name, "vllm", "127.0.0.1")
		for k, v := range meta["annotations"].(map[string]string) {
			kubetest.Annotated(k, v)(kubetest.Meta(again), nil, nil)
		}
		for _, edit := range edits {
			edit(kubetest.Meta(again), again["spec"].(kubetest.Doc), again["status"].(kubetest.Doc))
		}
		return again
	}
	return nil
}

// Before the first sync the picker lives, is not ready, and says what it waits for.
func TestPickerWaitsForItsPool(t *testing.T) {
	f := kubetest.New(t)
	f.Install(kubetest.Pools)
	engines := start(t, serveOptions(1))
	opts := serveOptions(0)
	opts.Kube = inCluster(t, f, "chat")
	server, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	health := "http://" + server.Addresses().Health
	engines.until("it says what is missing", func() bool {
		status, text := engines.fetch(health + "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "there is no InferencePool serving/chat")
	})
	if status, _ := engines.fetch(health + "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	engines.enginePool(f)
	engines.until("it is ready", func() bool { status, _ := engines.fetch(health + "/readyz"); return status == http.StatusOK })
}

// fleetOf is discovery without a cluster.
func fleetOf(t *testing.T, opts *Kube, log io.Writer) (*kubeFleet, *[]pool.Member) {
	t.Helper()
	taken := new([]pool.Member)
	logger := slog.New(slog.NewTextHandler(log, nil))
	k := &kubeFleet{
		opts: opts, log: logger, synced: make(chan struct{}), events: opts.Cluster.Events(logger), bad: map[[2]string]bool{}, state: &kube.State{}, inbound: true,
		set:   func(m []pool.Member) error { *taken = m; return nil },
		check: func(c config.Config) error { return c.Validate(nil) },
	}
	return k, taken
}

func TestWrongAnnotations(t *testing.T) {
	var log strings.Builder
	k, taken := fleetOf(t, &Kube{Cluster: &kube.Cluster{}}, &log)
	k.inbound = false
	s := &kube.State{Members: []pool.Member{
		{Name: "a", Address: "10.0.0.1:8000", Engine: "vlm", GPUURL: "http://10.0.0.1:9400/metrics"},
		{Name: "b", Address: "10.0.0.2:8000", MaxRunning: -1},
		{Name: "c", Address: "10.0.0.3:8000", Events: "udp://x"},
		{Name: "d", Address: "10.0.0.4:8000", Events: pool.EventsListen},
		{Name: "e", Address: "10.0.0.5:8000", Events: "tcp://10.0.0.5:5557", MaxRunning: 64},
		{Name: "f", Address: "10.0.0.6:8000", Events: pool.EventsOff, Engine: "vlm"},
		{Name: "g", Address: "10.0.0.7:8000", Events: "udp://x", MaxRunning: 64},
		{Name: "h", Address: "10.0.0.8:8000", Annotations: map[string]string{"eppctl.dev/drain": "yes"}},
	}}
	for range 2 {
		k.update(s)
	}
	for _, m := range (*taken)[:4] {
		if m.Engine != "" || m.GPUURL != "" || m.MaxRunning != 0 || m.Events != "" {
			t.Errorf("taken over: %+v", m)
		}
	}
	if m := (*taken)[4]; m.Events == "" || m.MaxRunning != 64 {
		t.Errorf("left out: %+v", m)
	}
	if f, g := (*taken)[5], (*taken)[6]; f.Events != pool.EventsOff || f.Engine != "" || g.MaxRunning != 64 || g.Events != "" {
		t.Errorf("one is wrong, and taken are %+v and %+v", f, g)
	}
	if n := strings.Count(log.String(), "are wrong"); n != 7 {
		t.Errorf("said %d times, want once for each of 7 pods:\n%s", n, log.String())
	}
	k.update(new(kube.State))
	if len(k.bad) > 0 {
		t.Errorf("%d pods are gone and remembered", len(k.bad))
	}
	k.update(s)
	if n := strings.Count(log.String(), "are wrong"); n != 14 {
		t.Errorf("said %d times, want it of the pods that came again too", n)
	}
}

func TestTooManyEndpoints(t *testing.T) {
	var log strings.Builder
	k, taken := fleetOf(t, &Kube{Cluster: &kube.Cluster{}}, &log)
	s := new(kube.State)
	for i := range pool.MaxEndpoints + 1 {
		s.Members = append(s.Members, pool.Member{Name: fmt.Sprint("p", i), Address: fmt.Sprint("10.0.0.1:", i+1)})
	}
	for range 3 {
		s.Members = append(s.Members, pool.Member{Name: fmt.Sprint("p", len(s.Members)), Address: fmt.Sprint("10.0.0.1:", len(s.Members)+1)})
		k.update(s)
	}
	if n := strings.Count(log.String(), "too many endpoints"); len(*taken) != pool.MaxEndpoints || n != 1 {
		t.Errorf("%d are taken, and it is said %d times", len(*taken), n)
	}
}

func TestWhatAnOperatorShouldKnow(t *testing.T) {
	refused := func(n int) (views []*pool.View) {
		for range n {
			views = append(views, &pool.View{Scrapes: 5, Failures: 5, LastError: "connection refused on port 8000"})
		}
		return views
	}
	p := kube.PoolState{Pods: 2, Ready: 2, Pool: &kube.InferencePool{Spec: kube.PoolSpec{Selector: kube.PoolSelector{MatchLabels: map[string]string{"app": "vllm"}}, TargetPorts: []kube.Port{{Number: 8000}}}}}
	t.Run("nothing listens on the port", func(t *testing.T) {
		if got := portMismatch(p, refused(2)); !strings.Contains(got, "target ports (8000)") {
			t.Errorf("got %q", got)
		}
		one := refused(2)
		one[1].Failures = 4
		if got := portMismatch(p, one); got != "" {
			t.Errorf("one was reached, and it says %q", got)
		}
		if got := portMismatch(kube.PoolState{Pods: 2, Pool: p.Pool}, refused(2)); got != "" {
			t.Errorf("none is ready, and it says %q", got)
		}
	})
	t.Run("blocks of another size", func(t *testing.T) {
		views := refused(2)
		if got := sizeMismatch(views, 16); got != "" {
			t.Errorf("got %q", got)
		}
		views[1].Streams = []kvfeed.Stats{{Stats: kvindex.Stats{Mismatch: 24}}}
		if got := sizeMismatch(views, 16); !strings.Contains(got, "1 of 2 endpoints have KV blocks of a size (24 tokens)") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("no endpoint", func(t *testing.T) {
		for _, c := range []struct {
			pods, ready int
			want        string
		}{{0, 0, "no pod of the selector"}, {3, 0, "none of 3 pods is ready"}, {3, 2, "none of 2 ready pods serves on a target port"}} {
			if got := noEndpoint(kube.PoolState{Pods: c.pods, Ready: c.ready, Pool: p.Pool}); !strings.Contains(got, c.want) {
				t.Errorf("%d pods, %d ready: %q", c.pods, c.ready, got)
			}
		}
	})
}
