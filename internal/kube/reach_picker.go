package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/eppctl/eppctl/internal/shell"
)

// PickerKind is whose picker a pod runs.
type PickerKind string

// The kinds of pickers.
const (
	KindEppctl  PickerKind = "eppctl"
	KindLLMD    PickerKind = "llm-d" // also its forebear of Gateway API Inference Extension
	KindUnknown PickerKind = "unknown"
)

// The ports of a picker where its pod does not say otherwise.
const (
	defaultAdminPort   = 9091
	defaultMetricsPort = 9090
)

// Picker is the picker of a pool: the pods behind its Service.
type Picker struct {
	Pool    Name
	Of      *InferencePool
	Service string
	// Kind is what the pods' images, labels and arguments tell; unknown when they tell
	// nothing, or not the same.
	Kind PickerKind
	// Pods are all of them: the ready ones first, then those that run, by name.
	Pods []PickerPod
}

// PickerPod is a replica of a picker.
type PickerPod struct {
	Name, Container        string
	Kind                   PickerKind
	Version                string // as the image's tag, a label or the image's digest tells; "" when none does
	Vague                  bool   // Version is no release's: a digest, a tag that moves, or nothing
	Ready, Running         bool   // Running: the container is, and the pod is not on its way out
	State                  string // in words: "ready", "CrashLoopBackOff, restarted 5 times"
	Restarted              bool
	Elects                 bool // one replica of several leads, the others stand by and are not ready
	AdminPort, MetricsPort int
	AdminAuth              bool // the admin API is served over TLS, to whom the cluster allows it
}

// Running are the pods that can be asked.
func (p *Picker) Running() []PickerPod {
	var pods []PickerPod
	for _, pod := range p.Pods {
		if pod.Running {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Version is that of the pods; of different ones all, with a comma between, as during a
// rollout. "" when no pod tells.
func (p *Picker) Version() string {
	var all []string
	for _, pod := range p.Pods {
		if pod.Version != "" && !slices.Contains(all, pod.Version) {
			all = append(all, pod.Version)
		}
	}
	return strings.Join(all, ",")
}

// Ready counts the pods that are.
func (p *Picker) Ready() int {
	n := 0
	for _, pod := range p.Pods {
		if pod.Ready {
			n++
		}
	}
	return n
}

// FindPicker goes from a pool's name, see [Cluster.Pool], by its endpointPickerRef to
// the pods of its picker, of which one runs at least. The error is a [*StepError].
func (c *Cluster) FindPicker(ctx context.Context, of Name) (*Picker, error) {
	pool, err := c.Pool(ctx, of)
	if err != nil {
		return nil, err
	}
	picker, err := c.PickerOf(ctx, pool)
	if err != nil {
		return nil, err
	}
	if len(picker.Running()) > 0 {
		return picker, nil
	}
	var states []string
	for _, pod := range picker.Pods {
		states = append(states, pod.Name+" ("+pod.State+")")
	}
	first := picker.Pods[0]
	return nil, &StepError{
		Step: "find a pod of the picker of pool " + picker.Pool.String(), Trouble: Unreachable,
		Err: errors.New("none runs: " + named(states)),
		Hint: "see: " + c.Kubectl("describe", "pod", first.Name, "-n", picker.Pool.Namespace) + "\n" +
			"and: " + c.Kubectl("logs", first.Name, "-n", picker.Pool.Namespace, "-c", first.Container),
	}
}

// PickerOf finds the picker of a pool, of which no pod may run.
func (c *Cluster) PickerOf(ctx context.Context, pool *InferencePool) (*Picker, error) {
	p := &Picker{Pool: Name{pool.Namespace, pool.Name}, Of: pool, Service: pool.Spec.EndpointPickerRef.Name}
	service, err := c.pickerService(ctx, p.Pool, pool.Spec.EndpointPickerRef)
	if err != nil {
		return nil, err
	}
	pods, err := c.podsBy(ctx, pool.Namespace, service.Spec.Selector)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, &StepError{
			Step: "find the pods of Service " + pool.Namespace + "/" + service.Name, Trouble: Missing,
			Err: fmt.Errorf("its selector %s matches no pod", labels.Set(service.Spec.Selector)),
			Hint: "is the picker's Deployment there, and not scaled to 0? See: " + c.Kubectl("get", "deploy", "-n", pool.Namespace) + "\n" +
				"one that fits: " + installing(p.Pool, service.Name),
		}
	}
	for i := range pods {
		p.Pods = append(p.Pods, pickerPod(&pods[i], pool.Spec.EndpointPickerRef.Port))
	}
	slices.SortFunc(p.Pods, func(a, b PickerPod) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Name, b.Name))
	})
	p.Kind = p.Pods[0].Kind
	for _, pod := range p.Pods {
		if pod.Kind != p.Kind {
			p.Kind = KindUnknown
		}
	}
	return p, nil
}

