package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eppctl/eppctl/internal/clock"
)

// node is the only one; the kubelet plays it.
const node = "node"

// A Pod says what a pod is to be.
type Pod struct {
	Name        string
	IP          string // in 127.0.0.0/8, so that the test can listen there
	Labels      map[string]string
	Annotations map[string]string
	Containers  []string // nil = "engine"
	NotReady    bool
}

// Pod creates a pod that runs.
func (c *Cluster) Pod(p Pod) {
	c.tb.Helper()
	if p.Containers == nil {
		p.Containers = []string{"engine"}
	}
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: p.Labels, Annotations: p.Annotations},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	for _, name := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name})
	}
	body, err := json.Marshal(&pod)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.must(http.MethodPost, c.path(PodRef("")), jsonType, body)
	c.run(p.Name, p.IP, !p.NotReady)
}

// Run makes a pod that was applied run and be ready, as a kubelet does. It must be
// bound to the node "node".
func (c *Cluster) Run(name, ip string) {
	c.tb.Helper()
	c.run(name, ip, true)
}

func (c *Cluster) run(name, ip string, ready bool) {
	c.tb.Helper()
	now := metav1.NewTime(clock.Wall{}.Now())
	c.status(name, func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "127.0.0.1", PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now,
		}
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Image: container.Image, Started: new(true),
				ContainerID: "e2e://" + string(pod.UID) + "/0",
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			})
		}
		setReady(pod, ready)
	})
}

// SetReady makes a pod ready, or not.
func (c *Cluster) SetReady(name string, ready bool) {
	c.tb.Helper()
	c.status(name, func(pod *corev1.Pod) { setReady(pod, ready) })
}

// Restart restarts the containers of a pod; its name and address stay.
func (c *Cluster) Restart(name string) {
	c.tb.Helper()
	now := metav1.NewTime(clock.Wall{}.Now())
	c.status(name, func(pod *corev1.Pod) {
		for i := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[i]
			s.RestartCount++
			s.ContainerID = fmt.Sprintf("e2e://%s/%d", pod.UID, s.RestartCount)
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
		}
	})
}

// Terminate asks a pod to end. It stays, terminating, until [Cluster.Delete].
func (c *Cluster) Terminate(name string) {
	c.tb.Helper()
	c.must(http.MethodDelete, c.path(PodRef(name))+"?gracePeriodSeconds=3600", "", nil)
}

// status changes a pod's status.
func (c *Cluster) status(name string, change func(*corev1.Pod)) {
	c.tb.Helper()
	var pod corev1.Pod
	c.Get(PodRef(name), &pod)
	change(&pod)
	body, err := json.Marshal(&pod)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.must(http.MethodPut, c.path(PodRef(name))+"/status", jsonType, body)
}

func setReady(pod *corev1.Pod, ready bool) {
	status := map[bool]corev1.ConditionStatus{false: corev1.ConditionFalse, true: corev1.ConditionTrue}
	now := metav1.NewTime(clock.Wall{}.Now())
	pod.Status.Conditions = nil
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		yes := ready || condition == corev1.PodScheduled || condition == corev1.PodInitialized
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: status[yes], LastTransitionTime: now})
	}
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = ready
	}
}
