package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/eppctl/eppctl/internal/clock"
)

// source is a list of objects that is kept up to date.
type source struct {
	gv             schema.GroupVersion
	resource       string // in the plural, as the API spells it
	example        runtime.Object
	namespace      string
	labels, fields string // selectors; "" = all
	// optional: it may not be installed, or not be allowed, and all goes on without.
	optional bool
	pause    time.Duration // until it is looked for again when it is not there
}

// String is what messages call it.
func (s *source) String() string { return fmt.Sprintf("%s in namespace %q", s.kind(), s.namespace) }

// kind is the resource with its group.
func (s *source) kind() string { return resourceName(s.gv.Group, s.resource) }

// How long to wait after a failure, at first and at most, and for what is optional
// and not there.
const (
	firstDelay  = 500 * time.Millisecond
	lastDelay   = 10 * time.Second
	absentDelay = time.Minute // for what most clusters lack
	listTimeout = time.Minute
	steady      = time.Second // a watch that is open for so long works
	lastSteady  = 8 * time.Second
)

// feed keeps what the API server tells of a source. Reading anew after a watch that
// has ended or expired, bookmarks and streamed lists are the reflector's work.
type feed[T any] struct {
	source
	keep    func(obj runtime.Object) T // what is kept of an object
	trim    cache.TransformFunc        // makes it small before that; nil = not needed
	changed func()                     // there is news
	trouble *trouble

	mu     sync.Mutex
	items  map[string]T
	read   bool      // it was read once
	readAt time.Time // when it was read as a whole
	absent bool      // optional, and not there or not allowed
	lost   time.Time // since when what was there is unknown to the API server; zero = it is not

	opened *probation   // of the last watch; for the reader alone
	faulty atomic.Bool  // the last watch was ended for what it told
	flaps  atomic.Int32 // watches in a row that were not steady
	cancel context.CancelFunc
	done   chan struct{}
}

// start begins to read. [feed.stop] has to follow.
func (f *feed[T]) start(ctx context.Context, c *Cluster) error {
	client, err := c.client(f.gv)
	if err != nil {
		return err
	}
	f.items, f.done = map[string]T{}, make(chan struct{})
	ctx, f.cancel = context.WithCancel(ctx)
	raw := cache.NewFilteredListWatchFromClient(twice{client}, f.resource, f.namespace, func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = f.labels, f.fields
	})
	reader := cache.NewReflectorWithOptions(f.observed(raw), f.example, f, cache.ReflectorOptions{
		Name: f.String(), Backoff: &wait.Backoff{Duration: firstDelay, Cap: lastDelay, Steps: 1000, Factor: 2, Jitter: 0.5},
	})
	go func() {
		defer close(f.done)
		f.run(ctx, reader)
	}()
	return nil
}

// twice is a client that asks once more where one connection failed: client-go's own
// would ask ten times, for two minutes in which nobody says why.
type twice struct{ *rest.RESTClient }

// Get implements [cache.Getter].
func (c twice) Get() *rest.Request { return c.RESTClient.Get().MaxRetries(1) }

// stop ends it, and waits. A feed that was never started is ended already.
func (f *feed[T]) stop() {
	if f == nil || f.cancel == nil {
		return
	}
	f.cancel()
	<-f.done
	f.trouble.forget(f.String())
}

func (f *feed[T]) run(ctx context.Context, reader *cache.Reflector) {
	delay := firstDelay
	for ctx.Err() == nil {
		started := clock.Wall{}.Now()
		err := reader.ListAndWatchWithContext(ctx)
		flap := f.watchEnded()
		switch _, told := errors.AsType[*toldError](err); {
		case told:
		case err != nil:
			f.failed(ctx, "list", err)
		case flap:
			f.tellFlaps(ctx)
		}
		switch {
		case f.trouble.unsaid(f.String()):
			delay = 2 * forbiddenFor // it may have been a moment's
		case f.isAbsent():
			delay = cmp.Or(f.pause, lastDelay)
		case err == nil && !flap || clock.Wall{}.Now().Sub(started) > lastDelay && f.flaps.Load() == 0:
			delay = firstDelay
		default:
			delay = min(2*delay, lastDelay)
		}
		if s, asked := apierrors.SuggestsClientDelay(err); asked {
			delay = max(delay, 2*min(time.Duration(s)*time.Second, maxRetryAfter))
		}
		// Pickers that lost the API server together shall not come back so.
		_ = clock.Wall{}.Sleep(ctx, delay/2+rand.N(delay/2)) // ctx is looked at next
	}
}

