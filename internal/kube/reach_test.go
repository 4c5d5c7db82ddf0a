package kube

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/nettest"
)

func TestTunnel(t *testing.T) {
	api, cluster := newFakeAPI(t, nil)
	api.behind(t, "chat-epp-1", 9091, "hello")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer api.nodes.Forwarded()
	tunnel := cluster.NewTunnel("prod", nil)
	defer tunnel.Close()
	client := &http.Client{Transport: tunnel.Transport(), Timeout: time.Minute}
	get := func() (string, error) {
		resp, err := client.Get("http://chat-epp-1:9091/")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	if got, err := get(); err != nil || got != "hello 127.0.0.1:9091" {
		t.Fatalf("through the tunnel: %q, %v", got, err)
	}
	lost := tunnel.forwards["chat-epp-1"].conn
	lost.Close()
	<-lost.CloseChan()
	client.CloseIdleConnections()
	if got, err := get(); err != nil || got != "hello 127.0.0.1:9091" {
		t.Fatalf("after the forward was lost: %q, %v", got, err)
	}
	_, err := client.Get("http://chat-epp-1:9095/")
	step, ok := errors.AsType[*StepError](err)
	if !ok || step.Trouble != Closed || !strings.Contains(step.Error(), "nothing listens there") {
		t.Fatalf("a port that is not listened at: %v", err)
	}
	if got, err := get(); err != nil || got != "hello 127.0.0.1:9091" {
		t.Fatalf("after another port's trouble: %q, %v", got, err)
	}
}

const (
	v1Pools    = "/apis/inference.networking.k8s.io/v1/namespaces/prod/inferencepools"
	xPools     = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/prod/inferencepools"
	allV1Pools = "/apis/inference.networking.k8s.io/v1/inferencepools"
	core       = "/api/v1/namespaces/prod"
)

// aPool is an InferencePool whose picker is the Service chat-epp.
func aPool(namespace, name string) *InferencePool {
	p := &InferencePool{TypeMeta: metav1.TypeMeta{APIVersion: PoolV1.String(), Kind: "InferencePool"}}
	p.Namespace, p.Name = namespace, name
	p.Spec.EndpointPickerRef = EndpointPickerRef{Name: "chat-epp", Port: &Port{9002}}
	return p
}

func poolList(pools ...*InferencePool) *List[InferencePool] {
	l := &List[InferencePool]{TypeMeta: metav1.TypeMeta{APIVersion: PoolV1.String(), Kind: "InferencePoolList"}}
	for _, p := range pools {
		l.Items = append(l.Items, *p)
	}
	return l
}

func oldPoolList(names ...string) *List[PoolV1Alpha2] {
	l := &List[PoolV1Alpha2]{TypeMeta: metav1.TypeMeta{APIVersion: InferenceX.String(), Kind: "InferencePoolList"}}
	for _, name := range names {
		p := PoolV1Alpha2{}
		p.Namespace, p.Name = "prod", name
		p.Spec.ExtensionRef.Name = "chat-epp"
		l.Items = append(l.Items, p)
	}
	return l
}

func aService(selector map[string]string) *corev1.Service {
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}}
	s.Name, s.Spec.Selector = "chat-epp", selector
	return s
}

// aPod is a replica of a picker that is ready; change makes another of it.
func aPod(name, image string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{}
	p.Name, p.Namespace = name, "prod"
	p.Spec.Containers = []corev1.Container{{Name: "picker", Image: image, Ports: []corev1.ContainerPort{{ContainerPort: 9002}}}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "picker", State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}}
	if change != nil {
		change(&p)
	}
	return p
}

func podList(pods ...corev1.Pod) *corev1.PodList {
	return &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods}
}

func crashed(p *corev1.Pod) {
	p.Status.Conditions = nil
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	p.Status.ContainerStatuses[0].RestartCount = 5
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func leaving(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }

// there is a cluster in which all is well; change makes another of it.
func there(change map[string]any) map[string]any {
	objects := map[string]any{
		core: &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}},

		v1Pools: poolList(aPool("prod", "chat")), v1Pools + "/chat": aPool("prod", "chat"), xPools: oldPoolList(),
		core + "/services/chat-epp": aService(map[string]string{"app": "chat-epp"}),
		core + "/pods":              podList(aPod("chat-epp-2", "ghcr.io/eppctl/eppctl:v0.8.0", nil), aPod("chat-epp-1", "ghcr.io/eppctl/eppctl:v0.8.0", nil)),
	}
	maps.Copy(objects, change)
	return objects
}

