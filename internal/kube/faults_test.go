package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// stateOf is the pool with its pods, and their members.
func stateOf(p *poolWatch) (PoolState, string) {
	m := membership{namespaces: map[string]bool{"serving": true}, at: map[string]claim{}}
	s := m.add(p)
	return s, names(m.members())
}

// What a pod or a pool says that can't be followed is told, and never makes an endpoint
// that was not asked for.
func TestFaultsOfPods(t *testing.T) {
	pod := func(name, ip string, edits ...kubetest.Edit) kubetest.Doc {
		return kubetest.Pod(name, "vllm", ip, edits...)
	}
	active := func(value string) kubetest.Edit { return kubetest.Annotated(activePortsKey, value) }
	one := func(edits ...kubetest.Edit) []kubetest.Doc { return []kubetest.Doc{pod("a", "10.0.0.1", edits...)} }
	for _, c := range []struct {
		name   string
		ports  []int32
		pods   []kubetest.Doc
		want   string
		faults []string // parts of each, in their order
	}{
		{"nothing", []int32{8000, 8001}, one(), "a@10.0.0.1:8000 a@10.0.0.1:8001", nil},
		{"all ports taken away", []int32{8000}, one(active(" ")), "", nil},
		{"one port of two", []int32{8000, 8001}, one(active("8001")), "a@10.0.0.1:8001", nil},
		{"garbage", []int32{8000}, one(active("all")), "", []string{`a: annotation llm-d.ai/active-ports "all": "all" is no port, none of the others is a target port of the pool (8000), and the pod is no endpoint`}},
		{"garbage by the older name", []int32{8000}, one(kubetest.Annotated(oldActivePortsKey, "all")), "", []string{`a: annotation inference.networking.k8s.io/active-ports "all"`}},
		{"a port and garbage", []int32{8000, 8001}, one(active("8000,http")), "a@10.0.0.1:8000", []string{`"http" is no port, and is left out`}},
		{"ports of another pool", []int32{8000}, one(active("9000,9001")), "", []string{"none of them is a target port of the pool (8000), and the pod is no endpoint"}},
		{"a port of the pool among others", []int32{8000}, one(active("8000,9001")), "a@10.0.0.1:8000", nil},
		{"numbers that are no ports", []int32{8000}, one(active("0,-1,70000,8e3")), "", []string{`"0" is no port`}},
		{"other separators", []int32{8000, 8001}, one(active("8000;8001")), "", []string{`"8000;8001" is no port`}},
		{"a comma too many", []int32{8000}, one(active("8000,")), "a@10.0.0.1:8000", []string{`"" is no port, and is left out`}},
		{"longer than any list", []int32{8000, 8001}, one(active("8001," + strings.Repeat("x", 1<<20))), "a@10.0.0.1:8001", []string{`"xxx`}},
		{"control characters", []int32{8000}, one(active("\x1b[31m8000\n")), "", []string{`"\x1b[31m8000" is no port`}},
		{"a port twice", []int32{8000}, one(active("8000,8000")), "a@10.0.0.1:8000", nil},
		{"a pod that is not ready says it too", []int32{8000}, one(active("x"), kubetest.NotReady), "", []string{`"x" is no port`}},
		{"several pods", []int32{8000}, []kubetest.Doc{pod("b", "10.0.0.2", active("x")), pod("a", "10.0.0.1", active("y"))}, "", []string{"a: ", "b: "}},
		{
			"an address that is none",
			[]int32{8000},
			[]kubetest.Doc{pod("a", "nowhere"), pod("b", "0.0.0.0"), pod("c", "ff02::1"), pod("d", "fe80::1%eth0"), pod("e", "10.0.0.1")},
			"e@10.0.0.1:8000",
			[]string{`a: its address "nowhere" can't be`, `b: its address "0.0.0.0"`, `c: its address "ff02::1"`, `d: its address "fe80::1%eth0"`},
		},
		{"one address in two forms", []int32{8000}, []kubetest.Doc{
			pod("a", "fd00:0::0:1", createdAt("2026-01-01T00:00:00Z")), pod("b", "fd00::1", createdAt("2026-01-02T00:00:00Z")),
			pod("c", "::ffff:10.0.0.1", createdAt("2026-01-01T00:00:00Z")), pod("d", "10.0.0.1", createdAt("2026-01-02T00:00:00Z")),
		}, "b@[fd00::1]:8000 d@10.0.0.1:8000", nil},
		{"several addresses: the first", []int32{8000}, one(func(_, _, status kubetest.Doc) {
			status["podIPs"] = []kubetest.Doc{{"ip": "10.0.0.1"}, {"ip": "fd00::1"}}
		}), "a@10.0.0.1:8000", nil},
		{"a target port twice", []int32{8000, 8000}, one(), "a@10.0.0.1:8000", nil},
		{"target ports that are none", []int32{0, 8000, 70000, -1}, one(), "a@10.0.0.1:8000", []string{": target port -1 is none, and is left out"}},
		{"no target port", nil, one(), "", nil},
		{
			"more target ports than there may be",
			[]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
			one(), "a@10.0.0.1:1 a@10.0.0.1:2 a@10.0.0.1:3 a@10.0.0.1:4 a@10.0.0.1:5 a@10.0.0.1:6 a@10.0.0.1:7 a@10.0.0.1:8",
			[]string{": there are 10 target ports, and those after the first 8 are left out"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pods []*podFacts
			for _, d := range c.pods {
				pods = append(pods, facts(t, d))
			}
			s, got := stateOf(of(c.ports, pods...))
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if len(s.Faults) != len(c.faults) {
				t.Fatalf("faults %q, want %q", s.Faults, c.faults)
			}
			for i, f := range s.Faults {
				if text := f.Pod + ": " + f.What; !strings.Contains(text, c.faults[i]) || len(text) > 500 {
					t.Errorf("fault %q, want %q", text, c.faults[i])
				}
			}
		})
	}
}

