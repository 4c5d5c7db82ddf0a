package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) {
	status := m.Run()
	Stop()
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

const pool = `
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool}
spec:
  selector: {matchLabels: {app: engine}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: pool-epp, port: {number: 9002}}
`

const others = `
---
# The older one.
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: old}
spec: {selector: {app: engine}, targetPortNumber: 8000, extensionRef: {name: old-epp}}
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: model}
spec: {modelName: chat, criticality: Critical, poolRef: {name: pool}, targetModels: [{name: a, weight: 1}, {name: b, weight: 3}]}
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModelRewrite
metadata: {name: rewrite}
spec: {poolRef: {name: pool}, rules: [{matches: [{model: {value: chat}}], targets: [{modelRewrite: a}]}]}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: rewrite}
spec: {poolRef: {name: pool}, rules: [{targets: [{modelRewrite: a}]}]}
`

func TestCustomResources(t *testing.T) {
	c := Start(t)
	if err := c.DryRun(pool + others); err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []struct{} }
	if c.Get(PoolRef(""), &list); len(list.Items) != 0 {
		t.Fatal("a dry run left a pool behind")
	}
	c.Apply(pool + others)
	if c.Get(PoolRef(""), &list); len(list.Items) != 1 {
		t.Fatalf("there are %d pools", len(list.Items))
	}
}

func TestDryRunRefuses(t *testing.T) {
	c := Start(t)
	for _, test := range []struct{ name, text, says string }{
		{"what the schema forbids", strings.Replace(pool, "[{number: 8000}]", "[{number: 8000}, {number: 8000}]", 1), "port number must be unique"},
		{"an unknown field", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, dta: {}}", "dta"},
		{"an unknown kind", "{apiVersion: v1, kind: Pot, metadata: {name: c}}", `no kind "Pot"`},
		{"the second document", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: S}}", "Secret S"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := c.DryRun(test.text); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want one with %q", err, test.says)
			}
		})
	}
}

func TestOwnClusterHasOnlyWhatIsAskedFor(t *testing.T) {
	c := StartOwn(t, PoolV1)
	c.Apply(pool)
	if err := c.DryRun(others); err == nil || !strings.Contains(err.Error(), "InferenceModel model") {
		t.Errorf("the error is %v, want one that says that there is no InferenceModel", err)
	}
}

// A user is client-go's client for a user.
type user struct {
	config *rest.Config
	core   *rest.RESTClient
	scheme *runtime.Scheme
}

func newUser(t *testing.T, c *Cluster, token string) *user {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(token))
	if err != nil {
		t.Fatal(err)
	}
	u := &user{config: config, scheme: runtime.NewScheme()}
	if err := corev1.AddToScheme(u.scheme); err != nil {
		t.Fatal(err)
	}
	config.APIPath, config.GroupVersion, config.QPS = "/api", &corev1.SchemeGroupVersion, -1
	config.NegotiatedSerializer = serializer.NewCodecFactory(u.scheme).WithoutConversion()
	if u.core, err = rest.RESTClientFor(config); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *user) pods(c *Cluster) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	return pods, u.core.Get().Namespace(c.Namespace).Resource("pods").Do(context.Background()).Into(pods)
}

