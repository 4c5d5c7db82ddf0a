package kube

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/pool"
)

// Annotations and labels of pods that count here. In the values of gpuMetrics,
// events and replay, {podIP}, {hostIP} and {port} stand for the pod's.
const (
	drainKey      = "eppctl.dev/drain"       // "true" keeps new requests away
	engineKey     = "eppctl.dev/engine"      // vllm, sglang or trtllm
	maxRunningKey = "eppctl.dev/max-running" // requests that the engine runs at once
	gpuKey        = "eppctl.dev/gpu-metrics" // URL of a DCGM exporter's page
	eventsKey     = "eppctl.dev/events"      // off, listen, or an address
	replayKey     = "eppctl.dev/replay"

	activePortsKey    = "llm-d.ai/active-ports"
	oldActivePortsKey = "inference.networking.k8s.io/active-ports"
	roleKey           = "llm-d.ai/role"
	oldEngineKey      = "inference.networking.k8s.io/engine-type"
)

// prefillRoles are the roles of pods that make no answers: another pod asks them.
var prefillRoles = []string{"prefill", "encode", "encode-prefill"}

// What is kept of a pod's labels and annotations.
const (
	maxLabels     = 64
	maxAnnotation = 1 << 10 // bytes of a value
)

// podFacts is what is kept of a pod.
type podFacts struct {
	name               Name
	uid, ip, hostIP    string
	fault              string // why its address is none; "" = it is one, or there is none yet
	created            time.Time
	labels             map[string]string
	more               bool // there are labels that are not kept
	annotations        map[string]string
	ready, terminating bool
	over               bool // it has run to its end
	containers         []containerFacts
}

// containerFacts is what tells a container's start from another.
type containerFacts struct {
	ports []int32
	run   string
}

// keepPod takes of a pod what counts.
func keepPod(obj runtime.Object) *podFacts {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return &podFacts{over: true}
	}
	f := &podFacts{
		name: Name{p.Namespace, p.Name}, uid: string(p.UID), hostIP: p.Status.HostIP, created: p.CreationTimestamp.Time,
		labels: bounded(p.Labels), annotations: bounded(p.Annotations),
		ready: readyPod(p), terminating: p.DeletionTimestamp != nil,
		over: p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded,
	}
	f.more = len(f.labels) < len(p.Labels)
	f.ip, f.fault = canonicalIP(p.Status.PodIP)
	for i := range p.Spec.Containers {
		c := containerFacts{}
		for _, port := range p.Spec.Containers[i].Ports {
			c.ports = append(c.ports, port.ContainerPort)
		}
		for j := range p.Status.ContainerStatuses {
			if s := &p.Status.ContainerStatuses[j]; s.Name == p.Spec.Containers[i].Name {
				c.run = run(s)
			}
		}
		f.containers = append(f.containers, c)
	}
	return f
}

// canonicalIP is an address in the form that all who mean it share.
func canonicalIP(text string) (ip, fault string) {
	if text == "" {
		return "", ""
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
		return "", fmt.Sprintf("its address %q can't be a pod's, and the pod is no endpoint", cutTo(maxShown, text))
	}
	return a.Unmap().String(), ""
}

// run names one run of a container.
func run(s *corev1.ContainerStatus) string {
	id := s.ContainerID
	if r := s.State.Running; id == "" && r != nil {
		id = r.StartedAt.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%d:%s", s.RestartCount, id)
}

// trimPod leaves of a pod only what [keepPod] reads: in a list of thousands the rest
// is most of it.
func trimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	p.ManagedFields, p.OwnerReferences = nil, nil
	containers := make([]corev1.Container, len(p.Spec.Containers))
	for i := range containers {
		containers[i] = corev1.Container{Name: p.Spec.Containers[i].Name, Ports: p.Spec.Containers[i].Ports}
	}
	p.Spec = corev1.PodSpec{Containers: containers}
	p.Annotations = bounded(p.Annotations)
	return p, nil
}

// bounded leaves out what is long, and what is too many; keys that mean something
// here stay before others.
func bounded(from map[string]string) map[string]string {
	kept := make(map[string]string, min(len(from), maxLabels))
	ours := func(key string) bool {
		return strings.HasPrefix(key, "eppctl.dev/") || strings.HasPrefix(key, "llm-d.ai/") || strings.HasPrefix(key, "inference.networking.")
	}
	for _, first := range []bool{true, false} {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			value := from[key]
			if key == activePortsKey || key == oldActivePortsKey {
				value = cutTo(maxAnnotation-len("…"), value) // left out it would mean all ports
			}
			if ours(key) == first && len(value) <= maxAnnotation && len(kept) < maxLabels {
				kept[key] = value
			}
		}
	}
	return kept
}

