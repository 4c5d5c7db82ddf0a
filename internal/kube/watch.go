package kube

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/eppctl/eppctl/internal/clock"
)

// gather is how long news are gathered into one update.
const gather = 20 * time.Millisecond

// Watch follows pools, their pods and what is said about their models.
type Watch struct {
	cfg     WatchConfig
	cluster Cluster
	trouble *trouble
	contact atomic.Int64 // when the API server was last heard of, in Unix nanoseconds; 0 = never
	news    chan struct{}

	watching atomic.Int32 // feeds of what is there

	pools    []*poolWatch
	models   map[string]*modelWatch // by namespace
	settings *feed[*corev1.ConfigMap]
	named    Name // the ConfigMap of settings
	synced   bool
}

// poolWatch are the feeds of one pool.
type poolWatch struct {
	name     Name
	v1       *feed[*InferencePool]
	old      *feed[*InferencePool] // v1alpha2, while v1 has no such pool
	pods     *feed[*podFacts]
	selector string               // that pods are read by
	former   map[string]*podFacts // those that were known before the selector changed
}

// modelWatch are the feeds of one namespace.
type modelWatch struct {
	models   *feed[*InferenceModel]
	rewrites [2]*feed[*InferenceModelRewrite] // of the two groups
}

// Watch makes a watch, which [Watch.Run] runs.
func (c *Cluster) Watch(cfg WatchConfig) *Watch {
	quieten()
	w := &Watch{cfg: cfg, cluster: *c, news: make(chan struct{}, 1), models: map[string]*modelWatch{}, named: cfg.Settings}
	w.cluster.config = rest.CopyConfig(c.config)
	w.cluster.config.Timeout = 0 // it would end watches
	w.cluster.config.Wrap(w.listen)
	w.trouble = &trouble{log: cfg.Logger, changed: w.changed, problems: map[string]*ongoing{}}
	for _, name := range cfg.Pools {
		w.pools = append(w.pools, &poolWatch{name: name})
	}
	return w
}

// LastContact is when the API server last sent something; zero for never. Watches of
// a quiet cluster are sent a bookmark about every minute.
func (w *Watch) LastContact() time.Time {
	if at := w.contact.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Problems is what keeps it from being up to date, and how often something failed.
func (w *Watch) Problems() ([]Problem, uint64) { return w.trouble.list() }

func (w *Watch) changed() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Run follows until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	defer w.stop()
	var others sync.WaitGroup
	defer others.Wait()
	asking, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	others.Go(func() { w.checkRights(asking) })
	for {
		if err := w.follow(ctx); err != nil {
			return err
		}
		w.cfg.Update(w.state())
		select {
		case <-ctx.Done():
			return nil
		case <-w.news:
		}
		if (clock.Wall{}).Sleep(ctx, gather) != nil {
			return nil
		}
	}
}

func (w *Watch) stop() {
	for _, p := range w.pools {
		p.v1.stop()
		p.old.stop()
		p.pods.stop()
	}
	for _, m := range w.models {
		m.models.stop()
		for _, r := range m.rewrites {
			r.stop()
		}
	}
	w.settings.stop()
}

// follow starts and stops what is read, as what is known of the pools asks for.
func (w *Watch) follow(ctx context.Context) error {
	for _, p := range w.pools {
		if err := w.followPool(ctx, p); err != nil {
			return err
		}
		if err := w.followModels(ctx, p.name.Namespace); err != nil {
			return err
		}
	}
	return w.followSettings(ctx)
}

func (w *Watch) followPool(ctx context.Context, p *poolWatch) error {
	if p.v1 == nil {
		p.v1 = poolFeed(w, p.name)
		if err := p.v1.start(ctx, &w.cluster); err != nil {
			return err
		}
	}
	_, inV1 := p.v1.get(p.name.Name)
	switch {
	case inV1 && p.old != nil:
		p.old.stop()
		p.old = nil
	case !inV1 && p.old == nil && p.v1.known():
		p.old = oldPoolFeed(w, p.name)
		if err := p.old.start(ctx, &w.cluster); err != nil {
			return err
		}
	}
	pool := p.pool()
	selector := selectorOf(pool)
	if selector == p.selector {
		if p.pods.known() {
			p.former = nil
		}
		return nil
	}
	return w.followPods(ctx, p, pool, selector)
}