// installing is the command that prints what a pool that is there has no picker of.
func installing(pool Name, service string) string {
	words := []string{"eppctl", "manifests", pool.Name, "-n", pool.Namespace, "--skip", "InferencePool"}
	if service != pool.Name+"-epp" {
		words = append(words, "--name", service)
	}
	return shell.Line(words...)
}

func rank(p PickerPod) int {
	switch {
	case p.Ready:
		return 2
	case p.Running:
		return 1
	}
	return 0
}

func (c *Cluster) pickerService(ctx context.Context, pool Name, ref EndpointPickerRef) (*corev1.Service, error) {
	step := "follow the endpointPickerRef of InferencePool " + pool.String()
	if ref.Name == "" {
		return nil, &StepError{
			Step: step, Trouble: Missing, Err: errors.New("it has none, so nobody is said to pick for it"),
			Hint: "what names a picker, and the picker: " + shell.Line("eppctl", "manifests", pool.Name, "-n", pool.Namespace),
		}
	}
	if ref.Group != "" && ref.Group != "core" || ref.Kind != "" && ref.Kind != "Service" {
		return nil, &StepError{
			Step: step, Trouble: Unfit, Err: fmt.Errorf("it names a %s %q, and only a Service leads to pods", cmp.Or(ref.Kind, "Service"), ref.Name),
			Hint: "reach the picker otherwise: --server HOST:PORT",
		}
	}
	client, err := c.core()
	if err != nil {
		return nil, err
	}
	service, err := answer[corev1.Service](client.Get().Namespace(pool.Namespace).Resource("services").Name(ref.Name).Do(ctx))
	switch {
	case apierrors.IsNotFound(err):
		return nil, &StepError{
			Step: step, Trouble: Missing, Err: fmt.Errorf("there is no Service %s/%s", pool.Namespace, ref.Name),
			Hint: "is the picker installed? See: " + c.Kubectl("get", "services", "-n", pool.Namespace) + "\none that fits: " + installing(pool, ref.Name),
		}
	case err != nil:
		return nil, c.failed(ctx, access{"get", "services", pool.Namespace, ref.Name}, err)
	case len(service.Spec.Selector) == 0:
		return nil, &StepError{
			Step: "find the pods of Service " + pool.Namespace + "/" + ref.Name, Trouble: Unfit,
			Err: errors.New("it has no selector, so it does not tell which they are"), Hint: "forward the admin port of the picker's pod, and give --server 127.0.0.1:9091: " + c.Kubectl("port-forward", "-n", pool.Namespace, "POD", "9091"),
		}
	}
	return service, nil
}

// podsBy lists the pods with these labels.
func (c *Cluster) podsBy(ctx context.Context, namespace string, selector map[string]string) ([]corev1.Pod, error) {
	client, err := c.core()
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	err = pages(ctx, func() *rest.Request {
		return client.Get().Namespace(namespace).Resource("pods").Param("labelSelector", labels.Set(selector).String())
	}, func(page *corev1.PodList) { pods = append(pods, page.Items...) })
	if err != nil {
		return nil, c.failed(ctx, access{verb: "list", resource: "pods", namespace: namespace}, err)
	}
	return pods, nil
}

// pickerPod cuts a pod down to what counts. port is where the gateway asks it.
func pickerPod(pod *corev1.Pod, port *Port) PickerPod {
	c := pickerContainer(pod, port)
	out := PickerPod{
		Name: pod.Name, Container: c.Name, Kind: kindOf(pod, c),
		AdminPort: portOf(c, "admin", "admin-addr", defaultAdminPort), MetricsPort: portOf(c, "metrics", "metrics-addr", defaultMetricsPort),
	}
	out.Version, out.Vague = versionOf(pod, c)
	out.AdminAuth = slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "https-admin" }) ||
		slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(arg string) bool { return arg == "--admin-auth" || arg == "--admin-auth=true" })
	if n, ok := argument(c, "metrics-port"); ok { // llm-d's
		out.MetricsPort = number(n, out.MetricsPort)
	}
	out.Elects = strings.Contains(strings.Join(slices.Concat(c.Command, c.Args), " "), "leader-elect") // llm-d's is --ha-enable-leader-election
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != c.Name {
			continue
		}
		out.Running, out.Restarted = s.State.Running != nil, s.RestartCount > 0
		out.State = containerState(&s)
	}
	out.Ready = readyPod(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		out.Running, out.Ready, out.State = false, false, "terminating"
	case out.Ready:
		out.State = "ready"
	case out.State == "":
		out.State = cmp.Or(pod.Status.Reason, string(pod.Status.Phase), "unknown")
	}
	out.Running = out.Running || out.Ready
	return out
}