// matches reports whether a pool's selector selects the pod. One without labels
// selects none. Of labels that are not kept the API server knows: it has selected the
// pod.
func (p *podFacts) matches(labels map[string]string) bool {
	for k, v := range labels {
		if got, ok := p.labels[k]; ok && got != v || !ok && !p.more {
			return false
		}
	}
	return len(labels) > 0
}

// usable reports whether there is something to send requests to.
func (p *podFacts) usable() bool { return p.ip != "" && !p.over }

// activePorts are those of the pool's ports that the pod serves on. The annotation only
// takes ports away: what it says that is no port is left out, and told; when nothing
// remains of it the pod is no endpoint.
func (p *podFacts) activePorts(target []int32) (ports []int32, fault string) {
	key := activePortsKey
	list, narrowed := p.annotations[key]
	if !narrowed {
		key = oldActivePortsKey
		list, narrowed = p.annotations[key]
	}
	switch {
	case !narrowed:
		return target, ""
	case strings.TrimSpace(list) == "":
		return nil, "" // as somebody wanted
	}
	active, odd := map[int32]bool{}, ""
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
		if err == nil && n > 0 {
			active[int32(n)] = true
		} else if odd == "" {
			odd = fmt.Sprintf("%q is no port", cutTo(maxShown, strings.TrimSpace(text)))
		}
	}
	for _, t := range target {
		if active[t] {
			ports = append(ports, t)
		}
	}
	switch {
	case len(ports) > 0 && odd == "":
		return ports, ""
	case len(ports) > 0:
		odd += ", and is left out"
	case odd == "":
		odd = "none of them is a target port of the pool (" + portList(target) + "), and the pod is no endpoint"
	default:
		odd += ", none of the others is a target port of the pool (" + portList(target) + "), and the pod is no endpoint"
	}
	return ports, fmt.Sprintf("annotation %s %q: %s", key, cutTo(maxShown, list), odd)
}

// maxShown bounds what is shown of a value that can't be followed, in bytes.
const maxShown = 100

func portList(ports []int32) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		texts[i] = strconv.Itoa(int(p))
	}
	return strings.Join(texts, ", ")
}

// instance tells the process behind a port: it changes with the pod, and with the
// start of the container that has the port, or of any when none says so.
func (p *podFacts) instance(port int32) string {
	var of, all []string
	for _, c := range p.containers {
		all = append(all, c.run)
		if slices.Contains(c.ports, port) {
			of = append(of, c.run)
		}
	}
	if of == nil {
		of = all
	}
	return p.uid + "/" + strings.Join(of, ",")
}

// member is the endpoint of a port.
func (p *podFacts) member(name string, in Name, port int32) pool.Member {
	address := net.JoinHostPort(p.ip, strconv.Itoa(int(port)))
	m := pool.Member{
		Name: name, Address: address, URL: "http://" + address, Labels: p.labels, Annotations: p.annotations,
		NotReady: !p.ready, Terminating: p.terminating, Drained: p.annotations[drainKey] == "true",
		Pool: in.String(), Instance: p.instance(port),
		Engine: p.annotations[engineKey],
		GPUURL: p.fill(gpuKey, port), Events: p.fill(eventsKey, port), Replay: p.fill(replayKey, port),
		PrefillOnly: slices.Contains(prefillRoles, p.labels[roleKey]),
	}
	if old := p.labels[oldEngineKey]; m.Engine == "" && engine.Known(old) {
		m.Engine = old
	}
	if n := p.annotations[maxRunningKey]; n != "" {
		var err error
		if m.MaxRunning, err = strconv.Atoi(n); err != nil || m.MaxRunning == 0 {
			m.MaxRunning = -1 // no number: who takes the member refuses it
		}
	}
	return m
}

// CheckDrain says what is wrong with a pod's annotation that drains it: whoever wrote
// "yes" takes the pod for drained.
func CheckDrain(annotations map[string]string) error {
	switch value := annotations[drainKey]; value {
	case "", "true", "false":
		return nil
	default:
		return fmt.Errorf("drain %q: must be true or false", value)
	}
}

// fill is an annotation with its placeholders filled in.
func (p *podFacts) fill(key string, port int32) string {
	text := p.annotations[key]
	if !strings.Contains(text, "{") { // a replacer takes most of the time that a pod does
		return text
	}
	return strings.NewReplacer("{podIP}", host(p.ip), "{hostIP}", host(p.hostIP), "{port}", strconv.Itoa(int(port))).Replace(text)
}

// host is an IP address as URLs have it.
func host(ip string) string {
	if strings.Contains(ip, ":") {
		return "[" + ip + "]"
	}
	return ip
}

// newer reports whether of two pods at one address p is the one that has it: the
// newest that does not go.
func (p *podFacts) newer(o *podFacts) bool {
	if p.terminating != o.terminating {
		return o.terminating
	}
	return cmp.Or(p.created.Compare(o.created), cmp.Compare(p.uid, o.uid)) > 0
}