// followPods reads the pods of another selector.
func (w *Watch) followPods(ctx context.Context, p *poolWatch, pool *InferencePool, selector string) error {
	former := p.known()
	p.pods.stop()
	p.pods, p.selector, p.former = nil, selector, nil
	if selector == "" {
		return nil
	}
	p.former = still(former, pool)
	p.pods = newFeed(w, source{
		gv: corev1.SchemeGroupVersion, resource: "pods", example: &corev1.Pod{}, namespace: p.name.Namespace, labels: selector,
	}, keepPod)
	p.pods.trim = trimPod
	return p.pods.start(ctx, &w.cluster)
}

// known are the pods that were last told of, whether the selector still means them or
// not.
func (p *poolWatch) known() map[string]*podFacts {
	if !p.pods.known() {
		return p.former
	}
	known := map[string]*podFacts{}
	p.pods.each(func(f *podFacts) { known[f.name.Name] = f })
	return known
}

// still are those of the former pods that the new selector means too. When it means
// none of them all stand until its pods are known, so that no request is refused
// meanwhile.
func still(former map[string]*podFacts, p *InferencePool) map[string]*podFacts {
	still := maps.Clone(former)
	maps.DeleteFunc(still, func(_ string, pod *podFacts) bool { return !pod.matches(p.Spec.Selector.MatchLabels) })
	if len(still) == 0 {
		return former
	}
	return still
}

// selectorOf is the selector of a pool as requests have it; "" = it selects nothing.
func selectorOf(p *InferencePool) string {
	if p == nil {
		return ""
	}
	return labels.SelectorFromSet(p.Spec.Selector.MatchLabels).String()
}

// members are those of the known pods that are in the pool. The API server has selected
// them, unless the selector is new this moment; the former ones stand as they are.
func (p *poolWatch) members(of *InferencePool) map[string]*podFacts {
	if p.selector == "" {
		return nil
	}
	known := p.known()
	if p.pods.known() {
		maps.DeleteFunc(known, func(_ string, pod *podFacts) bool { return !pod.matches(of.Spec.Selector.MatchLabels) })
	}
	return known
}

// pool is the pool; nil when there is none.
func (p *poolWatch) pool() *InferencePool {
	if pool, ok := p.v1.get(p.name.Name); ok {
		return pool
	}
	pool, _ := p.old.get(p.name.Name)
	return pool
}

// synced reports whether all about the pool was read once.
func (p *poolWatch) synced() bool {
	if p.pool() == nil {
		return p.v1.known() && p.old.known()
	}
	return p.selector == "" || p.pods.known()
}

func (w *Watch) followModels(ctx context.Context, namespace string) error {
	if w.models[namespace] != nil {
		return nil
	}
	m := &modelWatch{models: newFeed(w, source{
		gv: InferenceX, resource: "inferencemodels", example: &InferenceModel{}, namespace: namespace, optional: true, pause: absentDelay,
	}, func(obj runtime.Object) *InferenceModel {
		m, _ := obj.(*InferenceModel)
		m.SetGroupVersionKind(InferenceX.WithKind("InferenceModel"))
		m.ManagedFields = nil
		return m
	})}
	for i, gv := range []schema.GroupVersion{InferenceX, LLMD} {
		m.rewrites[i] = newFeed(w, source{
			gv: gv, resource: "inferencemodelrewrites", example: &InferenceModelRewrite{}, namespace: namespace, optional: true, pause: absentDelay,
		}, func(obj runtime.Object) *InferenceModelRewrite {
			r, _ := obj.(*InferenceModelRewrite)
			r.SetGroupVersionKind(gv.WithKind("InferenceModelRewrite"))
			r.ManagedFields = nil
			return r
		})
	}
	w.models[namespace] = m
	if err := m.models.start(ctx, &w.cluster); err != nil {
		return err
	}
	for _, r := range m.rewrites {
		if err := r.start(ctx, &w.cluster); err != nil {
			return err
		}
	}
	return nil
}