func containerState(s *corev1.ContainerStatus) string {
	text := "not ready"
	switch {
	case s.State.Waiting != nil:
		text = cmp.Or(s.State.Waiting.Reason, "waiting")
	case s.State.Terminated != nil:
		text = fmt.Sprintf("%s with status %d", cmp.Or(s.State.Terminated.Reason, "ended"), s.State.Terminated.ExitCode)
	}
	if s.RestartCount > 0 {
		text += fmt.Sprintf(", restarted %d times", s.RestartCount)
	}
	return text
}

// pickerContainer is the container that picks: the one with the gateway's port, else
// one whose kind is known, else the first.
func pickerContainer(pod *corev1.Pod, port *Port) *corev1.Container {
	containers := pod.Spec.Containers
	for i := range containers {
		for _, p := range containers[i].Ports {
			if port != nil && p.ContainerPort == port.Number {
				return &containers[i]
			}
		}
	}
	for i := range containers {
		if kindOf(pod, &containers[i]) != KindUnknown {
			return &containers[i]
		}
	}
	if len(containers) == 0 {
		return new(corev1.Container)
	}
	return &containers[0]
}

// kindOf tells whose picker a container is.
func kindOf(pod *corev1.Pod, c *corev1.Container) PickerKind {
	image := strings.ToLower(c.Image)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(image, part) })
	}
	_, poolName := argument(c, "pool-name")
	switch {
	case has("eppctl"):
		return KindEppctl
	case has("llm-d-inference-scheduler", "llm-d-router", "gateway-api-inference-extension", "inference-extension/epp", "endpoint-picker") || poolName:
		return KindLLMD
	case pod.Labels["app.kubernetes.io/name"] == "eppctl" && len(pod.Spec.Containers) == 1:
		return KindEppctl
	}
	return KindUnknown
}

// versionOf is what a container runs: by the tag of its image, by the pod's label, or
// by the digest of the image, as it is pinned or as the node has pulled it. A tag that
// goes from one image to the next comes last. vague: it is none that a release has.
func versionOf(pod *corev1.Pod, c *corev1.Container) (version string, vague bool) {
	image, digest, _ := strings.Cut(c.Image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	moves := ""
	if tag == "latest" {
		tag, moves = "", tag
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == c.Name && digest == "" {
			digest = s.ImageID[strings.LastIndexByte(s.ImageID, '@')+1:]
		}
	}
	if version = cmp.Or(tag, pod.Labels["app.kubernetes.io/version"]); version != "" {
		return version, false
	}
	return cmp.Or(shortDigest(digest), moves), true
}

// shortDigest is the beginning of a digest, as long as it is shown elsewhere; "" when it
// is none.
func shortDigest(digest string) string {
	const shown = 12
	algorithm, sum, found := strings.Cut(digest, ":")
	if !found || algorithm == "" || strings.Contains(sum, "/") || len(sum) < shown {
		return ""
	}
	return algorithm + ":" + sum[:shown]
}

// argument is the value of a flag on a container's command line.
func argument(c *corev1.Container, flag string) (value string, given bool) {
	line := slices.Concat(c.Command, c.Args)
	for i, arg := range line {
		name, value, equals := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(arg, "-"):
		case equals:
			return value, true
		case i+1 < len(line):
			return line[i+1], true
		}
	}
	return "", false
}

// portOf is where a container listens: by the flag with the address, its variable, the
// name of a port, or by default.
func portOf(c *corev1.Container, name, flag string, otherwise int) int {
	if address, ok := argument(c, flag); ok {
		return number(address[strings.LastIndexByte(address, ':')+1:], otherwise)
	}
	variable := "EPPCTL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	for _, env := range c.Env {
		if env.Name == variable && env.Value != "" {
			return number(env.Value[strings.LastIndexByte(env.Value, ':')+1:], otherwise)
		}
	}
	for _, p := range c.Ports {
		if p.Name == name || strings.HasSuffix(p.Name, "-"+name) { // as https-admin
			return int(p.ContainerPort)
		}
	}
	return otherwise
}

func number(text string, otherwise int) int {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && n > 0 {
		return int(n)
	}
	return otherwise
}