// Of very many faults a few are told, always the same, and the others counted.
func TestManyFaults(t *testing.T) {
	var pods []*podFacts
	for i := range 3 * maxFaults {
		pods = append(pods, facts(t, kubetest.Pod(fmt.Sprintf("p%03d", i), "vllm", fmt.Sprintf("10.0.0.%d", i), kubetest.Annotated(activePortsKey, "x"))))
	}
	first, _ := stateOf(of([]int32{8000}, pods...))
	if len(first.Faults) != maxFaults || first.MoreFaults != 2*maxFaults || first.Faults[0].Pod != "p000" {
		t.Errorf("%d told, %d counted, the first of %s", len(first.Faults), first.MoreFaults, first.Faults[0].Pod)
	}
	if again, _ := stateOf(of([]int32{8000}, pods...)); !slices.Equal(first.Faults, again.Faults) {
		t.Error("others are told the second time")
	}
}

// Pods that two pools select are the first one's, while both are there.
func TestPoolsThatSharePods(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("code", "vllm", 8000))
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000, 8001))
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
		w := watchPools(t, f, "code", "chat")
		pools := func(want ...string) {
			t.Helper()
			w.await(fmt.Sprint(want), func(s *State) bool {
				var got []string
				for _, m := range s.Members {
					got = append(got, m.Address+" "+m.Pool)
				}
				return s.Synced && slices.Equal(got, want)
			})
		}
		pools("10.0.0.1:8000 serving/code", "10.0.0.1:8001 serving/chat")
		f.Drop(kubetest.Pools, "code")
		pools("10.0.0.1:8000 serving/chat", "10.0.0.1:8001 serving/chat")
		f.Put(kubetest.Pools, kubetest.Pool("code", "vllm", 8000))
		pools("10.0.0.1:8000 serving/code", "10.0.0.1:8001 serving/chat")
	})
}

// A pool without a selector selects nothing, whichever way it has none.
func TestPoolsWithoutASelector(t *testing.T) {
	for name, spec := range map[string]kubetest.Doc{
		"nothing":             {},
		"null":                {"selector": nil, "targetPorts": []kubetest.Doc{{"number": 8000}}},
		"no labels":           {"selector": kubetest.Doc{}, "targetPorts": []kubetest.Doc{{"number": 8000}}},
		"labels that are not": {"selector": kubetest.Doc{"matchLabels": kubetest.Doc{}}, "targetPorts": []kubetest.Doc{{"number": 8000}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				none := kubetest.Pool("chat", "vllm", 8000)
				none["spec"] = spec
				f.Put(kubetest.Pools, none)
				w := watchPools(t, f, "chat")
				w.endpoints()
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				w.endpoints("a@10.0.0.1:8000")
				none = kubetest.Pool("chat", "vllm", 8000)
				none["spec"] = spec
				f.Put(kubetest.Pools, none)
				w.endpoints()
			})
		})
	}
}

// An address moves to another pod while both are there, and back.
func TestAnAddressThatMoves(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		old, young := createdAt("2026-01-01T00:00:00Z"), createdAt("2026-01-02T00:00:00Z")
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1", old))
		f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "", young))
		w := watchPools(t, f, "chat")
		w.endpoints("a@10.0.0.1:8000")
		f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.1", young))
		w.endpoints("b@10.0.0.1:8000")
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.2", old))
		w.endpoints("a@10.0.0.2:8000", "b@10.0.0.1:8000")
		f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.1", young, kubetest.Terminating))
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1", old))
		w.endpoints("a@10.0.0.1:8000")
	})
}
