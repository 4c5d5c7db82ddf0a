package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// CheckSelector says what is wrong with a selector in the form of kubectl's -l.
func CheckSelector(selector string) error {
	_, err := labels.Parse(selector)
	return err
}

// Pools lists the InferencePools of a namespace, "" for all, by namespace and name.
// A selector in the form of kubectl's -l picks among them. One that both versions of
// the API have is told as v1 says it. The error is a [*StepError].
func (c *Cluster) Pools(ctx context.Context, namespace, selector string) ([]*InferencePool, error) {
	var pools []*InferencePool
	newer, errV1 := listPools[InferencePool](ctx, c, PoolV1, namespace, selector)
	for i := range newer {
		newer[i].APIVersion = PoolV1.String()
		pools = append(pools, &newer[i])
	}
	if errV1 != nil && !apierrors.IsNotFound(errV1) {
		return nil, c.failed(ctx, access{verb: "list", resource: poolsOf(PoolV1), namespace: namespace}, errV1)
	}
	older, errX := listPools[PoolV1Alpha2](ctx, c, InferenceX, namespace, selector)
	for i := range older {
		pool := older[i].V1()
		pool.APIVersion = InferenceX.String()
		if !slices.ContainsFunc(pools, func(p *InferencePool) bool { return p.Namespace == pool.Namespace && p.Name == pool.Name }) {
			pools = append(pools, pool)
		}
	}
	switch {
	case errX == nil, errV1 == nil && (apierrors.IsNotFound(errX) || apierrors.IsForbidden(errX)): // one version is enough
	case apierrors.IsNotFound(errX):
		return nil, c.noPoolAPI()
	default:
		return nil, c.failed(ctx, access{verb: "list", resource: poolsOf(InferenceX), namespace: namespace}, errX)
	}
	slices.SortFunc(pools, compare)
	return pools, nil
}

const poolResource = "inferencepools"

func poolsOf(gv schema.GroupVersion) string { return poolResource + "." + gv.Group }

func listPools[T any](ctx context.Context, c *Cluster, gv schema.GroupVersion, namespace, selector string) (pools []T, err error) {
	client, err := c.client(gv)
	if err != nil {
		return nil, err
	}
	err = pages(ctx, func() *rest.Request {
		req := client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(poolResource)
		if selector != "" {
			req = req.Param("labelSelector", selector)
		}
		return req
	}, func(page *List[T]) { pools = append(pools, page.Items...) })
	return pools, err
}

// noPoolAPI is the error of a cluster that knows no InferencePool.
func (c *Cluster) noPoolAPI() error {
	return &StepError{
		Step: "list InferencePools", Trouble: Missing,
		Err: fmt.Errorf("%s has no such kind: Gateway API Inference Extension is not installed there", c),
		Hint: "is this the cluster that you mean? See: " + c.Kubectl("api-resources", "--api-group="+PoolV1.Group) + "\n" +
			"a picker that is reached otherwise: eppctl top --server HOST:PORT",
	}
}