func TestFindPicker(t *testing.T) {
	tests := []struct {
		name    string
		pool    string
		objects map[string]any
		kind    PickerKind
		running string
	}{
		{"by name", "chat", there(nil), KindEppctl, "chat-epp-1 chat-epp-2"},
		{"the only one", "", there(nil), KindEppctl, "chat-epp-1 chat-epp-2"},
		{"v1alpha2 alone", "", there(map[string]any{v1Pools: nil, xPools: oldPoolList("chat")}), KindEppctl, "chat-epp-1 chat-epp-2"},
		{"both versions have it", "", there(map[string]any{xPools: oldPoolList("chat")}), KindEppctl, "chat-epp-1 chat-epp-2"},
		{"one is not ready", "chat", there(map[string]any{core + "/pods": podList(
			aPod("a", "eppctl", unready), aPod("b", "eppctl", nil), aPod("c", "eppctl", leaving), aPod("d", "eppctl", crashed),
		)}), KindEppctl, "b a"},
		{"of llm-d", "chat", there(map[string]any{core + "/pods": podList(aPod("a", "ghcr.io/llm-d/llm-d-inference-scheduler:v0.9.0", nil))}), KindLLMD, "a"},
		{"nobody knows whose", "chat", there(map[string]any{core + "/pods": podList(aPod("a", "registry.local:5000/picker", nil))}), KindUnknown, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, cluster := newFakeAPI(t, test.objects)
			name, err := cluster.ParsePool(test.pool)
			if err != nil {
				t.Fatal(err)
			}
			p, err := cluster.FindPicker(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			var running []string
			for _, pod := range p.Running() {
				running = append(running, pod.Name)
			}
			if got := strings.Join(running, " "); p.Kind != test.kind || got != test.running || p.Pool.String() != "prod/chat" {
				t.Errorf("picker of %s is %s with %q, want %s with %q", p.Pool, p.Kind, got, test.kind, test.running)
			}
		})
	}
}

// TestStepsThatFail holds what is said of each step that can fail.
func TestStepsThatFail(t *testing.T) {
	tests := []struct {
		name    string
		pool    string
		objects map[string]any
		status  map[string]int
	}{
		{name: "no InferencePool kind", objects: map[string]any{}},
		{name: "pools are forbidden", pool: "chat", objects: there(nil), status: map[string]int{v1Pools + "/chat": 403}},
		{name: "list of pools is forbidden", objects: there(nil), status: map[string]int{v1Pools: 403}},
		{name: "nobody is logged in", objects: there(nil), status: map[string]int{v1Pools: 401}},
		{name: "no pool of that name", pool: "cat", objects: there(nil)},
		{name: "no pool of that name, and none may be listed", pool: "cat", objects: there(nil), status: map[string]int{v1Pools: 403, allV1Pools: 403}},
		{name: "no pool in the namespace", objects: there(map[string]any{v1Pools: poolList(), allV1Pools: poolList(aPool("test", "chat"))})},
		{name: "several pools", objects: there(map[string]any{v1Pools: poolList(aPool("prod", "chat"), aPool("prod", "code"))})},
		{name: "no service", pool: "chat", objects: there(map[string]any{core + "/services/chat-epp": nil})},
		{name: "services are forbidden", pool: "chat", objects: there(nil), status: map[string]int{core + "/services/chat-epp": 403}},
		{name: "service without a selector", pool: "chat", objects: there(map[string]any{core + "/services/chat-epp": aService(nil)})},
		{name: "no pod", pool: "chat", objects: there(map[string]any{core + "/pods": podList()})},
		{name: "pods are forbidden", pool: "chat", objects: there(nil), status: map[string]int{core + "/pods": 403}},
		{name: "none runs", pool: "chat", objects: there(map[string]any{core + "/pods": podList(aPod("chat-epp-1", "eppctl", crashed), aPod("chat-epp-2", "eppctl", leaving))})},
		{name: "forward is forbidden", pool: "chat", objects: there(nil), status: map[string]int{core + "/pods/chat-epp-1/portforward": 403}},
		{name: "pod is gone", pool: "chat", objects: there(map[string]any{core + "/pods/chat-epp-1/portforward": "gone"}), status: map[string]int{core + "/pods/chat-epp-1/portforward": 404}},
		{name: "admin port is closed", pool: "chat", objects: there(nil)},
		{name: "log is forbidden", pool: "log", objects: there(nil), status: map[string]int{core + "/pods/chat-epp-1/log": 403}},
	}
	var all strings.Builder
	for _, test := range tests {
		api, cluster := newFakeAPI(t, test.objects)
		api.status = test.status
		err := goThere(t, cluster, test.pool)
		step, ok := errors.AsType[*StepError](err)
		if !ok {
			t.Errorf("%s: %v is no StepError", test.name, err)
			continue
		}
		fmt.Fprintf(&all, "# %s\n%s\n  %s\n\n", test.name, step.Error(), strings.ReplaceAll(step.Hint, "\n", "\n  "))
	}
	golden.Equal(t, "testdata/reach.golden", all.String())
}