// followSettings reads the ConfigMap that the flag names, else the first pool.
func (w *Watch) followSettings(ctx context.Context) error {
	name := w.cfg.Settings
	if pool := w.pools[0].pool(); name == (Name{}) && pool != nil {
		name = settingsName(pool)
	}
	if name == (Name{}) && w.pools[0].pool() == nil {
		return nil // what was named before stands
	}
	if name == w.named && (w.settings != nil || name == (Name{})) {
		return nil
	}
	w.settings.stop()
	w.named, w.settings = name, nil
	if !name.possible() { // none is named, or there can be none
		return nil
	}
	w.settings = newFeed(w, source{
		gv: corev1.SchemeGroupVersion, resource: "configmaps", example: &corev1.ConfigMap{}, namespace: name.Namespace,
		fields: fields.OneTermEqualSelector("metadata.name", name.Name).String(), optional: true,
	}, func(obj runtime.Object) *corev1.ConfigMap {
		m, _ := obj.(*corev1.ConfigMap)
		m.ManagedFields, m.BinaryData = nil, nil
		return m
	})
	return w.settings.start(ctx, &w.cluster)
}

func newFeed[T any](w *Watch, s source, keep func(runtime.Object) T) *feed[T] {
	return &feed[T]{source: s, keep: keep, changed: w.changed, trouble: w.trouble}
}

func poolFeed(w *Watch, name Name) *feed[*InferencePool] {
	return newFeed(w, source{
		gv: PoolV1, resource: "inferencepools", example: &InferencePool{}, namespace: name.Namespace,
		fields: fields.OneTermEqualSelector("metadata.name", name.Name).String(), optional: true,
	}, func(obj runtime.Object) *InferencePool {
		p, _ := obj.(*InferencePool)
		p.SetGroupVersionKind(PoolV1.WithKind("InferencePool"))
		p.ManagedFields = nil
		return p
	})
}

func oldPoolFeed(w *Watch, name Name) *feed[*InferencePool] {
	return newFeed(w, source{
		gv: InferenceX, resource: "inferencepools", example: &PoolV1Alpha2{}, namespace: name.Namespace,
		fields: fields.OneTermEqualSelector("metadata.name", name.Name).String(), optional: true,
	}, func(obj runtime.Object) *InferencePool {
		p, _ := obj.(*PoolV1Alpha2)
		pool := p.V1()
		pool.SetGroupVersionKind(InferenceX.WithKind("InferencePool"))
		pool.ManagedFields = nil
		return pool
	})
}

// state is what is known now.
func (w *Watch) state() *State {
	s := &State{Settings: SettingsMap{Name: w.named}, SettingsKnown: !w.named.possible() || w.settings.wasRead()}
	m := membership{namespaces: map[string]bool{}, at: map[string]claim{}}
	for _, p := range w.pools {
		m.namespaces[p.name.Namespace] = true
	}
	synced, found := true, false
	for _, p := range w.pools {
		synced = synced && p.synced()
		found = found || p.pool() != nil
		s.Pools = append(s.Pools, m.add(p))
	}
	s.Members = m.members()
	w.watching.Store(w.count())
	for _, namespace := range slices.Sorted(maps.Keys(w.models)) {
		of := w.models[namespace]
		synced = of.add(s) && synced
	}
	w.synced = w.synced || synced && found
	s.Synced = w.synced
	w.settings.each(func(c *corev1.ConfigMap) { s.Settings = settingsOf(w.named, c) })
	return s
}

// add adds what is said of models, in order, and reports whether it is known.
func (m *modelWatch) add(s *State) (known bool) {
	known = m.models.known()
	before := len(s.Models)
	m.models.each(func(model *InferenceModel) { s.Models = append(s.Models, model) })
	slices.SortFunc(s.Models[before:], compare)
	before = len(s.Rewrites)
	for _, f := range m.rewrites {
		known = known && f.known()
		f.each(func(r *InferenceModelRewrite) { s.Rewrites = append(s.Rewrites, r) })
	}
	slices.SortFunc(s.Rewrites[before:], compare)
	return known
}