// Pool finds the pool of a name, or when that is "" the only one of the namespace.
func (c *Cluster) Pool(ctx context.Context, of Name) (*InferencePool, error) {
	namespace, name := of.Namespace, of.Name
	if name == "" {
		return c.onlyPool(ctx, namespace)
	}
	pool, err := c.getPool(ctx, namespace, name)
	if !apierrors.IsNotFound(err) {
		if err != nil {
			err = c.failed(ctx, access{verb: "get", resource: poolsOf(PoolV1), namespace: namespace, name: name}, err)
		}
		return pool, err
	}
	there, err := c.Pools(ctx, namespace, "")
	if step, ok := errors.AsType[*StepError](err); ok && step.Trouble != Forbidden {
		return nil, err // no such kind, or nobody answers any more
	}
	if len(there) == 0 {
		if err := c.noNamespace(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return nil, &StepError{
		Step: "find InferencePool " + namespace + "/" + name, Trouble: Missing,
		Err: errors.New("there is none of that name"), Hint: c.instead(ctx, namespace+"/"+name, there),
	}
}

func (c *Cluster) getPool(ctx context.Context, namespace, name string) (*InferencePool, error) {
	pool, err := readPool[InferencePool](ctx, c, PoolV1, namespace, name)
	switch {
	case err == nil:
		pool.APIVersion = PoolV1.String()
		return pool, nil
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	older, errX := readPool[PoolV1Alpha2](ctx, c, InferenceX, namespace, name)
	switch {
	case apierrors.IsForbidden(errX):
		return nil, err // who may read v1 alone is told about v1
	case errX != nil:
		return nil, errX
	}
	pool = older.V1()
	pool.APIVersion = InferenceX.String()
	return pool, nil
}

func readPool[T any, P anObject[T]](ctx context.Context, c *Cluster, gv schema.GroupVersion, namespace, name string) (P, error) {
	client, err := c.client(gv)
	if err != nil {
		return nil, err
	}
	return answer[T, P](client.Get().Namespace(namespace).Resource(poolResource).Name(name).Do(ctx))
}

func (c *Cluster) onlyPool(ctx context.Context, namespace string) (*InferencePool, error) {
	pools, err := c.Pools(ctx, namespace, "")
	if err != nil {
		return nil, err
	}
	step := "find the InferencePool of namespace " + namespace
	switch len(pools) {
	case 1:
		return pools[0], nil
	case 0:
		if err := c.noNamespace(ctx, namespace); err != nil {
			return nil, err
		}
		return nil, &StepError{Step: step, Trouble: Missing, Err: errors.New("there is none"), Hint: c.instead(ctx, "", nil)}
	}
	return nil, &StepError{
		Step: step, Trouble: Missing, Err: fmt.Errorf("there are %d", len(pools)),
		Hint: "say which with --pool: " + named(poolNames(pools)),
	}
}

// noNamespace is the error of a namespace that is not there; nil when it is, or may not
// be read.
func (c *Cluster) noNamespace(ctx context.Context, namespace string) error {
	client, err := c.core()
	if err != nil {
		return nil //nolint:nilerr // as when it may not be read
	}
	if err := client.Get().Resource("namespaces").Name(namespace).Do(ctx).Error(); !apierrors.IsNotFound(err) {
		return nil
	}
	hint := "see: " + c.Kubectl("get", "namespaces")
	if names, err := c.Namespaces(ctx); err == nil {
		if names = near(namespace, names); len(names) > 0 {
			hint = "did you mean -n " + strings.Join(names, " or -n ") + "?"
		}
	}
	return &StepError{Step: "find namespace " + namespace, Trouble: Missing, Err: errors.New("there is none of that name"), Hint: hint}
}

// instead is a hint for who named a pool that is not there, or none.
func (c *Cluster) instead(ctx context.Context, name string, there []*InferencePool) string {
	if len(there) > 0 {
		names := poolNames(there)
		if like := near(name, names); len(like) > 0 {
			return "did you mean --pool " + strings.Join(like, " or --pool ") + "? There are " + named(names)
		}
		return "there are " + named(names)
	}
	if all, err := c.Pools(ctx, "", ""); err == nil && len(all) > 0 {
		return "other namespaces have some: --pool " + named(poolNames(all))
	}
	return "list those of all namespaces: eppctl pools -A; other clusters: --context"
}

func poolNames(pools []*InferencePool) []string {
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Namespace + "/" + p.Name
	}
	return names
}

// ParsePool reads what names a pool: NAME, NAMESPACE/NAME, or "" for the only one. The
// namespace is the cluster's where none is said.
func (c *Cluster) ParsePool(text string) (Name, error) {
	if text == "" {
		return Name{c.Namespace, ""}, nil
	}
	name, err := ParseName(text, c.Namespace)
	if err == nil && c.NamespaceGiven && name.Namespace != c.Namespace {
		err = fmt.Errorf("%q and the namespace %s contradict each other", text, c.Namespace)
	}
	return name, err
}

// PoolPod is a pod that a pool selects.
type PoolPod struct {
	Name  string
	Ready bool
}

// PoolPods lists the pods that a pool selects, but those that are on their way out or
// have ended.
func (c *Cluster) PoolPods(ctx context.Context, pool *InferencePool) ([]PoolPod, error) {
	if len(pool.Spec.Selector.MatchLabels) == 0 {
		return nil, nil // as the picker has it: no labels select nothing
	}
	list, err := c.podsBy(ctx, pool.Namespace, pool.Spec.Selector.MatchLabels)
	if err != nil {
		return nil, err
	}
	var pods []PoolPod
	for i := range list {
		pod := &list[i]
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			pods = append(pods, PoolPod{pod.Name, readyPod(pod)})
		}
	}
	slices.SortFunc(pods, func(a, b PoolPod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

func readyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Namespaces lists the names of all namespaces.
func (c *Cluster) Namespaces(ctx context.Context) ([]string, error) {
	client, err := c.core()
	if err != nil {
		return nil, err
	}
	var names []string
	err = pages(ctx, func() *rest.Request { return client.Get().Resource("namespaces") }, func(page *corev1.NamespaceList) {
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
	})
	if err != nil {
		return nil, c.failed(ctx, access{verb: "list", resource: "namespaces"}, err)
	}
	return names, nil
}
