package serve

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/load"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// snapshot is the picker's newest.
func (r *rig) snapshot() *explain.Snapshot {
	r.t.Helper()
	s, err := r.admin.Snapshot(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// verdict waits until the fleet has that verdict, of that pod.
func (r *rig) verdict(code, pod string) *explain.Snapshot {
	r.t.Helper()
	var s *explain.Snapshot
	started := time.Now()
	for {
		s = r.snapshot()
		if s.Verdict.Code == code && s.Verdict.Pod == pod {
			break
		}
		if time.Since(started) > patience/2 {
			r.t.Fatalf("waited in vain for %s of %q: the verdict is %+v\nwindows %+v\nindex %+v\npods %+v", code, pod, s.Verdict, s.Windows, s.Index, s.Pods)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if code == explain.VerdictOK {
		return s
	}
	if v := s.Verdict; v.Message == "" || v.Since == nil || v.Since.After(s.Time) || v.Key == "" || len(v.Evidence) == 0 {
		r.t.Errorf("verdict %+v: want a message, since when, evidence and a key", v)
	}
	return s
}

// conversations is traffic of so many requests a simulated second.
func conversations(rate float64) *Load {
	return &Load{Source: load.NewConversations(rate, 1), Stay: true, Summary: io.Discard}
}

// steady sends one request a step of simulated time until the test ends or the
// returned function is called.
func (r *rig) steady(step time.Duration, body func(i int) object) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	running := new(crowd)
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Duration(float64(step) / r.server.clock.Scale()))
		defer tick.Stop()
		for i := 0; ; i++ {
			running.wg.Go(func() { r.send(r.ctx, fmt.Sprint("steady-", i), completionsPath, body(i)) })
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	stop = func() {
		close(done)
		<-ended
		running.wg.Wait()
	}
	return stop
}

func TestVerdictSaturated(t *testing.T) {
	opts := serveOptions(3)
	r := start(t, opts)
	r.verdict(explain.VerdictOK, "")
	r.hold(sim.Everything())
	// All queues but a little room are no saturation.
	running := r.crowd("some", 30, func(i int) object { return r.completion(words(fmt.Sprintf("%02d", i), 64), 1) })
	r.inFlight(30)
	r.verdict(explain.VerdictOK, "")
	more := r.crowd("more", 40, func(i int) object { return r.completion(words(fmt.Sprintf("m%02d", i), 64), 1) })
	r.inFlight(70)
	s := r.verdict(explain.VerdictSaturated, "")
	for _, p := range s.Pods {
		if p.State != explain.PodFull || p.Queue.Pending < p.Queue.Max {
			t.Errorf("%s is %s with %d pending of %d", p.Pod, p.State, p.Queue.Pending, p.Queue.Max)
		}
	}
	r.release()
	running.allWell(t)
	more.allWell(t)
	r.verdict(explain.VerdictOK, "")
}

func TestVerdictIndexDead(t *testing.T) {
	opts := serveOptions(2)
	opts.Sim.Events = true
	opts.Load = conversations(3)
	r := start(t, opts)
	r.until("events come and requests end", func() bool {
		s := r.snapshot()
		return s.Windows[1].Completed >= 20 && s.Index.LastHeard != nil && s.Verdict.Code == explain.VerdictOK
	})
	r.must(r.fleet.Hold(sim.AllPods, sim.Channels{Events: true}))
	s := r.verdict(explain.VerdictIndexDead, "")
	if s.Index.Connected != 2 || *s.Index.LastHeard <= 30 {
		t.Errorf("index %+v", s.Index)
	}
	r.must(r.fleet.Release(sim.AllPods, sim.Channels{Events: true}))
	r.verdict(explain.VerdictOK, "")
}

func TestVerdictIndexDeadOfOnePod(t *testing.T) {
	opts := serveOptions(2)
	opts.Sim.Events = true
	r := start(t, opts)
	stop := r.steady(600*time.Millisecond, r.fresh)
	defer stop()
	r.until("both serve", func() bool { s := r.snapshot(); return s.Pods[0].Served >= 5 && s.Pods[1].Served >= 5 })
	r.must(r.fleet.Hold("sim-1", sim.Channels{Events: true}))
	r.verdict(explain.VerdictIndexDead, "sim-1")
	r.release()
}

// fresh are requests that have nothing in common.
func (r *rig) fresh(i int) object { return r.completion(words(fmt.Sprintf("%03d", i%1000), 64), 1) }

func TestVerdictMetricsStale(t *testing.T) {
	opts := serveOptions(3)
	opts.Sim.Speed = 4
	opts.Config.Staleness.MetricsSeconds, opts.Config.Staleness.ReportsSeconds = 5, 6
	opts.Load = conversations(3)
	r := start(t, opts)
	r.until("requests end", func() bool { return r.snapshot().Windows[0].Completed > 0 })
	r.must(r.fleet.Hold("sim-1", sim.Channels{Metrics: true, Reports: true}))
	s := r.verdict(explain.VerdictStale, "sim-1")
	p := s.Pods[1]
	if p.State != explain.PodStale || p.AgeSeconds == nil || *p.AgeSeconds < 5 || p.Load == nil {
		t.Errorf("pod %+v: want its old figures", p)
	}
	r.must(r.fleet.Release("sim-1", sim.Channels{Metrics: true, Reports: true}))
	r.verdict(explain.VerdictOK, "")
}

func TestVerdictHealthFlapping(t *testing.T) {
	r := start(t, serveOptions(3))
	state := func(want string) {
		t.Helper()
		r.until("sim-2 is "+want, func() bool {
			s := r.snapshot()
			return s.Pods[2].State == want
		})
	}
	for i := range 2 {
		if s := r.snapshot(); s.Verdict.Code != explain.VerdictOK {
			t.Fatalf("after %d times: %+v", i, s.Verdict)
		}
		state(explain.PodOK)
		r.must(r.fleet.SetHealth("sim-2", .1))
		state(explain.PodDown)
		r.must(r.fleet.SetHealth("sim-2", 1))
	}
	s := r.verdict(explain.VerdictFlapping, "sim-2")
	if s.Pods[2].Flaps != 4 {
		t.Errorf("%d crossings, want 4", s.Pods[2].Flaps)
	}
	for _, code := range []string{explain.EventDown, explain.EventUp} {
		if !slices.ContainsFunc(s.Events, func(e explain.FleetEvent) bool { return e.Code == code && e.Pod == "sim-2" }) {
			t.Errorf("no event %s in %+v", code, s.Events)
		}
	}
}

func TestVerdictHerd(t *testing.T) {
	r := still(t)
	body := r.completion(words("h", 512), 1)
	_, rec := r.ask("first", completionsPath, body)
	r.quiet()
	r.hold(sim.Everything())
	running := r.crowd("herd", 25, func(int) object { return body })
	s := r.verdict(explain.VerdictHerd, rec.Result.Pod)
	if s.Windows[0].Decisions < 20 {
		t.Errorf("windows %+v", s.Windows)
	}
	r.release()
	running.allWell(t)
	r.verdict(explain.VerdictOK, "")
}

// The same number of requests without a prefix in common are no herd.
func TestCrowdThatSpreadsIsNoHerd(t *testing.T) {
	r := still(t)
	r.quiet()
	r.hold(sim.Everything())
	running := r.crowd("crowd", 44, func(i int) object { return r.completion(words(fmt.Sprintf("%02d", i), 64), 1) })
	r.inFlight(44)
	r.until("all are counted", func() bool { return r.snapshot().Windows[0].Decisions >= 44 })
	if s := r.snapshot(); s.Verdict.Code != explain.VerdictOK {
		t.Errorf("verdict %+v", s.Verdict)
	}
	r.release()
	running.allWell(t)
}

func TestVerdictHotPod(t *testing.T) {
	r := start(t, serveOptions(4))
	hot := r.completion(words("h", 2048), 32)
	_, rec := r.ask("first", completionsPath, hot)
	r.reported()
	r.must(r.fleet.Slow(rec.Result.Pod, 20))
	stop := r.steady(300*time.Millisecond, func(i int) object {
		if i%4 == 0 {
			return r.completion(words(fmt.Sprintf("%03d", i/4%1000), 64), 1)
		}
		return hot
	})
	defer stop()
	s := r.verdict(explain.VerdictHotPod, rec.Result.Pod)
	for _, p := range s.Pods {
		if (p.State == explain.PodHot) != (p.Pod == rec.Result.Pod) {
			t.Errorf("%s is %s", p.Pod, p.State)
		}
	}
	r.must(r.fleet.Recover(sim.AllPods))
}

func adapterFleet(t *testing.T) *rig {
	opts := serveOptions(2)
	opts.Sim.MaxAdapters = 4
	for i := range 3 {
		opts.Sim.Adapters = append(opts.Sim.Adapters, vllm.Adapter{Name: fmt.Sprint("lora-", i)})
	}
	return start(t, opts)
}

func (r *rig) adapterTraffic() (stop func()) {
	return r.steady(700*time.Millisecond, func(i int) object {
		return object{"model": fmt.Sprint("lora-", i%3), "prompt": words(fmt.Sprintf("%03d", i%1000), 64), "max_tokens": 1}
	})
}

func TestVerdictAdapterThrash(t *testing.T) {
	r := adapterFleet(t)
	r.must(r.fleet.Thrash(sim.AllPods))
	stop := r.adapterTraffic()
	defer stop()
	s := r.verdict(explain.VerdictThrash, "")
	if s.Windows[1].AdapterLoads < 10 {
		t.Errorf("windows %+v", s.Windows)
	}
}

// Adapters that stay are loaded once for each pod, which is none.
func TestFirstLoadsAreNoThrash(t *testing.T) {
	r := adapterFleet(t)
	stop := r.adapterTraffic()
	defer stop()
	r.until("a minute of it is counted", func() bool { return r.snapshot().Windows[2].Completed >= 80 })
	s := r.snapshot()
	if s.Verdict.Code != explain.VerdictOK || s.Windows[2].AdapterLoads == 0 {
		t.Errorf("verdict %+v, windows %+v", s.Verdict, s.Windows)
	}
}

func TestVerdictNoEndpoints(t *testing.T) {
	r := start(t, serveOptions(2))
	r.must(r.fleet.SetHealth("sim-0", 0))
	r.until("one is down", func() bool { return r.snapshot().Pods[0].State == explain.PodDown })
	r.verdict(explain.VerdictOK, "")
	r.must(r.fleet.SetHealth("sim-1", 0))
	r.verdict(explain.VerdictNoEndpoints, "")
}

func TestVerdictRouterUnreachable(t *testing.T) {
	r := start(t, serveOptions(1))
	before := r.snapshot()
	r.stop()
	<-r.ended
	_, err := r.admin.Snapshot(r.ctx)
	gone, ok := errors.AsType[*admin.UnreachableError](err)
	if !ok {
		t.Fatalf("error %v, want that nobody answers", err)
	}
	v := explain.Unreachable(r.admin.Server(), gone.Error(), before.Time)
	if v.Code != explain.VerdictUnreachable || !v.Since.Equal(before.Time) || len(v.Evidence) != 1 {
		t.Errorf("verdict %+v", v)
	}
}

// Healthy traffic over HTTP has no verdict but ok. That it stays so for ten minutes,
// however busy the pods are, is tested in virtual time, see package fleet.
func TestHealthyTrafficIsOK(t *testing.T) {
	opts := serveOptions(4)
	opts.Sim.Speed, opts.Sim.Events = 4, true
	opts.Load = conversations(3)
	r := start(t, opts)
	enough := errors.New("enough")
	err := r.admin.Stream(r.ctx, admin.MinInterval, func(l *admin.StreamLine) error {
		s := l.Snapshot
		if s == nil {
			return nil
		}
		if s.Verdict.Code != explain.VerdictOK {
			t.Errorf("after %.0f s: %+v\nwindows %+v\npods %+v", s.Router.Uptime, s.Verdict, s.Windows, s.Pods)
		}
		if s.Router.Uptime < 20 || s.Windows[1].Completed < 20 {
			return nil
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
}