// failed notes a failure.
func (f *feed[T]) failed(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the list follows
	}
	if !apierrors.IsNotFound(err) {
		f.setFound()
	}
	if f.optional && apierrors.IsNotFound(err) {
		if f.setAbsent(true) {
			f.trouble.over(f.String()) // it is not installed
		}
		return
	}
	if f.optional && apierrors.IsForbidden(err) {
		f.setAbsent(false)
	}
	f.trouble.add(f.String(), cutTo(maxReason, explain(verb, &f.source, err)), apierrors.IsForbidden(err))
}

// explain says what is wrong, and what helps.
func explain(verb string, s *source, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("may not %s %s: give its ServiceAccount the Role of 'eppctl manifests' (verbs get, list and watch)", verb, s)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server does not accept who asks (401): token or certificate are missing or expired: %v", err)
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the API server does not know %s: install the CRDs of Gateway API Inference Extension", s.kind())
	}
	return err.Error()
}

func (f *feed[T]) isAbsent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.absent
}

// lostFor is how long the API server has to say that it does not know a resource that
// it knew: one that has just started may say so by mistake.
const lostFor = 3 * time.Second

// setFound says that the server did not say that it does not know the resource.
func (f *feed[T]) setFound() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = time.Time{}
}

// setAbsent says that the resource can't be read, and with gone that it is not
// there. It reports whether that is so: what was read stands for a while.
func (f *feed[T]) setAbsent(gone bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.read && !gone:
		return false
	case f.read && f.lost.IsZero():
		f.lost = clock.Wall{}.Now()
		return false
	case f.read && clock.Wall{}.Now().Sub(f.lost) < lostFor:
		return false
	}
	if !f.absent {
		defer f.changed()
	}
	f.absent, f.read, f.items = true, false, map[string]T{}
	return true
}

// wasRead reports whether it is known what there is, and not for want of rights.
func (f *feed[T]) wasRead() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

// known reports whether it is known what there is.
func (f *feed[T]) known() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read || f.absent
}

// each calls with every object, in no order. The objects are not to be changed.
func (f *feed[T]) each(call func(T)) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, item := range f.items {
		call(item)
	}
}

func (f *feed[T]) get(name string) (item T, ok bool) {
	if f == nil {
		return item, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	item, ok = f.items[name]
	return item, ok
}

// Add implements [cache.ReflectorStore].
func (f *feed[T]) Add(obj any) error { return f.Update(obj) }

// Update implements [cache.ReflectorStore].
func (f *feed[T]) Update(obj any) error {
	name, item, err := f.take(obj)
	if err != nil {
		return err
	}
	f.mu.Lock()
	_, known := f.items[name]
	full := !known && len(f.items) >= maxObjects
	if !full {
		f.items[name] = item
	}
	f.mu.Unlock()
	if full {
		f.trouble.add(f.String(), f.tooMany().Error(), false)
		return f.tooMany()
	}
	f.changed()
	return nil
}

// Delete implements [cache.ReflectorStore].
func (f *feed[T]) Delete(obj any) error {
	name, _, err := f.take(obj)
	if err != nil {
		return err
	}
	f.mu.Lock()
	delete(f.items, name)
	f.mu.Unlock()
	f.changed()
	return nil
}

// Replace implements [cache.ReflectorStore].
func (f *feed[T]) Replace(list []any, _ string) error {
	items := make(map[string]T, len(list))
	for _, obj := range list {
		name, item, err := f.take(obj)
		if err != nil {
			return err
		}
		items[name] = item
	}
	f.mu.Lock()
	f.items, f.read, f.absent, f.lost, f.readAt = items, true, false, time.Time{}, clock.Wall{}.Now()
	f.mu.Unlock()
	f.changed()
	return nil
}

// Transformer implements [cache.TransformingStore].
func (f *feed[T]) Transformer() cache.TransformFunc { return f.trim }

// Resync implements [cache.ReflectorStore]; nothing is to be done.
func (f *feed[T]) Resync() error { return nil }

func (f *feed[T]) take(obj any) (name string, item T, err error) {
	o, isObject := obj.(runtime.Object)
	m, err := meta.Accessor(obj)
	if err != nil || !isObject || reflect.TypeOf(obj) != reflect.TypeOf(f.example) {
		return "", item, fmt.Errorf("%s: got a %T", f, obj)
	}
	return m.GetName(), f.keep(o), nil
}