func TestWhoMayDoWhat(t *testing.T) {
	c := Start(t)
	account := c.Token("reader")
	for _, token := range []string{Stranger, account} {
		if _, err := newUser(t, c, token).pods(c); !apierrors.IsForbidden(err) {
			t.Errorf("without a role the error is %v", err)
		}
	}
	c.Apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
`)
	list := authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}
	until(t, "the role counts", func() bool { return c.May("reader", list) })
	if _, err := newUser(t, c, account).pods(c); err != nil {
		t.Error(err)
	}
	if list.Resource = "secrets"; c.May("reader", list) {
		t.Error("the role is for pods, and is said to be for secrets")
	}
}

// until waits for what the servers must reach by themselves.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// next is the pod of the next event of a watch.
func next(t *testing.T, events watch.Interface, kind watch.EventType) *corev1.Pod {
	t.Helper()
	select {
	case e := <-events.ResultChan():
		pod, ok := e.Object.(*corev1.Pod)
		if e.Type != kind || !ok {
			t.Fatalf("event %s of a %T, want %s", e.Type, e.Object, kind)
		}
		return pod
	case <-time.After(patience):
		t.Fatalf("no event, want %s", kind)
		return nil
	}
}

func (u *user) watch(c *Cluster, version string) (watch.Interface, error) {
	return u.core.Get().Namespace(c.Namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: version}, metav1.ParameterCodec).Watch(context.Background())
}

func TestLifeOfAPod(t *testing.T) {
	c := Start(t)
	admin := newUser(t, c, Admin)
	list, err := admin.pods(c)
	if err != nil {
		t.Fatal(err)
	}
	events, err := admin.watch(c, list.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	ready := func(pod *corev1.Pod) bool {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady {
				return condition.Status == corev1.ConditionTrue
			}
		}
		return false
	}

	c.Pod(Pod{Name: "p", IP: "127.0.0.5", Labels: map[string]string{"app": "engine"}})
	next(t, events, watch.Added)
	if pod := next(t, events, watch.Modified); pod.Status.PodIP != "127.0.0.5" || !ready(pod) {
		t.Errorf("the status is %+v", pod.Status)
	}
	c.SetReady("p", false)
	if ready(next(t, events, watch.Modified)) {
		t.Error("ready after SetReady false")
	}
	c.Restart("p")
	if n := next(t, events, watch.Modified).Status.ContainerStatuses[0].RestartCount; n != 1 {
		t.Errorf("%d restarts", n)
	}
	c.Patch(PodRef("p"), "metadata: {labels: {app: other}}")
	if pod := next(t, events, watch.Modified); pod.Labels["app"] != "other" {
		t.Errorf("the labels are %v", pod.Labels)
	}
	c.Terminate("p")
	if next(t, events, watch.Modified).DeletionTimestamp == nil {
		t.Error("terminating, and nothing says so")
	}
	c.Delete(PodRef("p"))
	next(t, events, watch.Modified) // that it need not wait any longer
	next(t, events, watch.Deleted)
}

func TestServerRestarts(t *testing.T) {
	c := StartOwn(t)
	c.Pod(Pod{Name: "p", IP: "127.0.0.5"})
	admin := newUser(t, c, Admin)
	list, err := admin.pods(c)
	if err != nil {
		t.Fatal(err)
	}
	c.KillAPIServer()
	if _, err := admin.pods(c); err == nil {
		t.Error("a killed server answers")
	}
	c.StartAPIServer()
	if list, err := admin.pods(c); err != nil || len(list.Items) != 1 {
		t.Errorf("%d pods after the restart, %v", len(list.Items), err)
	}
	c.Expire()
	events, err := admin.watch(c, list.ResourceVersion)
	if err == nil {
		defer events.Stop()
		err = apierrors.FromObject((<-events.ResultChan()).Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from before says %v, want 410", err)
	}
}

func TestLogs(t *testing.T) {
	c := Start(t)
	c.Pod(Pod{Name: "p", IP: "127.0.0.5"})
	log := c.Log("p", "engine")
	log.PrintAt(time.Now().Add(-time.Hour), "old")
	log.Print("one")
	log.Print("two")
	admin := newUser(t, c, Admin)
	logs := func(options *corev1.PodLogOptions) *rest.Request {
		return admin.core.Get().Namespace(c.Namespace).Name("p").Resource("pods").SubResource("log").
			VersionedParams(options, runtime.NewParameterCodec(admin.scheme))
	}
	for _, test := range []struct {
		name    string
		options corev1.PodLogOptions
		want    string
	}{
		{"all", corev1.PodLogOptions{}, "old\none\ntwo\n"},
		{"the tail", corev1.PodLogOptions{TailLines: new(int64(1))}, "two\n"},
		{"the last minutes", corev1.PodLogOptions{SinceSeconds: new(int64(600))}, "one\ntwo\n"},
		{"some bytes", corev1.PodLogOptions{LimitBytes: new(int64(6))}, "old\non"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := logs(&test.options).DoRaw(t.Context()); err != nil || string(got) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
	t.Run("follow", func(t *testing.T) {
		stream, err := logs(&corev1.PodLogOptions{Follow: true, TailLines: new(int64(0))}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		log.Print("three")
		lines := bufio.NewScanner(stream)
		if !lines.Scan() || lines.Text() != "three" {
			t.Errorf("got %q, %v", lines.Text(), lines.Err())
		}
		log.End()
		if lines.Scan() || errors.Is(lines.Err(), context.DeadlineExceeded) {
			t.Errorf("got %q after the end", lines.Text())
		}
	})
}
