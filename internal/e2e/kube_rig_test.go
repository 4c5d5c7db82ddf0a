package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// poolName is the pool of the tests, in the namespace of each.
const poolName = "chat"

// propagation is how long a picker may send requests to a pod that the API server
// already has as unfit for them. Watches take milliseconds; a busy machine does not.
const propagation = 3 * time.Second

// reconnection is how long it may when the API server was away: a picker tries again
// after 15 seconds at the latest.
const reconnection = 15*time.Second + propagation

// A kubeRig is a picker that reads a pool from a cluster, whose pods are objects with
// the addresses of engines. It keeps book of which engines may be asked.
type kubeRig struct {
	t       *testing.T
	cluster *cluster.Cluster
	fleet   *fleet
	ports   []int // on which each engine serves
	picker  *picker
	gateway *gateway

	mu   sync.Mutex
	fit  map[string]bool      // addresses that may be asked
	left map[string]time.Time // from when on the others may not
}

// kubeConfig is a picker's: what it knows of pods is for the cluster to say, not for
// their health.
const kubeConfig = `
models:
- name: ` + model + `
  aliases: [` + alias + `]
intervals: {scrapeMs: 500, probeMs: 600000}
`

// buildKube starts n engines that each serve on so many ports, and applies a pool on
// the first port, and the rights that `eppctl manifests` gives to its picker.
func buildKube(t *testing.T, c *cluster.Cluster, n, ports int) *kubeRig {
	t.Helper()
	k := newKubeRig(t, c, n, ports)
	c.Apply(manifests(t, poolName, "-n", c.Namespace, "-l", "app=engine", "--target-port", fmt.Sprint(k.ports[0]),
		"--only", "InferencePool,ServiceAccount,Role,RoleBinding"))
	return k
}

// newKubeRig starts the engines alone.
func newKubeRig(t *testing.T, c *cluster.Cluster, n, ports int) *kubeRig {
	t.Helper()
	k := &kubeRig{t: t, cluster: c, fleet: newFleet(t, 0), fit: map[string]bool{}, left: map[string]time.Time{}}
	for range ports {
		k.ports = append(k.ports, k.listen(n))
	}
	return k
}

// manifests is what eppctl prints to be applied.
func manifests(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program(t), append([]string{"manifests"}, args...)...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("eppctl manifests: %v\n%s", err, complaints.String())
	}
	return string(out)
}

// ip is the address of an engine.
func ip(engine int) string { return fmt.Sprintf("127.9.%d.%d", engine/250, 1+engine%250) }

// at is where an engine serves.
func (k *kubeRig) at(engine int) string { return k.atPort(engine, 0) }

func (k *kubeRig) atPort(engine, port int) string {
	return fmt.Sprintf("%s:%d", ip(engine), k.ports[port])
}

// listen serves n engines on a port that all of them have free.
func (k *kubeRig) listen(n int) int {
	k.t.Helper()
	for range 10 {
		first, err := net.Listen("tcp", ip(0)+":0")
		if err != nil {
			k.t.Fatal(err)
		}
		port := first.Addr().(*net.TCPAddr).Port
		listeners := []net.Listener{first}
		for i := 1; i < n && err == nil; i++ {
			var next net.Listener
			if next, err = net.Listen("tcp", fmt.Sprintf("%s:%d", ip(i), port)); err == nil {
				listeners = append(listeners, next)
			}
		}
		if err != nil { // somebody has the port there
			for _, l := range listeners {
				l.Close()
			}
			continue
		}
		for _, l := range listeners {
			k.fleet.pods = append(k.fleet.pods, servePod(k.t, k.fleet, l.Addr().String(), l))
		}
		return port
	}
	k.t.Fatal("no port is free on all addresses")
	return 0
}

// start starts the picker, with the rights of its account.
func (k *kubeRig) start(flags ...string) {
	k.t.Helper()
	k.startAs(k.cluster.Token(poolName+"-epp"), flags...)
}

func (k *kubeRig) startAs(token string, flags ...string) {
	k.t.Helper()
	k.begin(token, flags...)
	k.await()
}

// begin starts the picker and does not wait for it.
func (k *kubeRig) begin(token string, flags ...string) {
	k.t.Helper()
	k.picker = begin(k.t, kubeConfig, "127.0.0.1:0", append([]string{
		"--plaintext", "--pool", k.cluster.Namespace + "/" + poolName, "--kubeconfig", k.cluster.Kubeconfig(token),
	}, flags...)...)
}

func (k *kubeRig) await() {
	k.t.Helper()
	k.picker.await()
	k.gateway = newGateway(k.t, k.picker.at.Extproc)
	p := k.picker
	k.t.Cleanup(func() {
		if !p.gone() {
			p.settled()
		}
	})
}

// pod makes a ready pod of the pool at an engine's address.
func (k *kubeRig) pod(name string, engine int) {
	k.t.Helper()
	k.allow(k.at(engine))
	k.cluster.Pod(cluster.Pod{Name: name, IP: ip(engine), Labels: map[string]string{"app": "engine"}})
}

// allow says that engines may be asked from now on: before the cluster is told.
func (k *kubeRig) allow(addresses ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range addresses {
		k.fit[a] = true
	}
}

// forbid says that engines may not be asked any more: after the cluster was told.
func (k *kubeRig) forbid(addresses ...string) { k.forbidAfter(propagation, addresses...) }

func (k *kubeRig) forbidAfter(allowed time.Duration, addresses ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range addresses {
		delete(k.fit, a)
		k.left[a] = time.Now().Add(allowed)
	}
}

