package serve

import (
	"encoding/json"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
)

// others are the addresses of all pods but one.
func (r *rig) others(pod string) (addresses []any) {
	for _, p := range r.fleet.Pods() {
		if p.Name != pod {
			addresses = append(addresses, p.Address)
		}
	}
	return addresses
}

// fill sends as many requests with a prompt as fill the queue of the pod that holds
// it, while the fleet says nothing.
func (r *rig) fill(mark, pod string, maxQueue int) *crowd {
	r.t.Helper()
	r.hold(sim.Everything())
	c := r.crowd("filling-"+mark, maxQueue, func(int) object { return r.completion(words(mark, promptTokens), 1) })
	r.inFlight(maxQueue)
	for _, p := range r.ledger().Pods {
		if p.Pod == pod && p.Pending != maxQueue {
			r.t.Fatalf("%d requests are pending on %s, want %d", p.Pending, pod, maxQueue)
		}
	}
	return c
}

// The pod that has the prefix can't be picked, or what it had is gone: told apart on
// one fleet.
func TestCausesOfAnOwnerThatIsExcluded(t *testing.T) {
	t.Parallel()
	const maxQueue = 3
	opts := serveOptions(3)
	opts.Config.MaxQueue = maxQueue
	r := start(t, opts)
	prompt := func(mark string) func(int) object {
		return func(int) object { return r.completion(words(mark, promptTokens), 1) }
	}

	t.Run("its queue is full", func(t *testing.T) {
		r.t = t
		pod := r.warm("qf")
		other := r.others(pod)[0]
		for _, p := range r.fleet.Pods() {
			if p.Address == other {
				r.direct(p.Name, completionsPath, r.completion(words("qo", promptTokens), 1))
			}
		}
		r.quiet()
		filling := r.fill("qf", pod, maxQueue)
		over, beside := r.crowd("qf", 1, prompt("qf")), r.crowd("qo", 1, prompt("qo"))
		r.inFlight(maxQueue + 2)
		r.release()
		for _, c := range []*crowd{filling, over, beside} {
			c.allWell(t)
		}
		r.inFlight(0)
		r.because("qf-0", explain.CauseOwnerQueueFull, "the owner's queue was full", pod+" would have won", "queue-full")
		r.because("qo-0", explain.CauseAsDesigned) // the full pod is not its owner
	})
	t.Run("its queue is full, but it had dropped the prefix before", func(t *testing.T) {
		r.t = t
		pod := r.warm("ev")
		r.evict(pod)
		r.direct(pod, completionsPath, r.completion(words("ef", promptTokens), 1))
		r.quiet()
		filling := r.fill("ef", pod, maxQueue)
		late := r.crowd("ev", 1, prompt("ev"))
		r.inFlight(maxQueue + 1)
		r.release()
		filling.allWell(t)
		late.allWell(t)
		r.inFlight(0)
		r.because("ev-0", explain.CauseEvictedSeen, pod+" had the prefix and now holds 0 blocks")
	})
	t.Run("it was restarted", func(t *testing.T) {
		r.t = t
		pod := r.warm("rs")
		r.must(r.fleet.Restart(pod))
		r.recover()
		r.quiet()
		r.again("rs")
		r.because("rs-2", explain.CauseEvictedSeen, pod+" had the prefix and now holds 0 blocks")
	})
	t.Run("it is unhealthy", func(t *testing.T) {
		r.t = t
		pod := r.warm("ill")
		health := func(want float64) {
			r.until("its health is known", func() bool { v, _, _ := r.says(pod); return v == want })
		}
		r.must(r.fleet.SetGPU(pod, sim.GPU{Throttled: 0x40}))
		health(.6)
		r.again("ill")
		r.because("ill-2", explain.CauseAsDesigned) // it is only less well
		r.must(r.fleet.SetGPU(pod, sim.GPU{DoubleBitErrors: 1}))
		health(.2)
		r.ask("ill-3", completionsPath, prompt("ill")(0))
		r.because("ill-3", explain.CauseOwnerUnhealthy, "the owner was unhealthy", pod+" would have won", "1 uncorrectable ECC errors")
		r.recover()
		health(1)
	})
	t.Run("the gateway does not allow it", func(t *testing.T) {
		r.t = t
		conn := r.grpc(r.at.Extproc, anyTLS())
		defer conn.Close()
		pod := r.warm("su")
		other := r.others(pod)
		for id, tt := range map[string]struct {
			subset []any
			cause  string
			words  string
		}{
			"su-others":  {other, explain.CauseSubset, pod + " would have won"},
			"su-with-it": {append(other[:1:1], r.pod(pod).Address), explain.CauseAsDesigned, pod},
			"su-unknown": {[]any{r.pod(pod).Address, "192.0.2.1:8000"}, explain.CauseSubsetUnknown, "no pod has 1 of the 2 endpoints"},
		} {
			hint := &core.Metadata{FilterMetadata: map[string]*structpb.Struct{
				"envoy.lb.subset_hint": r.values(map[string]any{"x-gateway-destination-endpoint-subset": tt.subset}),
			}}
			r.begin(conn, id).finishAs(r.text(prompt("su")(0)), hint, nil)
			r.completed(id)
			r.because(id, tt.cause, tt.words)
		}
	})
	t.Run("the gateway has another one serve", func(t *testing.T) {
		r.t = t
		conn := r.grpc(r.at.Extproc, anyTLS())
		defer conn.Close()
		pod := r.warm("go")
		for id, tt := range map[string]struct{ served, cause, words string }{
			"go-elsewhere": {r.others(pod)[0].(string), explain.CauseServedElsewhere, "not by " + pod},
			"go-there":     {r.pod(pod).Address, explain.CauseAsDesigned, pod},
		} {
			told := r.values(map[string]any{"upstream.address": tt.served, "response.code": 200})
			r.begin(conn, id).finishAs(r.text(prompt("go")(0)), nil, map[string]*structpb.Struct{"envoy.filters.http.ext_proc": told})
			r.completed(id)
			r.because(id, tt.cause, tt.words)
		}
	})
	t.Run("a script learns it", func(t *testing.T) {
		r.t = t
		causes := map[string]string{"qf-0": explain.CauseOwnerQueueFull, "ev-0": explain.CauseEvictedSeen, "su-others": explain.CauseSubset}
		for id, cause := range causes {
			for _, other := range causes {
				want := map[bool]int{true: 5}[other == cause]
				if status := r.failOn(id, other); status != want {
					t.Errorf("explain %s --fail-on %s: status %d, want %d", id, other, status, want)
				}
			}
		}
	})
}

