package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/pool"
)

// decodePod is the pod of a document as the API server's client has it.
func decodePod(t testing.TB, d kubetest.Doc) *corev1.Pod {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	pod := new(corev1.Pod)
	if err := json.Unmarshal(b, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// facts are what is kept of a pod that was trimmed first.
func facts(t testing.TB, d kubetest.Doc) *podFacts {
	t.Helper()
	pod := decodePod(t, d)
	whole := keepPod(pod.DeepCopy())
	trimmed, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	kept := keepPod(trimmed.(*corev1.Pod))
	if fmt.Sprint(*kept) != fmt.Sprint(*whole) {
		t.Errorf("of the whole pod\n%v\nof the trimmed\n%v", *whole, *kept)
	}
	return kept
}

// of makes a pool watch of pods, without a cluster.
func of(ports []int32, pods ...*podFacts) *poolWatch {
	p := &InferencePool{}
	p.Name, p.Namespace = "chat", "serving"
	p.Spec.Selector.MatchLabels = map[string]string{"app": "vllm"}
	for _, n := range ports {
		p.Spec.TargetPorts = append(p.Spec.TargetPorts, Port{n})
	}
	known := map[string]*podFacts{}
	for _, f := range pods {
		known[f.name.Name] = f
	}
	return &poolWatch{
		name: Name{"serving", "chat"}, selector: "app=vllm",
		v1:   &feed[*InferencePool]{items: map[string]*InferencePool{"chat": p}, read: true},
		pods: &feed[*podFacts]{items: known, read: true},
	}
}

func membersOf(p *poolWatch, namespaces ...string) []pool.Member {
	m := membership{namespaces: map[string]bool{"serving": true}, at: map[string]claim{}}
	for _, n := range namespaces {
		m.namespaces[n] = true
	}
	m.add(p)
	return m.members()
}

func names(members []pool.Member) string {
	var out []string
	for _, m := range members {
		out = append(out, m.Name+"@"+m.Address)
	}
	return strings.Join(out, " ")
}

func phase(p string) kubetest.Edit { return func(_, _, status kubetest.Doc) { status["phase"] = p } }

func createdAt(at string) kubetest.Edit {
	return func(meta, _, _ kubetest.Doc) { meta["creationTimestamp"] = at }
}

func TestEndpointsOfPods(t *testing.T) {
	pod := func(edits ...kubetest.Edit) kubetest.Doc { return kubetest.Pod("a", "vllm", "10.0.0.1", edits...) }
	for _, c := range []struct {
		name  string
		ports []int32
		pods  []kubetest.Doc
		want  string
	}{
		{"one port", []int32{8000}, []kubetest.Doc{pod()}, "a@10.0.0.1:8000"},
		{"each port is an endpoint", []int32{8000, 8001}, []kubetest.Doc{pod()}, "a@10.0.0.1:8000 a@10.0.0.1:8001"},
		{"active ports", []int32{8000, 8001, 8002}, []kubetest.Doc{pod(kubetest.Annotated(activePortsKey, "8002, 8000"))}, "a@10.0.0.1:8000 a@10.0.0.1:8002"},
		{"active ports by the older name", []int32{8000, 8001}, []kubetest.Doc{pod(kubetest.Annotated(oldActivePortsKey, "8001"))}, "a@10.0.0.1:8001"},
		{"no active port", []int32{8000}, []kubetest.Doc{pod(kubetest.Annotated(activePortsKey, ""))}, ""},
		{"active ports that are not the pool's", []int32{8000}, []kubetest.Doc{pod(kubetest.Annotated(activePortsKey, "22,x"))}, ""},
		{"no address yet", []int32{8000}, []kubetest.Doc{kubetest.Pod("a", "vllm", "")}, ""},
		{"failed", []int32{8000}, []kubetest.Doc{pod(phase("Failed"))}, ""},
		{"succeeded", []int32{8000}, []kubetest.Doc{pod(phase("Succeeded"))}, ""},
		{"pending with an address", []int32{8000}, []kubetest.Doc{pod(phase("Pending"), kubetest.NotReady)}, "a@10.0.0.1:8000"},
		{"not selected", []int32{8000}, []kubetest.Doc{kubetest.Pod("a", "other", "10.0.0.1")}, ""},
		{"IPv6", []int32{8000}, []kubetest.Doc{kubetest.Pod("a", "vllm", "fd00::1")}, "a@[fd00::1]:8000"},
		{"an address that is used again: the newest", []int32{8000}, []kubetest.Doc{
			kubetest.Pod("a", "vllm", "10.0.0.1", createdAt("2026-01-01T00:00:00Z")), kubetest.Pod("b", "vllm", "10.0.0.1", createdAt("2026-01-02T00:00:00Z")),
		}, "b@10.0.0.1:8000"},
		{"an address that is used again: one that does not go", []int32{8000}, []kubetest.Doc{
			kubetest.Pod("a", "vllm", "10.0.0.1", createdAt("2026-01-01T00:00:00Z")),
			kubetest.Pod("b", "vllm", "10.0.0.1", createdAt("2026-01-02T00:00:00Z"), kubetest.Terminating),
		}, "a@10.0.0.1:8000"},
		{"an address that is used again: one that has ended", []int32{8000}, []kubetest.Doc{
			kubetest.Pod("a", "vllm", "10.0.0.1", createdAt("2026-01-02T00:00:00Z"), phase("Failed")),
			kubetest.Pod("b", "vllm", "10.0.0.1", createdAt("2026-01-01T00:00:00Z")),
		}, "b@10.0.0.1:8000"},
		{"one node's address, a port each", []int32{8000, 8001}, []kubetest.Doc{
			pod(kubetest.Annotated(activePortsKey, "8000")), kubetest.Pod("b", "vllm", "10.0.0.1", kubetest.Annotated(activePortsKey, "8001")),
		}, "a@10.0.0.1:8000 b@10.0.0.1:8001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pods []*podFacts
			for _, d := range c.pods {
				pods = append(pods, facts(t, d))
			}
			if got := names(membersOf(of(c.ports, pods...))); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	t.Run("pods of several namespaces are told apart", func(t *testing.T) {
		if got := names(membersOf(of([]int32{8000}, facts(t, pod())), "batch")); got != "serving/a@10.0.0.1:8000" {
			t.Errorf("got %q", got)
		}
	})
}

func TestWhatAPodSaysOfItself(t *testing.T) {
	for _, c := range []struct {
		name string
		edit kubetest.Edit
		is   func(m *pool.Member) bool
	}{
		{"ready", nil, func(m *pool.Member) bool { return !m.NotReady && !m.Terminating && !m.Drained && !m.PrefillOnly }},
		{"not ready", kubetest.NotReady, func(m *pool.Member) bool { return m.NotReady }},
		{"no condition", func(_, _, s kubetest.Doc) { delete(s, "conditions") }, func(m *pool.Member) bool { return m.NotReady }},
		{"terminating", kubetest.Terminating, func(m *pool.Member) bool { return m.Terminating }},
		{"pool", nil, func(m *pool.Member) bool { return m.Pool == "serving/chat" }},
		{"drained", kubetest.Annotated(drainKey, "true"), func(m *pool.Member) bool { return m.Drained }},
		{"not drained", kubetest.Annotated(drainKey, "false"), func(m *pool.Member) bool { return !m.Drained }},
		{"prefill", kubetest.Labelled(roleKey, "prefill"), func(m *pool.Member) bool { return m.PrefillOnly }},
		{"encode", kubetest.Labelled(roleKey, "encode"), func(m *pool.Member) bool { return m.PrefillOnly }},
		{"decode", kubetest.Labelled(roleKey, "decode"), func(m *pool.Member) bool { return !m.PrefillOnly }},
		{"both", kubetest.Labelled(roleKey, "prefill-decode"), func(m *pool.Member) bool { return !m.PrefillOnly }},
		{"engine", kubetest.Annotated(engineKey, "sglang"), func(m *pool.Member) bool { return m.Engine == "sglang" }},
		{"engine by the older label", kubetest.Labelled(oldEngineKey, "trtllm"), func(m *pool.Member) bool { return m.Engine == "trtllm" }},
		{"unknown engine of the older label", kubetest.Labelled(oldEngineKey, "default"), func(m *pool.Member) bool { return m.Engine == "" }},
		{"most running", kubetest.Annotated(maxRunningKey, "256"), func(m *pool.Member) bool { return m.MaxRunning == 256 }},
		{"no number", kubetest.Annotated(maxRunningKey, "many"), func(m *pool.Member) bool { return m.MaxRunning < 0 }},
		{"zero", kubetest.Annotated(maxRunningKey, "0"), func(m *pool.Member) bool { return m.MaxRunning < 0 }},
		{"its node's exporter", kubetest.Annotated(gpuKey, "http://{hostIP}:9400/metrics"), func(m *pool.Member) bool { return m.GPUURL == "http://[fd00::9]:9400/metrics" }},
		{"its events", kubetest.Annotated(eventsKey, "tcp://{podIP}:1{port}"), func(m *pool.Member) bool { return m.Events == "tcp://10.0.0.1:18000" }},
		{"replays", kubetest.Annotated(replayKey, "tcp://{podIP}:5657"), func(m *pool.Member) bool { return m.Replay == "tcp://10.0.0.1:5657" }},
		{"a long annotation", kubetest.Annotated("big", strings.Repeat("x", maxAnnotation+1)), func(m *pool.Member) bool { return len(m.Annotations) == 0 }},
		{"many annotations", func(meta, _, _ kubetest.Doc) {
			all := map[string]string{drainKey: "true"}
			for i := range 1000 {
				all[fmt.Sprint("a", i)] = "x"
			}
			meta["annotations"] = all
		}, func(m *pool.Member) bool { return len(m.Annotations) == maxLabels && m.Drained }},
	} {
		t.Run(c.name, func(t *testing.T) {
			edits := []kubetest.Edit{func(_, _, s kubetest.Doc) { s["hostIP"] = "fd00::9" }}
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			m := membersOf(of([]int32{8000}, facts(t, kubetest.Pod("a", "vllm", "10.0.0.1", edits...))))
			if len(m) != 1 || !c.is(&m[0]) {
				t.Errorf("got %+v", m)
			}
		})
	}
}

// An endpoint is another instance exactly when another process is behind it.
func TestInstances(t *testing.T) {
	sidecar := func(restarts int) kubetest.Edit {
		return func(_, spec, status kubetest.Doc) {
			spec["containers"] = append(spec["containers"].([]kubetest.Doc), kubetest.Doc{"name": "metrics", "ports": []kubetest.Doc{{"containerPort": 9100}}})
			list, _ := status["containerStatuses"].([]kubetest.Doc)
			status["containerStatuses"] = append(list, kubetest.Doc{"name": "metrics", "restartCount": restarts})
		}
	}
	noPorts := func(_, spec, _ kubetest.Doc) {
		for _, c := range spec["containers"].([]kubetest.Doc) {
			delete(c, "ports")
		}
	}
	another := func(meta, _, _ kubetest.Doc) { meta["uid"] = "another" }
	for _, c := range []struct {
		name          string
		before, after []kubetest.Edit
		same          bool
	}{
		{"nothing", []kubetest.Edit{kubetest.Restarted(0)}, []kubetest.Edit{kubetest.Restarted(0)}, true},
		{"ready or not", []kubetest.Edit{kubetest.Restarted(0)}, []kubetest.Edit{kubetest.Restarted(0), kubetest.NotReady}, true},
		{"the engine starts anew", []kubetest.Edit{kubetest.Restarted(0)}, []kubetest.Edit{kubetest.Restarted(1)}, false},
		{"another pod of the name", nil, []kubetest.Edit{another}, false},
		{"another container starts anew", []kubetest.Edit{kubetest.Restarted(0), sidecar(0)}, []kubetest.Edit{kubetest.Restarted(0), sidecar(1)}, true},
		{"who has the port is not said", []kubetest.Edit{kubetest.Restarted(0), sidecar(0), noPorts}, []kubetest.Edit{kubetest.Restarted(0), sidecar(1), noPorts}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			instance := func(edits []kubetest.Edit) string {
				return membersOf(of([]int32{8000}, facts(t, kubetest.Pod("a", "vllm", "10.0.0.1", edits...))))[0].Instance
			}
			if before, after := instance(c.before), instance(c.after); before == after != c.same {
				t.Errorf("%q, then %q", before, after)
			}
		})
	}
}

// Whatever happens to pods and in whatever order, with watches that end and expire in
// between: the members are those of the pods that are there at the end.
func TestAnyOrderEndsInTheSameMembers(t *testing.T) {
	edits := []kubetest.Edit{
		kubetest.NotReady, kubetest.Terminating, phase("Failed"), createdAt("2026-01-01T00:00:00Z"), createdAt("2026-01-02T00:00:00Z"),
		kubetest.Annotated(activePortsKey, "8001"), kubetest.Labelled("app", "other"), kubetest.Restarted(1),
	}
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(r *rapid.T) { // a *testing.T would be asked for its deadline
			f := kubetest.InMemory(r)
			f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000, 8001))
			w := watchPools(r, f, "chat")
			there := map[string]kubetest.Doc{}
			for range rapid.IntRange(1, 20).Draw(r, "steps") {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "pod")
				switch what := rapid.IntRange(0, 9).Draw(r, "what"); what {
				case 0:
					f.Cut()
				case 1:
					f.Forget()
				case 2, 3:
					f.Drop(kubetest.Pods, name)
					delete(there, name)
				default:
					ip := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", ""}).Draw(r, "ip")
					some := rapid.SliceOfN(rapid.SampledFrom(edits), 0, 3).Draw(r, "edits")
					there[name] = kubetest.Pod(name, "vllm", ip, some...)
					f.Put(kubetest.Pods, there[name])
				}
				time.Sleep(rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, gather, time.Second, lastDelay}).Draw(r, "wait"))
			}
			var pods []*podFacts
			for _, name := range slices.Sorted(maps.Keys(there)) {
				pods = append(pods, facts(t, there[name]))
			}
			want := membersOf(of([]int32{8000, 8001}, pods...))
			w.await(fmt.Sprint(want), func(s *State) bool { return s.Synced && fmt.Sprint(s.Members) == fmt.Sprint(want) })
		})
	})
}