// check says what is wrong with where a request was sent.
func (k *kubeRig) check(r *routed, sent time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.destination == "" || k.fit[r.destination] {
		return nil
	}
	switch left, was := k.left[r.destination]; {
	case !was:
		return fmt.Errorf("%s was asked and never was fit", r.destination)
	case sent.After(left):
		return fmt.Errorf("%s was asked %s after everybody had to know that it is unfit", r.destination, sent.Sub(left))
	}
	return nil
}

// ready are the addresses that the picker takes for fit, in order.
func (k *kubeRig) ready() []string {
	k.t.Helper()
	list, err := k.picker.admin.Pods(context.Background())
	if err != nil {
		k.t.Fatal(err)
	}
	addresses := []string{}
	for _, p := range list.Items {
		if p.State == admin.StateReady {
			addresses = append(addresses, p.Endpoint)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// settle waits until the picker takes just those for fit that are, and then sends
// requests until each was asked, and none but them.
func (k *kubeRig) settle(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	want := slices.AppendSeq([]string{}, maps.Keys(k.fit))
	k.mu.Unlock()
	slices.Sort(want)
	began := time.Now()
	var got []string
	for got = k.ready(); !slices.Equal(got, want); got = k.ready() {
		if time.Since(began) > patience {
			t.Fatalf("the picker's pods differ (want -, got +):\n%s", gocmp.Diff(want, got))
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Logf("%d endpoints %s after the change", len(want), time.Since(began).Round(time.Millisecond))
	unasked := map[string]bool{}
	for _, a := range want {
		unasked[a] = true
	}
	for i := 0; len(unasked) > 0; i++ {
		r := k.gateway.send(t.Context(), &call{body: completion(model, 1+i%50, false)})
		if r.err != nil || r.status != http.StatusOK {
			t.Fatalf("status %d, error %v: %s", r.status, r.err, r.answer.body)
		}
		if !slices.Contains(want, r.destination) {
			t.Fatalf("%s was asked, fit are %v", r.destination, want)
		}
		delete(unasked, r.destination)
		if time.Since(began) > 2*patience {
			t.Fatalf("of %d requests none went to %v", i+1, slices.Collect(maps.Keys(unasked)))
		}
	}
}

// inFlight is how many requests the ledger has for a pod, whether it is still in the
// pool or not.
func (k *kubeRig) inFlight(pod string) int {
	k.t.Helper()
	ledger, err := k.picker.admin.Ledger(context.Background())
	if err != nil {
		k.t.Fatal(err)
	}
	n := 0
	for _, p := range ledger.Pods {
		if p.Pod == pod {
			n += p.InFlight
		}
	}
	return n
}

// A held request has reached its pod, which does not answer before it is released.
type held struct {
	call *call
	done chan *routed
}

// hold sends requests until one is held by each of the addresses.
func (k *kubeRig) hold(t *testing.T, addresses ...string) map[string]*held {
	t.Helper()
	holding := map[string]*held{}
	for i := 0; len(holding) < len(addresses); i++ {
		if i > 1000 {
			t.Fatalf("of %d requests some went to none of %v", i, addresses)
		}
		h := &held{call: &call{body: completion(model, 1+i, false), script: script{Hold: beforeAnswer}}, done: make(chan *routed, 1)}
		h.call.prepare()
		go func() { h.done <- k.gateway.send(context.WithoutCancel(t.Context()), h.call) }()
		until(t, "a pod has the request", func() bool { return len(k.fleet.seen(h.call.id)) == 1 })
		at := k.fleet.seen(h.call.id)[0].pod.address
		if !slices.Contains(addresses, at) || holding[at] != nil {
			k.release(t, h)
			continue
		}
		holding[at] = h
	}
	return holding
}

// release lets a held request be answered, and checks the answer.
func (k *kubeRig) release(t *testing.T, h *held) {
	t.Helper()
	k.fleet.release(h.call.id)
	select {
	case r := <-h.done:
		if r.err != nil || r.status != http.StatusOK {
			t.Errorf("a request that was held ended with status %d, error %v", r.status, r.err)
		}
	case <-time.After(patience):
		t.Error("a request that was held did not end")
	}
}

// A stream of requests goes on while the cluster changes.
type background struct {
	clients sync.WaitGroup
	stop    chan struct{}
	sent    atomic.Int64
	// empty: the pool has no endpoint, so that requests are refused.
	empty atomic.Bool
}

// traffic sends requests from n clients. None may go to a pod that is not fit, and
// each must be answered.
func (k *kubeRig) traffic(n int) *background {
	b := &background{stop: make(chan struct{})}
	for client := range n {
		b.clients.Go(func() {
			for i := client; ; i += n {
				select {
				case <-b.stop:
					return
				default:
				}
				before, sent := b.empty.Load(), time.Now()
				r := k.gateway.send(context.Background(), &call{body: completion(model, 1+i%50, i%3 == 0), script: script{Events: i % 3 * 5}})
				refused := r.status == http.StatusServiceUnavailable && (before || b.empty.Load())
				err := k.check(r, sent)
				if r.err != nil || r.status != http.StatusOK && !refused {
					err = errors.Join(r.err, fmt.Errorf("status %d: %s", r.status, r.answer.body))
				}
				if err != nil {
					k.t.Error(err)
					return // the next would say the same
				}
				b.sent.Add(1)
				if !pauseOr(b.stop, 5*time.Millisecond) {
					return
				}
			}
		})
	}
	k.t.Cleanup(b.end)
	return b
}

// pauseOr reports whether the pause passed before the end came.
func pauseOr(end <-chan struct{}, d time.Duration) bool {
	select {
	case <-end:
		return false
	case <-time.After(d):
		return true
	}
}

// end ends the stream.
func (b *background) end() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.clients.Wait()
}