// failOn is the status of 'eppctl explain --fail-on', as a process of its own.
func (r *rig) failOn(id, causes string) (status int) {
	r.t.Helper()
	_, status = eppctl(r.t, "explain", id, "--server", r.at.Admin, "--fail-on", causes, "-o", "json")
	return status
}

func (r *rig) values(v map[string]any) *structpb.Struct {
	r.t.Helper()
	s, err := structpb.NewStruct(v)
	r.must(err)
	return s
}

func (r *rig) text(body object) string {
	r.t.Helper()
	raw, err := json.Marshal(body)
	r.must(err)
	return string(raw)
}

// A pod that refuses a connection costs an attempt; by the next request it is known.
func TestCausesOfAPodThatRefuses(t *testing.T) {
	t.Parallel()
	opts := serveOptions(2)
	opts.Config.Intervals.ScrapeMs, opts.Config.Intervals.ProbeMs = 60_000, 60_000 // so that the request finds out
	r := start(t, opts)
	const pod, other = "sim-0", "sim-1"
	body := r.completion(words("re", promptTokens), 1)
	r.direct(pod, completionsPath, body) // the gateway has no connection to it yet
	r.quiet()
	r.must(r.fleet.Kill(pod))
	r.must(r.fleet.Hold(other, sim.Channels{Reports: true}))
	r.ask("first", completionsPath, body)
	r.because("first", explain.CauseRetried, "the first attempt failed", other+" answered, after 1 attempt failed ("+pod+": ")
	r.ask("second", completionsPath, body)
	r.because("second", explain.CauseOwnerUnhealthy, pod+" would have won")
	r.must(r.fleet.Restart(pod))
}