// goThere goes all the way: to the pool, to its picker, and to its admin port or log.
func goThere(t *testing.T, cluster *Cluster, pool string) error {
	if pool == "log" {
		_, err := cluster.Log(t.Context(), "prod", "chat-epp-1", "", LogOptions{})
		return err
	}
	name, err := cluster.ParsePool(pool)
	if err != nil {
		return err
	}
	p, err := cluster.FindPicker(t.Context(), name)
	if err != nil {
		return err
	}
	tunnel := cluster.NewTunnel("prod", nil)
	defer tunnel.Close()
	conn, err := tunnel.DialContext(t.Context(), "tcp", p.Pods[0].Name+":9091")
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestUnreachableServer(t *testing.T) {
	cluster := &Cluster{Namespace: "prod", config: &rest.Config{Host: "http://" + nettest.Refusing(t)}}
	_, err := cluster.FindPicker(t.Context(), Name{"prod", "chat"})
	step, ok := errors.AsType[*StepError](err)
	if !ok || step.Trouble != Unreachable || !strings.Contains(step.Error(), "does not answer") {
		t.Errorf("a server that is down: %v", err)
	}
}

func TestLog(t *testing.T) {
	_, cluster := newFakeAPI(t, map[string]any{core + "/pods/chat-epp-1/log": "line\n"})
	log, err := cluster.Log(t.Context(), "prod", "chat-epp-1", "picker", LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || string(text) != "line\n" {
		t.Errorf("log = %q, %v", text, err)
	}
	_, err = cluster.Log(t.Context(), "prod", "chat-epp-1", "picker", LogOptions{Previous: true})
	if err != nil {
		t.Errorf("the log before a restart: %v", err)
	}
}

func TestPorts(t *testing.T) {
	pod := aPod("a", "eppctl", func(p *corev1.Pod) {
		p.Spec.Containers[0].Args = []string{"serve", "--admin-addr", "127.0.0.1:7001"}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "EPPCTL_METRICS_ADDR", Value: ":7002"}}
	})
	if got := pickerPod(&pod, nil); got.AdminPort != 7001 || got.MetricsPort != 7002 {
		t.Errorf("ports are %d and %d, want 7001 and 7002", got.AdminPort, got.MetricsPort)
	}
	pod = aPod("a", "eppctl", func(p *corev1.Pod) { // as the manifests call them, with addresses from a ConfigMap
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "https-admin", ContainerPort: 7003}, {Name: "http-metrics", ContainerPort: 7004}}
	})
	if got := pickerPod(&pod, nil); got.AdminPort != 7003 || got.MetricsPort != 7004 || !got.AdminAuth {
		t.Errorf("ports are %d and %d, admin auth %t, want 7003 and 7004, true", got.AdminPort, got.MetricsPort, got.AdminAuth)
	}
}

// What runs is told by the tag, else by what there is.
func TestVersions(t *testing.T) {
	const digest = "sha256:1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
	for _, tc := range []struct{ image, id, label, want string }{
		{image: "ghcr.io/eppctl/eppctl:v0.8.0", id: "ghcr.io/eppctl/eppctl@" + digest, label: "0.7.0", want: "v0.8.0"},
		{image: "eppctl:v1@" + digest, want: "v1"},
		{image: "localhost:5000/eppctl", want: ""},
		{image: "localhost:5000/eppctl:v2", want: "v2"},
		{image: "localhost:5000/eppctl", label: "0.7.0", want: "0.7.0"},
		{image: "localhost:5000/eppctl", id: "docker-pullable://localhost:5000/eppctl@" + digest, want: "sha256:1a2b3c4d5e6f"},
		{image: "localhost:5000/eppctl@" + digest, want: "sha256:1a2b3c4d5e6f"},
		{image: "eppctl:latest", want: "latest"},
		{image: "eppctl:latest", id: digest, want: "sha256:1a2b3c4d5e6f"},
		{image: "eppctl:latest", id: "docker://localhost:5000/eppctl:latest", want: "latest"},
		{image: "", want: ""},
	} {
		pod := aPod("a", tc.image, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ImageID = tc.id })
		if tc.label != "" {
			pod.Labels = map[string]string{"app.kubernetes.io/version": tc.label}
		}
		if got := pickerPod(&pod, nil); got.Version != tc.want || got.Vague != (got.Version == "" || strings.HasPrefix(got.Version, "sha256:") || got.Version == "latest") {
			t.Errorf("image %q, pulled %q, label %q: version %q, vague %t, want %q", tc.image, tc.id, tc.label, got.Version, got.Vague, tc.want)
		}
	}
	rollout := Picker{Pods: []PickerPod{{Version: "v2"}, {Version: "v1"}, {}, {Version: "v2"}}}
	if got := rollout.Version(); got != "v2,v1" {
		t.Errorf("during a rollout: %q", got)
	}
}
